/* HAL of the STM32H7 for generated networks: one core, transfers by the MDMA or by the core. */
#ifndef DORY_HAL_IMPL_H
#define DORY_HAL_IMPL_H

#include <stdint.h>

#include "dory_stm32h7_config.h"

static inline uint32_t dory_core_id(void) { return 0; }
static inline uint32_t dory_core_count(void) { return 1; }
static inline void dory_barrier(void) {}

/* DWT_CYCCNT: counts once the network's _stm32h7_init has started it. */
static inline uint32_t dory_cycles(void) { return *(volatile const uint32_t *)0xE0001004u; }

#endif
