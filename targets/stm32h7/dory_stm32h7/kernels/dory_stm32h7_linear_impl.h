/* Fully connected layer: four output channels at a time share the widened inputs. An instance
 * defines DORY_KERNEL, DORY_X_SIGNED, DORY_Y_T and the macros of dory_stm32h7_requant_impl.h.
 *
 * Rows of weights are bytes, padded with zeros to multiples of four. The rows of four channels are
 * interleaved by fours; the rows of the last one to three channels follow one after the other. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

/* The last one to three elements, zeros behind them. */
static inline uint32_t dory_rest(const uint8_t *x, int32_t n)
{
  uint32_t word = x[0];
  word |= n > 1 ? (uint32_t)x[1] << 8 : 0u;
  word |= n > 2 ? (uint32_t)x[2] << 16 : 0u;
  return word;
}

static inline int32_t dory_row(const uint32_t *w, const uint8_t *x, int32_t n)
{
  int32_t sum = 0;
  for (; n >= 4; n -= 4, x += 4, w++) {
    const uint32_t word = dory_load4(x);
    sum = dory_smlad(dory_sxtb16(*w), DORY_EVEN(DORY_X_SIGNED, word), sum);
    sum = dory_smlad(dory_sxtb16_odd(*w), DORY_ODD(DORY_X_SIGNED, word), sum);
  }
  if (n > 0) {
    const uint32_t word = dory_rest(x, n);
    sum = dory_smlad(dory_sxtb16(*w), DORY_EVEN(DORY_X_SIGNED, word), sum);
    sum = dory_smlad(dory_sxtb16_odd(*w), DORY_ODD(DORY_X_SIGNED, word), sum);
  }
  return sum;
}

typedef struct {
  int32_t s0, s1, s2, s3;
} dory_sums_t;

static inline int32_t dory_vector(uint32_t w, uint32_t even, uint32_t odd, int32_t sum)
{
  return dory_smlad(dory_sxtb16_odd(w), odd, dory_smlad(dory_sxtb16(w), even, sum));
}

static inline dory_sums_t dory_four(const uint32_t *w, uint32_t x, dory_sums_t sums)
{
  const uint32_t even = DORY_EVEN(DORY_X_SIGNED, x), odd = DORY_ODD(DORY_X_SIGNED, x);
  const dory_sums_t result = {
    dory_vector(w[0], even, odd, sums.s0), dory_vector(w[1], even, odd, sums.s1),
    dory_vector(w[2], even, odd, sums.s2), dory_vector(w[3], even, odd, sums.s3)};
  return result;
}

void DORY_KERNEL(const dory_stm32h7_linear_t *a)
{
  const uint32_t *w = a->weights;
  DORY_Y_T *const y = a->y;
  int32_t c = 0;
  for (; c < a->y_c - 3; c += 4) {
    const uint8_t *x = a->x;
    dory_sums_t four = {0, 0, 0, 0};
    int32_t n = a->x_c;
    for (; n >= 4; n -= 4, x += 4, w += 4) {
      four = dory_four(w, dory_load4(x), four);
    }
    if (n > 0) {
      four = dory_four(w, dory_rest(x, n), four);
      w += 4;
    }
    const int32_t sums[4] = {four.s0, four.s1, four.s2, four.s3};
    for (int k = 0; k < 4; k++) {
      y[c + k] = (DORY_Y_T)dory_requant(&a->requant, dory_channel(&a->requant, c + k), sums[k]);
    }
  }
  for (; c < a->y_c; c++) {
    const int32_t sum = dory_row(w, a->x, a->x_c);
    y[c] = (DORY_Y_T)dory_requant(&a->requant, dory_channel(&a->requant, c), sum);
    w += (a->x_c + 3) / 4;
  }
}
