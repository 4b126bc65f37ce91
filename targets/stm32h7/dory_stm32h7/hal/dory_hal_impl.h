/* HAL of the STM32H7 for generated networks: one core, transfers by the MDMA or by the core. */
#ifndef DORY_HAL_IMPL_H
#define DORY_HAL_IMPL_H

#include <stdint.h>

#include "dory_stm32h7_config.h"

/* Starts a copy of contiguous bytes, and any copy. */
dory_ticket_t dory_dma_row(void *dst, const void *src, uint32_t bytes);
dory_ticket_t dory_dma_box(const dory_copy_t *copy);
void dory_dma_wait(dory_ticket_t ticket);

/* What the transfers since the last call have come to: DORY_OK or DORY_EDMA. */
int dory_dma_result(void);
#define DORY_RUN_RESULT() dory_dma_result()

/* The shape of most copies is known where they start: no descriptor is made of rows. */
static inline dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  if (copy->n1 == 1u && copy->n2 == 1u) {
    return dory_dma_row(copy->dst, copy->src, copy->n0 * copy->elem);
  }
  return dory_dma_box(copy);
}

/* A ticket is the channels of its copies as bits. */
static inline dory_ticket_t dory_dma_join(dory_ticket_t ticket, const dory_copy_t *copy)
{
  return ticket | dory_dma_start(copy);
}

/* L3 is RAM outside of the chip. dory_network_io_t.l3 is the address of the arena there, so that
 * what the network takes for an offset is an address. */
static inline dory_ticket_t dory_ext_start(void *l2, uint32_t l3, uint32_t bytes, int dir)
{
  void *const outside = (void *)(uintptr_t)l3;
  const int fetched = dir == DORY_L3_TO_L2;
  return dory_dma_row(fetched ? l2 : outside, fetched ? outside : l2, bytes);
}

static inline void dory_ext_wait(dory_ticket_t ticket) { dory_dma_wait(ticket); }

static inline uint32_t dory_core_id(void) { return 0; }
static inline uint32_t dory_core_count(void) { return 1; }
static inline void dory_barrier(void) {}

/* DWT_CYCCNT: counts once the network's _stm32h7_init has started it. */
static inline uint32_t dory_cycles(void) { return *(volatile const uint32_t *)0xE0001004u; }

#endif
