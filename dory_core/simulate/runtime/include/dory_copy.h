/* Copies between L2 and L1 that the DMA of the chip does not make in one command. */
#ifndef DORY_COPY_H
#define DORY_COPY_H

#include <string.h>

#include "dory_hal.h"

/* Starts a copy in commands of at most `dimensions` dimensions and `most` bytes, 0 for any number.
 * They join `ticket`; returns the ticket that waits for all of them. */
static inline dory_ticket_t dory_copy_pieces(dory_ticket_t ticket, const dory_copy_t *copy,
                                             uint32_t dimensions, uint32_t most)
{
  const uint32_t row = copy->n0 * copy->elem;
  const uint32_t needed = copy->n2 > 1 ? 3 : copy->n1 > 1 ? 2 : 1;
  if (needed <= dimensions && (most == 0 || row * copy->n1 * copy->n2 <= most)) {
    return dory_dma_join(ticket, copy);
  }
  const uint32_t bytes = most == 0 || row <= most ? row : most;       /* of a row, in a piece */
  const uint32_t fitting = most == 0 ? copy->n1 : most / bytes;       /* rows in a piece */
  const uint32_t rows = dimensions == 1 || bytes < row ? 1 : fitting;
  dory_copy_t piece = *copy;
  piece.elem = 1;
  piece.n2 = 1;
  for (uint32_t plane = 0; plane < copy->n2; plane++) {
    for (uint32_t r = 0; r < copy->n1; r += rows) {
      uint8_t *const dst = (uint8_t *)copy->dst + (int32_t)plane * copy->dst_s2 + (int32_t)r * copy->dst_s1;
      const uint8_t *const src =
          (const uint8_t *)copy->src + (int32_t)plane * copy->src_s2 + (int32_t)r * copy->src_s1;
      piece.n1 = copy->n1 - r < rows ? copy->n1 - r : rows;
      for (uint32_t at = 0; at < row; at += bytes) {
        piece.n0 = row - at < bytes ? row - at : bytes;
        piece.dst = dst + at;
        piece.src = src + at;
        ticket = dory_dma_join(ticket, &piece);
      }
    }
  }
  return ticket;
}

/* A core copies bytes. A HAL defines DORY_COPY_BYTES where it has another way. */
#ifndef DORY_COPY_BYTES
#define DORY_COPY_BYTES dory_copy_bytes
#endif
static inline void dory_copy_bytes(uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
  if (bytes > 8) {
    memcpy(dst, src, bytes);
  } else {
    for (uint32_t i = 0; i < bytes; i++) {
      dst[i] = src[i];
    }
  }
}

/* Copies the share of one of `cores` cores: some of the rows, or a part of the only one. The copy is
 * complete when all of them have met at a barrier. */
static inline void dory_copy_share(const dory_copy_t *copy, uint32_t core, uint32_t cores)
{
  const uint32_t row = copy->n0 * copy->elem;
  if (copy->n1 == 1 && copy->n2 == 1) {
    const uint32_t part = (row + cores - 1) / cores;
    const uint32_t start = part * core;
    if (start < row) {
      DORY_COPY_BYTES((uint8_t *)copy->dst + start, (const uint8_t *)copy->src + start,
                      row - start < part ? row - start : part);
    }
    return;
  }
  for (uint32_t n = core; n < copy->n1 * copy->n2; n += cores) {
    const int32_t plane = (int32_t)(n / copy->n1), r = (int32_t)(n % copy->n1);
    DORY_COPY_BYTES((uint8_t *)copy->dst + plane * copy->dst_s2 + r * copy->dst_s1,
                    (const uint8_t *)copy->src + plane * copy->src_s2 + r * copy->src_s1, row);
  }
}

#endif
