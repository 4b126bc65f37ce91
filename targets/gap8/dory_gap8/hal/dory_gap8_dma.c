/* Copies of several rows between L2 and L1.
 *
 * The DMA strides on the side of L2 only. Rows that lie dense in L1 are one 2-D command; planes that
 * do not continue them are a loop of 2-D commands, and rows apart in L1 are one command each. */
#include "dory_hal.h"

#ifndef DORY_GAP8_ON_STACK /* which lies in L1 */
#define DORY_GAP8_ON_STACK(name, words) uint32_t name[words]
#endif

/* A word of L2, which never changes. */
static const volatile uint32_t l2_word = 0;

/* One function, which stays in the instruction cache from layer to layer.
 *
 * The port of L2 is still busy when a burst is over. Core 0 waits for it alone, with one load: the
 * misses of all cores at once would wait behind each other. */
void dory_dma_wait(dory_ticket_t ticket)
{
  const uint32_t counter = (uint32_t)ticket - 1;
  dory_gap8_dma_finish(counter);
  dory_gap8_write(DORY_GAP8_DMA_STATUS, 1u << counter);
  (void)l2_word;
  __asm__ volatile("" : : : "memory"); /* what the copy wrote is read */
}

void dory_gap8_dma_box(const dory_copy_t *copy, uint32_t counter)
{
  const int load = copy->dir == DORY_L2_TO_L1;
  const uint32_t to_l1 = load ? DORY_GAP8_DMA_TO_L1 : 0;
  const uint8_t *l1 = load ? copy->dst : copy->src;
  const uint8_t *l2 = load ? copy->src : copy->dst;
  int32_t l1_row = load ? copy->dst_s1 : copy->src_s1;
  int32_t l2_row = load ? copy->src_s1 : copy->dst_s1;
  const int32_t l1_plane = load ? copy->dst_s2 : copy->src_s2;
  const int32_t l2_plane = load ? copy->src_s2 : copy->dst_s2;
  uint32_t bytes = copy->n0 * copy->elem, rows = copy->n1, planes = copy->n2;

  if (rows > 1 && l1_row == (int32_t)bytes && l2_row == (int32_t)bytes) {
    bytes *= rows; /* rows that touch on both sides are one */
    rows = 1;
  }
  if (rows == 1) {
    rows = planes;
    planes = 1;
    l1_row = l1_plane;
    l2_row = l2_plane;
    if (l1_row == (int32_t)bytes && l2_row == (int32_t)bytes) {
      bytes *= rows;
      rows = 1;
    }
  } else if (l1_plane == (int32_t)rows * l1_row && l2_plane == (int32_t)rows * l2_row) {
    rows *= planes; /* planes that continue the rows are rows */
    planes = 1;
  }
  const int dense = rows > 1 && l1_row == (int32_t)bytes && bytes <= DORY_GAP8_DMA_ROW_MAX &&
                    l2_row > 0 && l2_row <= (int32_t)DORY_GAP8_DMA_ROW_MAX;
  for (; planes > 0; planes--, l1 += l1_plane, l2 += l2_plane) {
    if (dense) {
      dory_gap8_dma_command(bytes * rows | to_l1 | DORY_GAP8_DMA_2D, l1, l2,
                            DORY_GAP8_DMA_ROWS(bytes, l2_row), counter);
    } else {
      for (uint32_t row = 0; row < rows; row++) {
        dory_gap8_dma_command(bytes | to_l1, l1 + (int32_t)row * l1_row,
                              l2 + (int32_t)row * l2_row, 0, counter);
      }
    }
  }
}

static void dory_gap8_row(uint32_t direction, const void *l1, const void *l2, uint32_t bytes)
{
  const uint32_t counter = dory_gap8_read(DORY_GAP8_DMA_COMMAND);
  dory_gap8_dma_command(bytes | direction, l1, l2, 0, counter);
  dory_dma_wait((dory_ticket_t)(counter + 1));
}

void dory_gap8_move(uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
  enum { PIECE = 1024 };
  DORY_GAP8_ON_STACK(piece, PIECE / 4);

  for (uint32_t at = 0; at < bytes; at += PIECE) {
    const uint32_t size = bytes - at < PIECE ? bytes - at : PIECE;
    dory_gap8_row(DORY_GAP8_DMA_TO_L1, piece, src + at, size);
    dory_gap8_row(0, piece, dst + at, size);
  }
}
