/* The channels over their Euclidean norm, in the integers of TensorFlow Lite. */
#include "dory_portable_elements.h"
#include "dory_portable_fixed.h"
#include "dory_portable_kinds.h"

/* mantissa / 2^(31 + shift). */
typedef struct {
  int32_t mantissa, shift;
} factor_t;

static int32_t shifted(int32_t a, uint32_t shift)
{
  return dory_fixed_saturated((int64_t)a * ((int64_t)1 << shift));
}

/* Returns 1 / sqrt(a), by five steps of Newton-Raphson in Q3.28; 0 counts as 1. */
static factor_t inverse_root(int32_t a)
{
  factor_t found = {INT32_MAX, 0};

  if (a <= 1) {
    return found;
  }
  const int is_large = a >= 1 << 29;
  const uint32_t scaled = (uint32_t)(is_large ? a / 4 : a);
  const uint32_t pairs = (dory_fixed_leading_zeros(scaled) - 1u) / 2u - 1u;
  const int32_t half = (int32_t)((((scaled << 2u * pairs) >> 1) + 1u) >> 1);
  int32_t x = 1 << 28;

  for (int i = 0; i < 5; i++) {
    const int32_t square = dory_fixed_high_product(x, x);
    const int32_t cube = shifted(dory_fixed_high_product(square, x), 6);
    x = shifted(dory_fixed_high_product(x, 3 << 27) - dory_fixed_high_product(half, cube), 3);
  }
  found.mantissa = dory_fixed_high_product(x, 1518500250);
  found.shift = 11 + is_large - (int32_t)pairs;
  if (found.shift < 0) {
    found.mantissa *= 1 << -found.shift;
    found.shift = 0;
  }
  return found;
}

/* Returns round(128 * value * by), halves away from zero in the second rounding. */
static int32_t scaled(int32_t value, factor_t by)
{
  if (by.shift <= 7) {
    const int64_t product = (int64_t)(value * (1 << (7 - by.shift))) * by.mantissa;
    const int64_t sum = product + ((int64_t)1 << 30);
    return dory_fixed_saturated(sum < 0 ? ~(~sum >> 31) : sum >> 31);
  }
  const int32_t product = dory_fixed_high_product(value, by.mantissa);
  const uint32_t shift = (uint32_t)(by.shift - 7);
  return product < 0 ? -dory_fixed_rounded_shift(-product, shift)
                     : dory_fixed_rounded_shift(product, shift);
}

void dory_portable_l2norm(const dory_portable_l2norm_t *layer, const dory_portable_tile_t *tile,
                          uint32_t channel, const uint8_t *x, const uint8_t *steps, uint8_t *y)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t pixels = tile->y_h * tile->y_w;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t pixel = core; pixel < pixels; pixel += cores) {
    const uint8_t *const from = x + pixel * x_bytes;
    int32_t squares = 0;

    for (uint32_t c = 0; c < tile->x_c; c++) {
      const int32_t value = (int32_t)dory_portable_get(from, c, layer->x) - layer->zero_point;
      squares += value * value;
    }
    const factor_t factor = inverse_root(squares);
    for (uint32_t c = 0; c < tile->y_c; c++) {
      const int32_t value =
          (int32_t)dory_portable_get(from, channel + c, layer->x) - layer->zero_point;
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c,
                                            scaled(value, factor)));
    }
  }
}
