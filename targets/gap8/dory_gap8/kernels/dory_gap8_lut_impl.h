/* Function of one byte by a table: template of the kernel DORY_KERNEL.
 *
 *   DORY_CORES      cores that share a tile
 *   DORY_CHANNELS   whether each channel has a table; otherwise there is one
 *
 * Cores share the words of a tile. Four bytes are loaded, looked up one after the other, and stored as
 * a word; no load waits for the one before it. */
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* Computes one tile. Every core calls it and takes its part of the words. */
void DORY_KERNEL(const dory_gap8_lut_t *a) {
  const dory_gap8_range_t words =
      dory_gap8_part((a->elements + 3) >> 2, 1, DORY_CORES, (int32_t)dory_core_id());
  const int32_t end = dory_gap8_min(4 * words.end, a->elements);
  const int8_t *const table = a->table;
  const uint8_t *const x = a->x;
  int8_t *const y = a->y;
  int32_t i = 4 * words.first;
#if DORY_CHANNELS
  const int32_t length = 256 * a->channels;
  int32_t row = 256 * (int32_t)((uint32_t)i % (uint32_t)a->channels);
  for (; i < end; i++) {
    y[i] = (int8_t)dory_gap8_lookup_i8(table, row + x[i]);
    row += 256;
    row = row == length ? 0 : row;
  }
#else
  for (; i + 4 <= end; i += 4) {
    const int32_t x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
    const int32_t y0 = dory_gap8_lookup_i8(table, x0), y1 = dory_gap8_lookup_i8(table, x1);
    const int32_t y2 = dory_gap8_lookup_i8(table, x2), y3 = dory_gap8_lookup_i8(table, x3);
    dory_gap8_store4_i8(y + i, dory_gap8_set4_i8((int8_t)y0, (int8_t)y1, (int8_t)y2, (int8_t)y3));
  }
  for (; i < end; i++) {
    y[i] = table[x[i]];
  }
#endif
}
