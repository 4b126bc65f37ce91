/* Sums and means over windows, and maxima of bytes. */
#ifndef DORY_CORTEX_M55_POOL_H
#define DORY_CORTEX_M55_POOL_H

#include <stdint.h>

#include "dory_cortex_m55_requant.h"

typedef struct {
  const uint8_t *x; /* [x_h][x_w][c] */
  uint8_t *y;       /* [y_h][y_w][c] */
  uint32_t x_h, x_w, y_h, y_w, c;
  int32_t pad_top, pad_left;
  uint32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  uint32_t x_signed;
  uint32_t x_bytes, y_bytes; /* of an element; of a maximum 1 */
  int32_t padding; /* of an average: the element outside of x */
  dory_cortex_m55_requant_t requant; /* of an average: eight times the same */
} dory_cortex_m55_pool_t;

/* A mean in binary32: y = clip(even(sum / count / out_scale + out_zero)), every result is rounded. The
 * clip is that of the pool's requantisation. */
typedef struct {
  dory_cortex_m55_pool_t pool;
  const int32_t *table; /* bits of the number in binary32 that each byte stands for */
  float out_scale, out_zero;
  uint32_t inside; /* count: 1 for the taps inside of x, 0 for all */
} dory_cortex_m55_mean_t;

void dory_cortex_m55_avgpool(const dory_cortex_m55_pool_t *a);
void dory_cortex_m55_mean(const dory_cortex_m55_mean_t *a);
void dory_cortex_m55_maxpool(const dory_cortex_m55_pool_t *a);

#endif
