/* 1x1 convolution without padding: template of the kernel DORY_KERNEL, see
 * dory_gap8_matmul_impl.h. A column is a pixel of the input tile: nothing is gathered. */
#include "dory_gap8_matmul_impl.h"
#include "dory_gap8_share.h"

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_conv_t *a) {
  const dory_matmul_t m = {a->weights, a->x_c,  (a->x_c + 3) & ~3,
                           a->first,   a->last, &a->requant};
  const dory_gap8_work_t work = dory_gap8_share(a->y_h * a->y_w, 2, a->y_c, 0);
  const DORY_X_T *const x = a->x;
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
    const DORY_X_T *column[2] = {x, x};
    for (int32_t j = 0; j <= pair; j++) {
      column[j] = x + (oy * a->stride_h * a->x_w + ox * a->stride_w) * a->x_c;
      if (++ox == a->y_w) {
        ox = 0;
        oy++;
      }
    }
    if (pair) {
      dory_matmul_2(&m, column[0], column[1], y, y + a->y_c, psum, psum + psum_step,
                    work.channels.first, work.channels.end);
    } else {
      dory_matmul_1(&m, column[0], y, psum, work.channels.first, work.channels.end);
    }
    y += 2 * a->y_c;
    psum += 2 * psum_step;
  }
}
