/* Copies of elements to other places: slices, padding, transposition. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

void dory_portable_move(const dory_portable_move_t *layer, const dory_portable_tile_t *tile,
                        const dory_portable_places_t *places, const uint8_t *x, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);
  const int32_t sizes[3] = {(int32_t)tile->x_c, (int32_t)tile->x_h, (int32_t)tile->x_w};
  const int32_t origin[3] = {(int32_t)places->x.channel, (int32_t)places->x.row,
                             (int32_t)places->x.column};

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const uint32_t place[3] = {places->y.channel + c, places->y.row + pixel / tile->y_w,
                                 places->y.column + pixel % tile->y_w};
      int32_t at[3];
      int is_inside = 1;
      for (int axis = 0; axis < 3; axis++) {
        const uint8_t source = layer->perm[axis];
        at[source] =
            layer->begin[axis] + (int32_t)place[axis] * layer->step[axis] - origin[source];
        is_inside = is_inside && at[source] >= 0 && at[source] < sizes[source];
      }
      int64_t value = layer->value;
      if (is_inside) {
        const uint32_t from = (uint32_t)at[1] * tile->x_w + (uint32_t)at[2];
        value = dory_portable_get(x + from * x_bytes, (uint32_t)at[0], layer->x);
      }
      dory_portable_put(y + pixel * y_bytes, c, layer->y, value);
    }
  }
}
