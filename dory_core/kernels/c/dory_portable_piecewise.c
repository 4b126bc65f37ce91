/* Function of one element by straight pieces. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

void dory_portable_piecewise(const dory_portable_piecewise_t *layer,
                             const dory_portable_tile_t *tile, const uint8_t *x,
                             const uint8_t *table, const uint8_t *steps, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->y_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);
  const uint8_t *const after = steps + dory_portable_table_bytes(&layer->argument, tile->y_c);
  const uint32_t mask = (1u << layer->piece_bits) - 1u;

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const int64_t element = dory_portable_get(x + pixel * x_bytes, c, layer->x);
      const uint32_t at =
          (uint32_t)dory_portable_apply(&layer->argument, steps, tile->y_c, c, element);
      const uint32_t piece = at >> layer->piece_bits;
      const int64_t slope = dory_portable_int32(table, layer->count + piece);
      const int64_t value = dory_portable_int32(table, piece) + slope * (int64_t)(at & mask);
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, after, tile->y_c, c, value));
    }
  }
}
