/* Copies of several rows between L2 and L1.
 *
 * The DMA strides on the side of L2 only. Rows that lie dense in L1 are one 2-D command; planes that
 * do not continue them are a loop of 2-D commands, and rows apart in L1 are one command each. */
#include "dory_hal.h"

#ifndef DORY_GAP8_ON_STACK /* which lies in L1 */
#define DORY_GAP8_ON_STACK(name, words) uint32_t name[words]
#endif

/* One function, which stays in the instruction cache from layer to layer.
 *
 * The port of L2 is still busy when a burst is over. Core 0 waits for it alone, with one load of a
 * word: the misses of all cores at once would wait one after the other. */
#ifdef __pulp__

/* What runs after the event lies in lines of the cache that ran before it: a miss there would wait
 * for the port, and the word once more. a0: the ticket, then the bit of its counter; a1: L2;
 * a3: DORY_GAP8_DMA_STATUS; a5: DORY_GAP8_EU. */
__asm__(
    ".pushsection .text.dory_dma_wait, \"ax\", @progbits\n\t"
    ".option push\n\t"
    ".option rvc\n\t"
    ".balign 32\n\t"
    ".globl dory_dma_wait\n\t"
    ".type dory_dma_wait, @function\n"
    "dory_dma_wait:\n\t"
    "li a5, 1\n\t"
    "addi a0, a0, -1\n\t"
    "sll a0, a5, a0\n\t"
    "lui a5, 0x204\n\t"
    "addi a3, a5, 0x404\n\t"
    "li a2, 256\n\t" /* DORY_GAP8_EVENT_DMA */
    "lui a1, 0x1c000\n\t"
    "j 2f\n"
    "1:\n\t"
    "sw a0, 0(a3)\n\t" /* frees the counter */
    "lw a4, 0(a1)\n\t"
    "ret\n"
    "2:\n\t"
    "lw a4, 0(a3)\n\t"
    "and a4, a4, a0\n\t"
    "beqz a4, 1b\n\t"
    "sw a2, 8(a5)\n\t"       /* DORY_GAP8_EU_MASK_SET */
    "p.elw a4, 0x3c(a5)\n\t" /* DORY_GAP8_EU_WAIT_CLEAR */
    "sw a2, 4(a5)\n\t"       /* DORY_GAP8_EU_MASK_CLEAR */
    "j 2b\n\t"
    ".size dory_dma_wait, . - dory_dma_wait\n\t"
    ".option pop\n\t"
    ".popsection\n");

#else /* another compiler; without the load of a word */

void dory_dma_wait(dory_ticket_t ticket)
{
  const uint32_t counter = (uint32_t)ticket - 1;
  dory_gap8_dma_finish(counter);
  dory_gap8_write(DORY_GAP8_DMA_STATUS, 1u << counter);
  __asm__ volatile("" : : : "memory"); /* what the copy wrote is read */
}

#endif

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
