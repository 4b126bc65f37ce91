/* Softmax of bytes in the integers of TensorFlow Lite: template of the kernel DORY_KERNEL.
 *
 *   DORY_CORES   cores that share a tile
 *   DORY_X_T     an input
 *   DORY_Y_T     an output
 *
 * Cores share the pixels of a tile. Exponentials are a table of the distance from the largest channel,
 * in Q0.31. All products are high halves of 64 bits, which the chip computes in a few cycles. */
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* a * b / 2^31, rounded to nearest, halves up. */
static inline int32_t dory_high_product(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

static inline int32_t dory_saturated(int64_t value) {
  return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* 1 / (1 + a) in Q0.31 for a in [0, 1) of Q0.31: three steps of Newton-Raphson. */
static DORY_GAP8_NOINLINE int32_t dory_reciprocal(int32_t a) {
  const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
  int32_t x = 1515870810 + dory_high_product(half, -1010580540);
  for (int32_t i = 0; i < 3; i++) {
    const int32_t error = ((int32_t)1 << 29) - dory_high_product(half, x);
    x += dory_saturated((int64_t)dory_high_product(x, error) * 4);
  }
  return dory_saturated((int64_t)x * 2);
}

/* Computes one tile. Every core calls it and takes its part of the pixels. */
void DORY_KERNEL(const dory_gap8_softmax_t *a) {
  const dory_gap8_range_t pixels =
      dory_gap8_part(a->pixels, 1, DORY_CORES, (int32_t)dory_core_id());
  const int32_t x_c = a->x_c, y_c = a->y_c;
  const int32_t *const table = a->table;
  const DORY_X_T *x = (const DORY_X_T *)a->x + pixels.first * x_c;
  DORY_Y_T *y = (DORY_Y_T *)a->y + pixels.first * y_c;
  for (int32_t pixel = pixels.first; pixel < pixels.end; pixel++, x += x_c, y += y_c) {
    int32_t largest = x[0], zeros = 0, scale, shift;
    uint32_t sum = 0;
    for (int32_t c = 1; c < x_c; c++) {
      largest = dory_gap8_max(largest, x[c]);
    }
    for (int32_t c = 0; c < x_c; c++) {
      sum += ((uint32_t)table[largest - x[c]] + (1u << 11)) >> 12;
    }
    while ((sum & 0x80000000u) == 0) {
      sum <<= 1;
      zeros++;
    }
    scale = dory_reciprocal((int32_t)(sum - 0x80000000u));
    shift = 35 - zeros;
    /* What is divided lies below 2^31. */
    const uint32_t half = shift < 32 ? 1u << (shift - 1) : 0;
    for (int32_t c = 0; c < y_c; c++) {
      const uint32_t share =
          (uint32_t)dory_high_product(scale, table[largest - x[a->channel + c]]);
      const int32_t part = shift < 32 ? (int32_t)((share + half) >> shift) : 0;
      y[c] = (DORY_Y_T)dory_gap8_clip(part + a->add, a->lo, a->hi);
    }
  }
}
