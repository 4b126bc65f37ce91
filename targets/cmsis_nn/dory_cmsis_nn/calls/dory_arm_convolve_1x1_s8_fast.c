/* 1x1 convolution. With strides, pixels that are not used are left out by the copy of the input,
 * since the library has no quick strided form. */
#include "dory_cmsis_nn_impl.h"

static const int8_t *pixels(const dory_cmsis_nn_t *a)
{
  if (a->stride_h == 1 && a->stride_w == 1) {
    return dory_signed_input(a, a->x_h * a->x_w * a->x_c);
  }
  uint8_t *const copy = (uint8_t *)a->scratch + a->buffer;
  uint8_t *to = copy;
  for (int32_t i = 0; i < a->y_h; i++) {
    const uint8_t *from = (const uint8_t *)a->x + i * a->stride_h * a->x_w * a->x_c;
    for (int32_t j = 0; j < a->y_w; j++, to += a->x_c, from += a->stride_w * a->x_c) {
      if (a->x_turned) {
        dory_turn(to, from, a->x_c);
      } else {
        memcpy(to, from, (size_t)a->x_c);
      }
    }
  }
  return (const int8_t *)copy;
}

void dory_arm_convolve_1x1_s8_fast(const dory_cmsis_nn_t *a)
{
  cmsis_nn_context context = dory_context(a);
  if (a->buffer == 0) {
    context.buf = NULL;
  }
  cmsis_nn_conv_params params = dory_conv_params(a);
  params.stride = dory_tile(1, 1);
  const cmsis_nn_per_channel_quant_params quant = dory_quant(a);
  const cmsis_nn_dims x = dory_dims(1, a->y_h, a->y_w, a->x_c);
  const cmsis_nn_dims filter = dory_dims(a->y_c, 1, 1, a->x_c);
  const cmsis_nn_dims bias = dory_dims(1, 1, 1, a->y_c);
  const cmsis_nn_dims y = dory_dims(1, a->y_h, a->y_w, a->y_c);
  dory_finish(a, arm_convolve_1x1_s8_fast(&context, &params, &quant, &x, pixels(a), &filter,
                                          a->weights, &bias, a->bias, &y, a->y));
}
