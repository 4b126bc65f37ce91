/* Function of one byte, by a table. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

void dory_portable_lut(const dory_portable_lut_t *layer, const dory_portable_tile_t *tile,
                       const uint8_t *x, const uint8_t *table, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->y_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const uint32_t byte =
          (uint32_t)dory_portable_get(x + pixel * x_bytes, c, layer->x) & 255u;
      const uint32_t entry = layer->per_channel ? 256u * c + byte : byte;
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_get(table, entry, layer->entry));
    }
  }
}
