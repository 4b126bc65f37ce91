/* Normalisation of each channel over its rows and columns in binary32, by integers, in the order of
 * sums of onnxruntime. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"
#include "dory_portable_real.h"

/* Numbers that are added at once. */
#define PACKET 4u

/* A channel. squares: its elements are the squares of what is left without the mean. */
typedef struct {
  const dory_portable_instancenorm_t *layer;
  const uint8_t *x;
  uint32_t pixels, bytes, c;
  dory_portable_number_t mean;
  int squares;
} channel_t;

static dory_portable_number_t element(const channel_t *channel, uint32_t pixel)
{
  const dory_portable_instancenorm_t *const layer = channel->layer;
  const int64_t value =
      dory_portable_get(channel->x + pixel * channel->bytes, channel->c, layer->x) -
      layer->zero_point;
  dory_portable_number_t found = dory_portable_number(
      dory_portable_round_signed(value * layer->scale.mantissa), -layer->scale.digits);

  if (channel->squares) {
    dory_portable_number_t less = channel->mean;
    less.is_negative = !less.is_negative;
    found = dory_portable_plus(found, less);
    found.size = dory_portable_positive(dory_portable_times(found.size, found.size));
    found.is_negative = 0;
  } else {
    found.size = dory_portable_positive(found.size);
  }
  return found;
}

/* Returns the sum of the elements: two packets by turns from `start` on, one that is left over, the
 * elements before `start` and those after the last packet. */
static dory_portable_number_t sum_of(const channel_t *channel, uint32_t start)
{
  const uint32_t first = start < channel->pixels ? start : channel->pixels;
  const uint32_t whole = (channel->pixels - first) / PACKET * PACKET;
  const uint32_t both = whole / (2 * PACKET) * (2 * PACKET);
  dory_portable_number_t lanes[2 * PACKET], total = element(channel, 0);

  for (uint32_t n = 0; n < both; n++) {
    const dory_portable_number_t value = element(channel, first + n);
    dory_portable_number_t *const lane = &lanes[n % (2 * PACKET)];
    *lane = n < 2 * PACKET ? value : dory_portable_plus(*lane, value);
  }
  for (uint32_t n = 0; both != 0 && n < PACKET; n++) {
    lanes[n] = dory_portable_plus(lanes[n], lanes[PACKET + n]);
  }
  for (uint32_t n = both; n < whole; n++) {
    const dory_portable_number_t value = element(channel, first + n);
    lanes[n - both] = both == 0 ? value : dory_portable_plus(lanes[n - both], value);
  }
  if (whole != 0) {
    total = dory_portable_plus(dory_portable_plus(lanes[0], lanes[2]),
                               dory_portable_plus(lanes[1], lanes[3]));
  }
  for (uint32_t n = whole != 0 ? 0 : 1; n < channel->pixels; n++) {
    if (whole == 0 || n < first || n >= first + whole) {
      total = dory_portable_plus(total, element(channel, n));
    }
  }
  return total;
}

/* Finds what the elements of a channel are multiplied by, and what is added then. */
static void measure(channel_t *channel, const uint8_t *weights, uint32_t c, uint32_t channels,
                    dory_portable_number_t *scale, dory_portable_number_t *add)
{
  const dory_portable_instancenorm_t *const layer = channel->layer;
  const dory_portable_positive_t one = {1, 0}, count = {channel->pixels, 0};
  const dory_portable_positive_t epsilon = {layer->epsilon.mantissa, -layer->epsilon.digits};

  channel->squares = 0;
  channel->mean = sum_of(channel, (uint32_t)dory_portable_int32(weights, 2 * channels + c));
  channel->mean.size = dory_portable_divide(channel->mean.size, count);
  channel->squares = 1;
  const dory_portable_positive_t variance = dory_portable_divide(sum_of(channel, 0).size, count);
  channel->squares = 0;

  *scale = dory_portable_from_bits(dory_portable_int32(weights, c));
  scale->size = dory_portable_positive(dory_portable_times(
      scale->size,
      dory_portable_divide(one, dory_portable_root(dory_portable_sum(variance, epsilon)))));
  *add = channel->mean;
  add->size = dory_portable_positive(dory_portable_times(add->size, scale->size));
  add->is_negative = channel->mean.is_negative == scale->is_negative;
  *add =
      dory_portable_plus(dory_portable_from_bits(dory_portable_int32(weights, channels + c)), *add);
}

void dory_portable_instancenorm(const dory_portable_instancenorm_t *layer,
                                const dory_portable_tile_t *tile,
                                const dory_portable_places_t *places, const uint8_t *x,
                                const uint8_t *weights, const uint8_t *steps, uint8_t *y)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t per_unit = layer->y.bits < 8 ? 8u / layer->y.bits : 1u;
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);
  const dory_portable_positive_t step = {layer->out_scale.mantissa, -layer->out_scale.digits};
  const dory_portable_number_t zero = {{0, 0}, 0};
  channel_t channel = {
      layer, x, tile->x_h * tile->x_w, dory_portable_pixel_bytes(tile->x_c, layer->x), 0, zero, 0};

  for (uint32_t c = 0; c < tile->y_c; c++) {
    dory_portable_number_t scale, add;
    if (c / per_unit % cores != core) {
      continue;
    }
    channel.c = c;
    measure(&channel, weights, c, tile->y_c, &scale, &add);
    for (uint32_t pixel = 0; pixel < tile->y_h * tile->y_w; pixel++) {
      const uint32_t row = places->y.row - places->x.row + pixel / tile->y_w;
      const uint32_t column = places->y.column - places->x.column + pixel % tile->y_w;
      dory_portable_number_t value = element(&channel, row * tile->x_w + column);
      value.size = dory_portable_positive(dory_portable_times(value.size, scale.size));
      value.is_negative ^= scale.is_negative;
      value = dory_portable_plus(value, add);
      const int64_t found =
          dory_portable_even_sum(dory_portable_divide(value.size, step), value.is_negative, 0);
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c, found));
    }
  }
}
