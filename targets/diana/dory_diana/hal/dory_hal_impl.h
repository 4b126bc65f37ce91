/* HAL of Diana for generated networks: one host core, blocking transfers by the driver library. */
#ifndef DORY_HAL_IMPL_H
#define DORY_HAL_IMPL_H

#include <stdint.h>

static inline uint32_t dory_core_id(void) { return 0; }
static inline uint32_t dory_core_count(void) { return 1; }
static inline void dory_barrier(void) {}

/* Cycles of the host core, low word; 0 where the program is compiled for another machine. */
static inline uint32_t dory_cycles(void)
{
#if defined(__riscv)
  uint32_t cycles;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycles));
  return cycles;
#else
  return 0;
#endif
}

#endif
