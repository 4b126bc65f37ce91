/* Maxima over windows of 8-bit elements, padding never wins: template of the kernel DORY_KERNEL.
 *
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_STORE4_X, DORY_MAX4   an element, four of them and their
 *                                                                 operations
 *   DORY_LOWEST                                                   the least value, four times
 *   DORY_KERNEL_H, DORY_KERNEL_W, DORY_STRIDE_W                   the window
 *   DORY_RUN_ROWS                                                 rows of windows at most that have runs
 *
 * Four neighbouring channels at once. Pixels that lie in a row and see none of the padding left and
 * right are a run: for four channels of it, the maximum of a column of the window is computed once and
 * serves all windows that have the column. A row that is padding is replaced by one of the window,
 * which changes no maximum. Windows of many rows, and those with padding left or right, are cut at
 * the borders and computed one by one.
 */
#include "dory_gap8_pool_share.h"
#include "dory_gap8_types.h"

/* Whether the rows of a window have a register each. */
#define DORY_RUNS (DORY_KERNEL_H <= DORY_RUN_ROWS)
/* Columns that a window has in common with the next one, and those that it alone has. */
#define DORY_KEPT (DORY_KERNEL_W > DORY_STRIDE_W ? DORY_KERNEL_W - DORY_STRIDE_W : 0)
#define DORY_NEW (DORY_KERNEL_W - DORY_KEPT)

/* Taps of a window that lie inside: `rows` times `columns` from x. */
typedef struct {
  const DORY_X_T *x;
  int32_t rows, columns;
  int32_t pitch; /* elements from row to row */
  int32_t step;  /* elements from tap to tap */
} dory_taps_t;

static inline void dory_pool_four(const dory_taps_t *t, const DORY_X_T *x, DORY_X_T *y) {
  DORY_X4_T best = DORY_FROM_WORD_X(DORY_LOWEST);
  int32_t rows = t->rows;
  do {
    const DORY_X_T *tap = x;
    int32_t columns = t->columns;
    do {
      best = DORY_MAX4(best, DORY_LOAD4_X(tap));
      tap += t->step;
    } while (--columns != 0);
    x += t->pitch;
  } while (--rows != 0);
  DORY_STORE4_X(y, best);
}

static inline void dory_pool_one(const dory_taps_t *t, const DORY_X_T *x, DORY_X_T *y) {
  DORY_X_T best = *x;
  for (int32_t ky = 0; ky < t->rows; ky++) {
    for (int32_t kx = 0; kx < t->columns; kx++) {
      const DORY_X_T v = x[kx * t->step];
      best = v > best ? v : best;
    }
    x += t->pitch;
  }
  *y = best;
}

/* Channels c0 .. c1 - 1 of one pixel, whose window has a tap. */
static DORY_GAP8_NOINLINE void dory_pool_pixel(const dory_taps_t *t, DORY_X_T *y, int32_t c0,
                                               int32_t c1) {
  int32_t c = c0;
  for (; c + 4 <= c1; c += 4) {
    dory_pool_four(t, t->x + c, y + c);
  }
  for (; c < c1; c++) {
    dory_pool_one(t, t->x + c, y + c);
  }
}

#if DORY_RUNS

/* Goes on by a column; returns its maximum. */
static inline DORY_X4_T dory_next_column(const DORY_X_T **rows, int32_t step) {
  DORY_X4_T column[DORY_KERNEL_H];
  for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
    column[ky] = DORY_LOAD4_X(rows[ky]);
    rows[ky] += step;
  }
  for (int32_t ky = 1; ky < DORY_KERNEL_H; ky++) {
    column[0] = DORY_MAX4(column[0], column[ky]);
  }
  return column[0];
}

/* Four channels of a run of n pixels, 1 at least. first: where the window of the first one begins in
 * each row; channels: of a pixel. */
static inline void dory_pool_four_of_run(const DORY_X_T *const *first, int32_t c, DORY_X_T *y,
                                         int32_t n, int32_t channels) {
  const DORY_X_T *rows[DORY_KERNEL_H];
  DORY_X4_T columns[DORY_KERNEL_W];
  for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
    rows[ky] = first[ky] + c;
  }
  y += c;
  for (int32_t kx = 0; kx < DORY_KEPT; kx++) {
    columns[kx] = dory_next_column(rows, channels);
  }
  do {
    DORY_X4_T best;
    for (int32_t kx = DORY_KEPT; kx < DORY_KERNEL_W; kx++) {
      columns[kx] = dory_next_column(rows, channels);
    }
    best = columns[0];
    for (int32_t kx = 1; kx < DORY_KERNEL_W; kx++) {
      best = DORY_MAX4(best, columns[kx]);
    }
    DORY_STORE4_X(y, best);
    y += channels;
    for (int32_t kx = 0; kx < DORY_KEPT; kx++) {
      columns[kx] = columns[kx + DORY_NEW];
    }
#if DORY_STRIDE_W > DORY_KERNEL_W
    for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
      rows[ky] += (DORY_STRIDE_W - DORY_KERNEL_W) * channels;
    }
#endif
  } while (--n != 0);
}

/* Channels c0 .. c1 - 1 of a run of n pixels. above: rows of their windows that are padding at the top;
 * t: the taps of the first pixel. */
static DORY_GAP8_NOINLINE void dory_pool_run(const dory_taps_t *t, int32_t above, DORY_X_T *y,
                                             int32_t n, int32_t c0, int32_t c1) {
  const DORY_X_T *rows[DORY_KERNEL_H];
  int32_t c = c0;
  for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
    rows[ky] = t->x + dory_gap8_min(dory_gap8_max(ky - above, 0), t->rows - 1) * t->pitch;
  }
  for (; c + 4 <= c1; c += 4) {
    dory_pool_four_of_run(rows, c, y, n, t->step);
  }
  if (c < c1) {
    dory_taps_t next = *t;
    for (; n != 0; n--, y += t->step, next.x += DORY_STRIDE_W * t->step) {
      for (int32_t i = c; i < c1; i++) {
        dory_pool_one(&next, next.x + i, y + i);
      }
    }
  }
}

#endif

/* Computes one tile. Every core calls it and takes its part of pixels and of groups of channels. */
void DORY_KERNEL(const dory_gap8_pool_t *a) {
  const int32_t channels = a->y_c, y_w = a->y_w, x_h = a->x_h, x_w = a->x_w;
  const dory_share_t share = dory_share(a->y_h * y_w, (channels + 3) >> 2);
  const int32_t c0 = 4 * share.groups.first;
  const int32_t c1 = dory_gap8_min(4 * share.groups.end, channels);
  DORY_X_T *y = (DORY_X_T *)a->y + share.pixels.first * channels;
  int32_t oy = (int32_t)((uint32_t)share.pixels.first / (uint32_t)y_w);
  int32_t ox = share.pixels.first - oy * y_w;
  int32_t left = share.pixels.end - share.pixels.first;
  dory_taps_t t;
  t.pitch = x_w * channels;
  t.step = channels;
  while (left > 0) {
    const int32_t iy = oy * a->stride_h - a->pad_top, ix = ox * DORY_STRIDE_W - a->pad_left;
    const int32_t top = dory_gap8_max(iy, 0), first = dory_gap8_max(ix, 0);
    int32_t n = 1;
    t.x = (const DORY_X_T *)a->x + (top * x_w + first) * channels;
    t.rows = dory_gap8_min(iy + DORY_KERNEL_H, x_h) - top;
    t.columns = dory_gap8_min(ix + DORY_KERNEL_W, x_w) - first;
#if DORY_RUNS
    if (t.columns == DORY_KERNEL_W) {
      const int32_t inside = (x_w - DORY_KERNEL_W - ix) / DORY_STRIDE_W + 1;
      n = dory_gap8_min(dory_gap8_min(left, y_w - ox), inside);
      dory_pool_run(&t, top - iy, y, n, c0, c1);
    } else
#endif
    {
      dory_pool_pixel(&t, y, c0, c1);
    }
    left -= n;
    y += n * channels;
    ox += n;
    if (ox == y_w) {
      ox = 0;
      oy++;
    }
  }
}
