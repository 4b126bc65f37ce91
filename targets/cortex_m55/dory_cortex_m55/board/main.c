/* Runs the network on inputs from a file and writes what its layers compute to another one.
 *
 * input.bin has the inputs of all runs one after the other; of a network with state, resets.bin has a
 * byte for each run, 1 where it begins with the initial state. results.bin is a sequence of records:
 * layer (-1 for the output of the network), bytes, and ticks since the record before, as 32-bit
 * words, then the bytes. A layer of a fused chain has several records. Ticks are those of the system
 * counter, which QEMU derives from the number of executed instructions (-icount). */
#include <string.h>

#include "@PREFIX@_cortex_m55.h"
#include "network.h"
#include "semihosting.h"

#define REG32(address_) (*(volatile uint32_t *)(address_))
#define COUNTER_CONTROL REG32(0x58100000u)
#define COUNTER_ENABLE 1u
#define TIMER_COUNT REG32(0x58000000u) /* lower half of the count, as timer 0 shows it */

#define IN_RAM __attribute__((section(".board_data"), aligned(32)))

static uint8_t input[DORY_NETWORK_INPUT_BYTES] IN_RAM;
static uint8_t output[DORY_NETWORK_OUTPUT_BYTES] IN_RAM;
static int results;
static uint32_t mark;

static void record(int layer, const void *data, uint32_t bytes)
{
  const uint32_t head[3] = {(uint32_t)layer, bytes, TIMER_COUNT - mark};
  semihosting_write(results, head, sizeof head);
  semihosting_write(results, data, bytes);
  mark = TIMER_COUNT;
}

static void on_layer(void *user, int layer, const void *data, uint32_t bytes)
{
  (void)user;
  record(layer, data, bytes);
}

#if defined(DORY_NETWORK_INPUT_ROWS) || defined(DORY_NETWORK_OUTPUT_ROWS)
/* Inputs and outputs that pass by rows: where each begins in its vector, bytes of a row, rows. */
typedef struct {
  uint32_t at, row_bytes, rows;
} rows_t;
#endif

#ifdef DORY_NETWORK_INPUT_ROWS
static int next_rows(void *user, uint32_t number, void *dst, uint32_t first, uint32_t rows)
{
  static const rows_t all[] = DORY_NETWORK_INPUT_ROWS;
  (void)user;
  memcpy(dst, input + all[number].at + first * all[number].row_bytes, rows * all[number].row_bytes);
  return 0;
}
#endif

#ifdef DORY_NETWORK_OUTPUT_ROWS
static int put_rows(void *user, uint32_t number, const void *src, uint32_t first, uint32_t rows)
{
  static const rows_t all[] = DORY_NETWORK_OUTPUT_ROWS;
  (void)user;
  memcpy(output + all[number].at + first * all[number].row_bytes, src, rows * all[number].row_bytes);
  return 0;
}
#endif

#ifdef DORY_NETWORK_STATES
static void begin_run(void)
{
  static int resets = -1;
  uint8_t begins;
  if (resets == -1) {
    resets = semihosting_open("resets.bin", SEMIHOSTING_READ);
  }
  if (semihosting_read(resets, &begins, 1) != 0 || begins != 0) {
    @PREFIX@_network_reset();
  }
}
#else
static void begin_run(void) {}
#endif

int main(void)
{
  const int inputs = semihosting_open("input.bin", SEMIHOSTING_READ);
  results = semihosting_open("results.bin", SEMIHOSTING_WRITE);
  if (inputs == -1 || results == -1) {
    return 70;
  }
  dory_network_io_t io = {.on_layer = on_layer};
#ifdef DORY_NETWORK_INPUT_ROWS
  io.next_rows = next_rows;
#else
  io.input = input;
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
  io.put_rows = put_rows;
#else
  io.output = output;
#endif
  COUNTER_CONTROL = COUNTER_ENABLE;
  while (semihosting_read(inputs, input, sizeof input) == 0) {
    begin_run();
    mark = TIMER_COUNT;
    const int result = @PREFIX@_cortex_m55_run_io(&io);
    if (result != DORY_OK) {
      return 64 - result;
    }
    record(-1, output, sizeof output);
  }
  return 0;
}
