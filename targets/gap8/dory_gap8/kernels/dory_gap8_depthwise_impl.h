/* Depthwise convolution from CHW to HWC: template of the kernel DORY_KERNEL, configured as
 * dory_gap8_matmul_impl.h.
 *
 * Cores share the channels, and rows where there are fewer channels. For each output row a core
 * lays the kernel_h input rows that it needs, with their padding, into its part of the scratch:
 * then a tap row is kernel_w neighbours for every pixel, without a test for borders. Weights are
 * padded to 4 taps per row with zeros, which the slack at the end of a scratch row meets. */
#include <string.h>

#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"


/* Copies input row iy of a plane with zeros for the padding; `width` elements are written. */
static inline void dory_pad_row(const dory_gap8_conv_t *a, const DORY_X_T *plane, int32_t iy,
                                int32_t width, DORY_X_T *out) {
  const int32_t inside = iy >= 0 && iy < a->x_h;
  const int32_t left = inside ? dory_gap8_min(a->pad_left, width) : width;
  const int32_t copied = inside ? dory_gap8_min(a->x_w, width - left) : 0;
  const int32_t right = width - left - copied;
  memset(out, 0, (size_t)left * sizeof(DORY_X_T));
  if (copied > 0) {
    memcpy(out + left, plane + iy * a->x_w, (size_t)copied * sizeof(DORY_X_T));
  }
  memset(out + left + copied, 0, (size_t)right * sizeof(DORY_X_T));
}

/* The accumulator of the pixel whose first tap row starts at x. */
static inline int32_t dory_taps(const dory_gap8_conv_t *a, const DORY_X_T *x, int32_t pitch,
                                const int8_t *w, int32_t w_row) {
  int32_t acc = 0;
  if (a->dilation_w == 1) {
    for (int32_t ky = 0; ky < a->kernel_h; ky++, x += pitch, w += w_row) {
      for (int32_t i = 0; i < w_row; i += 4) {
        acc = DORY_DOT4(DORY_LOAD4_X(x + i), dory_gap8_load4_i8(w + i), acc);
      }
    }
  } else {
    for (int32_t ky = 0; ky < a->kernel_h; ky++, x += pitch, w += w_row) {
      for (int32_t kx = 0; kx < a->kernel_w; kx++) {
        acc += x[kx * a->dilation_w] * w[kx];
      }
    }
  }
  return acc;
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_conv_t *a) {
  const int32_t w_row = (a->kernel_w + 3) & ~3;
  const int32_t pitch = (a->y_w - 1) * a->stride_w + (a->kernel_w - 1) * a->dilation_w + 4;
  const dory_gap8_work_t work = dory_gap8_share(a->y_h, 1, a->y_c, 0);
  DORY_X_T *const band = (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * a->kernel_h * pitch;
  for (int32_t c = work.channels.first; c < work.channels.end; c++) {
    const DORY_X_T *const plane =
        (const DORY_X_T *)a->x + (c / a->multiplier) * a->x_h * a->x_w;
    const int8_t *const w = (const int8_t *)a->weights + c * a->kernel_h * w_row;
    for (int32_t oy = work.pixels.first; oy < work.pixels.end; oy++) {
      const int32_t iy = oy * a->stride_h - a->pad_top;
      DORY_Y_T *y = (DORY_Y_T *)a->y + oy * a->y_w * a->y_c + c;
      const DORY_X_T *x = band;
      for (int32_t ky = 0; ky < a->kernel_h; ky++) {
        dory_pad_row(a, plane, iy + ky * a->dilation_h, pitch, band + ky * pitch);
      }
      for (int32_t ox = 0; ox < a->y_w; ox++, x += a->stride_w, y += a->y_c) {
        const int32_t acc = dory_taps(a, x, pitch, w, w_row);
#if DORY_STEPS == 0
        *y = (DORY_Y_T)(acc + ((const int32_t *)a->requant.bias)[c]);
#else
        *y = dory_requantise(acc, c, &a->requant);
#endif
      }
    }
  }
}
