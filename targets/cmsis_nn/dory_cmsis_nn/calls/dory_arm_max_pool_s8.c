/* Maximum pooling. */
#include "dory_cmsis_nn_impl.h"

void dory_arm_max_pool_s8(const dory_cmsis_nn_t *a)
{
  const cmsis_nn_context context = dory_context(a);
  cmsis_nn_pool_params params;
  params.stride = dory_tile(a->stride_w, a->stride_h);
  params.padding = dory_tile(a->pad_left, a->pad_top);
  params.activation = dory_bounds(a);
  const cmsis_nn_dims x = dory_dims(1, a->x_h, a->x_w, a->x_c);
  const cmsis_nn_dims filter = dory_dims(1, a->kernel_h, a->kernel_w, 1);
  const cmsis_nn_dims y = dory_dims(1, a->y_h, a->y_w, a->y_c);
  dory_finish(a, arm_max_pool_s8(&context, &params, &x,
                                 dory_signed_input(a, a->x_h * a->x_w * a->x_c), &filter, &y,
                                 a->y));
}
