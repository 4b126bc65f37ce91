/* An accelerator as tests know it: convolutions, sums and fully connected layers on tiles in L1,
 * whose elements lie in a layout of the accelerator's own. */
#ifndef ARRAY_H
#define ARRAY_H

#include <stdint.h>

/* As in dory_layout.h, which an application without conversions does not have. */
typedef struct {
  uint32_t channel_block, channel_multiple, width_multiple, reversed_bytes;
} array_layout_t;

typedef struct {
  array_layout_t x, y;
  uint32_t kernel_h, kernel_w, stride_h, stride_w, depthwise;
  uint32_t x_width, y_width;   /* real columns */
  uint32_t reads_padding;      /* columns behind the last one are read where the layout has them */
  uint32_t x_signed, shift;
  int32_t lo, hi;
} array_layer_t;

typedef struct {
  uint32_t x_h, x_c, y_h, y_c;
  int32_t pad_top, pad_left;
} array_tile_t;

/* Constants of a tile: int64 mul and add of each channel, then the weights [k][c][h][w]. They are
 * fetched into the array's own memory. l2_x: of the tile in L2, 0 when it stayed in L1; the array
 * checks it against what was loaded. */
void array_conv(const array_layer_t *layer, const array_tile_t *tile, uintptr_t l2_x,
                const uint8_t *x, const uint8_t *constants, uint8_t *y);
/* Weights [k][pixel][padded channel]; the input is one row. */
void array_linear(const array_layer_t *layer, const array_tile_t *tile, const uint8_t *x,
                  const uint8_t *constants, uint8_t *y);
/* y = clip((x + x2) >> shift) */
void array_add(const array_layer_t *layer, const array_tile_t *tile, const uint8_t *x,
               const uint8_t *x2, uint8_t *y);

#endif
