/* Arguments of the kernels of this target. Sizes are in elements. */
#ifndef DORY_STM32H7_TYPES_H
#define DORY_STM32H7_TYPES_H

#include <stdint.h>

/* y = clip((value * mul + add) >> shift, lo, hi), in 64 bits. */
typedef struct {
  int64_t add;
  int32_t mul, lo, hi;
  uint32_t shift;
} dory_stm32h7_line_t;

/* What happens to accumulators.
 * channels: per output channel mul, then the low and the high word of add, the offset and what
 * is added on one side of zero (DORY_TURNED), a further shift (DORY_SHIFTED); with DORY_BINARY32 mul,
 * the zero point, the offset and the shift; or one such record for all channels of a kernel without weights. bias: per output channel, where there is no step.
 * lo, hi: bounds of the first step, where its instance has no immediate ones. next: second step. */
typedef struct {
  const int32_t *channels;
  const int32_t *bias;
  int32_t lo, hi;
  dory_stm32h7_line_t next;
} dory_stm32h7_requant_t;

/* A convolution. weights: see dory_stm32h7_matmul_impl.h. scratch: columns of two pixels.
 * group_in, group_out: channels of one group; those of the tile when there is one group. */
typedef struct {
  const void *x;
  const void *weights;
  void *y;
  void *scratch;
  int32_t x_h, x_w, x_c, y_h, y_w, y_c;
  int32_t pad_top, pad_left;
  int32_t group_in, group_out;
  int32_t stride_h, stride_w, dilation_h, dilation_w;
  dory_stm32h7_requant_t requant;
} dory_stm32h7_conv_t;

/* A fully connected layer of x_c inputs and y_c outputs. */
typedef struct {
  const void *x;
  const void *weights;
  void *y;
  int32_t x_c, y_c;
  dory_stm32h7_requant_t requant;
} dory_stm32h7_linear_t;

/* A pooling layer. */
typedef struct {
  const void *x;
  void *y;
  int32_t x_h, x_w, y_h, y_w, y_c;
  int32_t pad_top, pad_left;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  dory_stm32h7_requant_t requant;
} dory_stm32h7_pool_t;

/* A slice or padding. row, column, channel: where the first output lies in the input, whose rows and
 * columns are taken by steps. */
typedef struct {
  const void *x;
  void *y;
  int32_t x_h, x_w, x_c, y_h, y_w, y_c;
  int32_t row, column, channel;
  int32_t step_h, step_w;
} dory_stm32h7_move_t;

/* A sum of two tensors of `elements` elements; operand: the step of each before the sum. */
typedef struct {
  const void *x;
  const void *x2;
  void *y;
  int32_t elements;
  dory_stm32h7_line_t operand[2];
  dory_stm32h7_requant_t requant;
} dory_stm32h7_add_t;

#endif
