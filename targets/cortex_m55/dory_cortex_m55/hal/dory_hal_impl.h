/* HAL of a Cortex-M55 for generated networks: one core. hal/cortex_m55/dory_copy.c moves data by the
 * core; a program with a DMA defines the same three functions with its driver. */
#ifndef DORY_HAL_IMPL_H
#define DORY_HAL_IMPL_H

#include <stdint.h>

static inline uint32_t dory_core_id(void) { return 0; }
static inline uint32_t dory_core_count(void) { return 1; }
static inline void dory_barrier(void) {}

/* DWT_CYCCNT: counts where the program has started it. */
static inline uint32_t dory_cycles(void) { return *(volatile const uint32_t *)0xE0001004u; }

#endif
