/* Axes of bytes in another order: template of the kernel DORY_KERNEL.
 *
 *   DORY_CORES   cores that share a tile
 *   DORY_RUNS    whether the channels of a pixel of the output are neighbours in the input
 *
 * Cores share the pixels of a tile. */
#include "dory_gap8_bytes.h"
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* Gathers n bytes that are `step` bytes apart. */
static inline void dory_gather(uint8_t *to, const uint8_t *from, int32_t step, int32_t n) {
  int32_t i = 0;
  for (; i + 4 <= n; i += 4, from += 4 * step) {
    const int32_t a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
    dory_gap8_store4_u8(to + i, dory_gap8_set4_u8(a, b, c, d));
  }
  for (; i < n; i++, from += step) {
    to[i] = *from;
  }
}

/* Computes one tile. Every core calls it and takes its part of the pixels. */
void DORY_KERNEL(const dory_gap8_transpose_t *a) {
  const dory_gap8_range_t pixels =
      dory_gap8_part(a->y_h * a->y_w, 1, DORY_CORES, (int32_t)dory_core_id());
  const int32_t y_w = a->y_w, y_c = a->y_c, channel = a->channel, column = a->column;
  int32_t row = pixels.first / y_w, left = y_w - (pixels.first - row * y_w);
  const uint8_t *line = (const uint8_t *)a->x + a->first + row * a->row;
  const uint8_t *from = line + (y_w - left) * column;
  uint8_t *y = (uint8_t *)a->y + pixels.first * y_c;
  for (int32_t pixel = pixels.first; pixel < pixels.end; pixel++, y += y_c) {
#if DORY_RUNS
    (void)channel;
    dory_gap8_copy_bytes(y, from, y_c);
#else
    dory_gather(y, from, channel, y_c);
#endif
    from += column;
    if (--left == 0) {
      left = y_w;
      line += a->row;
      from = line;
    }
  }
}
