/* Interpolation between two rows and two columns. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

void dory_portable_resize(const dory_portable_resize_t *layer, const dory_portable_tile_t *tile,
                          const dory_portable_places_t *places, const uint8_t *x,
                          const uint8_t *taps, const uint8_t *steps, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    const uint32_t row = places->y.row + pixel / tile->y_w;
    const uint32_t column = layer->height + places->y.column + pixel % tile->y_w;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      int64_t sum = 0;
      for (uint32_t tap = 0; tap < 4u; tap++) {
        const uint32_t v = tap / 2u, h = tap % 2u;
        const int64_t weight = (int64_t)dory_portable_int32(taps, 4u * row + 2u + v) *
                               dory_portable_int32(taps, 4u * column + 2u + h);
        const uint32_t from_row =
            (uint32_t)dory_portable_int32(taps, 4u * row + v) - places->x.row;
        const uint32_t from_column =
            (uint32_t)dory_portable_int32(taps, 4u * column + h) - places->x.column;
        const uint8_t *const from = x + (from_row * tile->x_w + from_column) * x_bytes;
        sum += weight * dory_portable_get(from, c, layer->x);
      }
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c, sum));
    }
  }
}
