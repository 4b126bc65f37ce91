/* Fully connected layer with 32-bit outputs: the library adds products to what the output holds,
 * and calls the number of inputs that of rows. */
#include "dory_cmsis_nn_impl.h"

void dory_arm_nn_mat_mult_nt_t_s8_s32(const dory_cmsis_nn_t *a)
{
  int32_t *const y = a->y;
  for (int32_t c = 0; c < a->y_c; c++) {
    y[c] = a->bias == NULL ? 0 : a->bias[c];
  }
  dory_finish(a, arm_nn_mat_mult_nt_t_s8_s32(dory_signed_input(a, a->x_c), a->weights, y, 1, a->x_c,
                                             a->y_c, a->x_offset, 1));
}
