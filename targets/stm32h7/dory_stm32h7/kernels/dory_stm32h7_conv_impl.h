/* Convolution: the columns of two pixels are gathered as 16-bit numbers, then multiplied with all
 * rows of weights. An instance defines DORY_KERNEL, DORY_Y_T, the macros of
 * dory_stm32h7_vector_impl.h, dory_stm32h7_weights_impl.h and dory_stm32h7_requant_impl.h, and
 *
 *   DORY_KERNEL_H, DORY_KERNEL_W  size of the filter
 *   DORY_PAD_VALUE                what stands around the image
 *   DORY_ODD_RUNS                 1: runs of input channels are no multiples of four (and there is
 *                                 more than one): columns are first laid out as elements
 *   DORY_CHANNELS                 0; with DORY_ODD_RUNS the input channels of a layer of one group
 *                                 whose taps are neighbours in a row, to copy runs of known size */
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

#if DORY_KERNEL_H * DORY_KERNEL_W > 1

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

#if DORY_CHANNELS

enum {
  DORY_RUN = DORY_KERNEL_W * DORY_CHANNELS,
  DORY_LENGTH = DORY_KERNEL_H * DORY_RUN,
  DORY_WHOLE_VECTORS = DORY_LENGTH / 4
};

/* Copies n elements, n known to the compiler. */
static inline void dory_copy_run(const DORY_X_T *x, int32_t n, DORY_X_T *to)
{
  DORY_UNROLLED
  for (int32_t k = 0; k < n / (32 / DORY_X_BITS); k++) {
    dory_store4(to + k * (32 / DORY_X_BITS), dory_load4(x + k * (32 / DORY_X_BITS)));
  }
  DORY_UNROLLED
  for (int32_t k = n / (32 / DORY_X_BITS) * (32 / DORY_X_BITS); k < n; k++) {
    to[k] = x[k];
  }
}

/* Lays the column of an output whose taps all lie in the image; x: the first of them. cells: for its
 * elements. */
static inline void dory_inner_column(const dory_stm32h7_conv_t *a, const DORY_X_T *x, DORY_X_T *cells,
                                     uint32_t *column)
{
  const int32_t row = a->dilation_h * a->x_w * DORY_CHANNELS;
  DORY_UNROLLED
  for (int32_t i = 0; i < DORY_KERNEL_H; i++) {
    dory_copy_run(x + i * row, DORY_RUN, cells + i * DORY_RUN);
  }
  DORY_UNROLLED
  for (int32_t k = 0; k < DORY_WHOLE_VECTORS; k++) {
    const dory_vector_t four = dory_vector_at(cells + 4 * k);
    column[k * DORY_COLUMN] = four.even;
    column[k * DORY_COLUMN + 1] = four.odd;
  }
  if (DORY_LENGTH % 4 != 0) {
    const dory_vector_t rest = dory_rest_at(cells + 4 * DORY_WHOLE_VECTORS, DORY_LENGTH % 4);
    column[DORY_WHOLE_VECTORS * DORY_COLUMN] = rest.even;
    column[DORY_WHOLE_VECTORS * DORY_COLUMN + 1] = rest.odd;
  }
}

/* Whether all taps of an output lie in the image; top, left: the first one. */
static inline int dory_is_inner(const dory_stm32h7_conv_t *a, int32_t top, int32_t left)
{
  return top >= 0 && left >= 0 && left + DORY_KERNEL_W <= a->x_w &&
         top + (DORY_KERNEL_H - 1) * a->dilation_h < a->x_h;
}

#endif

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

/* Lays the column of output (i, j) into the slot of one of two pixels. */
static inline void dory_column(const dory_stm32h7_conv_t *a, const DORY_X_T *x, int32_t i,
                               int32_t j, uint32_t *column)
{
  const int32_t top = i * a->stride_h - a->pad_top, left = j * a->stride_w - a->pad_left;
#if DORY_KERNEL_H * DORY_KERNEL_W == 1
  dory_widen(x + (top * a->x_w + left) * a->x_c, a->group_in, column);
#elif DORY_ODD_RUNS
  const int32_t length = DORY_KERNEL_H * DORY_KERNEL_W * a->group_in;
  DORY_X_T *const cells = (DORY_X_T *)(void *)((uint32_t *)a->scratch + (length + 3) / 4 * 4);
#if DORY_CHANNELS
  if (dory_is_inner(a, top, left)) {
    dory_inner_column(a, x + (top * a->x_w + left) * DORY_CHANNELS, cells, column);
    return;
  }
#endif
  dory_gather(a, x, top, left, cells);
  dory_widen(cells, length, column);
#else
  dory_gather(a, x, top, left, column);
#endif
}

void DORY_KERNEL(const dory_stm32h7_conv_t *a)
{
  const int32_t vectors = (DORY_KERNEL_H * DORY_KERNEL_W * a->group_in + 3) / 4;
  const int32_t pixels = a->y_h * a->y_w;
  uint32_t *const columns = a->scratch;
  const uint32_t *w = a->weights;
  const DORY_X_T *x = a->x;
  for (int32_t c = 0; c < a->y_c; c += a->group_out) {
    DORY_Y_T *y = (DORY_Y_T *)a->y + c;
    int32_t i = 0, j = 0, n = 0;
    for (; n < pixels; n += 2) {
      dory_column(a, x, i, j, columns);
      if (++j == a->y_w) {
        j = 0;
        i++;
      }
      if (n + 1 == pixels) {
        dory_one_pixel(&a->requant, w, columns, vectors, c, a->group_out, y);
        break;
      }
      dory_column(a, x, i, j, columns + 2);
      if (++j == a->y_w) {
        j = 0;
        i++;
      }
      dory_two_pixels(&a->requant, w, columns, vectors, c, a->group_out, y, a->y_c);
      y += 2 * a->y_c;
    }
    w += DORY_W_WORDS * vectors * a->group_out;
    x += a->group_in;
  }
}
