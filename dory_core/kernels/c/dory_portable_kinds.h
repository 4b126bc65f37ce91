/* Portable kernels of layers without a sum over a window: tables, softmax, moves of elements. See
 * dory_portable.h for what all kernels share. */
#ifndef DORY_PORTABLE_KINDS_H
#define DORY_PORTABLE_KINDS_H

#include "dory_portable.h"

/* First element of a tile in its tensor. */
typedef struct {
  uint32_t row, column, channel;
} dory_portable_place_t;

/* Where the tiles of the input and of the output lie. */
typedef struct {
  dory_portable_place_t x, y;
} dory_portable_places_t;

/* Function of one byte. entry: storage of the elements of the table, whole bytes. */
typedef struct {
  dory_portable_type_t x, y, entry;
  uint8_t per_channel;
} dory_portable_lut_t;

/* table: 256 elements, or as many for each channel of the tile, indexed by the input as a byte. */
void dory_portable_lut(const dory_portable_lut_t *layer, const dory_portable_tile_t *tile,
                       const uint8_t *x, const uint8_t *table, uint8_t *y);

/* Function of one element by straight pieces, each 2^piece_bits long. steps: argument, then those
 * after the accumulator. */
typedef struct {
  dory_portable_type_t x, y;
  uint32_t count, piece_bits;
  dory_portable_steps_t argument, steps;
} dory_portable_piecewise_t;

/* table: `count` int32, where each piece begins, then as many slopes. */
void dory_portable_piecewise(const dory_portable_piecewise_t *layer,
                             const dory_portable_tile_t *tile, const uint8_t *x,
                             const uint8_t *table, const uint8_t *steps, uint8_t *y);

/* Softmax of elements of 16 bits. Tiles are those of a softmax. */
typedef struct {
  dory_portable_type_t x, y;
  dory_portable_steps_t argument, steps;
} dory_portable_wide_softmax_t;

/* table: 513 int16, exponentials; 513 int16, inverses. */
void dory_portable_wide_softmax(const dory_portable_wide_softmax_t *layer,
                                const dory_portable_tile_t *tile, uint32_t channel,
                                const uint8_t *x, const uint8_t *table, const uint8_t *steps,
                                uint8_t *y);

/* Functions of the channels of each pixel. steps: those behind the accumulator. factor: of shares,
 * or of a softmax in binary32, else 0. share_bits: 8 or 16, of a softmax in integers. */
typedef struct {
  dory_portable_type_t x, y;
  uint32_t factor;
  uint32_t share_bits;
  dory_portable_steps_t steps;
} dory_portable_pixelwise_t;

/* Softmax in the integers of TensorFlow Lite: 2^share_bits times the share of each channel, then the
 * steps. The input tile has all channels, the output tile those from `channel` on. table: 256 int32,
 * the exponential in Q0.31 of a difference to the largest channel; with a factor, the bits of that in
 * binary32, and the accumulator is the factor times the share. */
void dory_portable_softmax(const dory_portable_pixelwise_t *layer, const dory_portable_tile_t *tile,
                           uint32_t channel, const uint8_t *x, const uint8_t *table,
                           const uint8_t *steps, uint8_t *y);

/* Logarithm of the softmax in the integers of TensorFlow Lite, in sixteenths, then the steps. Tiles
 * are those of a softmax. table: 256 int32, the exponential in Q12.19 of a difference to the largest
 * channel; behind them 256 int32, the difference in Q5.26. */
void dory_portable_log_softmax(const dory_portable_pixelwise_t *layer,
                               const dory_portable_tile_t *tile, uint32_t channel,
                               const uint8_t *x, const uint8_t *table, const uint8_t *steps,
                               uint8_t *y);

/* The factor times the share of each channel of the sum over all, rounded down, then the steps. Tiles
 * are those of a softmax. table: 256 uint32, the exponential of a difference to the largest channel. */
void dory_portable_shares(const dory_portable_pixelwise_t *layer, const dory_portable_tile_t *tile,
                          uint32_t channel, const uint8_t *x, const uint8_t *table,
                          const uint8_t *steps, uint8_t *y);

/* Layer normalisation in integers. is_centred: the mean is taken off. wrap_bits: the accumulator is
 * taken modulo 2^wrap_bits, as a signed number; 0 for as it is. */
typedef struct {
  dory_portable_type_t x, y;
  uint8_t is_centred, has_bias;
  uint32_t wrap_bits;
  dory_portable_steps_t steps;
} dory_portable_norm_t;

/* The channels of each pixel over the root of their mean square, then the steps. Tiles are those of
 * a softmax. weights: int32 of each output channel; behind them as many biases. */
void dory_portable_norm(const dory_portable_norm_t *layer, const dory_portable_tile_t *tile,
                        uint32_t channel, const uint8_t *x, const uint8_t *weights,
                        const uint8_t *steps, uint8_t *y);

/* The channels of each pixel over their Euclidean norm in the integers of TensorFlow Lite, times 128,
 * then the steps. Tiles are those of a softmax. */
typedef struct {
  dory_portable_type_t x, y;
  int32_t zero_point;
  dory_portable_steps_t steps;
} dory_portable_l2norm_t;

void dory_portable_l2norm(const dory_portable_l2norm_t *layer, const dory_portable_tile_t *tile,
                          uint32_t channel, const uint8_t *x, const uint8_t *steps, uint8_t *y);

/* A number of binary32: mantissa / 2^digits, with a mantissa of 24 bits. */
typedef struct {
  uint32_t mantissa;
  int32_t digits;
} dory_portable_scale_t;

/* Quotient in binary32 of two operands, which mean scale * a and scale2 * b behind their steps; else as
 * dory_portable_pair_t. is_turned: it is the second one over the first one. */
typedef struct {
  dory_portable_type_t x, x2, y;
  uint8_t one_row, one_column, one_channel, is_turned;
  dory_portable_steps_t x_steps, x2_steps, steps;
  dory_portable_scale_t scale, scale2, out_scale;
} dory_portable_quotient_t;

/* In steps of the output, rounded; over 0 the lowest or the largest value. */
void dory_portable_quotient(const dory_portable_quotient_t *layer, const dory_portable_tile_t *tile,
                            const dory_portable_second_t *second, const uint8_t *x,
                            const uint8_t *x2, const uint8_t *steps, uint8_t *y);

/* Layer normalisation in binary32: elements mean scale * (element - zero_point). is_centred: the mean is
 * taken off. order: squares are added in eight lanes (0), one after the other (1), or in packets of four
 * (2). by_root: results are quotients by the root, not products with its inverse. of_sum: the root is
 * that of the sum of squares, not of their mean. */
typedef struct {
  dory_portable_type_t x, y;
  uint8_t has_bias, is_centred, order, by_root, of_sum;
  int32_t zero_point;
  dory_portable_scale_t scale, epsilon, out_scale;
  dory_portable_steps_t steps;
} dory_portable_layernorm_t;

/* The channels of each pixel without their mean, over the root of their variance, in steps of the
 * output, rounded; then the steps. Tiles are those of a softmax. weights: bits of binary32 of each
 * output channel; behind them as many biases. */
void dory_portable_layernorm(const dory_portable_layernorm_t *layer,
                             const dory_portable_tile_t *tile, uint32_t channel, const uint8_t *x,
                             const uint8_t *weights, const uint8_t *steps, uint8_t *y);

/* Normalisation of each channel in binary32: elements mean scale * (element - zero_point). */
typedef struct {
  dory_portable_type_t x, y;
  int32_t zero_point;
  dory_portable_scale_t scale, epsilon, out_scale;
  dory_portable_steps_t steps;
} dory_portable_instancenorm_t;

/* The rows and columns of each channel without their mean, over the root of their variance, in steps of
 * the output, rounded; then the steps. The input tile has all rows and columns. weights: bits of binary32
 * of each output channel; behind them as many biases, then the elements before the first packet of a
 * sum. */
void dory_portable_instancenorm(const dory_portable_instancenorm_t *layer,
                                const dory_portable_tile_t *tile,
                                const dory_portable_places_t *places, const uint8_t *x,
                                const uint8_t *weights, const uint8_t *steps, uint8_t *y);

/* Long short-term memory in the integers of TensorFlow Lite. clip: of the cell, 0 for none. steps:
 * twelve, of the sums over the input for the gates input, forget, cell and output, of those over the
 * hidden state, of the kept and the added part of the cell, of the argument of its hyperbolic tangent
 * and of the hidden state. */
typedef struct {
  dory_portable_type_t x, hidden;
  int32_t clip;
  const dory_portable_step_t *steps;
} dory_portable_lstm_t;

/* The tile is the whole layer; all cores meet after each row. x: x_h rows of x_c elements.
 * state: three rows of bytes, hidden state, low and high byte of the cells; or two rows of 16 bits,
 * hidden state and cells. weights: 256 uint16, the
 * sigmoid of n / 24 in Q0.16, then [gate][unit][x_c features, then y_c units]. bias: int32, [of x, of
 * the hidden state][gate][unit]. y: the hidden state behind each row, then the cells. */
void dory_portable_lstm(const dory_portable_lstm_t *layer, const dory_portable_tile_t *tile,
                        const uint8_t *x, const uint8_t *state, const uint8_t *weights,
                        const uint8_t *bias, const uint8_t *steps, uint8_t *y);

/* Products of matrices: a row of the image is one, its columns are the rows of the matrix, its channels
 * the columns of the matrix. one_x, one_x2: the tensor has one matrix for all of the output. Zero
 * points are subtracted from the elements. */
typedef struct {
  dory_portable_type_t x, x2, y;
  int32_t x_zero, x2_zero;
  uint8_t one_x, one_x2;
  dory_portable_steps_t steps;
} dory_portable_matmul_t;

/* x2 times x: tiles of x2 have whole rows, tiles of x whole columns. */
void dory_portable_matmul(const dory_portable_matmul_t *layer, const dory_portable_tile_t *tile,
                          const uint8_t *x, const uint8_t *x2, const uint8_t *steps, uint8_t *y);

/* Number of the largest channel, the first one of equals. */
void dory_portable_argmax(const dory_portable_pixelwise_t *layer, const dory_portable_tile_t *tile,
                          const uint8_t *x, const uint8_t *steps, uint8_t *y);

/* Copies elements. Axes are 0 channels, 1 rows, 2 columns: along axis perm[a] of the input,
 * output element i of axis a is element begin[a] + i * step[a]; beside the input stands `value`. */
typedef struct {
  dory_portable_type_t x, y;
  uint8_t perm[3];
  int32_t begin[3], step[3];
  int32_t value;
} dory_portable_move_t;

void dory_portable_move(const dory_portable_move_t *layer, const dory_portable_tile_t *tile,
                        const dory_portable_places_t *places, const uint8_t *x, uint8_t *y);

/* Copies elements in the order of memory into another shape. width, channels: of the output. The
 * input tile is the whole tensor. */
typedef struct {
  dory_portable_type_t x, y;
  uint32_t width, channels;
} dory_portable_reshape_t;

void dory_portable_reshape(const dory_portable_reshape_t *layer, const dory_portable_tile_t *tile,
                           const dory_portable_places_t *places, const uint8_t *x, uint8_t *y);

/* One input after the other along an axis; the tiles of the inputs are whole along it. */
typedef struct {
  dory_portable_type_t y;
  uint8_t axis;
  uint32_t count;
  const dory_portable_type_t *x; /* of each input */
  const uint32_t *sizes;         /* of each input along the axis */
} dory_portable_concat_t;

void dory_portable_concat(const dory_portable_concat_t *layer, const dory_portable_tile_t *tile,
                          const dory_portable_places_t *places, const uint8_t *const *x,
                          uint8_t *y);

/* Interpolation between two rows and two columns. height: of the output. */
typedef struct {
  dory_portable_type_t x, y;
  uint32_t height;
  dory_portable_steps_t steps;
} dory_portable_resize_t;

/* taps: for each row of the output, then for each column, four int32: first and second row (column)
 * of the input, their weights. */
void dory_portable_resize(const dory_portable_resize_t *layer, const dory_portable_tile_t *tile,
                          const dory_portable_places_t *places, const uint8_t *x,
                          const uint8_t *taps, const uint8_t *steps, uint8_t *y);

/* Transposed convolution. pad_top, pad_left: rows and columns of the full output that are cut. */
typedef struct {
  dory_portable_type_t x, w, y;
  dory_portable_window_t window;
  uint32_t pad_top, pad_left;
  int32_t zero_point; /* subtracted from each input element */
  dory_portable_steps_t steps;
} dory_portable_conv_transpose_t;

/* weights, bias: as for the convolution. */
void dory_portable_conv_transpose(const dory_portable_conv_transpose_t *layer,
                                  const dory_portable_tile_t *tile,
                                  const dory_portable_places_t *places, const uint8_t *x,
                                  const uint8_t *weights, const uint8_t *bias, const uint8_t *steps,
                                  uint8_t *y);

#endif
