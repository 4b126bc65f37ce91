/* Runs the network on the test vectors of the image and counts the bytes of its output that differ.
 *
 * The board's start-up code calls main; nothing is printed. Whoever looks finds the result in
 * dory_diana_result, which main returns, too. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dory_diana_hal.h"
#include "dory_io.h"
#include "dory_vectors.h"
#include "network.h"

#define FAULT (-1000) /* of the HAL */

static uint8_t l2[DORY_L2_SIZE] __attribute__((aligned(16)));
/* What passes by rows: where each input or output begins in its vector, bytes of a row, rows. */
typedef struct {
  uint32_t at, row_bytes, rows;
} rows_t;

static uint8_t output[DORY_NETWORK_OUTPUT_BYTES] __attribute__((aligned(16)));

#ifdef DORY_NETWORK_INPUT_ROWS
static int next_rows(void *user, uint32_t input, void *dst, uint32_t first, uint32_t rows)
{
  static const rows_t all[] = DORY_NETWORK_INPUT_ROWS;
  const uint8_t *const vector = dory_vector_input(*(const uint32_t *)user);
  memcpy(dst, vector + all[input].at + first * all[input].row_bytes, rows * all[input].row_bytes);
  return 0;
}
#endif

#ifdef DORY_NETWORK_OUTPUT_ROWS
static int put_rows(void *user, uint32_t number, const void *src, uint32_t first, uint32_t rows)
{
  static const rows_t all[] = DORY_NETWORK_OUTPUT_ROWS;
  (void)user;
  memcpy(output + all[number].at + first * all[number].row_bytes, src,
         rows * all[number].row_bytes);
  return 0;
}
#endif

volatile int32_t dory_diana_result;          /* differing bytes, or a negative error */
const char *volatile dory_diana_fault_reason; /* of the HAL, NULL without one */

void dory_diana_fault(const char *reason)
{
  dory_diana_fault_reason = reason;
  dory_diana_result = FAULT;
  for (;;) {
  }
}

int main(void)
{
  int32_t differing = 0;
  for (uint32_t run = 0; run < dory_vector_count(); run++) {
    const uint8_t *const golden = dory_vector_output(run);
    const dory_network_io_t io = {
        .l1 = dory_diana_l1_arena(),
        .l1_size = DORY_L1_SIZE,
        .l2 = l2,
        .l2_size = DORY_L2_SIZE,
        .input = dory_vector_input(run),
        .output = output,
        .user = &run,
#ifdef DORY_NETWORK_INPUT_ROWS
        .next_rows = next_rows,
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
        .put_rows = put_rows,
#endif
    };
#ifdef DORY_NETWORK_STATES
    if (dory_vector_begins(run)) {
      dory_network_reset();
    }
#endif
    const int result = dory_network_run(&io);
    if (result != 0) {
      dory_diana_result = result;
      return result;
    }
    for (uint32_t i = 0; i < DORY_NETWORK_OUTPUT_BYTES; i++) {
      differing += output[i] != golden[i];
    }
  }
  dory_diana_result = differing;
  return (int)differing;
}
