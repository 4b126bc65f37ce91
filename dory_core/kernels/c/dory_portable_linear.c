/* Fully connected layer. */
#include "dory_portable_elements.h"

/* Returns the sum of one output; w: its row of weights. */
static int64_t connect(const dory_portable_linear_t *layer, const dory_portable_tile_t *tile,
                       const uint8_t *x, const uint8_t *w)
{
  const uint32_t channels = layer->pixel_c != 0 ? layer->pixel_c : tile->x_c;
  const uint32_t pixel_bytes = dory_portable_pixel_bytes(channels, layer->x);
  int64_t sum = 0;

  for (uint32_t done = 0; done < tile->x_c; done += channels) {
    sum += dory_portable_dot(x, 0, layer->x, w, done, layer->w, channels);
    x += pixel_bytes;
  }
  return sum;
}

void dory_portable_linear(const dory_portable_linear_t *layer, const dory_portable_tile_t *tile,
                          const uint8_t *x, const uint8_t *weights, const uint8_t *bias,
                          const uint8_t *steps, int32_t *psum, int first, int last, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t row_bytes = dory_portable_pixel_bytes(tile->x_c, layer->w);

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t begin = unit * share.per_unit;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const int64_t sum = dory_portable_begin(bias, psum, tile, 0, c, first) +
                          connect(layer, tile, x, weights + c * row_bytes);
      dory_portable_finish(&layer->steps, steps, tile, layer->y, 0, c, sum, psum, last, y);
    }
  }
}
