/* Interpolation between two rows and two columns, or nearest neighbours. An instance defines
 * DORY_KERNEL, DORY_X_T, DORY_Y_T, the macros of dory_stm32h7_requant_impl.h, and
 *
 *   DORY_COPIES  1: every output is one element of the input
 *
 * Places and weights of the four inputs of a pixel are those of all its channels. A row that repeats
 * the one before it is copied. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_copy_impl.h"

#if !DORY_COPIES

#include "dory_stm32h7_requant_impl.h"

#endif

/* What row i of the output is made of: two rows of the input, and their weights. */
static inline const int32_t *dory_row_taps(const dory_stm32h7_resize_t *a, int32_t i)
{
  return a->taps + 4 * (a->y_row + i);
}

static inline const int32_t *dory_column_taps(const dory_stm32h7_resize_t *a, int32_t j)
{
  return a->taps + 4 * (a->height + a->y_column + j);
}

static inline int dory_is_repeated(const int32_t *v)
{
  return v[0] == v[-4] && v[1] == v[-3] && v[2] == v[-2] && v[3] == v[-1];
}

#if DORY_COPIES

static void dory_line_of_pixels(const dory_stm32h7_resize_t *a, int32_t i, DORY_Y_T *y)
{
  const int32_t bytes = a->y_c * (int32_t)sizeof(DORY_X_T);
  const uint8_t *const row = (const uint8_t *)a->x + (dory_row_taps(a, i)[0] - a->x_row) * a->x_w * bytes;
  uint8_t *at = (uint8_t *)y;
  for (int32_t j = 0; j < a->y_w; j++) {
    at = dory_copied(row + (dory_column_taps(a, j)[0] - a->x_column) * bytes, bytes, at);
  }
}

#else

static void dory_line_of_pixels(const dory_stm32h7_resize_t *a, int32_t i, DORY_Y_T *y)
{
  const int32_t channels = a->y_c, row = a->x_w * channels;
  const int32_t *const v = dory_row_taps(a, i);
  const DORY_X_T *const upper = (const DORY_X_T *)a->x + (v[0] - a->x_row) * row;
  const DORY_X_T *const lower = (const DORY_X_T *)a->x + (v[1] - a->x_row) * row;
  const dory_stm32h7_requant_t q = a->requant;
  const dory_channel_t channel = dory_channel(&q, 0);
  for (int32_t j = 0; j < a->y_w; j++, y += channels) {
    const int32_t *const h = dory_column_taps(a, j);
    const int32_t left = (h[0] - a->x_column) * channels, right = (h[1] - a->x_column) * channels;
    const DORY_X_T *const x00 = upper + left, *const x01 = upper + right;
    const DORY_X_T *const x10 = lower + left, *const x11 = lower + right;
    const int32_t w00 = v[2] * h[2], w01 = v[2] * h[3], w10 = v[3] * h[2], w11 = v[3] * h[3];
    for (int32_t c = 0; c < channels; c++) {
      const int32_t sum = x00[c] * w00 + x01[c] * w01 + x10[c] * w10 + x11[c] * w11;
      y[c] = (DORY_Y_T)dory_requant(&q, channel, sum);
    }
  }
}

#endif

void DORY_KERNEL(const dory_stm32h7_resize_t *a)
{
  const int32_t line = a->y_w * a->y_c;
  DORY_Y_T *y = a->y;
  for (int32_t i = 0; i < a->y_h; i++, y += line) {
    if (i > 0 && dory_is_repeated(dory_row_taps(a, i))) {
      dory_copied((const uint8_t *)(y - line), line * (int32_t)sizeof(DORY_Y_T), (uint8_t *)y);
    } else {
      dory_line_of_pixels(a, i, y);
    }
  }
}
