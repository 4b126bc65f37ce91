/* Fully connected layer. Code with vectors takes sums of weights from the buffer; it gets the bias there,
 * which holds them. */
#include "dory_cmsis_nn_impl.h"

void dory_arm_fully_connected_per_channel_s8(const dory_cmsis_nn_t *a)
{
  const cmsis_nn_context context = {(void *)a->bias, 0};
  const cmsis_nn_per_channel_quant_params quant = dory_quant(a);
  cmsis_nn_fc_params params;
  params.input_offset = a->x_offset;
  params.filter_offset = 0;
  params.output_offset = a->y_offset;
  params.activation = dory_bounds(a);
  const cmsis_nn_dims x = dory_dims(1, 1, 1, a->x_c);
  const cmsis_nn_dims filter = dory_dims(a->x_c, 1, 1, a->y_c);
  const cmsis_nn_dims bias = dory_dims(1, 1, 1, a->y_c);
  const cmsis_nn_dims y = dory_dims(1, 1, 1, a->y_c);
  dory_finish(a, arm_fully_connected_per_channel_s8(&context, &params, &quant, &x,
                                                    dory_signed_input(a, a->x_c), &filter,
                                                    a->weights, &bias, a->bias, &y, a->y));
}
