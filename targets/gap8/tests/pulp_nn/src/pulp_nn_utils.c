#include "pulp_nn_utils.h"

uint8_t pulp_nn_bn(int32_t acc, pulp_nn_wide_t k, pulp_nn_wide_t lambda, int shift) {
  const int64_t v = ((int64_t)k * acc + lambda) >> shift;
  return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

void pulp_nn_part(int n, int *first, int *end) {
  const int chunk = (n + NUM_CORES - 1) / NUM_CORES;
  *first = chunk * pi_core_id() < n ? chunk * pi_core_id() : n;
  *end = *first + chunk < n ? *first + chunk : n;
}
