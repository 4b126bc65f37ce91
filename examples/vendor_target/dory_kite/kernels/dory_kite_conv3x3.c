#include "dory_kite_conv3x3.h"

#include <string.h>

/* Adds the products of one input pixel to the sums of four output channels. */
static void add_pixel(int32_t sums[4], const uint8_t *x, const int8_t *weights, uint32_t channels,
                      uint32_t is_signed)
{
  for (uint32_t c = 0; c < channels; c++) {
    const int32_t value = is_signed ? (int32_t)(int8_t)x[c] : (int32_t)x[c];
    for (uint32_t k = 0; k < 4; k++) {
      sums[k] += value * weights[4 * c + k];
    }
  }
}

static uint8_t requantised(const dory_kite_conv3x3_t *tile, int32_t sum, uint32_t channel)
{
  int64_t add;
  memcpy(&add, tile->add + 8 * channel, sizeof add);
  const int64_t value = (int64_t)tile->mul[channel] * sum + add;
  /* Shifts of negative values also round down. */
  const int64_t y = value < 0 ? ~(~value >> tile->shift) : value >> tile->shift;
  if (y < tile->lo) {
    return (uint8_t)tile->lo;
  }
  return (uint8_t)(y > tile->hi ? tile->hi : y);
}

void dory_kite_conv3x3(const dory_kite_conv3x3_t *tile)
{
  const uint32_t group = 9 * tile->x_c * 4; /* weights of four channels */
  for (uint32_t oy = 0; oy < tile->y_h; oy++) {
    for (uint32_t ox = 0; ox < tile->y_w; ox++) {
      uint8_t *const y = tile->y + oy * tile->y_pitch + ox * tile->y_c;
      for (uint32_t channel = 0; channel < tile->y_c; channel += 4) {
        int32_t sums[4] = {0, 0, 0, 0};
        const int8_t *weights = tile->weights + channel / 4 * group;
        for (uint32_t ky = 0; ky < 3; ky++) {
          const int32_t iy = (int32_t)(oy * tile->stride_h + ky) - tile->pad_top;
          for (uint32_t kx = 0; kx < 3; kx++, weights += 4 * tile->x_c) {
            const int32_t ix = (int32_t)(ox * tile->stride_w + kx) - tile->pad_left;
            if (iy < 0 || iy >= (int32_t)tile->x_h || ix < 0 || ix >= (int32_t)tile->x_w) {
              continue;
            }
            const uint8_t *const x =
              tile->x + (uint32_t)iy * tile->x_pitch + (uint32_t)ix * tile->x_c;
            add_pixel(sums, x, weights, tile->x_c, tile->x_signed);
          }
        }
        for (uint32_t k = 0; k < 4; k++) {
          y[channel + k] = requantised(tile, sums[k], channel + k);
        }
      }
    }
  }
}
