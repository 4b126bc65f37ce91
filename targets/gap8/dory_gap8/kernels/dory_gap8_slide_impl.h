/* Dense convolution with windows of three columns, whose neighbours share inputs: template of the kernel
 * DORY_KERNEL, configured as dory_gap8_block_tile.h and
 *
 *   DORY_KERNEL_H, DORY_STRIDE_H, DORY_STRIDE_W   rows of a window, strides: 1 or 2 along a row
 *   DORY_PADDED   whether windows reach beyond the tensor: by one column on either side, and by
 *                 fewer rows than they have
 *
 * Inputs are read where they lie. A block is four neighbours in a row of outputs, of which rows have
 * whole fours. Rows that are padding are left out; columns that are padding are zeros. */
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

/* From the first to the last column that the windows of a block see. */
#define DORY_LAST_TAP (3 * DORY_STRIDE_W + 2)

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const int32_t x_row = a->x_w * DORY_CHANNELS, y_w = a->y_w;
  const dory_gap8_work_t work = dory_block_share(a->y_h * y_w, a->y_c);
  const dory_block_tile_t tile = {a->weights, a->parameters, 3 * 16 * DORY_KERNEL_H * DORY_PIXEL_WORDS,
                                  a->y_c,     work.channels, a->requant};
#if DORY_PADDED
  DORY_X_T *const zeros = (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * DORY_CHANNELS;
#endif
  DORY_Y_T *y = (DORY_Y_T *)a->y + work.pixels.first * a->y_c;
  int32_t left = work.pixels.end - work.pixels.first;
  int32_t row, column;
  const int8_t *weights;
  dory_block_t b;
  if (work.channels.first == work.channels.end || left == 0) {
    return;
  }
#if DORY_PADDED
  dory_clear(zeros, DORY_CHANNELS);
#endif
  dory_block_start(&b, &tile, a);
  weights = b.weights;
  b.row = (x_row - DORY_CHANNELS) * (int32_t)sizeof(DORY_X_T);
  row = work.pixels.first / y_w;
  column = work.pixels.first - row * y_w;
  while (left > 0) {
    /* Pixels of this row that the block goes through by itself; others come four by four. */
    const int32_t n = dory_block_is_whole(&b, &tile) ? dory_gap8_min(left, y_w - column) : 4;
    const int32_t x_row_0 = row * DORY_STRIDE_H - (DORY_PADDED ? a->pad_top : 0);
    const int32_t x_column = column * DORY_STRIDE_W - (DORY_PADDED ? a->pad_left : 0);
    const int32_t last = (n - 4) * DORY_STRIDE_W + DORY_LAST_TAP;
    dory_gap8_range_t inside = {0, DORY_KERNEL_H};
    const DORY_X_T *first;
#if DORY_PADDED
    inside = dory_gap8_inside(x_row_0, 1, DORY_KERNEL_H, a->x_h);
#endif
    first = dory_at(a->x, (x_row_0 + inside.first) * x_row + x_column * DORY_CHANNELS);
    b.rows = inside.end - inside.first;
    b.weights = weights + inside.first * (3 * 16 * DORY_PIXEL_WORDS);
    b.skip = (DORY_KERNEL_H - b.rows) * (3 * 16 * DORY_PIXEL_WORDS);
    b.x = dory_at(first, DORY_CHANNELS);
    b.left = first;
    b.right = dory_at(first, DORY_LAST_TAP * DORY_CHANNELS);
    b.last = dory_at(first, last * DORY_CHANNELS);
    b.left_row = b.right_row = b.last_row = b.row;
#if DORY_PADDED
    if (x_column < 0) {
      b.left = zeros;
      b.left_row = -DORY_PIXEL;
    }
    if (x_column + last >= a->x_w) {
      b.last = zeros;
      b.last_row = -DORY_PIXEL;
      if (n == 4) {
        b.right = zeros;
        b.right_row = -DORY_PIXEL;
      }
    }
#endif
    b.fours = (int32_t)((uint32_t)n / 4);
    dory_block_pixels(&b, &tile, 4, y);
    left -= n;
    y += n * a->y_c;
    column += n;
    if (column == y_w) {
      column = 0;
      row++;
    }
  }
}
