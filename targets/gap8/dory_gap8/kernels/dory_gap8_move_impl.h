/* Slices and padding of bytes: template of the kernel DORY_KERNEL.
 *
 *   DORY_CORES   cores that share a tile
 *
 * Cores share the pixels of a tile. The channels of a pixel are a run of those of an input pixel, with
 * bytes that stand around the input before and behind them. */
#include "dory_gap8_bytes.h"
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* Computes one tile. Every core calls it and takes its part of the pixels. */
void DORY_KERNEL(const dory_gap8_move_t *a) {
  const dory_gap8_range_t pixels =
      dory_gap8_part(a->y_h * a->y_w, 1, DORY_CORES, (int32_t)dory_core_id());
  const int32_t x_c = a->x_c, y_c = a->y_c;
  const int32_t before = dory_gap8_clip(-a->channel, 0, y_c);
  const int32_t end = dory_gap8_clip(x_c - a->channel, before, y_c);
  int32_t row = pixels.first / a->y_w;
  int32_t column = pixels.first - row * a->y_w;
  uint8_t *y = (uint8_t *)a->y + pixels.first * y_c;
  for (int32_t pixel = pixels.first; pixel < pixels.end; pixel++, y += y_c) {
    const int32_t from_row = row + a->row, from_column = column + a->column;
    if (((uint32_t)from_row < (uint32_t)a->x_h) & ((uint32_t)from_column < (uint32_t)a->x_w)) {
      const uint8_t *const x =
          (const uint8_t *)a->x + (from_row * a->x_w + from_column) * x_c;
      dory_gap8_fill_bytes(y, a->value, before);
      if (before < end) {
        dory_gap8_copy_bytes(y + before, x + (a->channel + before), end - before);
      }
      dory_gap8_fill_bytes(y + end, a->value, y_c - end);
    } else {
      dory_gap8_fill_bytes(y, a->value, y_c);
    }
    if (++column == a->y_w) {
      column = 0;
      row++;
    }
  }
}
