/* Arguments of the kernels of one tile.
 *
 * Sizes are in elements of the tile as it lies in L1: x[x_h][x_w][x_c] (depthwise: x[x_c][x_h][x_w])
 * and y[y_h][y_w][y_c], both dense; elements below 8 bits are packed, and every pixel starts on a
 * byte. Output (oy, ox) reads input row oy * stride_h - pad_top +
 * ky * dilation_h and the column likewise; what lies outside the tile is padding.
 */
#ifndef DORY_GAP8_TYPES_H
#define DORY_GAP8_TYPES_H

#include <stdint.h>

/* One step y = clip(floor((mul * x + add) / div), lo, hi). mul and add are not used where they lie
 * with the channels; div is 2^shift, 2^shift - 1 or the number `div`, as the kernel's name says. */
typedef struct {
  int64_t mul, add;
  int64_t div;
  int32_t shift;
  int32_t lo, hi;
} dory_gap8_step_t;

/* From accumulator to output, see dory_gap8_requant_impl.h. What a kernel does not use is not set.
 *
 * channels: the parameters of the channels, or of all of them. bias: is added to a 32-bit output that
 * has no step. shift, low_bits, lo, hi: of one step in words; zero, lo, hi: of a step in binary32.
 * steps: of steps as the network has them. */
typedef struct {
  const int32_t *channels;
  const int32_t *bias;
  const dory_gap8_step_t *steps;
  int32_t shift, low_bits;
  int32_t lo, hi;
  int32_t zero;
} dory_gap8_requant_t;

typedef struct {
  const void *x;
  const void *weights; /* a row per output channel: taps, channels; padded to whole groups */
  void *y;
  int32_t *psum;       /* accumulating kernels: partial sums [y_h][y_w][y_c] */
  void *scratch;       /* im2col columns or padded rows, a part for each core */
  int32_t x_h, x_w, x_c;
  int32_t y_h, y_w, y_c;
  int32_t pad_top, pad_left;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  int32_t group_in, group_out; /* channels of a group; all of them in a dense convolution */
  int32_t multiplier;  /* depthwise: output channels per input channel */
  int32_t first, last; /* accumulating kernels: the first, the last tile of input channels */
  dory_gap8_requant_t requant;
} dory_gap8_conv_t;

/* Dense kernels of bytes: `requant` only where sums of the 4x4 block go through C; strip_cycles
 * and copy_cycles where inputs stay in registers: of a strip beside its channels, and of the copy of
 * its inputs with padding in the first and the last row. */
typedef struct {
  const void *x;
  const void *weights; /* interleaved, see dory_gap8_block_impl.h */
  const void *parameters;
  void *y;
  void *scratch; /* a part for each core */
  int32_t x_h, x_w, x_c;
  int32_t y_h, y_w, y_c;
  int32_t pad_top, pad_left;
  int32_t shift, low_bits, hi;
  int32_t strip_cycles, copy_cycles;
  const dory_gap8_requant_t *requant;
} dory_gap8_window_t;

/* Products of matrices, see dory_gap8_matrices_impl.h. zeros: of elements of x, x2. block: sizes of the
 * tile, and what becomes of sums; scratch holds x as the block reads it and the terms of rows. */
typedef struct {
  const void *x, *x2;
  int32_t x_zero, x2_zero;
  dory_gap8_window_t block;
} dory_gap8_matrices_t;

/* Depthwise kernels that read x[x_h][x_w][x_c]. Outputs come in fours along the axis a and one by one
 * along the axis b: rows and columns, or columns and rows. */
typedef struct {
  const void *x;
  const void *weights; /* per output channel, tap column after tap column (along b) */
  void *y;
  void *scratch;       /* transposed input, a part for each core */
  int32_t x_c, y_c;
  int32_t x_a, x_b, x_step_a, x_step_b; /* elements along an axis, and between neighbours */
  int32_t y_a, y_b, y_step_a, y_step_b;
  int32_t pad_a, pad_b; /* zeros before the first element */
  /* Windows of any size: words along a that the four outputs reach over, tap columns. */
  int32_t words, kernel_b, stride_a, stride_b, dilation_b;
  dory_gap8_requant_t requant;
} dory_gap8_strips_t;

typedef struct {
  const void *x;
  const void *weights; /* a row per output, padded to whole groups */
  void *y;
  int32_t *psum;
  int32_t x_bytes;     /* of the inputs of this tile */
  int32_t y_c;
  int32_t first, last;
  dory_gap8_requant_t requant;
} dory_gap8_linear_t;

typedef struct {
  const void *x;
  void *y;
  int32_t x_h, x_w;
  int32_t y_h, y_w, y_c;
  int32_t pad_top, pad_left;
  int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  dory_gap8_requant_t requant;
} dory_gap8_pool_t;

/* A mean in binary32 of `taps` elements, scale * (x - zero_point) each: that of the nearest integer of
 * (sum * mul + add) / 2^shift unless less than margin / 2^shift from a tie. */
typedef struct {
  dory_gap8_pool_t pool;
  int64_t add;
  int32_t mul;
  uint32_t shift, margin;
  int32_t lo, hi;
  int32_t zero_point, out_zero, taps;
  float scale, out_scale;
} dory_gap8_realpool_t;

typedef struct {
  const void *x, *x2;
  void *y;
  int32_t pixels, channels;
  dory_gap8_step_t operand[2];
  dory_gap8_requant_t requant;
} dory_gap8_add_t;

/* The kernels of 8-bit elements that work on four at once. */
typedef struct {
  const void *x;
  const void *weights; /* interleaved, see dory_gap8_linear_bytes_impl.h */
  void *y;
  void *scratch; /* partial sums: [cores][outputs that all cores share] */
  int32_t x_c, y_c;
  dory_gap8_requant_t requant;
} dory_gap8_linear_bytes_t;

typedef struct {
  const void *x, *x2;
  void *y;
  const void *tables; /* see dory_gap8_add_bytes_impl.h */
  int32_t elements;
  int32_t mul, mul2, add, shift;
  int32_t hi;
} dory_gap8_add_bytes_t;

/* What an operand contributes, see dory_gap8_pair_impl.h. */
typedef struct {
  const int32_t *records;
  int32_t shift;
  int32_t lo, hi;
} dory_gap8_operand_t;

/* Two operands. first: elements of x2 before the one that the first pixel has; row, column: elements
 * of x2 from row to row and from column to column, 0 where all have the same one. */
typedef struct {
  const void *x, *x2;
  void *y;
  int32_t pixels, y_w, channels;
  int32_t first, row, column;
  dory_gap8_operand_t operand[2];
  dory_gap8_requant_t requant;
} dory_gap8_pair_t;

/* Functions of one byte: table[256], or one such table for each of the channels. */
typedef struct {
  const void *x;
  const void *table;
  void *y;
  int32_t elements, channels;
} dory_gap8_lut_t;

/* Inputs one after the other along an axis, each in `count` runs of sizes[] * unit bytes, of which
 * the output has `length` units from unit `first` on. */
typedef struct {
  const void *x[16];
  int32_t sizes[16];
  void *y;
  int32_t inputs, count, unit, first, length;
} dory_gap8_concat_t;

/* Output element (h, w, c) is the element (h + row, w + column, c + channel) of the tile x[x_h][x_w][x_c],
 * `value` outside of it: a byte, four times. */
typedef struct {
  const void *x;
  void *y;
  int32_t x_h, x_w, x_c;
  int32_t y_h, y_w, y_c;
  int32_t row, column, channel;
  uint32_t value;
} dory_gap8_move_t;

/* Axes in another order: the first output is byte `first` of the tile of the input, the next rows,
 * columns and channels lie so many bytes further. */
typedef struct {
  const void *x;
  void *y;
  int32_t y_h, y_w, y_c;
  int32_t first, row, column, channel;
} dory_gap8_transpose_t;

/* taps: for all rows, then all columns of the output [first, second, weight of first, of second];
 * height: rows. x_row ... y_column: where the tiles begin. */
typedef struct {
  const void *x;
  const int32_t *taps;
  void *y;
  int32_t x_w, x_row, x_column;
  int32_t y_h, y_w, y_c, y_row, y_column;
  int32_t height;
  dory_gap8_requant_t requant;
} dory_gap8_resize_t;

/* table: exponentials by the distance from the largest channel; channel: the first one of y. */
typedef struct {
  const void *x;
  const int32_t *table;
  void *y;
  int32_t pixels, x_c, y_c, channel;
  int32_t add, lo, hi;
} dory_gap8_softmax_t;

/* weights: of each channel of y, then the biases. channel: the first one of y. A value is shifted up,
 * then down, and clipped. */
typedef struct {
  const void *x;
  const int32_t *weights;
  void *y;
  int32_t pixels, x_c, y_c, channel;
  int32_t up, down, lo, hi;
} dory_gap8_norm_t;

/* table: exponentials by the distance from the largest channel; channel: the first one of y. */
typedef struct {
  const void *x;
  const uint32_t *table;
  void *y;
  int32_t pixels, x_c, y_c, channel;
  uint32_t factor;
  int32_t add, lo, hi;
} dory_gap8_shares_t;

#endif
