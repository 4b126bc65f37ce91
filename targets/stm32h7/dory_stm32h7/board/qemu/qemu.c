/* Input and results as files of the host, for QEMU: reads input.bin, writes results.bin. Of a
 * network with state, a byte of resets.bin for each run is 1 where it begins with the initial one.
 *
 * results.bin is a sequence of records: layer (-1 for the network's output), bytes and ticks as
 * 32-bit words, then the bytes. Ticks are those of a timer that QEMU derives from the number of
 * executed instructions (-icount), counted from the end of the record before. */
#include <stddef.h>
#include <string.h>

#include "board.h"
#include "dory_stm32h7_registers.h"
#include "network.h"

enum { SYS_OPEN = 0x01, SYS_WRITE = 0x05, SYS_READ = 0x06 };
enum { MODE_READ_BINARY = 1, MODE_WRITE_BINARY = 5 };

/* CMSDK timer 0, counting down from its largest value. */
#define TIMER_CTRL REG32(0x40000000u)
#define TIMER_VALUE REG32(0x40000004u)
#define TIMER_RELOAD REG32(0x40000008u)
#define TIMER_CTRL_ENABLE 1u

static uint8_t input[DORY_NETWORK_INPUT_BYTES] __attribute__((section(".board_output")));
static uint32_t mark;

static uint32_t call(uint32_t operation, const uint32_t *arguments)
{
  register uint32_t r0 __asm__("r0") = operation;
  register const uint32_t *r1 __asm__("r1") = arguments;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static uint32_t open_file(const char *name, uint32_t length, uint32_t mode)
{
  const uint32_t arguments[3] = {(uint32_t)(uintptr_t)name, mode, length};
  return call(SYS_OPEN, arguments);
}

static void record(int layer, const void *data, uint32_t bytes)
{
  static uint32_t file;
  const uint32_t ticks = mark - TIMER_VALUE;
  if (file == 0) {
    file = open_file("results.bin", 11, MODE_WRITE_BINARY);
  }
  const uint32_t head[3] = {(uint32_t)layer, bytes, ticks};
  const uint32_t first[3] = {file, (uint32_t)(uintptr_t)head, sizeof head};
  const uint32_t rest[3] = {file, (uint32_t)(uintptr_t)data, bytes};
  call(SYS_WRITE, first);
  call(SYS_WRITE, rest);
  mark = TIMER_VALUE;
}

const void *board_input(uint32_t run)
{
  static uint32_t file;
  if (run == 0) {
    file = open_file("input.bin", 9, MODE_READ_BINARY);
    TIMER_RELOAD = 0xFFFFFFFFu;
    TIMER_VALUE = 0xFFFFFFFFu;
    TIMER_CTRL = TIMER_CTRL_ENABLE;
  }
  const uint32_t arguments[3] = {file, (uint32_t)(uintptr_t)input, sizeof input};
  const uint32_t missing = call(SYS_READ, arguments);
  mark = TIMER_VALUE;
  return missing == 0 ? input : NULL;
}

#ifdef DORY_NETWORK_STATES
int board_begins(uint32_t run)
{
  static uint32_t file;
  static uint8_t begins;
  if (run == 0) {
    file = open_file("resets.bin", 10, MODE_READ_BINARY);
  }
  const uint32_t arguments[3] = {file, (uint32_t)(uintptr_t)&begins, 1};
  const uint32_t missing = call(SYS_READ, arguments);
  mark = TIMER_VALUE;
  return missing != 0 || begins != 0;
}
#endif

void board_layer(int layer, const void *data, uint32_t bytes) { record(layer, data, bytes); }

#ifdef DORY_NETWORK_OUTPUT_ROWS
static uint8_t output[DORY_NETWORK_OUTPUT_BYTES] __attribute__((section(".board_output")));

void board_put_rows(uint32_t number, const void *src, uint32_t first, uint32_t rows)
{
  static const struct {
    uint32_t at, row_bytes, rows;
  } all[] = DORY_NETWORK_OUTPUT_ROWS;
  memcpy(output + all[number].at + first * all[number].row_bytes, src,
         rows * all[number].row_bytes);
}

void board_output(uint32_t run, const void *data, uint32_t bytes)
{
  (void)run, (void)data;
  record(-1, output, bytes);
}
#else
void board_output(uint32_t run, const void *data, uint32_t bytes)
{
  (void)run;
  record(-1, data, bytes);
}
#endif
