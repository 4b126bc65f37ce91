/* HAL of the STM32H7 for generated networks: one core, transfers by the MDMA or by the core. */
#ifndef DORY_HAL_IMPL_H
#define DORY_HAL_IMPL_H

#include <stdint.h>

#include "dory_stm32h7_config.h"

dory_ticket_t dory_dma_start(const dory_copy_t *copy);
void dory_dma_wait(dory_ticket_t ticket);

/* L3 is RAM outside of the chip. dory_network_io_t.l3 is the address of the arena there, so that
 * what the network takes for an offset is an address. */
static inline dory_ticket_t dory_ext_start(void *l2, uint32_t l3, uint32_t bytes, int dir)
{
  void *const outside = (void *)(uintptr_t)l3;
  const int fetched = dir == DORY_L3_TO_L2;
  const dory_copy_t copy = {
    .dst = fetched ? l2 : outside,
    .src = fetched ? outside : l2,
    .n0 = bytes,
    .n1 = 1,
    .n2 = 1,
    .elem = 1,
  };
  return dory_dma_start(&copy);
}

static inline void dory_ext_wait(dory_ticket_t ticket) { dory_dma_wait(ticket); }

static inline uint32_t dory_core_id(void) { return 0; }
static inline uint32_t dory_core_count(void) { return 1; }
static inline void dory_barrier(void) {}

/* DWT_CYCCNT: counts once the network's _stm32h7_init has started it. */
static inline uint32_t dory_cycles(void) { return *(volatile const uint32_t *)0xE0001004u; }

#endif
