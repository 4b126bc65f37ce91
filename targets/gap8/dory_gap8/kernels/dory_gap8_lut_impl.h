/* Function of one byte by a table: template of the kernel DORY_KERNEL.
 *
 *   DORY_CORES      cores that share a tile
 *   DORY_CHANNELS   whether each channel has a table; otherwise there is one
 *   DORY_Y_T, DORY_Y_BYTES   entries of a table: int8_t, int16_t or int32_t, and their bytes
 *
 * Cores share the elements of a tile in fours. Four bytes are loaded, looked up one after the other, and
 * stored; no load waits for the one before it. */
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

#if DORY_Y_BYTES == 1
#define DORY_LOOKUP(table, i) ((DORY_Y_T)dory_gap8_lookup_i8(table, i))
#else
#define DORY_LOOKUP(table, i) ((table)[i])
#endif

/* Computes one tile. Every core calls it and takes its part of the elements. */
void DORY_KERNEL(const dory_gap8_lut_t *a) {
  const dory_gap8_range_t fours =
      dory_gap8_part((a->elements + 3) >> 2, 1, DORY_CORES, (int32_t)dory_core_id());
  const int32_t end = dory_gap8_min(4 * fours.end, a->elements);
  const DORY_Y_T *const table = a->table;
  const uint8_t *const x = a->x;
  DORY_Y_T *const y = a->y;
  int32_t i = 4 * fours.first;
#if DORY_CHANNELS
  const int32_t length = 256 * a->channels;
  int32_t row = 256 * (int32_t)((uint32_t)i % (uint32_t)a->channels);
  for (; i < end; i++) {
    y[i] = DORY_LOOKUP(table, row + x[i]);
    row += 256;
    row = row == length ? 0 : row;
  }
#else
  for (; i + 4 <= end; i += 4) {
    const int32_t x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
    const DORY_Y_T y0 = DORY_LOOKUP(table, x0), y1 = DORY_LOOKUP(table, x1);
    const DORY_Y_T y2 = DORY_LOOKUP(table, x2), y3 = DORY_LOOKUP(table, x3);
#if DORY_Y_BYTES == 1
    dory_gap8_store4_i8(y + i, dory_gap8_set4_i8(y0, y1, y2, y3));
#else
    y[i] = y0;
    y[i + 1] = y1;
    y[i + 2] = y2;
    y[i + 3] = y3;
#endif
  }
  for (; i < end; i++) {
    y[i] = table[x[i]];
  }
#endif
}
