/* Dense convolution: template of the kernel DORY_KERNEL, see dory_gap8_matmul_impl.h.
 *
 * Each core gathers the inputs of two output pixels into its part of the scratch (im2col) and
 * multiplies them with all weights of its channels. */
#include <string.h>

#include "dory_gap8_matmul_impl.h"
#include "dory_gap8_share.h"

/* Inputs of the columns from `ix`, a row of kernel_w taps of one input row. */
static inline void dory_gather_row(const dory_gap8_conv_t *a, const DORY_X_T *row, int32_t ix,
                                   DORY_X_T *column) {
  const int32_t c = a->x_c;
  if (a->dilation_w == 1 && ix >= 0 && ix + a->kernel_w <= a->x_w) {
    memcpy(column, row + ix * c, (size_t)(a->kernel_w * c) * sizeof(DORY_X_T));
    return;
  }
  for (int32_t kx = 0; kx < a->kernel_w; kx++, ix += a->dilation_w, column += c) {
    if (ix >= 0 && ix < a->x_w) {
      memcpy(column, row + ix * c, (size_t)c * sizeof(DORY_X_T));
    } else {
      memset(column, 0, (size_t)c * sizeof(DORY_X_T));
    }
  }
}

/* The column of output pixel (oy, ox), with zeros up to the length of a weight row. */
static inline void dory_im2col(const dory_gap8_conv_t *a, int32_t oy, int32_t ox, int32_t k,
                               int32_t row, DORY_X_T *column) {
  const int32_t taps = a->kernel_w * a->x_c;
  const int32_t ix = ox * a->stride_w - a->pad_left;
  int32_t iy = oy * a->stride_h - a->pad_top;
  DORY_X_T *out = column;
  for (int32_t ky = 0; ky < a->kernel_h; ky++, iy += a->dilation_h, out += taps) {
    if (iy >= 0 && iy < a->x_h) {
      dory_gather_row(a, (const DORY_X_T *)a->x + iy * a->x_w * a->x_c, ix, out);
    } else {
      memset(out, 0, (size_t)taps * sizeof(DORY_X_T));
    }
  }
  for (int32_t i = k; i < row; i++) {
    column[i] = 0;
  }
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_conv_t *a) {
  const int32_t k = a->kernel_h * a->kernel_w * a->x_c;
  const int32_t row = (k + 3) & ~3;
  const dory_matmul_t m = {a->weights, row, row, a->first, a->last, &a->requant};
  const dory_gap8_work_t work =
      dory_gap8_share(a->y_h * a->y_w, 2, a->y_c, DORY_GAP8_IM2COL_CHANNELS);
  DORY_X_T *const column = (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * 2 * row;
  DORY_Y_T *y = (DORY_Y_T *)a->y + work.pixels.first * a->y_c;
  int32_t *psum = DORY_ACCUMULATE ? a->psum + work.pixels.first * a->y_c : a->psum;
  const int32_t psum_step = DORY_ACCUMULATE ? a->y_c : 0;
  int32_t oy, ox;
  if (work.channels.first == work.channels.end || work.pixels.first == work.pixels.end) {
    return;
  }
  oy = work.pixels.first / a->y_w;
  ox = work.pixels.first - oy * a->y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel += 2) {
    const int32_t pair = pixel + 1 < work.pixels.end;
    for (int32_t j = 0; j <= pair; j++) {
      dory_im2col(a, oy, ox, k, row, column + j * row);
      if (++ox == a->y_w) {
        ox = 0;
        oy++;
      }
    }
    if (pair) {
      dory_matmul_2(&m, column, column + row, y, y + a->y_c, psum, psum + psum_step,
                    work.channels.first, work.channels.end);
    } else {
      dory_matmul_1(&m, column, y, psum, work.channels.first, work.channels.end);
    }
    y += 2 * a->y_c;
    psum += 2 * psum_step;
  }
}
