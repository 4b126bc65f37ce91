/* Function of two operands, element by element. An instance defines DORY_KERNEL, DORY_X_T, DORY_X2_T,
 * DORY_Y_T, the macros of dory_stm32h7_requant_impl.h, and
 *
 *   DORY_VALUE        DORY_SUM, DORY_PRODUCT, DORY_LARGER or DORY_SMALLER
 *   DORY_OPERAND1     (and 2) DORY_AS_IS; DORY_SCALED: (x * mul + add) >> shift in 32 bits;
 *                     DORY_CLIPPED: the same within lo and hi; DORY_OFFSET: x + add; DORY_UPPER: the
 *                     upper half of (x << shift) * mul + add, and of `below` where x is negative
 *   DORY_FLAT         1: the tiles of both operands are the same elements in the same order
 *   DORY_ONE_CHANNEL  1: the second operand has one channel for all of the first one */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

#define DORY_AS_IS 0
#define DORY_SCALED 1
#define DORY_CLIPPED 2
#define DORY_OFFSET 3
#define DORY_UPPER 4

#define DORY_SUM 0
#define DORY_PRODUCT 1
#define DORY_LARGER 2
#define DORY_SMALLER 3

enum { DORY_TOGETHER = 4 };

static inline int32_t dory_operand(int32_t x, int form, const dory_stm32h7_line_t *line)
{
  if (form == DORY_AS_IS) {
    return x;
  }
  if (form == DORY_OFFSET) {
    return x + (int32_t)line->add;
  }
  if (form == DORY_UPPER) {
    const int64_t add = line->add + (line->below & (x >> 31));
    return (int32_t)(((int64_t)(int32_t)((uint32_t)x << line->shift) * line->mul + add) >> 32);
  }
  /* Products alone may exceed 32 bits, sums do not. */
  const uint32_t sum = (uint32_t)x * (uint32_t)line->mul + (uint32_t)line->add;
  const int32_t scaled = (int32_t)sum >> line->shift;
  return form == DORY_CLIPPED ? dory_bounded(scaled, line->lo, line->hi) : scaled;
}

static inline int32_t dory_pair(int32_t x, int32_t x2)
{
#if DORY_VALUE == DORY_SUM
  return x + x2;
#elif DORY_VALUE == DORY_PRODUCT
  return x * x2;
#elif DORY_VALUE == DORY_LARGER
  return x > x2 ? x : x2;
#else
  return x < x2 ? x : x2;
#endif
}

/* The parameters as copies: stores of bytes could change anything that is reached by a pointer. */
static inline void dory_run(const dory_stm32h7_pair_t *a, const DORY_X_T *x, const DORY_X2_T *x2,
                            DORY_Y_T *y, int32_t n)
{
  const dory_stm32h7_requant_t q = a->requant;
  const dory_stm32h7_line_t first = a->operand[0], second = a->operand[1];
  const dory_channel_t channel = dory_channel(&q, 0);
#if DORY_ONE_CHANNEL
  const int32_t other = dory_operand(x2[0], DORY_OPERAND2, &second);
#endif
  /* Four at a time: all operands are loaded before the first output is stored. */
  for (; n >= DORY_TOGETHER; n -= DORY_TOGETHER) {
    int32_t values[DORY_TOGETHER];
    DORY_UNROLLED
    for (int k = 0; k < DORY_TOGETHER; k++) {
#if !DORY_ONE_CHANNEL
      const int32_t other = dory_operand(x2[k], DORY_OPERAND2, &second);
#endif
      values[k] = dory_pair(dory_operand(x[k], DORY_OPERAND1, &first), other);
    }
    DORY_UNROLLED
    for (int k = 0; k < DORY_TOGETHER; k++) {
      y[k] = (DORY_Y_T)dory_requant(&q, channel, values[k]);
    }
    x += DORY_TOGETHER;
    x2 += DORY_ONE_CHANNEL ? 0 : DORY_TOGETHER;
    y += DORY_TOGETHER;
  }
  DORY_ROLLED
  for (; n > 0; n--) {
#if !DORY_ONE_CHANNEL
    const int32_t other = dory_operand(*x2++, DORY_OPERAND2, &second);
#endif
    *y++ = (DORY_Y_T)dory_requant(&q, channel, dory_pair(dory_operand(*x++, DORY_OPERAND1, &first), other));
  }
}

void DORY_KERNEL(const dory_stm32h7_pair_t *a)
{
  const DORY_X_T *x = a->x;
  DORY_Y_T *y = a->y;
#if DORY_FLAT
  dory_run(a, x, a->x2, y, a->y_h * a->y_w * a->y_c);
#else
  for (int32_t i = 0; i < a->y_h; i++) {
    const DORY_X2_T *x2 = (const DORY_X2_T *)a->x2 + i * a->row;
    for (int32_t j = 0; j < a->y_w; j++, x2 += a->column, x += a->y_c, y += a->y_c) {
      dory_run(a, x, x2, y, a->y_c);
    }
  }
#endif
}
