/* Copies of elements into another shape. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

void dory_portable_reshape(const dory_portable_reshape_t *layer, const dory_portable_tile_t *tile,
                           const dory_portable_places_t *places, const uint8_t *x, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    const uint32_t row = places->y.row + pixel / tile->y_w;
    const uint32_t column = places->y.column + pixel % tile->y_w;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const uint32_t number =
          (row * layer->width + column) * layer->channels + places->y.channel + c;
      const uint8_t *const from = x + number / tile->x_c * x_bytes;
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_get(from, number % tile->x_c, layer->x));
    }
  }
}
