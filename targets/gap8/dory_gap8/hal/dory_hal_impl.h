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

/* Small, and of few instructions once the compiler knows the shape of a copy. */
#define DORY_GAP8_INLINE static inline __attribute__((always_inline))

DORY_GAP8_INLINE uint32_t dory_core_id(void)
{
  return dory_gap8_core();
}

DORY_GAP8_INLINE uint32_t dory_core_count(void)
{
  return DORY_GAP8_CORES;
}

DORY_GAP8_INLINE void dory_barrier(void)
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

/* Writes a command; rows: 0 for one row, else DORY_GAP8_DMA_ROWS. An erratum of the boards' DMA
 * forbids to queue commands there. */
DORY_GAP8_INLINE void dory_gap8_dma_command(uint32_t command, const void *l1, const void *l2,
                                            uint32_t rows, uint32_t counter)
{
  dory_gap8_write(DORY_GAP8_DMA_COMMAND,
                  command | DORY_GAP8_DMA_INCREMENT | DORY_GAP8_DMA_EVENT);
  dory_gap8_write(DORY_GAP8_DMA_COMMAND, DORY_GAP8_ADDRESS(l1));
  dory_gap8_write(DORY_GAP8_DMA_COMMAND, DORY_GAP8_ADDRESS(l2));
  if (command & DORY_GAP8_DMA_2D) {
    dory_gap8_write(DORY_GAP8_DMA_COMMAND, rows);
  }
  if (DORY_GAP8_BLOCKING_DMA) {
    dory_gap8_dma_finish(counter);
  }
}

/* Writes the commands of a copy of any shape. */
void dory_gap8_dma_box(const dory_copy_t *copy, uint32_t counter);

/* The same; rows that lie dense in L1, the usual tile, are one command without a call. The shape is
 * read before memory is anybody's, so that the compiler still knows it. */
DORY_GAP8_INLINE void dory_gap8_dma_push(const dory_copy_t *copy, uint32_t counter)
{
  const int load = copy->dir == DORY_L2_TO_L1;
  const uint32_t to_l1 = load ? DORY_GAP8_DMA_TO_L1 : 0;
  const void *const l1 = load ? copy->dst : copy->src;
  const void *const l2 = load ? copy->src : copy->dst;
  const uint32_t bytes = copy->n0 * copy->elem;
  const int32_t l1_row = load ? copy->dst_s1 : copy->src_s1;
  const int32_t l2_row = load ? copy->src_s1 : copy->dst_s1;
  const uint32_t rows = copy->n1, planes = copy->n2;
  __asm__ volatile("" : : : "memory"); /* what the copy reads is written */
  if (rows == 1 && planes == 1) {
    dory_gap8_dma_command(bytes | to_l1, l1, l2, 0, counter);
  } else if (planes == 1 && l1_row == (int32_t)bytes && l2_row > 0 &&
             l2_row <= (int32_t)DORY_GAP8_DMA_ROW_MAX) {
    dory_gap8_dma_command(bytes * rows | to_l1 | DORY_GAP8_DMA_2D, l1, l2,
                          DORY_GAP8_DMA_ROWS(bytes, l2_row), counter);
  } else {
    dory_gap8_dma_box(copy, counter);
  }
}

DORY_GAP8_INLINE dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  const uint32_t counter = dory_gap8_read(DORY_GAP8_DMA_COMMAND);
  dory_gap8_dma_push(copy, counter);
  return (dory_ticket_t)(counter + 1);
}

DORY_GAP8_INLINE dory_ticket_t dory_dma_join(dory_ticket_t ticket, const dory_copy_t *copy)
{
  if (ticket == DORY_NO_TICKET) {
    return dory_dma_start(copy);
  }
  dory_gap8_dma_push(copy, (uint32_t)ticket - 1);
  return ticket;
}

/* Moves bytes of L2 towards its start, piece by piece through the stack, which lies in L1. */
void dory_gap8_move(uint8_t *dst, const uint8_t *src, uint32_t bytes);
#define DORY_MOVE(dst, src, bytes) dory_gap8_move(dst, src, bytes)

#endif
