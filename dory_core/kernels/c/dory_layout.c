#include "dory_layout.h"

#include <string.h>

#include "dory_hal.h"

static uint32_t padded(uint32_t size, uint32_t multiple)
{
  return (size + multiple - 1) / multiple * multiple;
}

/* Byte of the first element of a channel's row, bytes still in their order. */
static uint32_t row_of(const dory_layout_t *layout, uint32_t block, uint32_t channel, uint32_t row,
                       uint32_t h, uint32_t w)
{
  const uint32_t columns = padded(w, layout->width_multiple);
  return (channel / block * h + row) * columns * block + channel % block;
}

static uint32_t block_of(const dory_layout_t *layout, uint32_t c)
{
  return layout->channel_block ? layout->channel_block : padded(c, layout->channel_multiple);
}

uint32_t dory_layout_bytes(const dory_layout_t *layout, uint32_t c, uint32_t h, uint32_t w)
{
  return padded(c, layout->channel_multiple) * h * padded(w, layout->width_multiple);
}

void dory_convert_layout(void *dst, const dory_layout_t *dst_layout, const void *src,
                         const dory_layout_t *src_layout, uint32_t c, uint32_t h, uint32_t w)
{
  dory_convert_layout_rows(dst, dst_layout, src, src_layout, c, h, w, dory_core_id(),
                           dory_core_count());
}

void dory_convert_layout_rows(void *dst, const dory_layout_t *dst_layout, const void *src,
                              const dory_layout_t *src_layout, uint32_t c, uint32_t h, uint32_t w,
                              uint32_t first, uint32_t step)
{
  uint8_t *const to = dst;
  const uint8_t *const from = src;
  const uint32_t to_block = block_of(dst_layout, c), from_block = block_of(src_layout, c);
  const uint32_t to_mask = dst_layout->reversed_bytes - 1;
  const uint32_t from_mask = src_layout->reversed_bytes - 1;
  const uint32_t channels = padded(c, dst_layout->channel_multiple);
  const uint32_t columns = padded(w, dst_layout->width_multiple);
  for (uint32_t row = first; row < h; row += step) {
    if (channels > c || columns > w) {
      for (uint32_t channel = 0; channel < channels; channel += to_block) {
        memset(to + row_of(dst_layout, to_block, channel, row, h, w), 0, columns * to_block);
      }
    }
    for (uint32_t channel = 0; channel < c; channel++) {
      uint32_t at = row_of(dst_layout, to_block, channel, row, h, w);
      uint32_t source = row_of(src_layout, from_block, channel, row, h, w);
      for (uint32_t column = 0; column < w; column++) {
        to[at ^ to_mask] = from[source ^ from_mask];
        at += to_block;
        source += from_block;
      }
    }
  }
}
