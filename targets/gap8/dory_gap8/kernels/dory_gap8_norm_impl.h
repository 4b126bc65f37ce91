/* Layer normalisation of bytes in integers of 32 bits: template of the kernel DORY_KERNEL.
 *
 *   DORY_CORES     cores that share a tile
 *   DORY_X_T       an input
 *   DORY_Y_T       an output
 *   DORY_CENTRED   1 where the mean is taken off
 *   DORY_BIAS      1 where biases stand behind the weights
 *
 * Cores share the pixels of a tile. The divisions by the root of a pixel are products. */
#include "dory_gap8_quotient.h"
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* Returns the integer part of the root. */
static DORY_GAP8_NOINLINE uint32_t dory_root(uint32_t value) {
  uint32_t root = 0;
  for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1) {
    const uint32_t next = root | bit;
    root = next * next <= value ? next : root;
  }
  return root;
}

/* Computes one tile. Every core calls it and takes its part of the pixels. */
void DORY_KERNEL(const dory_gap8_norm_t *a) {
  const dory_gap8_range_t pixels =
      dory_gap8_part(a->pixels, 1, DORY_CORES, (int32_t)dory_core_id());
  const int32_t x_c = a->x_c, y_c = a->y_c, up = a->up, down = a->down;
  const int32_t *const weights = a->weights;
  const DORY_X_T *x = (const DORY_X_T *)a->x + pixels.first * x_c;
  DORY_Y_T *y = (DORY_Y_T *)a->y + pixels.first * y_c;
  for (int32_t pixel = pixels.first; pixel < pixels.end; pixel++, x += x_c, y += y_c) {
    const DORY_X_T *const outputs = x + a->channel;
    int32_t sum = 0, mean = 0;
    uint32_t squares = 0; /* modulo 2^32: what they become is below 2^31 */
    for (int32_t c = 0; c < x_c; c++) {
      sum += x[c];
      squares += (uint32_t)(x[c] * x[c]);
    }
    if (DORY_CENTRED) {
      mean = sum / x_c;
      squares -= (uint32_t)mean * (2u * (uint32_t)sum - (uint32_t)x_c * (uint32_t)mean);
    }
    const dory_gap8_divisor_t root =
        dory_gap8_divisor(dory_root(squares / (uint32_t)x_c + 1u));
    for (int32_t c = 0; c < y_c; c++) {
      const int32_t product = (outputs[c] - mean) * weights[c];
      const int32_t sign = product >> 31;
      const int32_t size = (int32_t)dory_gap8_quotient((uint32_t)((product ^ sign) - sign), root);
      const int32_t value = ((size ^ sign) - sign) + (DORY_BIAS ? weights[y_c + c] : 0);
      const int32_t wrapped = (int32_t)((uint32_t)value << up);
      y[c] = (DORY_Y_T)dory_gap8_clip(wrapped >> down, a->lo, a->hi);
    }
  }
}
