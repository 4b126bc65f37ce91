/* Runs the network on every input of the board and compares what the image has goldens for. */
#include <stddef.h>
#include <string.h>

#include "board.h"
#include "dory_io.h"
#include "dory_stm32h7_config.h"
#include "dory_vectors.h"
#include "network.h"

/* Inputs and outputs that pass by rows: where each begins in its vector, bytes of a row, rows. */
typedef struct {
  uint32_t at, row_bytes, rows;
} rows_t;
#ifdef DORY_NETWORK_INPUT_ROWS
static const rows_t input_rows[] = DORY_NETWORK_INPUT_ROWS;
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
static const rows_t output_rows[] = DORY_NETWORK_OUTPUT_ROWS;
static uint32_t put_wrong;
#elif !DORY_OUTPUT_IN_PLACE
static uint8_t several[DORY_NETWORK_OUTPUT_BYTES]
    __attribute__((section(".board_output"), aligned(32)));
#endif
static uint32_t current_run;
static const void *current_input;
static uint32_t differences;

static void print_number(uint32_t value)
{
  char text[11];
  char *at = text + sizeof text - 1;
  *at = '\0';
  do {
    *--at = (char)('0' + value % 10u);
    value /= 10u;
  } while (value != 0);
  board_print(at);
}

static uint32_t wrong_bytes(const uint8_t *golden, const uint8_t *data, uint32_t bytes)
{
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < bytes; i++) {
    wrong += golden[i] != data[i];
  }
  return wrong;
}

static void report(const char *what, uint32_t number, uint32_t wrong, uint32_t bytes)
{
  differences += wrong != 0;
  board_print(what);
  print_number(number);
  board_print(wrong ? " differs, wrong bytes: " : " exact, bytes: ");
  print_number(wrong ? wrong : bytes);
  board_print("\n");
}

__attribute__((weak)) const void *board_input(uint32_t run)
{
  return run < dory_vector_count() ? dory_vector_input(run) : NULL;
}

#ifdef DORY_NETWORK_STATES
__attribute__((weak)) int board_begins(uint32_t run) { return dory_vector_begins(run); }
#endif

/* Bytes of each layer that the run has handed out: layers of fused chains come in pieces. */
static uint32_t handed_out[DORY_NETWORK_LAYERS];

__attribute__((weak)) void board_layer(int layer, const void *data, uint32_t bytes)
{
  const uint32_t at = handed_out[layer];
  handed_out[layer] += bytes;
  const uint8_t *const golden =
      current_run < dory_vector_count() ? dory_vector_layer(current_run, layer) : NULL;
  if (golden != NULL) {
    report("layer ", (uint32_t)layer, wrong_bytes(golden + at, data, bytes), bytes);
  }
}

__attribute__((weak)) void board_output(uint32_t run, const void *data, uint32_t bytes)
{
  const uint8_t *const golden = run < dory_vector_count() ? dory_vector_output(run) : NULL;
#ifdef DORY_NETWORK_OUTPUT_ROWS
  (void)data, (void)bytes;
  if (golden != NULL) {
    report("output of run ", run, put_wrong, DORY_NETWORK_OUTPUT_BYTES);
  }
  put_wrong = 0;
#else
  if (golden != NULL) {
    report("output of run ", run, wrong_bytes(golden, data, bytes), bytes);
  }
#endif
}

#ifdef DORY_NETWORK_INPUT_ROWS
__attribute__((weak)) int board_next_rows(uint32_t input, void *dst, uint32_t first, uint32_t rows)
{
  const rows_t *const one = &input_rows[input];
  const uint8_t *const src = (const uint8_t *)current_input + one->at + first * one->row_bytes;
  memcpy(dst, src, rows * one->row_bytes);
  return 0;
}

static int next_rows(void *user, uint32_t input, void *dst, uint32_t first, uint32_t rows)
{
  (void)user;
  return board_next_rows(input, dst, first, rows);
}
#endif

#ifdef DORY_NETWORK_OUTPUT_ROWS
__attribute__((weak)) void board_put_rows(uint32_t output, const void *src, uint32_t first,
                                          uint32_t rows)
{
  const rows_t *const one = &output_rows[output];
  const uint8_t *const golden =
      current_run < dory_vector_count() ? dory_vector_output(current_run) : NULL;
  if (golden != NULL) {
    put_wrong += wrong_bytes(golden + one->at + first * one->row_bytes, src,
                             rows * one->row_bytes);
  }
}

static int put_rows(void *user, uint32_t output, const void *src, uint32_t first, uint32_t rows)
{
  (void)user;
  board_put_rows(output, src, first, rows);
  return 0;
}
#endif

__attribute__((weak)) void dory_stm32h7_fault(uint32_t channel, uint32_t status)
{
  board_print("MDMA error, channel ");
  print_number(channel);
  board_print(", status ");
  print_number(status);
  board_print("\n");
  board_exit(BOARD_EXIT_FAULT);
}

static void on_layer(void *user, int layer, const void *data, uint32_t bytes)
{
  (void)user;
  board_layer(layer, data, bytes);
}

int main(void)
{
  dory_stm32h7_init();
  dory_network_io_t io = {.on_layer = on_layer};
#ifdef DORY_NETWORK_INPUT_ROWS
  io.next_rows = next_rows;
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
  io.put_rows = put_rows;
#elif DORY_OUTPUT_IN_PLACE
  io.output = dory_stm32h7_output();
#else
  io.output = several;
#endif
  for (current_run = 0;; current_run++) {
    current_input = board_input(current_run);
    if (current_input == NULL) {
      break;
    }
    memset(handed_out, 0, sizeof handed_out);
#if DORY_INPUT_IN_PLACE
    memcpy(dory_stm32h7_input(), current_input, DORY_NETWORK_INPUT_BYTES);
    io.input = dory_stm32h7_input();
#elif !defined(DORY_NETWORK_INPUT_ROWS)
    io.input = current_input;
#endif
#ifdef DORY_NETWORK_STATES
    if (board_begins(current_run)) {
      dory_network_reset();
    }
#endif
    const int result = dory_stm32h7_run_io(&io);
    if (result != 0) {
      board_print("dory_network_run fails: -");
      print_number((uint32_t)-result);
      board_print("\n");
      return BOARD_EXIT_FAULT;
    }
    board_output(current_run, io.output, DORY_NETWORK_OUTPUT_BYTES);
  }
  if (current_run == 0) {
    board_print("the image holds no input: define board_input\n");
  }
  return differences != 0 ? BOARD_EXIT_DIFFERS : BOARD_EXIT_OK;
}
