/* Normalisation of the channels of each pixel of bytes, in integers of 32 bits. */
#ifndef DORY_CORTEX_M55_NORM_H
#define DORY_CORTEX_M55_NORM_H

#include <stdint.h>

/* y = clip(wrapped(trunc((x - mean) * weight / root) + bias) >> shift): a value is wrapped and shifted
 * by ``up`` bits to the left and ``down`` bits to the right. */
typedef struct {
  const uint8_t *x;       /* [pixels][x_c] */
  uint8_t *y;             /* [pixels][y_c], of channels from ``channel`` on */
  const int32_t *weights; /* of outputs in whole fours, and as many biases */
  uint32_t pixels, x_c, y_c, channel;
  uint32_t x_signed;
  uint32_t centred; /* 1 where the mean is taken off */
  int32_t up, down, lo, hi;
} dory_cortex_m55_norm_t;

void dory_cortex_m55_norm(const dory_cortex_m55_norm_t *a);

#endif
