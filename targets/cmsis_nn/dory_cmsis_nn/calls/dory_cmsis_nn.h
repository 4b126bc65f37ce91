/* Calls of CMSIS-NN with activations as dory stores them.
 *
 * The library computes signed bytes. Unsigned ones beyond 127 become signed by turning their
 * highest bit over, on a copy of the tile in the scratch, and offsets make up for it; outputs are
 * turned back where they lie. Calls that end in _tflm are those of the library as it is. */
#ifndef DORY_CMSIS_NN_H
#define DORY_CMSIS_NN_H

#include <stdint.h>

/* mul, rest: per output channel, y = (acc * mul + rest) >> 32, or the library's multiplier and shift.
 * bias: per output channel; NULL. buffer: bytes of scratch for the library; behind it lies the copy
 * of the input. x_turned, y_turned: 1 where bits are turned over. x_offset, y_offset: the library's,
 * for signed values. lo, hi: bounds of signed outputs. */
typedef struct {
  const void *x;
  const void *weights;
  const int32_t *mul, *rest, *bias;
  void *y;
  void *scratch;
  int32_t buffer;
  int32_t x_h, x_w, x_c, y_h, y_w, y_c;
  int32_t pad_top, pad_left, group_in;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  int32_t x_turned, y_turned, x_offset, y_offset, lo, hi;
} dory_cmsis_nn_t;

void dory_arm_convolve_s8(const dory_cmsis_nn_t *a);
void dory_arm_convolve_s8_tflm(const dory_cmsis_nn_t *a);
void dory_arm_convolve_1x1_s8_fast(const dory_cmsis_nn_t *a);
void dory_arm_convolve_1x1_s8_fast_tflm(const dory_cmsis_nn_t *a);
void dory_arm_depthwise_conv_3x3_s8(const dory_cmsis_nn_t *a);
void dory_arm_depthwise_conv_3x3_s8_tflm(const dory_cmsis_nn_t *a);
void dory_arm_depthwise_conv_s8_opt(const dory_cmsis_nn_t *a);
void dory_arm_depthwise_conv_s8_opt_tflm(const dory_cmsis_nn_t *a);
void dory_arm_fully_connected_per_channel_s8(const dory_cmsis_nn_t *a);
void dory_arm_fully_connected_per_channel_s8_tflm(const dory_cmsis_nn_t *a);
void dory_arm_nn_mat_mult_nt_t_s8_s32(const dory_cmsis_nn_t *a);
void dory_arm_max_pool_s8(const dory_cmsis_nn_t *a);

#endif
