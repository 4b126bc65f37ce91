/* From reset to main on the Corstone-300: vector table, vector unit, data and bss. */
#include <stdint.h>
#include <string.h>

#include "semihosting.h"

#define REG32(address_) (*(volatile uint32_t *)(address_))
#define SCB_VTOR REG32(0xE000ED08u)
#define SCB_CCR REG32(0xE000ED14u)
#define SCB_CPACR REG32(0xE000ED88u)
#define SCB_CCR_LOB (1u << 19)        /* low-overhead loops remember their start */
#define SCB_CPACR_VECTORS (0xFu << 20) /* registers of the FPU and of MVE are there for all */

extern uint8_t stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];

void Reset_Handler(void);
int main(void);

/* Any exception: nothing here expects one. */
static void stop(void) { semihosting_exit(70); }

typedef void (*handler_t)(void);

/* Stack pointer, reset, and the exceptions of the core; interrupts stay off. */
__attribute__((section(".isr_vector"), used)) static const handler_t vectors[16] = {
  (handler_t)(uintptr_t)stack_top, Reset_Handler, stop, stop, stop, stop, stop, stop, 0, 0, 0, stop,
  stop, 0, stop, stop,
};

void Reset_Handler(void)
{
  SCB_VTOR = (uint32_t)(uintptr_t)vectors;
  SCB_CPACR |= SCB_CPACR_VECTORS;
  SCB_CCR |= SCB_CCR_LOB;
  __asm__ volatile("dsb\n\tisb" ::: "memory");
  memcpy(data_start, data_load, (uint32_t)(data_end - data_start));
  memset(bss_start, 0, (uint32_t)(bss_end - bss_start));
  semihosting_exit(main());
}
