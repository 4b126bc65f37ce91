/* Portable kernels: every layer kind and precision in plain C99, for any core.
 *
 * Every core calls a kernel with the same arguments; each computes its own share of
 * the output and never writes a byte that belongs to another one. Tiles are HWC in storage form:
 * elements of 2 and 4 bits are packed along the channels, element 0 in the low bits, every pixel
 * starts on a byte; 16 and 32 bits are little-endian. Nothing is allocated and nothing remembered.
 */
#ifndef DORY_PORTABLE_H
#define DORY_PORTABLE_H

#include <stddef.h>
#include <stdint.h>

/* Storage of one element. */
typedef struct {
  uint32_t bits; /* 2, 4, 8, 16 or 32 */
  uint8_t is_signed;
} dory_portable_type_t;

/* One requantisation, in 64 bits: clip(floor((mul * value + add) / div), lo, hi), with another add
 * for values below `turn` where there are two. Its numbers stand in the parameter table as int64:
 * first every mul, then every add, then those for values below `turn`; one per channel of the tile or
 * a single one. The tables of consecutive steps follow one another. A step in binary32 computes
 * clip(even(f32(f32(value - turn) * S)) + div, lo, hi), rounded twice with ties to even, with
 * S = (mul & (2^32 - 1)) * 2^(-(mul >> 32)); it has no add. */
typedef struct {
  int64_t div;     /* positive; the zero point of a step in binary32 */
  int64_t lo, hi;  /* the limits of int64_t when there is no clip */
  int64_t turn;
  int32_t shift;   /* log2(div), or -1 when div is no power of two */
  uint8_t mul_per_channel, add_per_channel, two_addends, negative_per_channel, float32;
} dory_portable_step_t;

typedef struct {
  const dory_portable_step_t *step; /* NULL when count is 0 */
  uint32_t count;
} dory_portable_steps_t;

/* A sliding window: sizes, strides and dilations, vertical and horizontal. */
typedef struct {
  uint32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
} dory_portable_window_t;

/* Sizes of one tile. pad_top, pad_left: rows and columns by which its first window sticks out of
 * the input tile; negative when it starts inside. */
typedef struct {
  uint32_t x_h, x_w, x_c, y_h, y_w, y_c;
  int32_t pad_top, pad_left;
} dory_portable_tile_t;

/* Convolution. group_in, group_out: channels of one group; 0, 0 for a dense one. pad_value: the
 * element that stands around the image. */
typedef struct {
  dory_portable_type_t x, w, y;
  dory_portable_window_t window;
  uint32_t group_in, group_out;
  int32_t pad_value;
  dory_portable_steps_t steps;
} dory_portable_conv_t;

/* weights: [output channel][row][column][input channel of the group] in storage form, the input
 * channels packed like those of a pixel. bias: int32 per output
 * channel, may be NULL. steps: parameter table. psum: sums of the tile, [pixel][output channel],
 * kept from one tile of input channels to the next; unused, may be NULL, when the tile is both
 * first and last. y is written by the last one alone. */
void dory_portable_conv(const dory_portable_conv_t *layer, const dory_portable_tile_t *tile,
                        const uint8_t *x, const uint8_t *weights, const uint8_t *bias,
                        const uint8_t *steps, int32_t *psum, int first, int last, uint8_t *y);

/* Fully connected layer over x_c elements. pixel_c: channels of a pixel of the input when its
 * sub-byte pixels end inside a byte, so that x_c is a multiple of it; 0 when there are no gaps. */
typedef struct {
  dory_portable_type_t x, w, y;
  uint32_t pixel_c;
  dory_portable_steps_t steps;
} dory_portable_linear_t;

/* weights: [output][input], the inputs packed without gaps between pixels; the rest as for the
 * convolution. */
void dory_portable_linear(const dory_portable_linear_t *layer, const dory_portable_tile_t *tile,
                          const uint8_t *x, const uint8_t *weights, const uint8_t *bias,
                          const uint8_t *steps, int32_t *psum, int first, int last, uint8_t *y);

/* A mean in binary32: what an element means, and what the mean is divided by. Scales are
 * mantissa / 2^digits with mantissas of 24 bits. */
typedef struct {
  uint32_t x_mantissa, y_mantissa;
  int32_t x_digits, y_digits;
  int32_t x_zero, y_zero;
} dory_portable_real_t;

/* Pooling. pad_value: the element around the image, 0 where it does not count.
 * inside: an average is that of the elements in the image, rounded with ties away from origin.
 * is_real: the average is computed in binary32, of the elements in the image or of all. */
typedef struct {
  dory_portable_type_t x, y;
  dory_portable_window_t window;
  int32_t pad_value, origin;
  uint8_t inside, is_real;
  dory_portable_real_t real;
  dory_portable_steps_t steps;
} dory_portable_pool_t;

/* Maximum over the part of the window that lies in the image. */
void dory_portable_maxpool(const dory_portable_pool_t *layer, const dory_portable_tile_t *tile,
                           const uint8_t *x, const uint8_t *steps, uint8_t *y);

/* Sum over the window, and the division is a step; or the mean of what lies in the image. */
void dory_portable_avgpool(const dory_portable_pool_t *layer, const dory_portable_tile_t *tile,
                           const uint8_t *x, const uint8_t *steps, uint8_t *y);

/* Two operands, element by element: each with its own steps, then those of the result. The parameter
 * table holds the steps in this order. */
typedef struct {
  dory_portable_type_t x, x2, y;
  uint8_t one_row, one_column, one_channel; /* of x2, which serve all of the output */
  dory_portable_steps_t x_steps, x2_steps, steps;
} dory_portable_pair_t;

/* Where the second operand lies: row, column and channel of it that belong to the first element of
 * the tile, and its columns and channels in memory. */
typedef struct {
  uint32_t row, column, channel, width, channels;
} dory_portable_second_t;

/* Sum, product, larger one and smaller one. */
void dory_portable_add(const dory_portable_pair_t *layer, const dory_portable_tile_t *tile,
                       const dory_portable_second_t *second, const uint8_t *x, const uint8_t *x2,
                       const uint8_t *steps, uint8_t *y);
void dory_portable_mul(const dory_portable_pair_t *layer, const dory_portable_tile_t *tile,
                       const dory_portable_second_t *second, const uint8_t *x, const uint8_t *x2,
                       const uint8_t *steps, uint8_t *y);
void dory_portable_maximum(const dory_portable_pair_t *layer, const dory_portable_tile_t *tile,
                           const dory_portable_second_t *second, const uint8_t *x,
                           const uint8_t *x2, const uint8_t *steps, uint8_t *y);
void dory_portable_minimum(const dory_portable_pair_t *layer, const dory_portable_tile_t *tile,
                           const dory_portable_second_t *second, const uint8_t *x,
                           const uint8_t *x2, const uint8_t *steps, uint8_t *y);

#endif
