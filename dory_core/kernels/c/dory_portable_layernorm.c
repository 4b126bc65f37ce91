/* Layer normalisation in binary32, by integers, in the orders of sums of onnxruntime for AVX2. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"
#include "dory_portable_real.h"

#define LANES 8u
#define PACKET 4u
#define IN_LANES 0
#define IN_PACKETS 2
/* Squares of the end of a row that are rounded before they are added. */
#define ROUNDED 4u

/* What the channels of a pixel are moved and multiplied by, or divided by. */
typedef struct {
  dory_portable_number_t mean;
  dory_portable_positive_t factor;
} pixel_t;

/* Returns the element without the zero point in units of 2^-digits of the scale. */
static int64_t units(const dory_portable_layernorm_t *layer, const uint8_t *pixel, uint32_t c)
{
  const int64_t value = dory_portable_get(pixel, c, layer->x) - layer->zero_point;

  return dory_portable_round_signed(value * layer->scale.mantissa);
}

static dory_portable_number_t deviation(const dory_portable_layernorm_t *layer,
                                        const uint8_t *pixel, uint32_t c,
                                        dory_portable_number_t mean)
{
  mean.is_negative = !mean.is_negative;
  return dory_portable_plus(dory_portable_number(units(layer, pixel, c), -layer->scale.digits),
                            mean);
}

static dory_portable_positive_t sum_of_squares(const dory_portable_layernorm_t *layer,
                                               const uint8_t *pixel, uint32_t channels,
                                               dory_portable_number_t mean)
{
  dory_portable_positive_t lanes[LANES] = {{0, 0}};
  const uint32_t whole = layer->order == IN_LANES ? channels / LANES * LANES : 0u;
  const uint32_t few = channels - whole >= ROUNDED ? ROUNDED : 0u;
  const uint32_t rounded = layer->order == IN_LANES ? whole + few : channels;

  for (uint32_t c = 0; c < whole; c++) {
    const dory_portable_positive_t size = deviation(layer, pixel, c, mean).size;
    dory_portable_positive_t *const lane = &lanes[c % LANES];
    *lane = dory_portable_positive(dory_portable_sum(*lane, dory_portable_times(size, size)));
  }
  for (uint32_t n = 0; n < 4; n++) {
    lanes[n] = dory_portable_sum(lanes[n], lanes[n + 4]);
  }
  dory_portable_positive_t total = dory_portable_sum(dory_portable_sum(lanes[0], lanes[2]),
                                                     dory_portable_sum(lanes[1], lanes[3]));
  for (uint32_t c = whole; c < channels; c++) {
    const dory_portable_positive_t size = deviation(layer, pixel, c, mean).size;
    const dory_portable_positive_t square = dory_portable_times(size, size);
    total = dory_portable_positive(
        dory_portable_sum(total, c < rounded ? dory_portable_positive(square) : square));
  }
  return total;
}

/* Two packets by turns; one that is left over is added to their sum. */
static dory_portable_positive_t sum_in_packets(const dory_portable_layernorm_t *layer,
                                               const uint8_t *pixel, uint32_t channels)
{
  const dory_portable_number_t zero = {{0, 0}, 0};
  dory_portable_positive_t lanes[2 * PACKET] = {{0, 0}};
  const uint32_t both = channels / (2 * PACKET) * (2 * PACKET);

  for (uint32_t c = 0; c < channels; c++) {
    const dory_portable_positive_t size = deviation(layer, pixel, c, zero).size;
    dory_portable_positive_t *const lane = &lanes[c < both ? c % (2 * PACKET) : c - both];
    if (c == both) {
      for (uint32_t n = 0; n < PACKET; n++) {
        lanes[n] = dory_portable_sum(lanes[n], lanes[PACKET + n]);
        lanes[PACKET + n].digits = 0;
      }
    }
    *lane = dory_portable_sum(*lane, dory_portable_positive(dory_portable_times(size, size)));
  }
  for (uint32_t n = 0; n < PACKET; n++) {
    lanes[n] = dory_portable_sum(lanes[n], lanes[PACKET + n]);
  }
  return dory_portable_sum(dory_portable_sum(lanes[0], lanes[2]),
                           dory_portable_sum(lanes[1], lanes[3]));
}

static pixel_t measured(const dory_portable_layernorm_t *layer, const uint8_t *pixel,
                        uint32_t channels)
{
  const dory_portable_positive_t one = {1, 0}, count = {channels, 0};
  const dory_portable_positive_t epsilon = {layer->epsilon.mantissa, -layer->epsilon.digits};
  pixel_t found;
  int64_t sum = 0;

  for (uint32_t c = 0; layer->is_centred && c < channels; c++) {
    sum += units(layer, pixel, c);
  }
  found.mean = dory_portable_number(sum, -layer->scale.digits);
  found.mean.size = dory_portable_divide(found.mean.size, count);
  dory_portable_positive_t total = layer->order == IN_PACKETS
                                       ? sum_in_packets(layer, pixel, channels)
                                       : sum_of_squares(layer, pixel, channels, found.mean);
  if (!layer->of_sum) { /* of the mean */
    total = dory_portable_sum(dory_portable_divide(total, count), epsilon);
  }
  found.factor = dory_portable_root(total);
  if (!layer->by_root) {
    found.factor = dory_portable_divide(one, found.factor);
  }
  return found;
}

/* Returns the result of a channel in steps of the output. */
static int64_t steps_of(const dory_portable_layernorm_t *layer, dory_portable_number_t value,
                        pixel_t found, const uint8_t *weights, uint32_t c, uint32_t channels)
{
  const dory_portable_number_t weight = dory_portable_from_bits(dory_portable_int32(weights, c));
  const dory_portable_positive_t step = {layer->out_scale.mantissa, -layer->out_scale.digits};

  if (!layer->by_root) {
    value.size = dory_portable_positive(dory_portable_times(value.size, found.factor));
  } else if (found.factor.digits != 0) {
    value.size = dory_portable_divide(value.size, found.factor);
  }
  value.size = dory_portable_times(value.size, weight.size);
  value.is_negative ^= weight.is_negative;
  if (layer->has_bias) {
    value = dory_portable_plus(value,
                               dory_portable_from_bits(dory_portable_int32(weights, channels + c)));
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
      const dory_portable_number_t value = deviation(layer, from, channel + c, found.mean);
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c,
                                            steps_of(layer, value, found, weights, c, tile->y_c)));
    }
  }
}
