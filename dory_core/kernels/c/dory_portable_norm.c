/* Layer normalisation in integers of 32 bits, and its form without a mean. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

/* What the channels of a pixel are moved and divided by. */
typedef struct {
  int32_t mean, root;
} pixel_t;

/* Returns the integer part of the root. */
static uint32_t root_of(uint32_t value)
{
  uint32_t root = 0;

  for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1) {
    const uint32_t next = root | bit;
    root = next * next <= value ? next : root;
  }
  return root;
}

static pixel_t measured(const dory_portable_norm_t *layer, const uint8_t *pixel, uint32_t channels)
{
  pixel_t found = {0, 0};
  int32_t squares = 0;

  if (layer->is_centred) {
    for (uint32_t c = 0; c < channels; c++) {
      found.mean += (int32_t)dory_portable_get(pixel, c, layer->x);
    }
    found.mean /= (int32_t)channels;
  }
  for (uint32_t c = 0; c < channels; c++) {
    const int32_t deviation = (int32_t)dory_portable_get(pixel, c, layer->x) - found.mean;
    squares += deviation * deviation;
  }
  found.root = (int32_t)root_of((uint32_t)squares / channels + 1u);
  return found;
}

/* Returns a value modulo 2^bits, as a signed number. */
static int64_t wrapped(int32_t value, uint32_t bits)
{
  const uint64_t half = (uint64_t)1 << (bits - 1u);

  return (int64_t)(((uint64_t)value + half) & (2u * half - 1u)) - (int64_t)half;
}

void dory_portable_norm(const dory_portable_norm_t *layer, const dory_portable_tile_t *tile,
                        uint32_t channel, const uint8_t *x, const uint8_t *weights,
                        const uint8_t *steps, uint8_t *y)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t pixels = tile->y_h * tile->y_w;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t pixel = core; pixel < pixels; pixel += cores) {
    const uint8_t *const from = x + pixel * x_bytes;
    const pixel_t found = measured(layer, from, tile->x_c);

    for (uint32_t c = 0; c < tile->y_c; c++) {
      const int32_t deviation =
          (int32_t)dory_portable_get(from, channel + c, layer->x) - found.mean;
      const int32_t bias = layer->has_bias ? dory_portable_int32(weights, tile->y_c + c) : 0;
      const int32_t value = deviation * dory_portable_int32(weights, c) / found.root + bias;
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c,
                                            layer->wrap_bits ? wrapped(value, layer->wrap_bits)
                                                             : value));
    }
  }
}
