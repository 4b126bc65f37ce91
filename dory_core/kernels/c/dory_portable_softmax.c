/* Softmax in the integers of TensorFlow Lite with its fixed-point functions, or in binary32. */
#include "dory_portable_elements.h"
#include "dory_portable_fixed.h"
#include "dory_portable_kinds.h"

/* Returns a number that is not negative from its bits in binary32. */
static dory_portable_positive_t from_bits(int32_t bits)
{
  const int exponent = (int)(bits >> 23);
  const uint64_t fraction = (uint64_t)bits & 0x7fffffu;
  const dory_portable_positive_t value = {exponent > 0 ? fraction | 0x800000u : fraction,
                                          (exponent > 0 ? exponent : 1) - 150};

  return value;
}

static uint32_t below(const dory_portable_pixelwise_t *layer, const uint8_t *pixel, uint32_t c,
                      int64_t largest)
{
  return (uint32_t)(largest - dory_portable_get(pixel, c, layer->x));
}

/* Returns the sum of the exponentials of a pixel in binary32, one channel after the other. */
static dory_portable_positive_t real_total(const dory_portable_pixelwise_t *layer,
                                           const uint8_t *pixel, uint32_t channels,
                                           int64_t largest, const uint8_t *table)
{
  dory_portable_positive_t total = {0, 0};

  for (uint32_t c = 0; c < channels; c++) {
    const int32_t bits = dory_portable_int32(table, below(layer, pixel, c, largest));
    total = dory_portable_sum(total, from_bits(bits));
  }
  return total;
}

/* Returns factor, below 2^20, times the share of an exponential, rounded once, ties to even. */
static int64_t real_share(const dory_portable_pixelwise_t *layer, int32_t bits,
                          dory_portable_positive_t total)
{
  const dory_portable_positive_t part = from_bits(bits);
  const int shift = total.exponent - part.exponent; /* not negative: the total is no smaller */
  const uint64_t over = part.digits * layer->factor;

  if (shift > DORY_PORTABLE_DIGITS - 3) {
    return 0; /* below a half */
  }
  const uint64_t by = total.digits << shift;
  const uint64_t quotient = over / by, twice = over % by * 2u;
  return (int64_t)(quotient + (twice > by || (twice == by && (quotient & 1u))));
}

void dory_portable_softmax(const dory_portable_pixelwise_t *layer, const dory_portable_tile_t *tile,
                           uint32_t channel, const uint8_t *x, const uint8_t *table,
                           const uint8_t *steps, uint8_t *y)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t pixels = tile->y_h * tile->y_w;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t pixel = core; pixel < pixels; pixel += cores) {
    const uint8_t *const from = x + pixel * x_bytes;
    const int64_t largest = dory_portable_largest(from, tile->x_c, layer->x);
    uint32_t sum = 0;

    if (layer->factor) {
      const dory_portable_positive_t total = real_total(layer, from, tile->x_c, largest, table);
      for (uint32_t c = 0; c < tile->y_c; c++) {
        const int32_t bits = dory_portable_int32(table, below(layer, from, channel + c, largest));
        dory_portable_put(y + pixel * y_bytes, c, layer->y,
                          dory_portable_apply(&layer->steps, steps, tile->y_c, c,
                                              real_share(layer, bits, total)));
      }
      continue;
    }
    for (uint32_t c = 0; c < tile->x_c; c++) {
      const int32_t power = dory_portable_int32(table, below(layer, from, c, largest));
      sum += (uint32_t)dory_fixed_rounded_shift(power, 12);
    }
    const uint32_t zeros = dory_fixed_leading_zeros(sum);
    const uint32_t shift = 43u - layer->share_bits - zeros;
    const int32_t scale = dory_fixed_reciprocal((int32_t)((sum << zeros) - 0x80000000u));
    for (uint32_t c = 0; c < tile->y_c; c++) {
      const int32_t power = dory_portable_int32(table, below(layer, from, channel + c, largest));
      const int32_t share = dory_fixed_high_product(scale, power);
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c,
                                            dory_fixed_rounded_shift(share, shift)));
    }
  }
}
