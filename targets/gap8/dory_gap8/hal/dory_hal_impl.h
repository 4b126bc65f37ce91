/* HAL of a GAP8 cluster: what the tile loops use, inline.
 *
 * Every core may start transfers between L2 and L1. A ticket is the number of the DMA's counter
 * plus 1, so at most 16 tickets are open in the cluster; copies that belong together share one
 * (dory_dma_join). Waiting sleeps in the event unit.
 */
#ifndef DORY_HAL_IMPL_H
#define DORY_HAL_IMPL_H

#include "dory_gap8_board.h"
#include "dory_gap8_registers.h"

static inline uint32_t dory_core_id(void)
{
  return dory_gap8_core();
}

static inline uint32_t dory_core_count(void)
{
  return DORY_GAP8_CORES;
}

static inline void dory_barrier(void)
{
  (void)dory_gap8_sleep(DORY_GAP8_EU_BARRIER);
}

static inline uint32_t dory_cycles(void)
{
  return dory_gap8_read(DORY_GAP8_TIMER_COUNT);
}

/* Waits until the counter has nothing left to count. */
static inline void dory_gap8_dma_finish(uint32_t counter)
{
  while (dory_gap8_read(DORY_GAP8_DMA_STATUS) & (1u << counter)) {
    dory_gap8_write(DORY_GAP8_EU_MASK_SET, DORY_GAP8_EVENT_DMA);
    (void)dory_gap8_sleep(DORY_GAP8_EU_WAIT_CLEAR);
    dory_gap8_write(DORY_GAP8_EU_MASK_CLEAR, DORY_GAP8_EVENT_DMA);
  }
}

/* Writes the command of one row. An erratum of the boards' DMA forbids to queue commands there. */
static inline void dory_gap8_dma_row(const void *l1, const void *l2, uint32_t bytes, uint32_t to_l1,
                                     uint32_t counter)
{
  dory_gap8_write(DORY_GAP8_DMA_COMMAND,
                  bytes | to_l1 | DORY_GAP8_DMA_INCREMENT | DORY_GAP8_DMA_EVENT);
  dory_gap8_write(DORY_GAP8_DMA_COMMAND, DORY_GAP8_ADDRESS(l1));
  dory_gap8_write(DORY_GAP8_DMA_COMMAND, DORY_GAP8_ADDRESS(l2));
  if (DORY_GAP8_BLOCKING_DMA) {
    dory_gap8_dma_finish(counter);
  }
}

/* Writes the commands of a copy of any shape. */
void dory_gap8_dma_box(const dory_copy_t *copy, uint32_t counter);

static inline void dory_gap8_dma_push(const dory_copy_t *copy, uint32_t counter)
{
  __asm__ volatile("" : : : "memory"); /* what the copy reads is written */
  if (copy->n1 == 1 && copy->n2 == 1) {
    const uint32_t to_l1 = copy->dir == DORY_L2_TO_L1 ? DORY_GAP8_DMA_TO_L1 : 0;
    dory_gap8_dma_row(to_l1 ? copy->dst : copy->src, to_l1 ? copy->src : copy->dst,
                      copy->n0 * copy->elem, to_l1, counter);
  } else {
    dory_gap8_dma_box(copy, counter);
  }
}

static inline dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  const uint32_t counter = dory_gap8_read(DORY_GAP8_DMA_COMMAND);
  dory_gap8_dma_push(copy, counter);
  return (dory_ticket_t)(counter + 1);
}

static inline dory_ticket_t dory_dma_join(dory_ticket_t ticket, const dory_copy_t *copy)
{
  if (ticket == DORY_NO_TICKET) {
    return dory_dma_start(copy);
  }
  dory_gap8_dma_push(copy, (uint32_t)ticket - 1);
  return ticket;
}

static inline void dory_dma_wait(dory_ticket_t ticket)
{
  const uint32_t counter = (uint32_t)ticket - 1;
  dory_gap8_dma_finish(counter);
  dory_gap8_write(DORY_GAP8_DMA_STATUS, 1u << counter);
  __asm__ volatile("" : : : "memory"); /* what the copy wrote is read */
}

#endif
