/* Layouts of tensors of bytes, and copies of a tensor from one to another.
 *
 * The element (c, h, w) of a tensor with H rows lies at byte
 *
 *     (((c / B * H + h) * W + w) * B + c % B) ^ (reversed_bytes - 1)
 *
 * where W and the channels are padded to multiples, and B is channel_block, or all padded channels
 * where that is 0. */
#ifndef DORY_LAYOUT_H
#define DORY_LAYOUT_H

#include <stdint.h>

typedef struct {
  uint32_t channel_block, channel_multiple, width_multiple; /* multiples: 1 without padding */
  uint32_t reversed_bytes; /* power of two, 1: bytes stay in their order */
} dory_layout_t;

/* Bytes of a tensor of c channels, h rows and w columns. */
uint32_t dory_layout_bytes(const dory_layout_t *layout, uint32_t c, uint32_t h, uint32_t w);

/* Copies a tensor of c channels, h rows and w columns; the padding of dst becomes zero. Every core
 * calls it and copies rows of its own. */
void dory_convert_layout(void *dst, const dory_layout_t *dst_layout, const void *src,
                         const dory_layout_t *src_layout, uint32_t c, uint32_t h, uint32_t w);

/* The same for the rows first, first + step, ... alone. */
void dory_convert_layout_rows(void *dst, const dory_layout_t *dst_layout, const void *src,
                              const dory_layout_t *src_layout, uint32_t c, uint32_t h, uint32_t w,
                              uint32_t first, uint32_t step);

#endif
