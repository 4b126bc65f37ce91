/* Pooling, included by one C file per kind, which defines before
 *
 *   DORY_POOL                        name of the function
 *   DORY_POOL_START                  value of an empty window
 *   DORY_POOL_FOLD(layer, value, element)  value of the window with one element more
 *   DORY_POOL_BESIDE(layer, value)   value of the window with one element outside of the image more
 *   DORY_POOL_END(layer, value, n)   result of a window with n elements in the image
 */
#include "dory_portable_elements.h"

/* Returns the value of channel c under the window of row oy, column ox. */
static int64_t pool(const dory_portable_pool_t *layer, const dory_portable_tile_t *tile,
                    const uint8_t *x, uint32_t oy, uint32_t ox, uint32_t c)
{
  const dory_portable_window_t *const window = &layer->window;
  const uint32_t pixel_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  int64_t value = DORY_POOL_START;
  int64_t inside = 0;

  for (uint32_t ky = 0; ky < window->kernel_h; ky++) {
    const int32_t iy = (int32_t)(oy * window->stride_h + ky * window->dilation_h) - tile->pad_top;
    for (uint32_t kx = 0; kx < window->kernel_w; kx++) {
      const int32_t ix =
          (int32_t)(ox * window->stride_w + kx * window->dilation_w) - tile->pad_left;
      if (iy < 0 || ix < 0 || iy >= (int32_t)tile->x_h || ix >= (int32_t)tile->x_w) {
        value = DORY_POOL_BESIDE(layer, value);
        continue;
      }
      const uint32_t place = (uint32_t)iy * tile->x_w + (uint32_t)ix;
      const int64_t element = dory_portable_get(x + place * pixel_bytes, c, layer->x);
      value = DORY_POOL_FOLD(layer, value, element);
      inside++;
    }
  }
  return DORY_POOL_END(layer, value, inside);
}

void DORY_POOL(const dory_portable_pool_t *layer, const dory_portable_tile_t *tile,
               const uint8_t *x, const uint8_t *steps, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t pixel_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const int64_t value = pool(layer, tile, x, pixel / tile->y_w, pixel % tile->y_w, c);
      dory_portable_put(y + pixel * pixel_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c, value));
    }
  }
}
