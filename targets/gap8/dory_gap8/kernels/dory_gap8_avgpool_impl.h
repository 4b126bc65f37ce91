/* Sum over a window, requantised: template of the kernel DORY_KERNEL for elements of type DORY_X_T,
 * configured as dory_gap8_requant_impl.h. */
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

/* Computes one tile. Every core calls it and takes its part of pixels and channels. */
void DORY_KERNEL(const dory_gap8_pool_t *a) {
  const dory_gap8_work_t work = dory_gap8_share(a->y_h * a->y_w, 1, a->y_c, 0);
  const int32_t c1 = work.channels.end;
  if (work.channels.first == c1 || work.pixels.first == work.pixels.end) {
    return;
  }
  const int32_t tap_step = a->dilation_w * a->y_c;
  int32_t oy = work.pixels.first / a->y_w;
  int32_t ox = work.pixels.first - oy * a->y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel++) {
    DORY_Y_T *const y = (DORY_Y_T *)a->y + pixel * a->y_c;
    const int32_t iy = oy * a->stride_h - a->pad_top;
    const int32_t ix = ox * a->stride_w - a->pad_left;
    /* Taps first .. end - 1 of a row lie inside the tile. */
    int32_t first = 0, end = a->kernel_w;
    for (int32_t kx = 0; kx < a->kernel_w; kx++) {
      const int32_t column = ix + kx * a->dilation_w;
      first += column < 0;
      end -= column >= a->x_w;
    }
    for (int32_t c = work.channels.first; c < c1; c += 4) {
      const int32_t n = dory_gap8_min(4, c1 - c);
      int32_t sum[4] = {0, 0, 0, 0};
      for (int32_t ky = 0; ky < a->kernel_h; ky++) {
        const int32_t row = iy + ky * a->dilation_h;
        if (row >= 0 && row < a->x_h && first < end) {
          const DORY_X_T *x = (const DORY_X_T *)a->x +
                              (row * a->x_w + ix + first * a->dilation_w) * a->y_c + c;
          for (int32_t kx = first; kx < end; kx++) {
            for (int32_t j = 0; j < n; j++) {
              sum[j] += x[(kx - first) * tap_step + j];
            }
          }
        }
      }
      for (int32_t j = 0; j < n; j++) {
        y[c + j] = dory_requantise(sum[j], 0, &a->requant);
      }
    }
    if (++ox == a->y_w) {
      ox = 0;
      oy++;
    }
  }
}
