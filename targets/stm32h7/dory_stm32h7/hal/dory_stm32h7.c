/* Arenas of the network, and what the chip needs before the first inference. */
#include <string.h>

#include "dory_hal.h"
#include "dory_stm32h7_config.h"
#include "dory_stm32h7_part.h"
#include "dory_stm32h7_registers.h"
#include "network.h"

#define ARENA(section_) __attribute__((section(section_), aligned(32), used))

/* No object has no bytes. */
#define ROOM(bytes_) ((bytes_) > 0u ? (bytes_) : 1u)

/* Words of 64 bits, on which AXI SRAM has its check bits. */
#define WORDS(bytes_) ((ROOM(bytes_) + 7u) / 8u)

/* Kernels read up to 12 bytes behind their last operand, and do not use them. */
#define L1_WORDS (WORDS(DORY_L1_USED) + 2u)

/* One arena per memory, of what is used: the rest of the memory is the program's. The sections are
 * not loaded: nothing in them has a first value. */
static uint64_t dory_l1_arena[L1_WORDS] ARENA(DORY_L1_SECTION);
static uint64_t dory_l2_arena[WORDS(DORY_L2_USED)] ARENA(DORY_L2_SECTION);
#ifdef DORY_L2_MORE
static uint64_t dory_d2_arena[WORDS(DORY_L2_1_SIZE)] ARENA(DORY_L2_1_SECTION);
#endif

#ifdef DORY_L3_SIZE /* the network uses RAM outside of the chip */
#ifdef DORY_L3_ADDRESS
#define L3 ((uint8_t *)(uintptr_t)(DORY_L3_ADDRESS))
#else
static uint64_t dory_l3_arena[WORDS(DORY_L3_USED)] ARENA(DORY_L3_SECTION);
#define L3 ((uint8_t *)dory_l3_arena)
#endif
#endif

#if DORY_ARENAS_CLEARED
/* Writes whole words. After power-up the check bits of a RAM with ECC do not fit its content, and
 * the first store of less than a word reads the word (AN5342). */
static void clear(volatile uint64_t *arena, uint32_t words)
{
  for (uint32_t i = 0; i < words; i++) {
    arena[i] = 0;
  }
}

static void clear_arenas(void)
{
  clear(dory_l1_arena, L1_WORDS);
  clear(dory_l2_arena, WORDS(DORY_L2_USED));
#ifdef DORY_L2_MORE
  clear(dory_d2_arena, WORDS(DORY_L2_1_SIZE));
#endif
}
#else
static void clear_arenas(void) {}
#endif

#if !DORY_ARENAS_CACHED && defined(DORY_UNCACHED)
/* Writes back and empties the data cache, set by set. A program may have used it for the memories
 * that bypass it from now on: the core would no longer see what it wrote there, and lines that
 * leave the cache later would be written over the arenas. */
static void empty_data_cache(void) { every_line_of_data_cache(&SCB_DCCISW); }

static const struct {
  uint32_t base, size_log2;
} uncached[] = DORY_UNCACHED;

static void mpu_uncached(uint32_t region, uint32_t base, uint32_t size_log2)
{
  MPU_RNR = region;
  MPU_RBAR = base;
  MPU_RASR = MPU_RASR_ENABLE | MPU_RASR_SIZE(size_log2) | MPU_RASR_NORMAL_UNCACHED |
             MPU_RASR_SHARED | MPU_RASR_FULL_ACCESS |
             (DORY_ARENAS_EXECUTE_NEVER ? MPU_RASR_XN : 0u);
}

/* The memories of the arenas bypass the data cache from now on. No handler of an interrupt may run
 * in between: it would leave lines of them in the cache behind those that were emptied. */
static void uncache_arenas(void)
{
  const uint32_t mask = interrupts_off();
  if ((SCB_CCR & SCB_CCR_DC) != 0u) {
    empty_data_cache();
  }
  dsb();
  MPU_CTRL &= ~MPU_CTRL_ENABLE;
  for (uint32_t i = 0; i < sizeof uncached / sizeof *uncached; i++) {
    mpu_uncached(DORY_MPU_REGION + i, uncached[i].base, uncached[i].size_log2);
  }
  MPU_CTRL |= MPU_CTRL_ENABLE | MPU_CTRL_PRIVDEFENA;
  dsb();
  isb();
  interrupts_restore(mask);
}
#else
static void uncache_arenas(void) {}
#endif

/* A counter that runs already is somebody's: it goes on from where it is. */
static void start_cycle_counter(void)
{
  SCB_DEMCR |= SCB_DEMCR_TRCENA;
  if ((DWT_CTRL & DWT_CTRL_CYCCNTENA) == 0u) {
    DWT_LAR = DWT_LAR_KEY;
    DWT_CTRL |= DWT_CTRL_CYCCNTENA;
  }
}

#if defined(DORY_CLOCKS) && !defined(DORY_OTHER_CHIP) /* of an emulator: a core without clocks */
static void start_clocks(void)
{
  static const struct {
    uint32_t address, bits;
  } clocks[] = DORY_CLOCKS;
  for (uint32_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
    REG32(clocks[i].address) |= clocks[i].bits;
    (void)REG32(clocks[i].address); /* they run two bus cycles after the write: wait for it */
  }
}
#else
static void start_clocks(void) {}
#endif

#if DORY_AXI_READ_ERRATUM && !defined(DORY_OTHER_CHIP)
static void one_read_at_a_time(void)
{
  if (DBGMCU_IDCODE_REVISION(DBGMCU_IDCODE) < REVISION_V) {
    AXI_TARG7_FN_MOD = AXI_TARG7_FN_MOD_ONE_READ;
  }
}
#else
static void one_read_at_a_time(void) {}
#endif

void dory_stm32h7_init(void)
{
  start_clocks();
  one_read_at_a_time();
  uncache_arenas();
  clear_arenas();
  start_cycle_counter();
  dory_dma_init();
}

#if DORY_NETWORK_INPUT_LEVEL == 3 || DORY_NETWORK_OUTPUT_LEVEL == 3
/* A network input or output outside of the chip: its offset there, and its bytes. */
typedef struct {
  uint32_t offset, bytes;
} part_t;
#endif

#if DORY_NETWORK_INPUT_LEVEL == 3
#ifndef DORY_NETWORK_INPUT_PARTS
#define DORY_NETWORK_INPUT_PARTS {{DORY_NETWORK_INPUT_OFFSET, DORY_NETWORK_INPUT_BYTES}}
#endif
/* Writes the inputs to where the network reads them, unless they are there. */
static int put_inputs(const uint8_t *input)
{
  static const part_t parts[] = DORY_NETWORK_INPUT_PARTS;
  if (input == NULL) {
    return DORY_EINVAL;
  }
  if (input != L3 + parts[0].offset) {
    for (uint32_t i = 0; i < sizeof parts / sizeof *parts; i++) {
      memcpy(L3 + parts[i].offset, input, parts[i].bytes);
      input += parts[i].bytes;
    }
  }
  return DORY_OK;
}
#else
static int put_inputs(const uint8_t *input)
{
  (void)input;
  return DORY_OK;
}
#endif

#if DORY_NETWORK_OUTPUT_LEVEL == 3
#ifndef DORY_NETWORK_OUTPUT_PARTS
#define DORY_NETWORK_OUTPUT_PARTS {{DORY_NETWORK_OUTPUT_OFFSET, DORY_NETWORK_OUTPUT_BYTES}}
#endif
/* Reads the outputs from where the network leaves them, unless the caller does. */
static void take_outputs(uint8_t *output)
{
  static const part_t parts[] = DORY_NETWORK_OUTPUT_PARTS;
  if (output != NULL && output != L3 + parts[0].offset) {
    for (uint32_t i = 0; i < sizeof parts / sizeof *parts; i++) {
      memcpy(output, L3 + parts[i].offset, parts[i].bytes);
      output += parts[i].bytes;
    }
  }
}
#else
static void take_outputs(uint8_t *output) { (void)output; }
#endif

int dory_stm32h7_run_io(const dory_network_io_t *given)
{
#ifdef DORY_L2_MORE
  const dory_memory_t more[DORY_L2_MORE] = {{(uint8_t *)dory_d2_arena, DORY_L2_1_SIZE}};
#endif
  dory_network_io_t io = *given;
  io.l1 = dory_l1_arena;
  io.l2 = dory_l2_arena;
  io.l1_size = 8u * WORDS(DORY_L1_USED);
  io.l2_size = sizeof dory_l2_arena;
#ifdef DORY_L2_MORE
  io.l2_more = more;
#endif
#ifdef DORY_L3_SIZE
  io.l3 = (uint32_t)(uintptr_t)L3;
#endif
  int result = put_inputs(given->input);
  if (result == DORY_OK) {
    result = dory_network_run(&io);
  }
  if (result == DORY_OK) {
    take_outputs(given->output);
  }
  return result;
}

int dory_stm32h7_run(const void *input, void *output,
                     void (*on_layer)(void *user, int layer, const void *data, uint32_t bytes),
                     void *user)
{
  const dory_network_io_t io = {
    .input = input,
    .output = output,
    .on_layer = on_layer,
    .user = user,
  };
  return dory_stm32h7_run_io(&io);
}

void *dory_stm32h7_input(void)
{
#if DORY_NETWORK_INPUT_LEVEL == 3
  return L3 + DORY_NETWORK_INPUT_OFFSET;
#elif DORY_NETWORK_INPUT_MEMORY == 0
  return (uint8_t *)dory_l2_arena + DORY_NETWORK_INPUT_OFFSET;
#else
  return (uint8_t *)dory_d2_arena + DORY_NETWORK_INPUT_OFFSET;
#endif
}

void *dory_stm32h7_output(void)
{
#if DORY_NETWORK_OUTPUT_LEVEL == 3
  return L3 + DORY_NETWORK_OUTPUT_OFFSET;
#elif DORY_NETWORK_OUTPUT_MEMORY == 0
  return (uint8_t *)dory_l2_arena + DORY_NETWORK_OUTPUT_OFFSET;
#else
  return (uint8_t *)dory_d2_arena + DORY_NETWORK_OUTPUT_OFFSET;
#endif
}
