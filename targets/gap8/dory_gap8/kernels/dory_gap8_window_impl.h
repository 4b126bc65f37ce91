/* Dense convolution whose inputs are read where they lie, for channels in fours: template of the
 * kernel DORY_KERNEL, configured as dory_gap8_block_tile.h and
 *
 *   DORY_KERNEL_H, DORY_KERNEL_W, DORY_STRIDE_H, DORY_STRIDE_W, DORY_DILATION_H, DORY_DILATION_W
 *   DORY_PADDED   whether windows reach beyond the tensor
 *
 * A segment of the block is a row of a window, all of its columns and channels at once; where one of
 * four windows meets padding, it is a single tap, and taps that are padding are zeros. */
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

#define DORY_TAPS (DORY_KERNEL_H * DORY_KERNEL_W)

/* The windows of four pixels: row and column of the first tap, which padding makes negative. */
typedef struct {
  int32_t row[4], column[4];
  int32_t y, x; /* place of the next pixel in the output */
} dory_windows_t;

/* Takes the next `pixels` windows of the tile; pixels that are missing repeat the last one. Returns
 * whether all of them lie inside the tile. */
static inline int dory_next_windows(dory_windows_t *w, const dory_gap8_window_t *a, int32_t pixels) {
  int inside = 1;
  for (int32_t j = 0; j < 4; j++) {
    const int32_t row = w->y * DORY_STRIDE_H - (DORY_PADDED ? a->pad_top : 0);
    const int32_t column = w->x * DORY_STRIDE_W - (DORY_PADDED ? a->pad_left : 0);
    w->row[j] = row;
    w->column[j] = column;
    if (DORY_PADDED) {
      inside &= (row >= 0) & (row + (DORY_KERNEL_H - 1) * DORY_DILATION_H < a->x_h) &
                (column >= 0) & (column + (DORY_KERNEL_W - 1) * DORY_DILATION_W < a->x_w);
    }
    if (j + 1 < pixels) {
      w->x++;
      if (w->x == a->y_w) {
        w->x = 0;
        w->y++;
      }
    }
  }
  w->x++;
  if (w->x == a->y_w) {
    w->x = 0;
    w->y++;
  }
  return inside;
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const int32_t x_c = a->x_c;
  const int32_t x_row = a->x_w * x_c;
  const DORY_X_T *const x = a->x;
  const dory_gap8_work_t work = dory_block_share(a->y_h * a->y_w, a->y_c);
  const dory_block_tile_t tile = {a->weights, a->parameters, 4 * DORY_TAPS * x_c,
                                  a->y_c,     work.channels, a->requant};
  const DORY_X_T *table[4 * DORY_TAPS];
#if DORY_PADDED
  DORY_X_T *const zeros = (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * x_c;
#endif
  dory_windows_t w;
  dory_block_t b;
  if (work.channels.first == work.channels.end || work.pixels.first == work.pixels.end) {
    return;
  }
#if DORY_PADDED
  for (int32_t i = 0; i < x_c; i += 4) {
    DORY_STORE4_X(zeros + i, DORY_SET4_X(0, 0, 0, 0));
  }
#endif
  b.table = table;
  b.shift = a->shift;
  b.low_bits = a->low_bits;
  b.hi = a->hi;
  w.y = work.pixels.first / a->y_w;
  w.x = work.pixels.first - w.y * a->y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel += 4) {
    const int32_t pixels = dory_gap8_min(4, work.pixels.end - pixel);
    const int inside = dory_next_windows(&w, a, pixels);
    const DORY_X_T **entry = table;
    if (DORY_DILATION_W == 1 && inside) {
      for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
        for (int32_t j = 0; j < 4; j++) {
          *entry++ = x + (w.row[j] + ky * DORY_DILATION_H) * x_row + w.column[j] * x_c;
        }
      }
      b.steps = DORY_KERNEL_W * x_c >> 2;
    } else {
      for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
        for (int32_t kx = 0; kx < DORY_KERNEL_W; kx++) {
          for (int32_t j = 0; j < 4; j++) {
            const int32_t row = w.row[j] + ky * DORY_DILATION_H;
            const int32_t column = w.column[j] + kx * DORY_DILATION_W;
#if DORY_PADDED
            const int padding =
                (row < 0) | (row >= a->x_h) | (column < 0) | (column >= a->x_w);
            *entry++ = padding ? zeros : x + row * x_row + column * x_c;
#else
            *entry++ = x + row * x_row + column * x_c;
#endif
          }
        }
      }
      b.steps = x_c >> 2;
    }
    b.table_end = entry;
    dory_block_pixels(&b, &tile, pixels, (DORY_Y_T *)a->y + pixel * a->y_c);
  }
}
