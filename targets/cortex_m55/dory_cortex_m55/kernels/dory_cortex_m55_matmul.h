/* Products of two tensors of matrices of bytes. */
#ifndef DORY_CORTEX_M55_MATMUL_H
#define DORY_CORTEX_M55_MATMUL_H

#include <stdint.h>

#include "dory_cortex_m55_conv.h"

/* y[i, k] = sum over j of (x2[i, j] - x2_zero) * (x[j, k] - x_zero): a convolution of 1x1 over the pixels
 * of x2, whose weights are x. They are laid in scratch, matrix by matrix. */
typedef struct {
  dory_cortex_m55_conv_t conv; /* of a matrix; its lift is -x_zero, weights and more are set here */
  const uint8_t *x;            /* matrices of conv.length pixels of x_c channels */
  int32_t *scratch;            /* conv.y_c in eights, then as many rows of weights, conv.pitch bytes each */
  uint32_t matrices, x_c;
  uint32_t x_step, x2_step, y_step; /* bytes from a matrix to the next; 0: there is one */
  int32_t x2_zero;                  /* of x2 as a byte with a sign */
  uint8_t x_flip;                   /* 0x80: x has no sign and is multiplied as x - 128 */
} dory_cortex_m55_matmul_t;

void dory_cortex_m55_matmul(const dory_cortex_m55_matmul_t *a);

#endif
