/* Number of the largest channel of each pixel. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

void dory_portable_argmax(const dory_portable_pixelwise_t *layer, const dory_portable_tile_t *tile,
                          const uint8_t *x, const uint8_t *steps, uint8_t *y)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t pixels = tile->y_h * tile->y_w;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(1, layer->y);

  for (uint32_t pixel = core; pixel < pixels; pixel += cores) {
    const uint8_t *const from = x + pixel * x_bytes;
    int64_t largest = dory_portable_get(from, 0, layer->x);
    uint32_t place = 0;

    for (uint32_t c = 1; c < tile->x_c; c++) {
      const int64_t value = dory_portable_get(from, c, layer->x);
      if (value > largest) {
        largest = value;
        place = c;
      }
    }
    dory_portable_put(y + pixel * y_bytes, 0, layer->y,
                      dory_portable_apply(&layer->steps, steps, 1, 0, place));
  }
}
