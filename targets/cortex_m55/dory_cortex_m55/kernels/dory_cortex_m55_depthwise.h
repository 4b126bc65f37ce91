/* Depthwise convolutions of bytes, one filter per channel. */
#ifndef DORY_CORTEX_M55_DEPTHWISE_H
#define DORY_CORTEX_M55_DEPTHWISE_H

#include <stdint.h>

#include "dory_cortex_m55_requant.h"

typedef struct {
  const uint8_t *x;      /* [x_h][x_w][c] */
  uint8_t *y;            /* [y_h][y_w][c] */
  uint8_t *scratch;      /* offsets of taps in x and in a window, sums of a row, a window */
  const int8_t *weights; /* [c in eights][taps][8] */
  const int32_t *bias;   /* [c in eights][8]: first the even channels of each eight */
  uint32_t x_h, x_w, y_h, y_w, c;
  int32_t pad_top, pad_left;
  uint32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  uint32_t together; /* taps of which no sum of products exceeds 16 bits */
  uint32_t x_signed;
  uint8_t padding; /* the element outside of x */
  dory_cortex_m55_requant_t requant; /* channels in the order of bias */
} dory_cortex_m55_depthwise_t;

void dory_cortex_m55_depthwise(const dory_cortex_m55_depthwise_t *a);

#endif
