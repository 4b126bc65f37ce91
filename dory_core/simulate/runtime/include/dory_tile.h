/* What the tile loops of all layers share. */
#ifndef DORY_TILE_H
#define DORY_TILE_H

#include <stddef.h>
#include <stdint.h>

#include "dory_hal.h"

/* Position in the tile loop: output channels, rows, columns, input channels. */
typedef struct {
  uint32_t o, h, w, i;
} dory_index_t;

/* Names of numbers of bytes, which are constant expressions. */
#define DORY_OFFSETS(...) enum { __VA_ARGS__ }

/* Set members of a kernel's struct that belong together: the shape of a tile (x_h, x_w, x_c), two sizes
 * of a window (stride_h, stride_w), paddings (pad_top, pad_left), channels of a group. */
#define DORY_HWC(name, h, w, c) (name##_h = (h), name##_w = (w), name##_c = (c))
#define DORY_HW(name, h, w) (name##_h = (h), name##_w = (w))
#define DORY_TOP_LEFT(name, top, left) (name##_top = (top), name##_left = (left))
#define DORY_IN_OUT(name, in, out) (name##_in = (in), name##_out = (out))

/* Descriptors of copies whose rows lie dense in L1, as arguments of dory_dma_start. They are macros
 * so that the compiler knows the shape of a copy where it starts, and a fault of the simulation
 * names the line of the layer. Sizes and strides are in bytes. */

/* Contiguous bytes. */
#define DORY_LOAD_ROW(l1, l2, bytes) \
  DORY_COPY_(l1, l2, bytes, 1, 1, 0, 0, 0, 0, 1, DORY_L2_TO_L1)
#define DORY_STORE_ROW(l2, l1, bytes) \
  DORY_COPY_(l2, l1, bytes, 1, 1, 0, 0, 0, 0, 1, DORY_L1_TO_L2)

/* Rows of contiguous bytes, `stride` apart in L2. */
#define DORY_LOAD_ROWS(l1, l2, bytes, rows, stride) \
  DORY_COPY_(l1, l2, bytes, rows, 1, bytes, 0, stride, 0, 1, DORY_L2_TO_L1)
#define DORY_STORE_ROWS(l2, l1, bytes, rows, stride) \
  DORY_COPY_(l2, l1, bytes, rows, 1, stride, 0, bytes, 0, 1, DORY_L1_TO_L2)

/* Rows of pixels of contiguous bytes: pixels are `s1` apart in L2, rows `s2`. */
#define DORY_LOAD_BOX(l1, l2, bytes, pixels, rows, s1, s2) \
  DORY_COPY_(l1, l2, bytes, pixels, rows, bytes, (pixels) * (bytes), s1, s2, 1, DORY_L2_TO_L1)
#define DORY_STORE_BOX(l2, l1, bytes, pixels, rows, s1, s2) \
  DORY_COPY_(l2, l1, bytes, pixels, rows, s1, s2, bytes, (pixels) * (bytes), 1, DORY_L1_TO_L2)

/* One channel of a box of pixels, dense in L1; elements of `size` bytes. */
#define DORY_LOAD_CHANNEL(l1, l2, size, columns, rows, s1, s2) \
  DORY_COPY_(l1, l2, 1, columns, rows, size, (columns) * (size), s1, s2, size, DORY_L2_TO_L1)

#define DORY_COPY_(to, from, count0, count1, count2, to_s1, to_s2, from_s1, from_s2, size, way) \
  (&(const dory_copy_t){ \
      .dst = (to), \
      .src = (from), \
      .n0 = (uint32_t)(count0), \
      .n1 = (uint32_t)(count1), \
      .n2 = (uint32_t)(count2), \
      .dst_s1 = (int32_t)(to_s1), \
      .dst_s2 = (int32_t)(to_s2), \
      .src_s1 = (int32_t)(from_s1), \
      .src_s2 = (int32_t)(from_s2), \
      .elem = (size), \
      .dir = (way)})

/* Waits for a copy if one is open. */
#define DORY_WAIT(ticket) \
  do { \
    if ((ticket) != DORY_NO_TICKET) { \
      dory_dma_wait(ticket); \
      (ticket) = DORY_NO_TICKET; \
    } \
  } while (0)

#endif
