/* Softmax over the channels of each pixel of bytes, in integers. */
#ifndef DORY_CORTEX_M55_SOFTMAX_H
#define DORY_CORTEX_M55_SOFTMAX_H

#include <stdint.h>

typedef struct {
  const uint8_t *x;     /* [pixels][x_c] */
  uint8_t *y;           /* [pixels][y_c], of channels from ``channel`` on */
  const int32_t *table; /* exponentials by the distance from the largest channel */
  uint32_t pixels, x_c, y_c, channel;
  uint32_t x_signed;
  int32_t factor; /* of shares */
  int32_t add, lo, hi;
} dory_cortex_m55_softmax_t;

/* As TensorFlow Lite does: exponentials are in Q0.31. */
void dory_cortex_m55_softmax(const dory_cortex_m55_softmax_t *a);
/* y = clip(floor(factor * exponential / their sum) + add); products and sums are below 2^31. */
void dory_cortex_m55_shares(const dory_cortex_m55_softmax_t *a);

#endif
