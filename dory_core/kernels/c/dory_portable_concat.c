/* Inputs one after the other along an axis. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

void dory_portable_concat(const dory_portable_concat_t *layer, const dory_portable_tile_t *tile,
                          const dory_portable_places_t *places, const uint8_t *const *x, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);
  const uint32_t first[3] = {places->y.channel, places->y.row, places->y.column};

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      uint32_t at[3] = {c, pixel / tile->y_w, pixel % tile->y_w};
      uint32_t input = 0;
      at[layer->axis] += first[layer->axis];
      while (at[layer->axis] >= layer->sizes[input]) {
        at[layer->axis] -= layer->sizes[input++];
      }
      const uint32_t width = layer->axis == 2 ? layer->sizes[input] : tile->y_w;
      const uint32_t channels = layer->axis == 0 ? layer->sizes[input] : tile->y_c;
      const uint32_t x_bytes = dory_portable_pixel_bytes(channels, layer->x[input]);
      const uint8_t *const from = x[input] + (at[1] * width + at[2]) * x_bytes;
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_get(from, at[0], layer->x[input]));
    }
  }
}
