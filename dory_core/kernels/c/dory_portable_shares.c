/* Softmax as plain quotients of integers. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

static uint32_t power(const dory_portable_pixelwise_t *layer, const uint8_t *pixel, uint32_t c,
                      int64_t largest, const uint8_t *table)
{
  const uint32_t below = (uint32_t)(largest - dory_portable_get(pixel, c, layer->x));

  return (uint32_t)dory_portable_int32(table, below);
}

void dory_portable_shares(const dory_portable_pixelwise_t *layer, const dory_portable_tile_t *tile,
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

    for (uint32_t c = 0; c < tile->x_c; c++) {
      sum += power(layer, from, c, largest, table);
    }
    for (uint32_t c = 0; c < tile->y_c; c++) {
      const uint32_t share = layer->factor * power(layer, from, channel + c, largest, table) / sum;
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c, share));
    }
  }
}
