/* A 3x3 convolution of bytes for Kite. */
#ifndef DORY_KITE_CONV3X3_H
#define DORY_KITE_CONV3X3_H

#include <stdint.h>

typedef struct {
  const uint8_t *x;       /* [x_h][x_w][x_c], rows x_pitch bytes apart */
  const int8_t *weights;  /* [y_c / 4][3][3][x_c][4] */
  const int32_t *mul;     /* [y_c] */
  const uint8_t *add;     /* int64 [y_c], at a multiple of 4 bytes */
  uint8_t *y;             /* [y_h][y_w][y_c], rows y_pitch bytes apart */
  uint32_t x_h, x_w, x_c, x_pitch;
  uint32_t y_h, y_w, y_c, y_pitch;
  int32_t pad_top, pad_left;
  uint32_t stride_h, stride_w;
  uint32_t x_signed;
  uint32_t shift;
  int32_t lo, hi;
} dory_kite_conv3x3_t;

/* y = clip((mul * sum + add) >> shift, lo, hi), where outside of x are zeros. */
void dory_kite_conv3x3(const dory_kite_conv3x3_t *tile);

#endif
