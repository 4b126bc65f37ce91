#include "pulp_nn_utils.h"

void pulp_nn_add(uint8_t *x, uint8_t *x2, uint8_t *y, uint16_t mult1, uint16_t mult2, uint16_t shift,
    uint16_t h, uint16_t w, uint16_t c) {
  int first, end;
  pulp_nn_part(h, &first, &end);
  for (int i = first * w * c; i < end * w * c; i++) {
    const uint16_t v = (uint32_t)(x[i] * (int16_t)mult1 + x2[i] * (int16_t)mult2) >> shift;
    y[i] = v > 255 ? 255 : (uint8_t)v;
  }
  pi_cl_team_barrier(0);
}
