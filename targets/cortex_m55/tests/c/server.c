/* Kernels under test on the emulated chip: requests come from a pipe, answers go to another one.
 *
 * A request: which case, bytes of each buffer (-1: there is none), the numbers of the call, the bytes
 * of the buffers. The answer: their bytes after the call. */
#include <stddef.h>
#include <stdint.h>

#include "dory_testing.h"
#include "semihosting.h"

#define ALIGNMENT 16u

static uint8_t room[4u << 20] __attribute__((section(".board_data"), aligned(ALIGNMENT)));
static int requests, answers;

/* Reads as often as the pipe has more. Ends the program when nobody asks any more. */
static void get(void *data, uint32_t bytes)
{
  uint8_t *const to = data;
  for (uint32_t left = bytes; left > 0;) {
    const uint32_t missing = semihosting_read(requests, to + (bytes - left), left);
    if (missing >= left) {
      semihosting_exit(0);
    }
    left = missing;
  }
}

int main(void)
{
  requests = semihosting_open("requests", SEMIHOSTING_READ);
  answers = semihosting_open("answers", SEMIHOSTING_WRITE);
  for (;;) {
    uint32_t number;
    int32_t sizes[DORY_TESTING_POINTERS], numbers[DORY_TESTING_NUMBERS];
    void *pointers[DORY_TESTING_POINTERS];
    uint32_t used = 0;
    get(&number, sizeof number);
    get(sizes, sizeof sizes);
    get(numbers, sizeof numbers);
    for (int i = 0; i < DORY_TESTING_POINTERS; i++) {
      pointers[i] = sizes[i] >= 0 ? room + used : NULL;
      used += sizes[i] > 0 ? ((uint32_t)sizes[i] + 2u * ALIGNMENT) & ~(ALIGNMENT - 1u) : 0u;
      if (used > sizeof room) {
        semihosting_exit(1);
      }
      if (sizes[i] > 0) {
        get(pointers[i], (uint32_t)sizes[i]);
      }
    }
    dory_testing_calls[number](pointers, numbers);
    for (int i = 0; i < DORY_TESTING_POINTERS; i++) {
      if (sizes[i] > 0) {
        semihosting_write(answers, pointers[i], (uint32_t)sizes[i]);
      }
    }
  }
}
