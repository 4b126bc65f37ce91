/* Dense convolution whose inputs are read where they lie: template of the kernel DORY_KERNEL,
 * configured as dory_gap8_block_tile.h and
 *
 *   DORY_KERNEL_H, DORY_KERNEL_W, DORY_STRIDE_H, DORY_STRIDE_W, DORY_DILATION_H, DORY_DILATION_W
 *   DORY_PADDED   whether windows reach beyond the tensor
 *   DORY_WORDS    whether a pixel is a number of words
 *   DORY_PASSES   2 where weights of 9 bits are sums of two of 8 bits, else 1: the segments of a row
 *                 of the window come twice, with the one and with the other
 *   DORY_COPIES   windows at a border that the scratch of a core has room for: those of few inputs are
 *                 copied with their padding; 0 for others
 *   DORY_FAR_TABLE  whether the table of the taps lies in the scratch, behind the zeros: cores have little
 *                   stack. Where pointers have more than 32 bits it is on the stack all the same.
 *
 * A segment of the block is a row of a window, all of its columns and channels at once; rows that are
 * padding for all four windows are left out. Where columns are padding, or rows for some of the
 * windows, these windows are copied, or a segment is a single tap, and taps that are padding are zeros.
 * Pixels that are no words
 * are always read tap by tap, the last inputs of a tap together with the first ones of the next,
 * which weights of zero cancel. */
#define DORY_TAPS (DORY_KERNEL_H * DORY_KERNEL_W)
#define DORY_BLOCK_DEEP (DORY_TAPS > 1)
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

#if DORY_TAPS == 1 && DORY_STRIDE_H == 1 && DORY_STRIDE_W == 1 && DORY_WORDS

/* Computes one tile, whose windows are its pixels one after the other. Every core calls it; no core
 * reads what another one writes. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const int32_t x_c = a->x_c, y_c = a->y_c, pixels = a->y_h * a->y_w;
  dory_block_tile_t tile = {a->weights, a->parameters, 16 * DORY_PASSES * (x_c / DORY_LANES),
                            y_c,        {0, 0},        a->requant};
  dory_block_share_t share = dory_block_share(pixels, y_c);
  dory_gap8_work_t part;
  dory_block_t b;
  dory_block_table_t table;
  while (dory_block_part(&share, pixels, y_c, &part)) {
    const int32_t first = part.pixels.first;
    tile.channels = part.channels;
    dory_block_start(&b, &tile, a);
    b.steps = x_c / DORY_LANES;
    b.inputs = x_c;
    dory_block_row(&b, &tile, table, (const DORY_X_T *)a->x + first * x_c, NULL, x_c,
                   part.pixels.end - first, (DORY_Y_T *)a->y + first * y_c);
  }
}

#else

/* Whether a row of a window can be a segment. */
#define DORY_BY_ROWS (DORY_WORDS && DORY_DILATION_W == 1)
/* Whether rows always are. */
#define DORY_ONLY_ROWS (DORY_BY_ROWS && (!DORY_PADDED || DORY_COPIES > 0))
#define DORY_ENTRIES (DORY_BLOCK_PIXELS * DORY_PASSES * (DORY_ONLY_ROWS ? DORY_KERNEL_H : DORY_TAPS))

/* The last pixel of a block. */
#define DORY_LAST (DORY_BLOCK_PIXELS - 1)

/* A window: row and column of its first tap, which padding makes negative, and that tap's place
 * behind the first input. */
typedef struct {
  int32_t row, column, place;
} dory_window_t;

/* The rows of a window from (row, ...) on that lie in the tile. */
static inline dory_gap8_range_t dory_rows_inside(int32_t row, int32_t x_h) {
  return dory_gap8_inside(row, DORY_DILATION_H, DORY_KERNEL_H, x_h);
}

/* Whether all taps of a window lie in the tile. */
static inline int dory_is_inside(const dory_gap8_window_t *a, const dory_window_t *w) {
  return !DORY_PADDED ||
         ((w->row >= 0) & (w->row + (DORY_KERNEL_H - 1) * DORY_DILATION_H < a->x_h) &
          (w->column >= 0) & (w->column + (DORY_KERNEL_W - 1) * DORY_DILATION_W < a->x_w));
}

#if DORY_COPIES > 0 && DORY_PADDED

/* Stores n words of zeros; returns what follows them. */
static inline DORY_X_T *dory_zeros(DORY_X_T *to, int32_t n) {
  for (; n > 0; n--, to += DORY_WORD) {
    dory_gap8_store4_u8(to, dory_gap8_set4_u8(0, 0, 0, 0));
  }
  return to;
}

/* Copies a window with its padding, and enters its rows. */
static DORY_GAP8_NOINLINE void dory_copy_window(const DORY_X_T **table, DORY_X_T *to,
                                                const dory_gap8_window_t *a,
                                                const dory_window_t *w) {
  const int32_t rows = (int32_t)dory_gap8_keep(DORY_KERNEL_H), pixel = a->x_c / DORY_WORD;
  const int32_t first = dory_gap8_max(0, -w->column);
  const int32_t end = dory_gap8_max(first, dory_gap8_min(DORY_KERNEL_W, a->x_w - w->column));
  const DORY_X_T *from = dory_at(a->x, w->place + first * a->x_c);
  for (int32_t ky = 0, row = w->row; ky < rows; ky++, row += DORY_DILATION_H) {
    const int row_inside = (uint32_t)row < (uint32_t)a->x_h;
    const int32_t before = row_inside ? first : DORY_KERNEL_W, last = row_inside ? end : DORY_KERNEL_W;
    const DORY_X_T *next = from;
    for (int32_t pass = 0; pass < DORY_PASSES; pass++, table += DORY_BLOCK_PIXELS) {
      *table = to;
    }
    to = dory_zeros(to, before * pixel);
    for (int32_t n = (last - before) * pixel; n > 0; n--, to += DORY_WORD, next += DORY_WORD) {
      dory_gap8_store4_u8(to, dory_gap8_load4_u8(next));
    }
    to = dory_zeros(to, (DORY_KERNEL_W - last) * pixel);
    from = dory_at(from, DORY_DILATION_H * a->x_w * a->x_c);
  }
}

/* Copies those windows of a block that are not all in the tile, as far as there is room: returns how
 * many windows the block has then. The others repeat the last one of these. */
static inline int32_t dory_copy_borders(const DORY_X_T **table, DORY_X_T *copies,
                                        const dory_gap8_window_t *a,
                                        const dory_window_t *windows) {
  const int32_t size = DORY_TAPS * a->x_c, block = (int32_t)dory_gap8_keep(DORY_BLOCK_PIXELS);
  int32_t places = DORY_COPIES, taken = block;
  for (int32_t j = 0; j < block; j++) {
    if (j < taken && !dory_is_inside(a, &windows[j])) {
      if (places == 0) {
        taken = j;
      } else {
        dory_copy_window(table + j, copies, a, &windows[j]);
        copies += size;
        places--;
      }
    }
    if (j >= taken) {
      for (int32_t i = 0; i < DORY_KERNEL_H * DORY_PASSES; i++) {
        table[DORY_BLOCK_PIXELS * i + j] = table[DORY_BLOCK_PIXELS * i + j - 1];
      }
    }
  }
  return taken;
}

#elif !DORY_ONLY_ROWS

/* Enters a row of taps of one of the windows; returns where the next one goes. from: the first tap;
 * inside: whether all of them lie in the tile, or else a bit for each that does. */
static inline const DORY_X_T **dory_enter_row(const DORY_X_T **to, const DORY_X_T *from, int32_t step,
                                              int all_inside, uint32_t inside,
                                              const DORY_X_T *zeros) {
  for (int32_t kx = 0; kx < DORY_KERNEL_W; kx++, to += DORY_BLOCK_PIXELS) {
    const DORY_X_T *const tap = all_inside || (inside >> kx & 1) ? from : zeros;
    *to = tap;
#if DORY_PASSES == 2
    to[DORY_BLOCK_PIXELS * DORY_KERNEL_W] = tap;
#endif
    from = dory_at(from, step);
  }
  return to + DORY_BLOCK_PIXELS * DORY_KERNEL_W * (DORY_PASSES - 1);
}

/* Enters every tap of a block's windows into the table, padding as zeros. */
static DORY_GAP8_NOINLINE void dory_enter_taps(const DORY_X_T **table, const dory_gap8_window_t *a,
                                               const dory_window_t *windows,
                                               const DORY_X_T *zeros) {
  const int32_t rows = (int32_t)dory_gap8_keep(DORY_KERNEL_H);
  const int32_t step = DORY_DILATION_W * a->x_c, next_row = DORY_DILATION_H * a->x_w * a->x_c;
  for (int32_t j = 0; j < DORY_BLOCK_PIXELS; j++, windows++) {
    const DORY_X_T **to = table + j;
    const DORY_X_T *from = dory_at(a->x, windows->place);
    if (dory_is_inside(a, windows)) {
      for (int32_t ky = 0; ky < rows; ky++, from = dory_at(from, next_row)) {
        to = dory_enter_row(to, from, step, 1, 0, zeros);
      }
    } else {
      uint32_t columns = 0;
      int32_t row = windows->row;
      for (int32_t kx = 0; kx < DORY_KERNEL_W; kx++) {
        const int32_t column = windows->column + kx * DORY_DILATION_W;
        columns |= (uint32_t)((uint32_t)column < (uint32_t)a->x_w) << kx;
      }
      for (int32_t ky = 0; ky < rows; ky++, from = dory_at(from, next_row)) {
        const int row_inside = (uint32_t)row < (uint32_t)a->x_h;
        to = dory_enter_row(to, from, step, 0, row_inside ? columns : 0, zeros);
        row += DORY_DILATION_H;
      }
    }
  }
}

#endif

/* How many of the pixels from a window on, `most` at most, lie in its row of outputs and see none of
 * the padding left and right. columns: of such windows. */
static inline int32_t dory_pixels_alike(const dory_window_t *w, int32_t last_column,
                                        uint32_t columns, int32_t most) {
  const int32_t last = DORY_PADDED ? dory_gap8_min(last_column, (int32_t)columns - 1) : last_column;
  return dory_gap8_min((last - w->column) / DORY_STRIDE_W + 1, most);
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const int32_t x_c = a->x_c;
  /* Inputs of a tap as the block reads them. */
  const int32_t tap = DORY_WORDS ? x_c : (x_c + DORY_LANES - 1) & -DORY_LANES;
  const int32_t x_row = a->x_w * x_c;
  const int32_t pixels = a->y_h * a->y_w;
  dory_block_tile_t tile = {a->weights, a->parameters, 16 * DORY_PASSES * DORY_TAPS * (tap / DORY_LANES),
                            a->y_c,     {0, 0},        a->requant};
  dory_block_share_t share = dory_block_share(pixels, a->y_c);
#if DORY_FAR_TABLE && UINTPTR_MAX == UINT32_MAX
  const DORY_X_T **const tables =
      (const DORY_X_T **)(void *)((DORY_X_T *)a->scratch + (DORY_PADDED ? DORY_CORES * tap : 0));
  const DORY_X_T **const table = tables + (int32_t)dory_core_id() * DORY_ENTRIES;
#else
  const DORY_X_T *table[DORY_ENTRIES];
#endif
#if DORY_COPIES > 0 && DORY_PADDED
  DORY_X_T *const copies =
      (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * (DORY_COPIES * DORY_TAPS * tap);
#elif DORY_PADDED
  DORY_X_T *const zeros = (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * tap;
#elif !DORY_ONLY_ROWS
  const DORY_X_T *const zeros = NULL;
#endif
  /* Windows whose first tap is in the first of so many columns have all of them in the tile. */
  const uint32_t columns =
      (uint32_t)dory_gap8_max(0, a->x_w - (DORY_KERNEL_W - 1) * DORY_DILATION_W);
  const int32_t last_column = (a->y_w - 1) * DORY_STRIDE_W - (DORY_PADDED ? a->pad_left : 0);
  const int32_t next_row = DORY_STRIDE_H * x_row - a->y_w * DORY_STRIDE_W * x_c;
  const int32_t block = (int32_t)dory_gap8_keep(DORY_BLOCK_PIXELS);
  /* Of the weights of a group in a row of the window. */
  const int32_t row_bytes = 16 * DORY_PASSES * DORY_KERNEL_W * (tap / DORY_LANES);
  dory_gap8_work_t part;
  dory_block_t b;
#if DORY_PADDED && DORY_COPIES == 0
  dory_clear(zeros, tap);
#endif
  while (dory_block_part(&share, pixels, a->y_c, &part)) {
    DORY_Y_T *y = (DORY_Y_T *)a->y + part.pixels.first * a->y_c;
    int32_t left = part.pixels.end - part.pixels.first;
    const int8_t *weights;
    dory_window_t w, windows[DORY_BLOCK_PIXELS];
    tile.channels = part.channels;
    dory_block_start(&b, &tile, a);
    weights = b.weights;
    w.row = part.pixels.first / a->y_w;
    w.column = (part.pixels.first - w.row * a->y_w) * DORY_STRIDE_W - (DORY_PADDED ? a->pad_left : 0);
    w.row = w.row * DORY_STRIDE_H - (DORY_PADDED ? a->pad_top : 0);
    w.place = w.row * x_row + w.column * x_c;
    while (left > 0) {
      int by_rows = DORY_BY_ROWS;
      int32_t taken = DORY_BLOCK_PIXELS;
      dory_gap8_range_t inside = {0, DORY_KERNEL_H};
      for (int32_t j = 0; j < block; j++) {
        const DORY_X_T *const first = dory_at(a->x, w.place);
        for (int32_t ky = 0; ky < DORY_KERNEL_H * DORY_BY_ROWS; ky++) {
          const DORY_X_T *const from = dory_at(first, ky * DORY_DILATION_H * x_row);
          for (int32_t pass = 0; pass < DORY_PASSES; pass++) {
            table[DORY_BLOCK_PIXELS * (DORY_PASSES * ky + pass) + j] = from;
          }
        }
        by_rows &= !DORY_PADDED || (uint32_t)w.column < columns;
        windows[j] = w;
        /* Pixels that are missing repeat the last one. */
        if (j + 1 < left) {
          const int next = w.column == last_column;
          w.column += DORY_STRIDE_W;
          w.place += DORY_STRIDE_W * x_c;
          if (next) {
            w.column -= a->y_w * DORY_STRIDE_W;
            w.row += DORY_STRIDE_H;
            w.place += next_row;
          }
        }
      }
#if DORY_PADDED && DORY_BY_ROWS
      if (windows[0].row < 0 || windows[DORY_LAST].row + (DORY_KERNEL_H - 1) * DORY_DILATION_H >= a->x_h) {
        inside = dory_rows_inside(windows[0].row, a->x_h);
        by_rows &= (windows[0].row == windows[DORY_LAST].row) & (inside.first < inside.end);
      }
#endif
#if DORY_TAPS > 1 || DORY_STRIDE_W > 1 || DORY_STRIDE_H > 1
      /* Whether the next windows may be like these. */
      const int alike = by_rows & (windows[0].row == windows[DORY_LAST].row);
#endif
#if DORY_COPIES > 0 && DORY_PADDED
      if (!by_rows) {
        /* Copies have all rows. */
        inside.first = 0;
        inside.end = DORY_KERNEL_H;
        by_rows = 1;
        taken = dory_copy_borders(table, copies, a, windows);
        w = taken < DORY_BLOCK_PIXELS ? windows[taken] : w;
      }
#endif
      if (by_rows) {
        b.table = table + DORY_BLOCK_PIXELS * DORY_PASSES * inside.first;
        b.table_end = table + DORY_BLOCK_PIXELS * DORY_PASSES * inside.end;
        b.weights = weights + inside.first * row_bytes;
        b.skip = (DORY_KERNEL_H - (inside.end - inside.first)) * row_bytes;
      }
#if !DORY_ONLY_ROWS
      else {
        dory_enter_taps(table, a, windows, zeros);
        b.table = table;
        b.table_end = table + DORY_BLOCK_PIXELS * DORY_PASSES * DORY_TAPS;
        b.weights = weights;
        b.skip = 0;
      }
#endif
      b.steps = (by_rows ? DORY_KERNEL_W : 1) * tap / DORY_LANES;
      b.inputs = (by_rows ? DORY_KERNEL_W : 1) * x_c;
      b.fours = 1;
#if DORY_TAPS == 1 && DORY_STRIDE_W == 1 && DORY_STRIDE_H == 1
      /* Windows of one tap follow one another through all rows. */
      if (left >= 2 * DORY_BLOCK_PIXELS && dory_block_is_whole(&b, &tile)) {
        b.fours = (int32_t)((uint32_t)left / DORY_BLOCK_PIXELS);
        w.place = windows[0].place + DORY_BLOCK_PIXELS * b.fours * x_c;
      }
#else
      if (alike && dory_block_is_whole(&b, &tile)) {
        const int32_t in_row = dory_pixels_alike(windows, last_column, columns, left);
        b.fours = (int32_t)((uint32_t)in_row / DORY_BLOCK_PIXELS);
        if (b.fours > 1) {
          const int32_t columns_on = DORY_BLOCK_PIXELS * b.fours * DORY_STRIDE_W;
          w = windows[0];
          w.column += columns_on;
          w.place += columns_on * x_c;
          if (w.column > last_column) {
            w.column -= a->y_w * DORY_STRIDE_W;
            w.row += DORY_STRIDE_H;
            w.place += next_row;
          }
        } else {
          b.fours = 1;
        }
      }
#endif
      b.x_step = DORY_BLOCK_PIXELS * DORY_STRIDE_W * x_c * (int32_t)sizeof(DORY_X_T);
      dory_block_pixels(&b, &tile, dory_gap8_min(taken, left), y);
      taken += DORY_BLOCK_PIXELS * (b.fours - 1);
      left -= taken;
      y += taken * a->y_c;
    }
  }
}

#endif
