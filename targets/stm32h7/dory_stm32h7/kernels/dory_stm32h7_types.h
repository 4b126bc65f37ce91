/* Arguments of the kernels of this target. Sizes are in elements. */
#ifndef DORY_STM32H7_TYPES_H
#define DORY_STM32H7_TYPES_H

#include <stdint.h>

/* y = clip((value * mul + add) >> shift, lo, hi), in 64 bits. below: see dory_stm32h7_pair_impl.h. */
typedef struct {
  int64_t add;
  int32_t mul, below, lo, hi;
  uint32_t shift;
} dory_stm32h7_line_t;

/* What happens to accumulators.
 * channels: per output channel mul, then the low and the high word of add, the offset and what
 * is added on one side of zero (DORY_TURNED), a further shift (DORY_SHIFTED); with DORY_BINARY32 the
 * scale as bits of binary32, the zero point and the offset; or one such record for all channels of a kernel without weights. bias: per output channel, where there is no step.
 * lo, hi: bounds of the first step, where its instance has no immediate ones. next: second step. */
typedef struct {
  const int32_t *channels;
  const int32_t *bias;
  int32_t lo, hi;
  dory_stm32h7_line_t next;
} dory_stm32h7_requant_t;

/* A convolution. weights: see dory_stm32h7_matmul_impl.h. scratch: columns of a few pixels.
 * group_in, group_out: channels of one group; those of the tile when there is one group. lift: of
 * weights that are stored less a number, that number in both halves (depthwise). */
typedef struct {
  const void *x;
  const void *weights;
  void *y;
  void *scratch;
  int32_t x_h, x_w, x_c, y_h, y_w, y_c;
  int32_t pad_top, pad_left;
  int32_t group_in, group_out;
  int32_t stride_h, stride_w, dilation_h, dilation_w;
  uint32_t lift;
  dory_stm32h7_requant_t requant;
} dory_stm32h7_conv_t;

/* Products of matrices, see dory_stm32h7_matrices_impl.h: x_w rows of x, y_c columns of it, y_h matrices
 * of y_w rows of x2. scratch: x as rows of weights, columns of two rows of x2. */
typedef struct {
  const void *x;
  const void *x2;
  void *y;
  void *scratch;
  int32_t x_w, y_h, y_w, y_c;
  int32_t x_zero, x2_zero;
  dory_stm32h7_requant_t requant;
} dory_stm32h7_matrices_t;

/* A fully connected layer of x_c inputs and y_c outputs. lift: what weights are more than what is
 * stored. */
typedef struct {
  const void *x;
  const void *weights;
  void *y;
  int32_t x_c, y_c;
  int32_t lift;
  dory_stm32h7_requant_t requant;
} dory_stm32h7_linear_t;

/* A pooling layer. scale to out_zero: of a mean in binary32, whose bounds are those of requant. */
typedef struct {
  const void *x;
  void *y;
  int32_t x_h, x_w, y_h, y_w, y_c;
  int32_t pad_top, pad_left;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  dory_stm32h7_requant_t requant;
  float scale, out_scale;
  int32_t zero_point, out_zero;
} dory_stm32h7_pool_t;

/* A slice or padding. row, column, channel: where the first output lies in the input, whose rows and
 * columns are taken by steps. x_c, y_c, channel: in bytes. */
typedef struct {
  const void *x;
  void *y;
  int32_t x_h, x_w, x_c, y_h, y_w, y_c;
  int32_t row, column, channel;
  int32_t step_h, step_w;
} dory_stm32h7_move_t;

/* Axes in another order: the first output is byte `first` of the tile of the input, the next rows,
 * columns and channels lie so many bytes further. */
typedef struct {
  const void *x;
  void *y;
  int32_t y_h, y_w, y_c;
  int32_t first, row, column, channel;
} dory_stm32h7_transpose_t;

/* A function of one byte. table: 256 outputs, or as many for each channel. */
typedef struct {
  const void *x;
  const void *table;
  void *y;
  int32_t pixels, y_c;
} dory_stm32h7_lut_t;

/* A sum of two tensors of bytes. tables: 256 numbers for each, and the bytes
 * of results. */
typedef struct {
  const void *x;
  const void *x2;
  const int32_t *tables;
  void *y;
  int32_t count;
} dory_stm32h7_sums_t;

/* Inputs one after another: outer groups of count slices of the axis, the first of which is slice
 * number first. slice: in bytes. x, sizes: inputs and their slices. */
typedef struct {
  const void *const *x;
  const int32_t *sizes;
  void *y;
  int32_t outer, first, count, slice;
} dory_stm32h7_concat_t;

/* An interpolation. taps: four numbers for each of `height` rows of the output and each of its columns:
 * the first and the second row or column of the input, their weights. row, column: where a tile lies. */
typedef struct {
  const void *x;
  const int32_t *taps;
  void *y;
  int32_t x_w, x_row, x_column, y_h, y_w, y_c, y_row, y_column;
  int32_t height;
  dory_stm32h7_requant_t requant;
} dory_stm32h7_resize_t;

/* A softmax. table: 256 exponentials. channel: of the input where the tile begins. factor: in
 * binary32, of the exponentials. add, lo, hi: what follows. */
typedef struct {
  const void *x;
  const void *table;
  void *y;
  int32_t pixels, x_c, y_c, channel;
  float factor;
  int32_t add, lo, hi;
} dory_stm32h7_softmax_t;

/* A layer normalisation in integers. weights: of the channels of y, then biases. channel: of the input
 * where the tile begins. A value is shifted up, then down, and clipped. */
typedef struct {
  const void *x;
  const void *weights;
  void *y;
  int32_t pixels, x_c, y_c, channel;
  int32_t up, down, lo, hi;
} dory_stm32h7_norm_t;

/* A softmax as quotients. table: 256 exponentials. factor: of the shares. add, lo, hi: what follows. */
typedef struct {
  const void *x;
  const void *table;
  void *y;
  int32_t pixels, x_c, y_c, channel;
  uint32_t factor;
  int32_t add, lo, hi;
} dory_stm32h7_shares_t;

/* A layer normalisation: elements mean scale * (element - zero_point), and scale is mantissa /
 * 2^digits. weights: of the channels of y, then biases. channel: of the input where the tile begins.
 * out_scale: what a step of y means. add, lo, hi: what follows. */
typedef struct {
  const void *x;
  const void *weights;
  void *y;
  int32_t pixels, x_c, y_c, channel;
  int32_t zero_point;
  uint32_t mantissa;
  int32_t digits;
  float scale, epsilon, out_scale;
  int32_t add, lo, hi;
} dory_stm32h7_layernorm_t;

/* A function of two operands. row, column: from a row of the second one to the next, and from a
 * column. operand: the step of each before. */
typedef struct {
  const void *x;
  const void *x2;
  void *y;
  int32_t y_h, y_w, y_c;
  int32_t row, column;
  dory_stm32h7_line_t operand[2];
  dory_stm32h7_requant_t requant;
} dory_stm32h7_pair_t;

#endif
