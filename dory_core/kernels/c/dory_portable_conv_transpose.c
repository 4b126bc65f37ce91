/* Transposed convolution. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

/* Returns the input row (column) that a tap brings to row `at` of the full output; -1: none. */
static int32_t source(uint32_t at, uint32_t reach, uint32_t stride, uint32_t first, uint32_t size)
{
  if (at < reach || (at - reach) % stride != 0u) {
    return -1;
  }
  const uint32_t place = (at - reach) / stride;
  return place < first || place - first >= size ? -1 : (int32_t)(place - first);
}

/* Returns the sum of one output: channel c at row oy, column ox of the full output. */
static int64_t convolve(const dory_portable_conv_transpose_t *layer,
                        const dory_portable_tile_t *tile, const dory_portable_places_t *places,
                        const uint8_t *x, const uint8_t *weights, uint32_t oy, uint32_t ox,
                        uint32_t c)
{
  const dory_portable_window_t *const window = &layer->window;
  const uint32_t pixel_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t row_bytes = dory_portable_pixel_bytes(tile->x_c, layer->w);
  const uint8_t *w = weights + c * window->kernel_h * window->kernel_w * row_bytes;
  int64_t sum = 0;

  for (uint32_t ky = 0; ky < window->kernel_h; ky++) {
    const int32_t iy =
        source(oy, ky * window->dilation_h, window->stride_h, places->x.row, tile->x_h);
    for (uint32_t kx = 0; kx < window->kernel_w; kx++, w += row_bytes) {
      const int32_t ix =
          source(ox, kx * window->dilation_w, window->stride_w, places->x.column, tile->x_w);
      if (iy < 0 || ix < 0) {
        continue;
      }
      const uint8_t *const from = x + ((uint32_t)iy * tile->x_w + (uint32_t)ix) * pixel_bytes;
      if (layer->zero_point == 0) {
        sum += dory_portable_dot(from, 0, layer->x, w, 0, layer->w, tile->x_c);
        continue;
      }
      for (uint32_t i = 0; i < tile->x_c; i++) {
        sum += (dory_portable_get(from, i, layer->x) - layer->zero_point) *
               dory_portable_get(w, i, layer->w);
      }
    }
  }
  return sum;
}

void dory_portable_conv_transpose(const dory_portable_conv_transpose_t *layer,
                                  const dory_portable_tile_t *tile,
                                  const dory_portable_places_t *places, const uint8_t *x,
                                  const uint8_t *weights, const uint8_t *bias, const uint8_t *steps,
                                  uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    const uint32_t oy = places->y.row + pixel / tile->y_w + layer->pad_top;
    const uint32_t ox = places->y.column + pixel % tile->y_w + layer->pad_left;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const int32_t start = bias != NULL ? dory_portable_int32(bias, c) : 0;
      const int64_t sum = start + convolve(layer, tile, places, x, weights, oy, ox, c);
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, steps, tile->y_c, c, sum));
    }
  }
}
