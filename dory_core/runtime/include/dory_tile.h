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

/* One tile along one axis: output range, input range, padding in front of the input. */
typedef struct {
  int32_t start, size;
  int32_t x_start, x_size;
  int32_t pad_before, pad_after;
} dory_span_t;

/* The constants of one tile: byte range in the layer's table, byte offsets of the parts in it. */
typedef struct {
  uint32_t offset, size;
  uint32_t weights, mul, add, bias;
} dory_block_t;

/* A part of a layer: byte offsets of its data in the L2 arena, and its tiles. */
typedef struct {
  uint32_t x, x2, y, w;
  dory_index_t first, end;
  uint32_t tiles;
} dory_part_t;

#endif
