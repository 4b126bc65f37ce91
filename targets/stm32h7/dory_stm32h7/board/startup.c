/* From reset to main: vector table, FPU, caches, data and bss. */
#include <stdint.h>
#include <string.h>

#include "board.h"
#include "dory_stm32h7_config.h"
#include "dory_stm32h7_part.h"
#include "dory_stm32h7_registers.h"

extern uint8_t stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];

void Reset_Handler(void);
int main(void);

/* Any exception: nothing here expects one. */
static void stop(void)
{
  board_print("exception\n");
  board_exit(BOARD_EXIT_FAULT);
}

typedef void (*handler_t)(void);

/* Stack pointer, reset, and the exceptions of the core; interrupts stay off. */
__attribute__((section(".isr_vector"), used)) static const handler_t vectors[16] = {
  (handler_t)(uintptr_t)stack_top, Reset_Handler, stop, stop, stop, stop, stop, 0, 0, 0, 0, stop,
  stop, 0, stop, stop,
};

#if DORY_PART_CACHES && DORY_DATA_CACHE
/* Invalidates the L1 data cache set by set, way by way: its content after reset is not defined. */
static void invalidate_data_cache(void) { every_line_of_data_cache(&SCB_DCISW); }
#endif

#if DORY_PART_CACHES
static void enable_caches(void)
{
  SCB_ICIALLU = 0;
  dsb();
  isb();
#if DORY_DATA_CACHE
  invalidate_data_cache();
  SCB_CCR |= SCB_CCR_DC;
#endif
  SCB_CCR |= SCB_CCR_IC;
  dsb();
  isb();
}
#else
static void enable_caches(void) {}
#endif

/* The clock stays that of reset unless the application defines this function; a board that runs
 * faster sets voltage, flash wait states and PLL here, maps an external flash, and prepares the
 * controller of an external RAM. */
__attribute__((weak)) void board_clock(void) {}

#if defined(DORY_EXTERNAL_RAM) && (DORY_ARENAS_CACHED || !defined(DORY_UNCACHED))
/* Without a region the core takes a RAM outside of the chip for a device: not cached, and accesses
 * that are not aligned fault. Where arenas bypass the cache, dory_stm32h7_init does the same. */
static void map_external_ram(void)
{
  const uint32_t mask = interrupts_off();
  MPU_RNR = 0;
  MPU_RBAR = DORY_EXTERNAL_RAM;
  MPU_RASR = MPU_RASR_ENABLE | MPU_RASR_SIZE(DORY_EXTERNAL_RAM_LOG2) | MPU_RASR_NORMAL_CACHED |
             MPU_RASR_FULL_ACCESS | MPU_RASR_XN;
  dsb();
  MPU_CTRL |= MPU_CTRL_ENABLE | MPU_CTRL_PRIVDEFENA;
  dsb();
  isb();
  interrupts_restore(mask);
}
#else
static void map_external_ram(void) {}
#endif

void Reset_Handler(void)
{
  SCB_VTOR = (uint32_t)(uintptr_t)vectors; /* a boot program has had its own */
  SCB_CPACR |= SCB_CPACR_FPU;
  dsb();
  isb();
  memcpy(data_start, data_load, (uint32_t)(data_end - data_start));
  memset(bss_start, 0, (uint32_t)(bss_end - bss_start));
  board_clock();
  map_external_ram();
  enable_caches();
  board_exit(main());
}
