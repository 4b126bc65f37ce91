/* Dense convolution with windows of three columns, whose neighbours share inputs: template of the kernel
 * DORY_KERNEL, configured as dory_gap8_block_tile.h and
 *
 *   DORY_KERNEL_H, DORY_STRIDE_H, DORY_STRIDE_W   rows of a window, strides: 1 or 2 along a row
 *   DORY_PADDED   whether windows reach beyond the tensor: by one column on either side, and by
 *                 fewer rows than they have
 *   DORY_ROW_CYCLES, DORY_GROUP_CYCLES   of a group of four channels of a block: of each row of its
 *                 windows, and of the rest
 *   DORY_APART_GROUP_CYCLES, DORY_APART_CYCLES   what blocks of other pixels take more: for each group,
 *                 and once
 *   DORY_APART    whether rows have other pixels than whole fours; then they have two fours at least
 *
 * Inputs are read where they lie. A block is four neighbours in a row of outputs. Rows that are
 * padding are left out; columns that are padding are zeros.
 *
 * Pixels that make no four stand behind the first four of each row, where no column is padding. Blocks
 * of them go down their column: those of a tile come behind all others. */
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

/* From the first to the last column that the windows of a block see. */
#define DORY_LAST_TAP (3 * DORY_STRIDE_W + 2)

/* What is the same for all blocks of a tile. zeros: of the core. */
typedef struct {
  const dory_gap8_window_t *a;
  const dory_block_tile_t *tile;
  const int8_t *weights;
  DORY_X_T *zeros;
} dory_slide_t;

/* Bytes of the weights of a group in a row of the window. */
#define DORY_ROW_BYTES (3 * 16 * DORY_PIXEL_WORDS)

/* Computes n neighbours from (row, column) on, as many as the block goes through by itself. */
static inline void dory_slide_pixels(dory_block_t *b, const dory_slide_t *s, int32_t row,
                                     int32_t column, int32_t n) {
  const dory_gap8_window_t *const a = s->a;
  const int32_t x_row = row * DORY_STRIDE_H - (DORY_PADDED ? a->pad_top : 0);
  const int32_t x_column = column * DORY_STRIDE_W - (DORY_PADDED ? a->pad_left : 0);
  const int32_t last = (n - 4) * DORY_STRIDE_W + DORY_LAST_TAP;
  dory_gap8_range_t inside = {0, DORY_KERNEL_H};
  const DORY_X_T *first;
#if DORY_PADDED
  inside = dory_gap8_inside(x_row, 1, DORY_KERNEL_H, a->x_h);
#endif
  first = dory_at(a->x, ((x_row + inside.first) * a->x_w + x_column) * DORY_CHANNELS);
  b->rows = inside.end - inside.first;
  b->weights = s->weights + inside.first * DORY_ROW_BYTES;
  b->skip = (DORY_KERNEL_H - b->rows) * DORY_ROW_BYTES;
  b->x = dory_at(first, DORY_CHANNELS);
  b->left = first;
  b->right = dory_at(first, DORY_LAST_TAP * DORY_CHANNELS);
  b->last = dory_at(first, last * DORY_CHANNELS);
  b->left_row = b->right_row = b->last_row = b->row;
#if DORY_PADDED
  if (x_column < 0) {
    b->left = s->zeros;
    b->left_row = -DORY_PIXEL;
  }
  if (x_column + last >= a->x_w) {
    b->last = s->zeros;
    b->last_row = -DORY_PIXEL;
    if (n == 4) {
      b->right = s->zeros;
      b->right_row = -DORY_PIXEL;
    }
  }
#endif
  b->fours = (int32_t)((uint32_t)n / 4);
  dory_block_pixels(b, s->tile, 4, (DORY_Y_T *)a->y + (row * a->y_w + column) * a->y_c);
}

#if DORY_APART

/* Computes four pixels from (row, column) on down the column, as far as there are. */
static DORY_GAP8_NOINLINE void dory_apart_pixels(dory_block_t *b, const dory_slide_t *s, int32_t row,
                                                 int32_t column) {
  const dory_gap8_window_t *const a = s->a;
  const int32_t pixels = dory_gap8_min(4, a->y_h - row), y_bytes = b->y_bytes;
  const int32_t read = column * DORY_STRIDE_W - (DORY_PADDED ? a->pad_left : 0) + DORY_LAST_READ;
  const int32_t kernel_h = (int32_t)dory_gap8_keep(DORY_KERNEL_H);
  const DORY_X_T *table[4 * (DORY_KERNEL_H + 1)];
  for (int32_t j = 0; j < 4; j++) {
    /* Pixels that are missing repeat the last one. */
    int32_t x_row = dory_gap8_min(row + j, a->y_h - 1) * DORY_STRIDE_H;
    x_row -= DORY_PADDED ? a->pad_top : 0;
    for (int32_t ky = 0; ky < kernel_h; ky++, x_row++) {
      const int inside = !DORY_PADDED || (uint32_t)x_row < (uint32_t)a->x_h;
      table[4 * ky + j] = inside ? dory_at(a->x, (x_row * a->x_w + read) * DORY_CHANNELS)
                                 : s->zeros + DORY_LAST_READ * DORY_CHANNELS;
    }
    table[4 * DORY_KERNEL_H + j] = NULL;
  }
  b->table = table;
  b->rows = DORY_KERNEL_H;
  b->weights = s->weights;
  b->skip = 0;
  b->fours = 1;
  b->y_bytes = a->y_w * y_bytes;
  dory_block_pixels(b, s->tile, pixels, (DORY_Y_T *)a->y + (row * a->y_w + column) * a->y_c);
  b->y_bytes = y_bytes;
  b->table = NULL;
}

#endif

#if DORY_PADDED

/* The share of the calling core where blocks of the first and the last row take fewer cycles. above,
 * below: how many fewer. fours: blocks of a row; apart: blocks after those of all rows. */
static DORY_GAP8_NOINLINE dory_block_share_t dory_slide_uneven(const dory_gap8_window_t *a,
                                                               int32_t fours, int32_t apart,
                                                               int32_t above, int32_t below) {
  const int32_t groups = (int32_t)(((uint32_t)a->y_c + 3) / 4);
  const int32_t cycles = groups * (DORY_KERNEL_H * DORY_ROW_CYCLES + DORY_GROUP_CYCLES);
  const int32_t more = groups * DORY_APART_GROUP_CYCLES + DORY_APART_CYCLES;
  dory_gap8_run_t runs[4] = {{fours, cycles - above},
                             {fours * (a->y_h - 2), cycles},
                             {fours, cycles - below},
                             {apart, cycles + more}};
  if (a->y_h == 1) {
    runs[1].pieces = 0;
    runs[2].pieces = 0;
  }
  return dory_block_groups(dory_gap8_even(runs, 4, groups, DORY_CORES), groups);
}

/* The share of the calling core: rows of padding take no time. fours, apart: as above. */
static inline dory_block_share_t dory_slide_share(const dory_gap8_window_t *a, int32_t fours,
                                                  int32_t apart) {
  const int32_t row = (int32_t)(((uint32_t)a->y_c + 3) / 4) * DORY_ROW_CYCLES;
  const int32_t last = (a->y_h - 1) * DORY_STRIDE_H - a->pad_top + DORY_KERNEL_H;
  const int32_t above = a->pad_top * row, below = dory_gap8_max(last - a->x_h, 0) * row;
  if ((above + below) * fours < DORY_CORES * DORY_GAP8_UNEVEN) {
    return dory_block_share(4 * (a->y_h * fours + apart), a->y_c);
  }
  return dory_slide_uneven(a, fours, apart, above, below);
}

#endif

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const int32_t y_w = a->y_w, fours = (int32_t)((uint32_t)y_w / 4), all = a->y_h * fours;
#if DORY_APART
  const int32_t apart = y_w - 4 * fours, down = (a->y_h + 3) >> 2;
#else
  const int32_t apart = 0, down = 0;
#endif
  const int32_t pixels = 4 * (all + apart * down);
  dory_block_tile_t tile = {a->weights, a->parameters, DORY_KERNEL_H * DORY_ROW_BYTES,
                            a->y_c,     {0, 0},        a->requant};
  const int32_t zeros = DORY_CHANNELS * (DORY_APART ? 3 : 1);
  dory_slide_t slide = {a, &tile, NULL, NULL};
  dory_gap8_work_t part;
  dory_block_t b;
#if DORY_PADDED
  dory_block_share_t share = dory_slide_share(a, fours, apart * down);
  slide.zeros = (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * zeros;
  dory_clear(slide.zeros, zeros);
#else
  dory_block_share_t share = dory_block_share(pixels, a->y_c);
  (void)zeros;
#endif
  while (dory_block_part(&share, pixels, a->y_c, &part)) {
    int32_t at = part.pixels.first >> 2, row = at / fours, column = at - row * fours; /* in fours */
    int32_t end = dory_gap8_min(part.pixels.end >> 2, all);
    tile.channels = part.channels;
    dory_block_start(&b, &tile, a);
    slide.weights = b.weights;
    b.row = (a->x_w - 1) * DORY_PIXEL;
#if DORY_APART
    b.table = NULL;
#endif
    while (at < end) {
      /* Fours of this row that the block goes through by itself; others come one by one. */
      int32_t n = dory_block_is_whole(&b, &tile) ? dory_gap8_min(end - at, fours - column) : 1;
      if (apart != 0 && column == 0) {
        n = 1;
      }
      dory_slide_pixels(&b, &slide, row, 4 * column + (column > 0 ? apart : 0), 4 * n);
      at += n;
      column += n;
      if (column == fours) {
        column = 0;
        row++;
      }
    }
#if DORY_APART
    end = part.pixels.end >> 2;
    for (; at < end; at++) {
      const int32_t place = (at - all) / down;
      dory_apart_pixels(&b, &slide, 4 * (at - all - place * down), 4 + place);
    }
#else
    (void)down;
#endif
  }
}
