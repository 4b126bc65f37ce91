/* Runs the network once on the input that the linker finds; a debugger reads the output. */
#include "dory_network.h"

static uint8_t l1[DORY_L1_BYTES] __attribute__((section(".tcm"), aligned(DORY_ARENA_ALIGN)));
static uint8_t l2[DORY_L2_BYTES] __attribute__((aligned(DORY_ARENA_ALIGN)));

uint8_t kite_input[DORY_INPUT_BYTES];
uint8_t kite_output[DORY_OUTPUT_BYTES];
volatile int kite_status;

int main(void)
{
  dory_network_io_t io = {0};
  io.l1 = l1;
  io.l1_size = sizeof l1;
  io.l2 = l2;
  io.l2_size = sizeof l2;
  io.input = kite_input;
  io.output = kite_output;
  kite_status = dory_network_run(&io);
  return kite_status;
}
