/* Convolution: the columns of a few pixels are gathered as 16-bit numbers, then multiplied with all
 * rows of weights. An instance defines DORY_KERNEL, DORY_Y_T, the macros of
 * dory_stm32h7_vector_impl.h, dory_stm32h7_weights_impl.h and dory_stm32h7_requant_impl.h, and
 *
 *   DORY_KERNEL_H, DORY_KERNEL_W  size of the filter
 *   DORY_PAD_VALUE                what stands around the image
 *   DORY_ODD_RUNS                 1: runs of input channels are no multiples of four (and there is
 *                                 more than one): columns are first laid out as elements
 *   DORY_WINDOW                   1: columns are windows into a strip of columns of the image, each
 *                                 of which has the rows of a filter; weights lie by tap column, tap
 *                                 row and channel. For whole vectors and taps beside each other
 *   DORY_CHANNELS                 0; with DORY_ODD_RUNS the input channels of a layer of one group
 *                                 whose taps are neighbours in a row. Its columns have the whole
 *                                 vectors of each row of taps first, then what is left of all rows
 *   DORY_LIFTS                    0; where weights are stored less a number: the vectors behind
 *                                 each column whose sum is its own, negative: their weights are this
 *                                 number, negative, so that they have 8 bits */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

#include "dory_stm32h7_vector_impl.h"

#include "dory_stm32h7_matmul_impl.h"

/* Widens n elements into the column of one pixel; behind the last one there are zeros up to a
 * multiple of four. Returns the end. */
static inline uint32_t *dory_widen(const DORY_X_T *x, int32_t n, uint32_t *column)
{
  for (; n >= 8; n -= 8) {
    const dory_vector_t a = dory_vector_at(x), b = dory_vector_at(x + 4);
    column[0] = a.even;
    column[1] = a.odd;
    column[DORY_COLUMN] = b.even;
    column[DORY_COLUMN + 1] = b.odd;
    column += 2 * DORY_COLUMN;
    x += 8;
  }
  if (n >= 4) {
    const dory_vector_t a = dory_vector_at(x);
    column[0] = a.even;
    column[1] = a.odd;
    column += DORY_COLUMN;
    x += 4;
    n -= 4;
  }
  if (n > 0) {
    const dory_vector_t a = dory_rest_at(x, n);
    column[0] = a.even;
    column[1] = a.odd;
    column += DORY_COLUMN;
  }
  return column;
}

#if DORY_LIFTS

/* Fills the last vectors of a column with elements of this sum. */
static inline void dory_fill(uint32_t *column, int32_t sum)
{
  const int32_t each = sum / (4 * DORY_LIFTS), rest = sum - 4 * DORY_LIFTS * each;
  const uint32_t pair = ((uint32_t)each & 0xFFFFu) | (uint32_t)each << 16;
  DORY_UNROLLED
  for (int32_t k = 0; k < DORY_LIFTS; k++, column += DORY_COLUMN) {
    column[0] = pair;
    column[1] = k > 0 ? pair : pair + ((uint32_t)rest << 16);
  }
}

/* Fills those of all pixels with their sums, negative. vectors: of a column. */
static inline void dory_lift(uint32_t *columns, int32_t vectors)
{
  const uint32_t ones = 0x00010001u;
  int32_t sums[DORY_PIXELS] = {0};
  for (int32_t n = vectors - DORY_LIFTS; n > 0; n--, columns += DORY_COLUMN) {
    DORY_UNROLLED
    for (int k = 0; k < DORY_PIXELS; k++) {
      sums[k] = dory_smlad(columns[2 * k], ones, sums[k]);
      sums[k] = dory_smlad(columns[2 * k + 1], ones, sums[k]);
    }
  }
  DORY_UNROLLED
  for (int k = 0; k < DORY_PIXELS; k++) {
    dory_fill(columns + 2 * k, -sums[k]);
  }
}

#else

static inline void dory_lift(uint32_t *columns, int32_t vectors)
{
  (void)columns;
  (void)vectors;
}

#endif

#if DORY_KERNEL_H * DORY_KERNEL_W > 1

#if !DORY_WINDOW

#if DORY_ODD_RUNS
typedef DORY_X_T dory_cell_t;

static inline DORY_X_T *dory_append(const DORY_X_T *x, int32_t n, DORY_X_T *at)
{
  for (; n >= 32 / DORY_X_BITS; n -= 32 / DORY_X_BITS) {
    dory_store4(at, dory_load4(x));
    at += 32 / DORY_X_BITS;
    x += 32 / DORY_X_BITS;
  }
  for (; n > 0; n--) {
    *at++ = *x++;
  }
  return at;
}

static inline DORY_X_T *dory_append_pads(int32_t n, DORY_X_T *at)
{
  for (; n > 0; n--) {
    *at++ = (DORY_X_T)DORY_PAD_VALUE;
  }
  return at;
}
#else
typedef uint32_t dory_cell_t;

static inline uint32_t *dory_append(const DORY_X_T *x, int32_t n, uint32_t *at)
{
  return dory_widen(x, n, at);
}

static inline uint32_t *dory_append_pads(int32_t n, uint32_t *at)
{
  const uint32_t both = (uint32_t)(DORY_PAD_VALUE) & 0xFFFFu;
  const uint32_t pads = both << 16 | both;
  for (; n > 0; n -= 4) {
    at[0] = pads;
    at[1] = pads;
    at += DORY_COLUMN;
  }
  return at;
}
#endif

#endif

#if DORY_CHANNELS

/* Elements of a row of the filter; its whole vectors; elements behind them, of one row and all. */
enum {
  DORY_RUN = DORY_KERNEL_W * DORY_CHANNELS,
  DORY_WHOLE = DORY_RUN / 4,
  DORY_ENDING = DORY_RUN % 4,
  DORY_ENDINGS = DORY_KERNEL_H * DORY_ENDING
};

/* Element n of those behind the whole vectors of the rows, which are `row` elements apart. */
static inline uint32_t dory_ending(const DORY_X_T *x, int32_t row, int32_t n)
{
  const int32_t each = DORY_ENDING > 0 ? DORY_ENDING : 1;
  return n < DORY_ENDINGS ? (uint32_t)x[n / each * row + 4 * DORY_WHOLE + n % each] : 0u;
}

/* Lays out a column of rows that are `row` elements apart: whole vectors of all of them, then what
 * is left. */
static inline void dory_lay_rows(const DORY_X_T *x, int32_t row, uint32_t *column)
{
  DORY_UNROLLED
  for (int32_t i = 0; i < DORY_KERNEL_H; i++) {
    dory_vector_t fours[DORY_WHOLE + 1]; /* all loads of a row first: they are waited for */
    DORY_UNROLLED
    for (int32_t k = 0; k < DORY_WHOLE; k++) {
      fours[k] = dory_vector_at(x + i * row + 4 * k);
    }
    DORY_UNROLLED
    for (int32_t k = 0; k < DORY_WHOLE; k++) {
      column[0] = fours[k].even;
      column[1] = fours[k].odd;
      column += DORY_COLUMN;
    }
  }
  DORY_UNROLLED
  for (int32_t n = 0; n < DORY_ENDINGS; n += 4) {
    column[0] = dory_low_halves(dory_ending(x, row, n), dory_ending(x, row, n + 2));
    column[1] = dory_low_halves(dory_ending(x, row, n + 1), dory_ending(x, row, n + 3));
    column += DORY_COLUMN;
  }
}

#endif

#if !DORY_WINDOW

/* Appends the inputs of all taps of one output, those in the padding as well. x: the first
 * channel of the group in the first pixel. top, left: where the first tap lies. */
static void dory_gather(const dory_stm32h7_conv_t *a, const DORY_X_T *x, int32_t top, int32_t left,
                        dory_cell_t *at)
{
  const int32_t channels = a->group_in, row = a->x_w * a->x_c;
  const int whole = a->dilation_w == 1 && channels == a->x_c;
  int32_t before = 0, inside = DORY_KERNEL_W;
  if (whole) {
    before = left < 0 ? -left : 0;
    before = before < DORY_KERNEL_W ? before : DORY_KERNEL_W;
    inside = a->x_w - left - before;
    inside = inside < DORY_KERNEL_W - before ? inside : DORY_KERNEL_W - before;
    inside = inside > 0 ? inside : 0;
  }
  const int32_t after = DORY_KERNEL_W - before - inside;
  for (int32_t i = 0; i < DORY_KERNEL_H; i++, top += a->dilation_h) {
    if (top < 0 || top >= a->x_h) {
      at = dory_append_pads(DORY_KERNEL_W * channels, at);
    } else if (whole) {
      const DORY_X_T *const from = x + top * row + (left + before) * channels;
      at = dory_append_pads(before * channels, at);
      at = dory_append(from, inside * channels, at);
      at = dory_append_pads(after * channels, at);
    } else {
      for (int32_t j = 0, column = left; j < DORY_KERNEL_W; j++, column += a->dilation_w) {
        if (column < 0 || column >= a->x_w) {
          at = dory_append_pads(channels, at);
        } else {
          at = dory_append(x + top * row + column * a->x_c, channels, at);
        }
      }
    }
  }
}

#endif

#endif

#if DORY_KERNEL_H * DORY_KERNEL_W == 1

/* Widens the n channels of DORY_PIXELS pixels into their columns. */
static inline void dory_widen_all(const DORY_X_T *const pixels[DORY_PIXELS], int32_t n, uint32_t *column)
{
  int32_t c = 0;
  for (; c < n - 3; c += 4, column += DORY_COLUMN) {
    dory_vector_t fours[DORY_PIXELS]; /* all loads first: they are waited for */
    DORY_UNROLLED
    for (int k = 0; k < DORY_PIXELS; k++) {
      fours[k] = dory_vector_at(pixels[k] + c);
    }
    DORY_UNROLLED
    for (int k = 0; k < DORY_PIXELS; k++) {
      column[2 * k] = fours[k].even;
      column[2 * k + 1] = fours[k].odd;
    }
  }
  if (c < n) {
    for (int k = 0; k < DORY_PIXELS; k++) {
      dory_widen(pixels[k] + c, n - c, column + 2 * k);
    }
  }
}

/* Where the next pixel of the output is read, and the columns that are left of its row. */
typedef struct {
  const DORY_X_T *x;
  int32_t left, step, turn;
} dory_place_t;

static inline const DORY_X_T *dory_next_pixel(dory_place_t *place, int32_t width)
{
  const DORY_X_T *const x = place->x;
  place->x += place->step;
  if (--place->left == 0) {
    place->left = width;
    place->x += place->turn;
  }
  return x;
}

/* All pixels of a group of channels. first: its first channel. */
static inline void dory_group(const dory_stm32h7_conv_t *a, const uint32_t *w, int32_t vectors,
                              int32_t first, const DORY_X_T *x, DORY_Y_T *y)
{
  const int32_t channels = a->group_in, width = a->y_w, pitch = a->y_c;
  uint32_t *const columns = a->scratch;
  dory_product_t product = dory_product(&a->requant, w, columns, vectors, first, a->group_out, pitch);
  const int32_t step = a->stride_w * a->x_c;
  dory_place_t place = {x, width, step, a->stride_h * a->x_w * a->x_c - width * step};
  for (int32_t n = a->y_h * width; n > 0;) {
    const int32_t together = dory_together(n);
    const DORY_X_T *pixels[DORY_PIXELS] = {dory_next_pixel(&place, width)};
    DORY_UNROLLED
    for (int32_t k = 1; k < DORY_PIXELS; k++) { /* those that are missing are the last one */
      pixels[k] = k < together ? dory_next_pixel(&place, width) : pixels[k - 1];
    }
    dory_widen_all(pixels, channels, columns);
    dory_lift(columns, vectors);
    dory_pixels(&product, together, y);
    n -= together;
    y += together * pitch;
  }
}

#elif DORY_WINDOW

/* Outputs of a strip. */
enum { DORY_STRIP = 18 };

/* Where a column goes: the slot of each pixel. */
typedef struct {
  uint32_t *first, *second, *third;
} dory_slots_t;

/* Puts a vector into the slots of all pixels. */
static inline void dory_put(dory_slots_t *to, dory_vector_t four)
{
  to->first[0] = four.even;
  to->first[1] = four.odd;
  to->first += DORY_COLUMN;
  to->second[0] = four.even;
  to->second[1] = four.odd;
  to->second += DORY_COLUMN;
#if DORY_PAIRS
  to->third[0] = four.even;
  to->third[1] = four.odd;
  to->third += DORY_COLUMN;
#endif
}

/* Lays out the columns of the outputs j .. j + count - 1 of a row. A column has KERNEL_H rows of the
 * image in the slot of the first pixel, and in those of the others those of the columns where the
 * next outputs begin. top: the first row. */
static inline void dory_lay_strip(const dory_stm32h7_conv_t *a, const DORY_X_T *x, int32_t top,
                                  int32_t j, int32_t count)
{
  const uint32_t both = (uint32_t)(DORY_PAD_VALUE) & 0xFFFFu, pads = both << 16 | both;
  const dory_vector_t padding = {pads, pads};
  const int32_t channels = a->group_in, step = a->stride_w;
  const int32_t columns = (count - 1) * step + DORY_KERNEL_W;
  const int32_t row = channels / 4 * DORY_COLUMN, next = DORY_KERNEL_H * row;
  for (int32_t i = 0; i < DORY_KERNEL_H; i++, top += a->dilation_h) {
    uint32_t *at = (uint32_t *)a->scratch + i * row;
    int32_t left = j * step - a->pad_left;
    const DORY_X_T *from = x + (top * a->x_w + left) * a->x_c;
    const int inside = top >= 0 && top < a->x_h;
    for (int32_t k = 0; k < columns; k++, left++, at += next, from += a->x_c) {
      /* The first ones are no other pixel: what they leave there is overwritten. */
      dory_slots_t to = {at, (k < step ? at : at - step * next) + 2,
                         (k < 2 * step ? at : at - 2 * step * next) + 4};
      const uint32_t *const end = at + row;
      if (inside && left >= 0 && left < a->x_w) {
        const DORY_X_T *element = from;
        for (; to.first != end; element += 4) {
          dory_put(&to, dory_vector_at(element));
        }
      } else {
        while (to.first != end) {
          dory_put(&to, padding);
        }
      }
    }
  }
}

/* All pixels of a group of channels. first: its first channel. */
static inline void dory_group(const dory_stm32h7_conv_t *a, const uint32_t *w, int32_t vectors,
                              int32_t first, const DORY_X_T *x, DORY_Y_T *y)
{
  const int32_t pitch = a->y_c, column = a->stride_w * DORY_KERNEL_H * (a->group_in / 4) * DORY_COLUMN;
  dory_product_t product = dory_product(&a->requant, w, a->scratch, vectors, first, a->group_out, pitch);
  for (int32_t i = 0; i < a->y_h; i++) {
    for (int32_t j = 0; j < a->y_w; j += DORY_STRIP) {
      const int32_t count = a->y_w - j < DORY_STRIP ? a->y_w - j : DORY_STRIP;
      dory_lay_strip(a, x, i * a->stride_h - a->pad_top, j, count);
      const uint32_t *columns = a->scratch;
      for (int32_t n = count; n > 0;) {
        const int32_t together = dory_together(n);
        dory_set_columns(&product, columns);
        dory_pixels(&product, together, y);
        n -= together;
        columns += together * column;
        y += together * pitch;
      }
    }
  }
}

#else

/* Where the first tap of the next output lies, which may be beside the image, and how the outputs go
 * on: outputs that are left of the row, and the pixels to the next one of a row and to the next row. */
typedef struct {
  const DORY_X_T *x;
  int32_t top, left, outputs, step, turn;
} dory_place_t;

static inline void dory_next_output(const dory_stm32h7_conv_t *a, dory_place_t *place)
{
  place->x += place->step;
  place->left += a->stride_w;
  if (--place->outputs == 0) {
    place->x += place->turn;
    place->left = -a->pad_left;
    place->top += a->stride_h;
    place->outputs = a->y_w;
  }
}

#if DORY_CHANNELS

/* Lays the column of an output into the slot of one of several pixels; last_top, last_left: the
 * last place from which all taps lie in the image. x: the first pixel. */
static inline void dory_column(const dory_stm32h7_conv_t *a, const DORY_X_T *x,
                               const dory_place_t *place, int32_t last_top, int32_t last_left,
                               uint32_t *column)
{
  const int32_t top = place->top, left = place->left;
  if (top >= 0 && top <= last_top && left >= 0 && left <= last_left) {
    dory_lay_rows(place->x, a->dilation_h * a->x_w * DORY_CHANNELS, column);
  } else {
    const int32_t words = ((DORY_KERNEL_H * DORY_RUN + 3) / 4 + DORY_LIFTS) * DORY_COLUMN;
    DORY_X_T *const cells = (DORY_X_T *)(void *)((uint32_t *)a->scratch + words);
    dory_gather(a, x, top, left, cells);
    dory_lay_rows(cells, DORY_RUN, column);
  }
}

#else

static inline void dory_column(const dory_stm32h7_conv_t *a, const DORY_X_T *x,
                               const dory_place_t *place, int32_t last_top, int32_t last_left,
                               uint32_t *column)
{
  (void)last_top;
  (void)last_left;
#if DORY_ODD_RUNS
  const int32_t length = DORY_KERNEL_H * DORY_KERNEL_W * a->group_in;
  const int32_t words = ((length + 3) / 4 + DORY_LIFTS) * DORY_COLUMN;
  DORY_X_T *const cells = (DORY_X_T *)(void *)((uint32_t *)a->scratch + words);
  dory_gather(a, x, place->top, place->left, cells);
  dory_widen(cells, length, column);
#else
  dory_gather(a, x, place->top, place->left, column);
#endif
}

#endif

/* All pixels of a group of channels. first: its first channel. */
static inline void dory_group(const dory_stm32h7_conv_t *a, const uint32_t *w, int32_t vectors,
                              int32_t first, const DORY_X_T *x, DORY_Y_T *y)
{
  const int32_t pitch = a->y_c, width = a->y_w, step = a->stride_w * a->x_c;
  const int32_t last_top = a->x_h - 1 - (DORY_KERNEL_H - 1) * a->dilation_h;
  const int32_t last_left = a->x_w - 1 - (DORY_KERNEL_W - 1) * a->dilation_w;
  uint32_t *const columns = a->scratch;
  dory_product_t product = dory_product(&a->requant, w, columns, vectors, first, a->group_out, pitch);
  dory_place_t place = {
    .x = x - (a->pad_top * a->x_w + a->pad_left) * a->x_c,
    .top = -a->pad_top,
    .left = -a->pad_left,
    .outputs = width,
    .step = step,
    .turn = a->stride_h * a->x_w * a->x_c - width * step,
  };
  for (int32_t n = a->y_h * width; n > 0;) {
    const int32_t together = dory_together(n);
    for (int32_t k = 0; k < together; k++) {
      dory_column(a, x, &place, last_top, last_left, columns + 2 * k);
      dory_next_output(a, &place);
    }
    dory_lift(columns, vectors);
    dory_pixels(&product, together, y);
    n -= together;
    y += together * pitch;
  }
}

#endif

void DORY_KERNEL(const dory_stm32h7_conv_t *a)
{
  const int32_t vectors = (DORY_KERNEL_H * DORY_KERNEL_W * a->group_in + 3) / 4 + DORY_LIFTS;
  const uint32_t *w = a->weights;
  const DORY_X_T *x = a->x;
  for (int32_t c = 0; c < a->y_c; c += a->group_out) {
    dory_group(a, w, vectors, c, x, (DORY_Y_T *)a->y + c);
    w += DORY_W_WORDS * vectors * a->group_out;
    x += a->group_in;
  }
}
