/* HAL of Kite for generated networks: one core, a DMA that moves one row of words at a time. */
#ifndef DORY_HAL_IMPL_H
#define DORY_HAL_IMPL_H

#include <stdint.h>

static inline uint32_t dory_core_id(void) { return 0; }
static inline uint32_t dory_core_count(void) { return 1; }
static inline void dory_barrier(void) {}

static inline uint32_t dory_cycles(void)
{
  uint32_t cycles;
  __asm__ volatile("rdcycle %0" : "=r"(cycles));
  return cycles;
}

#endif
