/* Pairs of elements, included by one C file per kind, which defines before
 *
 *   DORY_PAIR                name of the function
 *   DORY_PAIR_VALUE(a, b)    what becomes of two operands behind their steps
 *
 * and, where its constants are of another type than dory_portable_pair_t,
 *
 *   DORY_PAIR_LAYER          that type
 */
#include "dory_portable_elements.h"

#ifndef DORY_PAIR_LAYER
#define DORY_PAIR_LAYER dory_portable_pair_t
#endif

void DORY_PAIR(const DORY_PAIR_LAYER *layer, const dory_portable_tile_t *tile,
               const dory_portable_second_t *second, const uint8_t *x, const uint8_t *x2,
               const uint8_t *steps, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t channels = tile->y_c;
  const uint32_t x_bytes = dory_portable_pixel_bytes(channels, layer->x);
  const uint32_t x2_bytes = dory_portable_pixel_bytes(second->channels, layer->x2);
  const uint32_t y_bytes = dory_portable_pixel_bytes(channels, layer->y);
  /* Without steps there may be no table at all. */
  const uint8_t *const x2_steps =
      layer->x_steps.count != 0 ? steps + dory_portable_table_bytes(&layer->x_steps, channels)
                                : steps;
  const uint8_t *const last_steps =
      layer->x2_steps.count != 0
          ? x2_steps + dory_portable_table_bytes(&layer->x2_steps, channels)
          : x2_steps;

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    const uint32_t row = layer->one_row ? 0u : second->row + pixel / tile->y_w;
    const uint32_t column = layer->one_column ? 0u : second->column + pixel % tile->y_w;
    const uint8_t *const pixel2 = x2 + (row * second->width + column) * x2_bytes;
    for (uint32_t c = begin; c < begin + share.per_unit && c < channels; c++) {
      const uint32_t c2 = layer->one_channel ? 0u : second->channel + c;
      const int64_t a = dory_portable_apply(&layer->x_steps, steps, channels, c,
                                            dory_portable_get(x + pixel * x_bytes, c, layer->x));
      const int64_t b = dory_portable_apply(&layer->x2_steps, x2_steps, channels, c,
                                            dory_portable_get(pixel2, c2, layer->x2));
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, last_steps, channels, c,
                                            DORY_PAIR_VALUE(a, b)));
    }
  }
}
