/* Layer normalisation in binary32, by integers, in the order of sums of onnxruntime for AVX2. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

#define LANES 8u
/* Squares of the end of a row that are rounded before they are added. */
#define ROUNDED 4u

typedef struct {
  dory_portable_positive_t size;
  int is_negative;
} real_t;

/* What the channels of a pixel are moved and multiplied by. */
typedef struct {
  real_t mean;
  dory_portable_positive_t inverse;
} pixel_t;

static real_t real_of(int64_t digits, int exponent)
{
  const real_t value = {{digits < 0 ? (uint64_t)-digits : (uint64_t)digits, exponent}, digits < 0};

  return value;
}

/* Returns the number with these bits of binary32. */
static real_t from_bits(int32_t bits)
{
  const int exponent = (int)((uint32_t)bits >> 23 & 0xffu);
  const int64_t fraction = (int64_t)((uint32_t)bits & 0x7fffffu);
  const real_t value = {{(uint64_t)(exponent > 0 ? fraction | 0x800000 : fraction),
                         (exponent > 0 ? exponent : 1) - 150},
                        bits < 0};

  return value;
}

static int is_less(dory_portable_positive_t a, dory_portable_positive_t b)
{
  const int a_top = dory_portable_bits(a.digits) + a.exponent;
  const int b_top = dory_portable_bits(b.digits) + b.exponent;

  if (a.digits == 0 || b.digits == 0) {
    return b.digits != 0;
  }
  if (a_top != b_top) {
    return a_top < b_top;
  }
  return a.digits << (63 - dory_portable_bits(a.digits)) <
         b.digits << (63 - dory_portable_bits(b.digits));
}

/* Returns the difference of two numbers of at most 48 digits, of which the first is the larger. */
static dory_portable_positive_t less(dory_portable_positive_t larger,
                                     dory_portable_positive_t smaller)
{
  if (smaller.digits == 0) {
    return dory_portable_positive(larger);
  }
  const int up = 60 - dory_portable_bits(larger.digits);
  const int shift = larger.exponent - up - smaller.exponent;
  larger.digits <<= up;
  larger.exponent -= up;
  if (shift <= 0) {
    larger.digits -= smaller.digits << -shift;
  } else { /* what falls off is below all digits that count, but makes no tie */
    const uint64_t whole = shift < 63 ? smaller.digits >> shift : 0u;
    const int is_whole = shift < 63 && whole << shift == smaller.digits;
    larger.digits -= whole + (is_whole ? 0u : 1u);
    larger.digits |= is_whole ? 0u : 1u;
  }
  return dory_portable_positive(larger);
}

/* Returns the sum of two numbers of at most 48 digits, rounded once. */
static real_t plus(real_t a, real_t b)
{
  const int turns = is_less(a.size, b.size);
  const real_t larger = turns ? b : a, smaller = turns ? a : b;
  real_t sum = larger;

  sum.size = a.is_negative == b.is_negative
                 ? dory_portable_positive(dory_portable_sum(a.size, b.size))
                 : less(larger.size, smaller.size);
  return sum;
}

/* Returns the product of two numbers of 24 digits, not rounded. */
static dory_portable_positive_t times(dory_portable_positive_t a, dory_portable_positive_t b)
{
  const dory_portable_positive_t product = {a.digits * b.digits, a.exponent + b.exponent};

  return product;
}

static dory_portable_positive_t square_root(dory_portable_positive_t value)
{
  /* An even exponent, and 62 or 61 digits: the root has 31. */
  const int up = 62 - dory_portable_bits(value.digits);
  const int odd = (value.exponent - up) & 1;
  const uint64_t digits = value.digits << (up - odd);
  dory_portable_positive_t root = {0, (value.exponent - up + odd) / 2};

  for (uint64_t bit = (uint64_t)1 << 30; bit != 0; bit >>= 1) {
    const uint64_t next = root.digits | bit;
    root.digits = next * next <= digits ? next : root.digits;
  }
  /* A rest makes no tie. */
  root.digits = root.digits << 1 | (root.digits * root.digits != digits);
  root.exponent -= 1;
  return dory_portable_positive(root);
}

/* Returns the element without the zero point in units of 2^-digits of the scale. */
static int64_t units(const dory_portable_layernorm_t *layer, const uint8_t *pixel, uint32_t c)
{
  const int64_t value = dory_portable_get(pixel, c, layer->x) - layer->zero_point;

  return dory_portable_round_signed(value * layer->scale.mantissa);
}

static real_t deviation(const dory_portable_layernorm_t *layer, const uint8_t *pixel, uint32_t c,
                        real_t mean)
{
  mean.is_negative = !mean.is_negative;
  return plus(real_of(units(layer, pixel, c), -layer->scale.digits), mean);
}

static dory_portable_positive_t sum_of_squares(const dory_portable_layernorm_t *layer,
                                               const uint8_t *pixel, uint32_t channels, real_t mean)
{
  dory_portable_positive_t lanes[LANES] = {{0, 0}};
  const uint32_t whole = channels / LANES * LANES;
  const uint32_t rounded = whole + (channels - whole >= ROUNDED ? ROUNDED : 0u);

  for (uint32_t c = 0; c < whole; c++) {
    const dory_portable_positive_t size = deviation(layer, pixel, c, mean).size;
    dory_portable_positive_t *const lane = &lanes[c % LANES];
    *lane = dory_portable_positive(dory_portable_sum(*lane, times(size, size)));
  }
  for (uint32_t n = 0; n < 4; n++) {
    lanes[n] = dory_portable_sum(lanes[n], lanes[n + 4]);
  }
  dory_portable_positive_t total = dory_portable_sum(dory_portable_sum(lanes[0], lanes[2]),
                                                     dory_portable_sum(lanes[1], lanes[3]));
  for (uint32_t c = whole; c < channels; c++) {
    const dory_portable_positive_t size = deviation(layer, pixel, c, mean).size;
    const dory_portable_positive_t square = times(size, size);
    total = dory_portable_positive(
        dory_portable_sum(total, c < rounded ? dory_portable_positive(square) : square));
  }
  return total;
}

static pixel_t measured(const dory_portable_layernorm_t *layer, const uint8_t *pixel,
                        uint32_t channels)
{
  const dory_portable_positive_t one = {1, 0}, count = {channels, 0};
  const dory_portable_positive_t epsilon = {layer->epsilon.mantissa, -layer->epsilon.digits};
  pixel_t found;
  int64_t sum = 0;

  for (uint32_t c = 0; c < channels; c++) {
    sum += units(layer, pixel, c);
  }
  found.mean = real_of(sum, -layer->scale.digits);
  found.mean.size = dory_portable_divide(found.mean.size, count);
  const dory_portable_positive_t variance =
      dory_portable_divide(sum_of_squares(layer, pixel, channels, found.mean), count);
  found.inverse = dory_portable_divide(one, square_root(dory_portable_sum(variance, epsilon)));
  return found;
}

/* Returns the result of a channel in steps of the output. */
static int64_t steps_of(const dory_portable_layernorm_t *layer, real_t value, pixel_t found,
                        const uint8_t *weights, uint32_t c, uint32_t channels)
{
  const real_t weight = from_bits(dory_portable_int32(weights, c));
  const dory_portable_positive_t step = {layer->out_scale.mantissa, -layer->out_scale.digits};

  value.size = dory_portable_positive(times(value.size, found.inverse));
  value.size = times(value.size, weight.size);
  value.is_negative ^= weight.is_negative;
  if (layer->has_bias) {
    value = plus(value, from_bits(dory_portable_int32(weights, channels + c)));
  } else {
    value.size = dory_portable_positive(value.size);
  }
  return dory_portable_even_sum(dory_portable_divide(value.size, step), value.is_negative, 0);
}

void dory_portable_layernorm(const dory_portable_layernorm_t *layer,
                             const dory_portable_tile_t *tile, uint32_t channel, const uint8_t *x,
                             const uint8_t *weights, const uint8_t *steps, uint8_t *y)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t pixels = tile->y_h * tile->y_w;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t pixel = core; pixel < pixels; pixel += cores) {
    const uint8_t *const from = x + pixel * x_bytes;
    const pixel_t found = measured(layer, from, tile->x_c);

    for (uint32_t c = 0; c < tile->y_c; c++) {
      const real_t value = deviation(layer, from, channel + c, found.mean);
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c,
                                            steps_of(layer, value, found, weights, c, tile->y_c)));
    }
  }
}
