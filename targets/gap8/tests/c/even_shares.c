/* dory_gap8_even: shares follow one another, cover all steps, and no core has more cycles than an
 * eighth of all and two steps. Prints the number of cases. */
#include <stdio.h>
#include <stdlib.h>

#include "dory_gap8_share.h"

#define CORES 8
#define RUNS 4

uint32_t dory_test_core;

static uint32_t random_below(uint32_t limit) {
  static uint32_t state = 12345;
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % limit;
}

/* Cycles of the steps before one, times the number of steps of a piece. */
static int64_t cycles_before(const dory_gap8_run_t *runs, int32_t steps, int32_t step) {
  int64_t cycles = 0;
  for (int32_t i = 0; i < RUNS && step > 0; i++) {
    const int32_t all = runs[i].pieces * steps, taken = step < all ? step : all;
    cycles += (int64_t)taken * runs[i].cycles;
    step -= taken;
  }
  return cycles;
}

int main(void) {
  for (int n = 0; n < 20000; n++) {
    const int32_t steps = 1 + (int32_t)random_below(70);
    dory_gap8_run_t runs[RUNS];
    int32_t pieces = 0, end = 0;
    for (int32_t i = 0; i < RUNS; i++) {
      runs[i].pieces = (int32_t)random_below(4) == 0 ? 0 : (int32_t)random_below(40);
      runs[i].cycles = steps * (1 + (int32_t)random_below(900)) + (int32_t)random_below(300);
      pieces += runs[i].pieces;
    }
    const int64_t all = cycles_before(runs, steps, pieces * steps);
    for (dory_test_core = 0; dory_test_core < CORES; dory_test_core++) {
      const dory_gap8_range_t own = dory_gap8_even(runs, RUNS, steps, CORES);
      int32_t slowest = 0;
      for (int32_t i = 0; i < RUNS; i++) {
        slowest = runs[i].cycles > slowest ? runs[i].cycles : slowest;
      }
      const int64_t mine = cycles_before(runs, steps, own.end) - cycles_before(runs, steps, own.first);
      if (own.first != end || own.end < own.first || mine > all / CORES + 2 * slowest + CORES * steps) {
        printf("case %d, core %u: steps %d to %d after %d, %lld of %lld\n", n, dory_test_core,
               own.first, own.end, end, (long long)mine, (long long)all);
        return EXIT_FAILURE;
      }
      end = own.end;
    }
    if (end != pieces * steps) {
      printf("case %d: %d of %d steps\n", n, end, pieces * steps);
      return EXIT_FAILURE;
    }
  }
  puts("20000 cases");
  return EXIT_SUCCESS;
}
