/* Average over a window in binary32, as onnxruntime: elements become numbers of binary32, which are
 * added row by row and divided by how many there are and by the scale of the output. An instance
 * defines DORY_KERNEL, DORY_X_T, DORY_Y_T, and
 *
 *   DORY_INSIDE  1: elements outside of the image do not count; 0: they are zeros */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_binary32_impl.h"

#include "dory_stm32h7_pool_window.h"

/* Sums of `count` channels of a window, in the order of its taps. */
static inline void dory_window_sums(const DORY_X_T *x, const dory_stm32h7_box_t *box,
                                    const dory_stm32h7_pool_t *a, int32_t count, float *sums)
{
  const float scale = a->scale;
  const int32_t zero_point = a->zero_point;
  DORY_UNROLLED
  for (int32_t k = 0; k < count; k++) {
    sums[k] = 0.0f;
  }
  for (int32_t i = 0; i < box->rows; i++, x += box->row) {
    const DORY_X_T *tap = x;
    for (int32_t j = 0; j < box->columns; j++, tap += box->column) {
      DORY_UNROLLED
      for (int32_t k = 0; k < count; k++) {
        sums[k] = dory_real(sums[k] + dory_real((float)(tap[k] - zero_point) * scale));
      }
    }
  }
}

static inline DORY_Y_T dory_mean(const dory_stm32h7_pool_t *a, float sum, float number)
{
  const float mean = dory_real(dory_real(sum / number) / a->out_scale);
  const int32_t value = dory_even(dory_real(mean + (float)a->out_zero));
  return (DORY_Y_T)(value < a->requant.lo ? a->requant.lo
                    : value > a->requant.hi ? a->requant.hi : value);
}

void DORY_KERNEL(const dory_stm32h7_pool_t *a)
{
  enum { DORY_TOGETHER = 4 };
  DORY_Y_T *y = a->y;
  for (int32_t i = 0; i < a->y_h; i++) {
    for (int32_t j = 0; j < a->y_w; j++, y += a->y_c) {
      const dory_stm32h7_box_t box = dory_box(a, i, j);
      const DORY_X_T *const x = (const DORY_X_T *)a->x + box.offset;
      const float number =
        (float)(DORY_INSIDE ? box.rows * box.columns : a->kernel_h * a->kernel_w);
      float sums[DORY_TOGETHER];
      int32_t c = 0;
      for (; c + DORY_TOGETHER <= a->y_c; c += DORY_TOGETHER) {
        dory_window_sums(x + c, &box, a, DORY_TOGETHER, sums);
        for (int32_t k = 0; k < DORY_TOGETHER; k++) {
          y[c + k] = dory_mean(a, sums[k], number);
        }
      }
      for (; c < a->y_c; c++) {
        dory_window_sums(x + c, &box, a, 1, sums);
        y[c] = dory_mean(a, sums[0], number);
      }
    }
  }
}
