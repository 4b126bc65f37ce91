/* Products of two tensors of matrices. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

/* Returns the sum of the products of a row of factors with channel c of as many pixels. */
static int64_t multiply(const dory_portable_matmul_t *layer, uint32_t count, const uint8_t *factors,
                        const uint8_t *pixels, uint32_t pixel_bytes, uint32_t c)
{
  int64_t sum = 0;

  for (uint32_t j = 0; j < count; j++) {
    const int64_t factor = dory_portable_get(factors, j, layer->x2) - layer->x2_zero;
    const int64_t element = dory_portable_get(pixels + j * pixel_bytes, c, layer->x);
    sum += factor * (element - layer->x_zero);
  }
  return sum;
}

void dory_portable_matmul(const dory_portable_matmul_t *layer, const dory_portable_tile_t *tile,
                          const uint8_t *x, const uint8_t *x2, const uint8_t *steps, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t count = tile->x_w;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t x2_bytes = dory_portable_pixel_bytes(count, layer->x2);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t matrix = pixel / tile->y_w;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    const uint8_t *const from = layer->one_x ? x : x + matrix * count * x_bytes;
    const uint8_t *const factors = x2 + (layer->one_x2 ? pixel % tile->y_w : pixel) * x2_bytes;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const int64_t sum = multiply(layer, count, factors, from, x_bytes, c);
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c, sum));
    }
  }
}
