/* Convolution with any filter. */
#include "dory_cmsis_nn_impl.h"

void dory_arm_convolve_s8(const dory_cmsis_nn_t *a)
{
  const cmsis_nn_context context = dory_context(a);
  const cmsis_nn_conv_params params = dory_conv_params(a);
  const cmsis_nn_per_channel_quant_params quant = dory_quant(a);
  const cmsis_nn_dims x = dory_dims(1, a->x_h, a->x_w, a->x_c);
  const cmsis_nn_dims filter = dory_dims(a->y_c, a->kernel_h, a->kernel_w, a->group_in);
  const cmsis_nn_dims bias = dory_dims(1, 1, 1, a->y_c);
  const cmsis_nn_dims y = dory_dims(1, a->y_h, a->y_w, a->y_c);
  dory_finish(a, arm_convolve_s8(&context, &params, &quant, &x,
                                 dory_signed_input(a, a->x_h * a->x_w * a->x_c), &filter,
                                 a->weights, &bias, a->bias, NULL, &y, a->y));
}
