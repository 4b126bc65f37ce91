/* Runs the network on every input of the board and compares what the image has goldens for. */
#include <stddef.h>

#include "board.h"
#include "dory_io.h"
#include "dory_stm32h7_config.h"
#include "dory_vectors.h"
#include "network.h"

#if !DORY_OUTPUT_IN_PLACE
static uint8_t several[DORY_NETWORK_OUTPUT_BYTES]
    __attribute__((section(".board_output"), aligned(32)));
#endif
static uint32_t current_run;
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

/* Says whether data is what the golden says. */
static void compare(const char *what, uint32_t number, const uint8_t *golden, const uint8_t *data,
                    uint32_t bytes)
{
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < bytes; i++) {
    wrong += golden[i] != data[i];
  }
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

__attribute__((weak)) void board_layer(int layer, const void *data, uint32_t bytes)
{
  const uint8_t *const golden =
      current_run < dory_vector_count() ? dory_vector_layer(current_run, layer) : NULL;
  if (golden != NULL) {
    compare("layer ", (uint32_t)layer, golden, data, bytes);
  }
}

__attribute__((weak)) void board_output(uint32_t run, const void *data, uint32_t bytes)
{
  const uint8_t *const golden = run < dory_vector_count() ? dory_vector_output(run) : NULL;
  if (golden != NULL) {
    compare("output of run ", run, golden, data, bytes);
  }
}

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
#if DORY_OUTPUT_IN_PLACE
  void *const output = dory_stm32h7_output();
#else
  void *const output = several;
#endif
  for (current_run = 0;; current_run++) {
    const void *const input = board_input(current_run);
    if (input == NULL) {
      break;
    }
#ifdef DORY_NETWORK_STATES
    if (board_begins(current_run)) {
      dory_network_reset();
    }
#endif
    const int result = dory_stm32h7_run(input, output, on_layer, NULL);
    if (result != 0) {
      board_print("dory_network_run fails: -");
      print_number((uint32_t)-result);
      board_print("\n");
      return BOARD_EXIT_FAULT;
    }
    board_output(current_run, output, DORY_NETWORK_OUTPUT_BYTES);
  }
  if (current_run == 0) {
    board_print("the image holds no input: define board_input\n");
  }
  return differences != 0 ? BOARD_EXIT_DIFFERS : BOARD_EXIT_OK;
}
