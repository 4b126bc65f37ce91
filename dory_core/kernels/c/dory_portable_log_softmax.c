/* Logarithm of the softmax in the integers of TensorFlow Lite. */
#include "dory_portable_elements.h"
#include "dory_portable_fixed.h"
#include "dory_portable_kinds.h"

/* Returns a * 2^shift, saturated. */
static int32_t shifted(int32_t a, uint32_t shift)
{
  return dory_fixed_saturated((int64_t)a * ((int64_t)1 << shift));
}

/* Returns a / 2^shift rounded to nearest, halves away from zero. */
static int32_t divided(int32_t a, uint32_t shift)
{
  return a < 0 ? -dory_fixed_rounded_shift(-a, shift) : dory_fixed_rounded_shift(a, shift);
}

/* Returns the logarithm in Q5.26 of a number from 1 on in Q12.19.
 *
 * The number is a power of 2 times r in [0.707, 1.414), whose logarithm is a quotient of polynomials
 * about the fourth root of 1/2. */
static int32_t logarithm(int32_t a)
{
  static const int32_t log_2 = 1488522236, root = 1518500250, fourth_root = 1805811301;
  static const int32_t quarter = 1 << 23; /* in Q6.25 */
  const uint32_t zeros = dory_fixed_leading_zeros((uint32_t)a);
  const int32_t scaled = dory_fixed_high_product(shifted(a, zeros - 1u), root);
  const int32_t first = shifted(scaled, 1);
  const int32_t first_power = (12 - (int32_t)zeros) * (1 << 25) + quarter;
  const int32_t product = dory_fixed_high_product(a, root);
  const uint32_t headroom = dory_fixed_leading_zeros((uint32_t)product) - 1u;
  const int32_t second = shifted(a, headroom);
  const int32_t second_power = (12 - (int32_t)headroom) * (1 << 25) - quarter;
  const int32_t r = first < second ? first : second;
  const int32_t power = first_power > second_power ? first_power : second_power;
  const int32_t p = (int32_t)(((int64_t)r + fourth_root + 1) / 2);
  const int32_t q = 2 * (r - fourth_root);
  const int32_t square = dory_fixed_high_product(q, q);
  const int32_t over =
      dory_fixed_high_product(q, r) +
      dory_fixed_high_product(dory_fixed_high_product(q, square), 117049297);
  const int32_t factor = 1057819769 + q + dory_fixed_high_product(127690142, square);
  const int32_t under = dory_fixed_high_product(p, factor) + dory_fixed_high_product(638450708, q);
  const int32_t fraction =
      dory_fixed_high_product(divided(over, 6), dory_fixed_reciprocal(under));

  return shifted(dory_fixed_high_product(power, log_2) + fraction, 1);
}

void dory_portable_log_softmax(const dory_portable_pixelwise_t *layer,
                               const dory_portable_tile_t *tile, uint32_t channel,
                               const uint8_t *x, const uint8_t *table, const uint8_t *steps,
                               uint8_t *y)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t pixels = tile->y_h * tile->y_w;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t pixel = core; pixel < pixels; pixel += cores) {
    const uint8_t *const from = x + pixel * x_bytes;
    const int64_t largest = dory_portable_largest(from, tile->x_c, layer->x);
    int32_t sum = 0;

    for (uint32_t c = 0; c < tile->x_c; c++) {
      const uint32_t below = (uint32_t)(largest - dory_portable_get(from, c, layer->x));
      sum += dory_portable_int32(table, below);
    }
    const int32_t subtracted = logarithm(sum);
    for (uint32_t c = 0; c < tile->y_c; c++) {
      const uint32_t below = (uint32_t)(largest - dory_portable_get(from, channel + c, layer->x));
      const int32_t difference = dory_portable_int32(table, 256u + below) - subtracted;
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c,
                                            divided(difference, 22)));
    }
  }
}
