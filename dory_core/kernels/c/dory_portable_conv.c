/* Convolution with any groups, strides, dilations and padding. */
#include "dory_portable_elements.h"

/* Returns the sum of one output: channel c at row oy, column ox of the tile. */
static int64_t convolve(const dory_portable_conv_t *layer, const dory_portable_tile_t *tile,
                        const uint8_t *x, const uint8_t *weights, uint32_t oy, uint32_t ox,
                        uint32_t c)
{
  const dory_portable_window_t *const window = &layer->window;
  const uint32_t pixel_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t channels = layer->group_in != 0 ? layer->group_in : tile->x_c;
  const uint32_t start = layer->group_in != 0 ? c / layer->group_out * layer->group_in : 0;
  const uint32_t row_bytes = dory_portable_pixel_bytes(channels, layer->w);
  const uint8_t *w = weights + c * window->kernel_h * window->kernel_w * row_bytes;
  int64_t sum = 0;

  for (uint32_t ky = 0; ky < window->kernel_h; ky++) {
    const int32_t iy = (int32_t)(oy * window->stride_h + ky * window->dilation_h) - tile->pad_top;
    for (uint32_t kx = 0; kx < window->kernel_w; kx++, w += row_bytes) {
      const int32_t ix =
          (int32_t)(ox * window->stride_w + kx * window->dilation_w) - tile->pad_left;
      if (iy < 0 || ix < 0 || iy >= (int32_t)tile->x_h || ix >= (int32_t)tile->x_w) {
        if (layer->pad_value != 0) {
          sum += (int64_t)layer->pad_value * dory_portable_weight_sum(w, layer->w, channels);
        }
        continue;
      }
      const uint32_t place = (uint32_t)iy * tile->x_w + (uint32_t)ix;
      sum += dory_portable_dot(x + place * pixel_bytes, start, layer->x, w, 0, layer->w, channels);
    }
  }
  return sum;
}

void dory_portable_conv(const dory_portable_conv_t *layer, const dory_portable_tile_t *tile,
                        const uint8_t *x, const uint8_t *weights, const uint8_t *bias,
                        const uint8_t *steps, int32_t *psum, int first, int last, uint8_t *y)
{
  const dory_portable_share_t share = dory_portable_share(tile, layer->y);

  for (uint32_t unit = share.begin; unit < share.end; unit++) {
    const uint32_t pixel = unit / share.per_pixel;
    const uint32_t begin = unit % share.per_pixel * share.per_unit;
    for (uint32_t c = begin; c < begin + share.per_unit && c < tile->y_c; c++) {
      const int64_t sum =
          dory_portable_begin(bias, psum, tile, pixel, c, first) +
          convolve(layer, tile, x, weights, pixel / tile->y_w, pixel % tile->y_w, c);
      dory_portable_finish(&layer->steps, steps, tile, layer->y, pixel, c, sum, psum, last, y);
    }
  }
}
