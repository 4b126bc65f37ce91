/* Maximum over a window; padding never wins: template of the kernel DORY_KERNEL for elements of
 * type DORY_X_T, four of which DORY_LOAD4_X, DORY_STORE4_X and DORY_MAX4 move and compare. */
#include <string.h>

#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* y[c] = max(y[c], x[c]) for channels c .. end - 1. */
static inline void dory_take_greater(DORY_X_T *y, const DORY_X_T *x, int32_t c, int32_t end) {
  for (; c + 4 <= end; c += 4) {
    DORY_STORE4_X(y + c, DORY_MAX4(DORY_LOAD4_X(x + c), DORY_LOAD4_X(y + c)));
  }
  for (; c < end; c++) {
    y[c] = x[c] > y[c] ? x[c] : y[c];
  }
}

/* Computes one tile. Every core calls it and takes its part of pixels and channels. */
void DORY_KERNEL(const dory_gap8_pool_t *a) {
  const dory_gap8_work_t work = dory_gap8_share(a->y_h * a->y_w, 1, a->y_c, 0);
  const int32_t c0 = work.channels.first, c1 = work.channels.end;
  if (c0 == c1 || work.pixels.first == work.pixels.end) {
    return;
  }
  int32_t oy = work.pixels.first / a->y_w;
  int32_t ox = work.pixels.first - oy * a->y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel++) {
    DORY_X_T *const y = (DORY_X_T *)a->y + pixel * a->y_c;
    const int32_t iy = oy * a->stride_h - a->pad_top;
    const int32_t ix = ox * a->stride_w - a->pad_left;
    int32_t seen = 0;
    for (int32_t ky = 0; ky < a->kernel_h; ky++) {
      const int32_t row = iy + ky * a->dilation_h;
      for (int32_t kx = 0; kx < a->kernel_w; kx++) {
        const int32_t column = ix + kx * a->dilation_w;
        if (row >= 0 && row < a->x_h && column >= 0 && column < a->x_w) {
          const DORY_X_T *const x = (const DORY_X_T *)a->x + (row * a->x_w + column) * a->y_c;
          if (seen) {
            dory_take_greater(y, x, c0, c1);
          } else {
            memcpy(y + c0, x + c0, (size_t)(c1 - c0) * sizeof(DORY_X_T));
            seen = 1;
          }
        }
      }
    }
    if (++ox == a->y_w) {
      ox = 0;
      oy++;
    }
  }
}
