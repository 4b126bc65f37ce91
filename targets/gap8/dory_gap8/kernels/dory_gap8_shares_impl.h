/* Softmax of bytes as quotients of integers: template of the kernel DORY_KERNEL.
 *
 *   DORY_CORES   cores that share a tile
 *   DORY_X_T     an input
 *   DORY_Y_T     an output
 *
 * Cores share the pixels of a tile. The divisions by the sum of a pixel are products. */
#include "dory_gap8_quotient.h"
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* Computes one tile. Every core calls it and takes its part of the pixels. */
void DORY_KERNEL(const dory_gap8_shares_t *a) {
  const dory_gap8_range_t pixels =
      dory_gap8_part(a->pixels, 1, DORY_CORES, (int32_t)dory_core_id());
  const int32_t x_c = a->x_c, y_c = a->y_c;
  const uint32_t *const table = a->table, factor = a->factor;
  const DORY_X_T *x = (const DORY_X_T *)a->x + pixels.first * x_c;
  DORY_Y_T *y = (DORY_Y_T *)a->y + pixels.first * y_c;
  for (int32_t pixel = pixels.first; pixel < pixels.end; pixel++, x += x_c, y += y_c) {
    const DORY_X_T *const outputs = x + a->channel;
    int32_t largest = x[0];
    uint32_t sum = 0;
    for (int32_t c = 1; c < x_c; c++) {
      largest = dory_gap8_max(largest, x[c]);
    }
    for (int32_t c = 0; c < x_c; c++) {
      sum += table[largest - x[c]];
    }
    const dory_gap8_divisor_t total = dory_gap8_divisor(sum);
    for (int32_t c = 0; c < y_c; c++) {
      const uint32_t share = dory_gap8_quotient(factor * table[largest - outputs[c]], total);
      y[c] = (DORY_Y_T)dory_gap8_clip((int32_t)share + a->add, a->lo, a->hi);
    }
  }
}
