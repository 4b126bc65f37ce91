#include "pulp_nn_utils.h"

void pulp_nn_linear_out_32(uint8_t *x, int8_t *bias, int32_t *y, int8_t *weights, uint16_t inputs,
    uint16_t outputs) {
  int first, end;
  pulp_nn_part(outputs, &first, &end);
  for (int o = first; o < end; o++) {
    y[o] = ((int32_t *)bias)[o];
    for (int i = 0; i < inputs; i++) y[o] += weights[o * inputs + i] * x[i];
  }
  pi_cl_team_barrier(0);
}
