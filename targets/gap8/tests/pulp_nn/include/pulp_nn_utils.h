/* What the plain functions share. */
#ifndef PULP_NN_UTILS_H
#define PULP_NN_UTILS_H

#include "pmsis.h"
#include "pulp_nn_kernels.h"

/* clip((k * acc + lambda) >> shift, 0, 255) */
uint8_t pulp_nn_bn(int32_t acc, pulp_nn_wide_t k, pulp_nn_wide_t lambda, int shift);

/* The part of n units of the calling core: first and one past the last. */
void pulp_nn_part(int n, int *first, int *end);

#endif
