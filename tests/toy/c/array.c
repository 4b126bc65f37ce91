#include "array.h"

#include <string.h>

#include "dory_hal.h"

#define WEIGHT_BYTES 4096 /* of the array's memory */
#define JUNK 0x5B         /* what the array leaves in columns that are none */

static uint8_t weight_memory[WEIGHT_BYTES];

static uint32_t padded(uint32_t size, uint32_t multiple)
{
  return (size + multiple - 1) / multiple * multiple;
}

static uint32_t place(const array_layout_t *layout, uint32_t channels, uint32_t rows,
                      uint32_t width, uint32_t c, uint32_t h, uint32_t w)
{
  const uint32_t block = layout->channel_block ? layout->channel_block
                                               : padded(channels, layout->channel_multiple);
  const uint32_t columns = padded(width, layout->width_multiple);
  return (((c / block * rows + h) * columns + w) * block + c % block) ^
         (layout->reversed_bytes - 1);
}

static int32_t value(const array_layer_t *layer, uint8_t byte)
{
  return layer->x_signed && byte > 127 ? (int32_t)byte - 256 : byte;
}

static uint8_t clipped(const array_layer_t *layer, int64_t sum)
{
  int64_t y = sum >= 0 ? sum >> layer->shift : -((-sum + (INT64_C(1) << layer->shift) - 1) >> layer->shift);
  if (y < layer->lo) y = layer->lo;
  if (y > layer->hi) y = layer->hi;
  return (uint8_t)y;
}

static void fetch(const uint8_t *constants, uint32_t bytes)
{
  dory_barrier();
  if (dory_core_id() == 0) memcpy(weight_memory, constants, bytes);
  dory_barrier();
}

static int64_t parameter(uint32_t index)
{
  int64_t number;
  memcpy(&number, weight_memory + 8 * index, sizeof number);
  return number;
}

/* All padding of a tile: columns get junk, channels zeros. */
static void pad(const array_layer_t *layer, const array_tile_t *tile, uint32_t row, uint8_t *y)
{
  const uint32_t channels = padded(tile->y_c, layer->y.channel_multiple);
  const uint32_t columns = padded(layer->y_width, layer->y.width_multiple);
  for (uint32_t c = 0; c < channels; c++)
    for (uint32_t w = c < tile->y_c ? layer->y_width : 0; w < columns; w++)
      y[place(&layer->y, tile->y_c, tile->y_h, layer->y_width, c, row, w)] =
        w < layer->y_width ? 0 : JUNK;
}

void array_conv(const array_layer_t *layer, const array_tile_t *tile, uintptr_t l2_x,
                const uint8_t *x, const uint8_t *constants, uint8_t *y)
{
  const uint32_t taps = layer->kernel_h * layer->kernel_w;
  const uint32_t group = layer->depthwise ? 1 : tile->x_c;
  const uint32_t columns = padded(layer->x_width, layer->x.width_multiple);
  const int32_t end = (int32_t)(layer->reads_padding ? columns : layer->x_width);
  fetch(constants, tile->y_c * (16 + group * taps));
  if (l2_x != 0 && *(const uint8_t *)l2_x != *x) return; /* that is not the tile in L1 */
  for (uint32_t row = dory_core_id(); row < tile->y_h; row += dory_core_count()) {
    for (uint32_t k = 0; k < tile->y_c; k++) {
      for (uint32_t column = 0; column < layer->y_width; column++) {
        const uint8_t *weights = weight_memory + 16 * tile->y_c + k * group * taps;
        int64_t sum = 0;
        for (uint32_t c = 0; c < group; c++) {
          for (uint32_t tap = 0; tap < taps; tap++) {
            const int32_t h = (int32_t)(row * layer->stride_h + tap / layer->kernel_w) - tile->pad_top;
            const int32_t w =
              (int32_t)(column * layer->stride_w + tap % layer->kernel_w) - tile->pad_left;
            const int32_t weight = (int8_t)*weights++;
            if (h < 0 || h >= (int32_t)tile->x_h || w < 0 || w >= end) continue;
            sum += weight * value(layer, x[place(&layer->x, tile->x_c, tile->x_h, layer->x_width,
                                                 layer->depthwise ? k : c, (uint32_t)h,
                                                 (uint32_t)w)]);
          }
        }
        y[place(&layer->y, tile->y_c, tile->y_h, layer->y_width, k, row, column)] =
          clipped(layer, sum * parameter(k) + parameter(tile->y_c + k));
      }
    }
    pad(layer, tile, row, y);
  }
}

void array_linear(const array_layer_t *layer, const array_tile_t *tile, const uint8_t *x,
                  const uint8_t *constants, uint8_t *y)
{
  const uint32_t inputs = layer->x_width; /* padding of every pixel included */
  fetch(constants, tile->y_c * (16 + inputs));
  for (uint32_t k = dory_core_id(); k < tile->y_c; k += dory_core_count()) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < inputs; i++)
      sum += (int8_t)weight_memory[16 * tile->y_c + k * inputs + i] *
             value(layer, x[i ^ (layer->x.reversed_bytes - 1)]);
    y[place(&layer->y, tile->y_c, 1, 1, k, 0, 0)] =
      clipped(layer, sum * parameter(k) + parameter(tile->y_c + k));
  }
  if (dory_core_id() == 0) pad(layer, tile, 0, y);
}

void array_add(const array_layer_t *layer, const array_tile_t *tile, const uint8_t *x,
               const uint8_t *x2, uint8_t *y)
{
  for (uint32_t row = dory_core_id(); row < tile->y_h; row += dory_core_count()) {
    for (uint32_t c = 0; c < tile->y_c; c++) {
      for (uint32_t w = 0; w < layer->y_width; w++) {
        const uint32_t at = place(&layer->y, tile->y_c, tile->y_h, layer->y_width, c, row, w);
        y[at] = clipped(layer, (int64_t)value(layer, x[at]) + value(layer, x2[at]));
      }
    }
    pad(layer, tile, row, y);
  }
}
