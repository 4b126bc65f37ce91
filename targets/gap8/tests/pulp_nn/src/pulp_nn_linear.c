#include "pulp_nn_utils.h"

void pulp_nn_linear(uint8_t *x, int8_t *bias, uint8_t *y, int8_t *weights, pulp_nn_wide_t *k,
    pulp_nn_wide_t *lambda, uint16_t mult, int8_t shift, uint16_t inputs, uint16_t outputs, int relu,
    int batch_norm) {
  int first, end;
  pulp_nn_part(outputs, &first, &end);
  for (int o = first; o < end; o++) {
    int32_t acc = 0;
    for (int i = 0; i < inputs; i++) acc += weights[o * inputs + i] * x[i];
    y[o] = pulp_nn_bn(acc, k[o], lambda[o], shift);
  }
  pi_cl_team_barrier(0);
}
