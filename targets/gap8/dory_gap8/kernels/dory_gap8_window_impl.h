/* Dense convolution whose inputs are read where they lie: template of the kernel DORY_KERNEL,
 * configured as dory_gap8_block_tile.h and
 *
 *   DORY_KERNEL_H, DORY_KERNEL_W, DORY_STRIDE_H, DORY_STRIDE_W, DORY_DILATION_H, DORY_DILATION_W
 *   DORY_PADDED   whether windows reach beyond the tensor
 *   DORY_WORDS    whether a pixel is a number of words
 *
 * A segment of the block is a row of a window, all of its columns and channels at once; where one of
 * four windows meets padding, it is a single tap, and taps that are padding are zeros. Pixels that
 * are no words are always read tap by tap, the last inputs of a tap together with the first ones of
 * the next, which weights of zero cancel. */
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

#define DORY_TAPS (DORY_KERNEL_H * DORY_KERNEL_W)

/* Where the windows of the tile are: the next one's place in the output and, which padding makes
 * negative, the row and column of its first tap. */
typedef struct {
  int32_t y_x, row, column;
} dory_window_t;

static inline void dory_next_window(dory_window_t *w, const dory_gap8_window_t *a) {
  w->column += DORY_STRIDE_W;
  w->y_x++;
  if (w->y_x == a->y_w) {
    w->y_x = 0;
    w->column -= a->y_w * DORY_STRIDE_W;
    w->row += DORY_STRIDE_H;
  }
}

/* Whether all taps of a window lie in the tile. */
static inline int dory_inside(int32_t row, int32_t column, const dory_gap8_window_t *a) {
  return !DORY_PADDED || ((row >= 0) & (column >= 0) &
                          (row + (DORY_KERNEL_H - 1) * DORY_DILATION_H < a->x_h) &
                          (column + (DORY_KERNEL_W - 1) * DORY_DILATION_W < a->x_w));
}

/* Enters the rows of a window into the table of four windows. */
static inline void dory_enter_rows(const DORY_X_T **table, const DORY_X_T *x, int32_t x_row) {
  for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
    table[4 * ky] = x + ky * DORY_DILATION_H * x_row;
  }
}

/* Enters every tap, padding as zeros. */
static DORY_GAP8_NOINLINE void dory_enter_taps(const DORY_X_T **table,
                                               const dory_gap8_window_t *a, int32_t row,
                                               int32_t column, const DORY_X_T *zeros) {
  const int32_t x_row = a->x_w * a->x_c;
  const DORY_X_T *const x = a->x;
  for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
    const int32_t tap_row = row + ky * DORY_DILATION_H;
    for (int32_t kx = 0; kx < DORY_KERNEL_W; kx++) {
      const int32_t tap_column = column + kx * DORY_DILATION_W;
      const int padding = DORY_PADDED && (((uint32_t)tap_row >= (uint32_t)a->x_h) |
                                          ((uint32_t)tap_column >= (uint32_t)a->x_w));
      *table = padding ? zeros : x + tap_row * x_row + tap_column * a->x_c;
      table += 4;
    }
  }
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const int32_t x_c = a->x_c;
  /* Inputs of a tap as the block reads them. */
  const int32_t tap = DORY_WORDS ? x_c : (x_c + DORY_LANES - 1) & -DORY_LANES;
  const int32_t x_row = a->x_w * x_c;
  const dory_gap8_work_t work = dory_block_share(a->y_h * a->y_w, a->y_c);
  const dory_block_tile_t tile = {a->weights, a->parameters, 16 * DORY_TAPS * (tap / DORY_LANES),
                                  a->y_c,     work.channels, a->requant};
  const DORY_X_T *table[4 * DORY_TAPS];
#if DORY_PADDED
  DORY_X_T *const zeros = (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * tap;
#else
  const DORY_X_T *const zeros = NULL;
#endif
  dory_window_t w;
  dory_block_t b;
  if (work.channels.first == work.channels.end || work.pixels.first == work.pixels.end) {
    return;
  }
#if DORY_PADDED
  dory_clear(zeros, tap);
#endif
  b.table = table;
  b.shift = a->shift;
  b.low_bits = a->low_bits;
  b.hi = a->hi;
  w.row = work.pixels.first / a->y_w;
  w.y_x = work.pixels.first - w.row * a->y_w;
  w.row = w.row * DORY_STRIDE_H - (DORY_PADDED ? a->pad_top : 0);
  w.column = w.y_x * DORY_STRIDE_W - (DORY_PADDED ? a->pad_left : 0);
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel += 4) {
    const int32_t pixels = dory_gap8_min(4, work.pixels.end - pixel);
    int32_t row[4], column[4];
    int inside = DORY_DILATION_W == 1 && DORY_WORDS;
    /* Pixels that are missing repeat the last one. */
    for (int32_t j = 0; j < 4; j++) {
      row[j] = w.row;
      column[j] = w.column;
      inside &= dory_inside(w.row, w.column, a);
      if (j + 1 < pixels || j == 3) {
        dory_next_window(&w, a);
      }
    }
    for (int32_t j = 0; j < 4; j++) {
      if (inside) {
        const DORY_X_T *const first = (const DORY_X_T *)a->x + row[j] * x_row + column[j] * x_c;
        dory_enter_rows(table + j, first, x_row);
      } else {
        dory_enter_taps(table + j, a, row[j], column[j], zeros);
      }
    }
    b.table_end = table + 4 * (inside ? DORY_KERNEL_H : DORY_TAPS);
    b.steps = (inside ? DORY_KERNEL_W : 1) * tap / DORY_LANES;
    b.inputs = (inside ? DORY_KERNEL_W : 1) * x_c;
    dory_block_pixels(&b, &tile, pixels, (DORY_Y_T *)a->y + pixel * a->y_c);
  }
}
