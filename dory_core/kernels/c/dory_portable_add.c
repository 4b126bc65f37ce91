/* Element-wise sum of two tensors. */
#include "dory_portable_elements.h"

void dory_portable_add(const dory_portable_add_t *layer, const dory_portable_tile_t *tile,
                       const uint8_t *x, const uint8_t *x2, const uint8_t *steps, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t channels = tile->y_c;
  const uint32_t x_bytes = dory_portable_pixel_bytes(channels, layer->x);
  const uint32_t x2_bytes = dory_portable_pixel_bytes(channels, layer->x2);
  const uint32_t y_bytes = dory_portable_pixel_bytes(channels, layer->y);
  /* Without steps there may be no table at all. */
  const uint8_t *const x2_steps =
      layer->x_steps.count != 0 ? steps + dory_portable_table_bytes(&layer->x_steps, channels)
                                : steps;
  const uint8_t *const sum_steps =
      layer->x2_steps.count != 0
          ? x2_steps + dory_portable_table_bytes(&layer->x2_steps, channels)
          : x2_steps;

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    for (uint32_t c = begin; c < begin + share.per_unit && c < channels; c++) {
      const int64_t a = dory_portable_get(x + pixel * x_bytes, c, layer->x);
      const int64_t b = dory_portable_get(x2 + pixel * x2_bytes, c, layer->x2);
      const int64_t sum = dory_portable_apply(&layer->x_steps, steps, channels, c, a) +
                          dory_portable_apply(&layer->x2_steps, x2_steps, channels, c, b);
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, sum_steps, channels, c, sum));
    }
  }
}
