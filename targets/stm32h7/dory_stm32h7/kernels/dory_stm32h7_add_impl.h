/* Sum of two tensors, element by element. An instance defines DORY_KERNEL, DORY_X_T, DORY_X2_T,
 * DORY_Y_T, the macros of dory_stm32h7_requant_impl.h, and for operands 1 and 2
 *
 *   DORY_OPERAND1  DORY_AS_IS; DORY_SCALED: (x * mul + add) >> shift in 32 bits; DORY_CLIPPED: the
 *                  same within lo and hi */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

#define DORY_AS_IS 0
#define DORY_SCALED 1
#define DORY_CLIPPED 2

static inline int32_t dory_operand(int32_t x, int form, const dory_stm32h7_line_t *line)
{
  if (form == DORY_AS_IS) {
    return x;
  }
  /* Products alone may exceed 32 bits, sums do not. */
  const uint32_t sum = (uint32_t)x * (uint32_t)line->mul + (uint32_t)line->add;
  const int32_t scaled = (int32_t)sum >> line->shift;
  return form == DORY_CLIPPED ? dory_bounded(scaled, line->lo, line->hi) : scaled;
}

void DORY_KERNEL(const dory_stm32h7_add_t *a)
{
  const DORY_X_T *const x = a->x;
  const DORY_X2_T *const x2 = a->x2;
  DORY_Y_T *const y = a->y;
  const dory_stm32h7_requant_t q = a->requant;
  const dory_stm32h7_line_t first = a->operand[0], second = a->operand[1];
  const dory_channel_t channel = dory_channel(&q, 0);
  for (int32_t i = 0; i < a->elements; i++) {
    const int32_t sum =
        dory_operand(x[i], DORY_OPERAND1, &first) + dory_operand(x2[i], DORY_OPERAND2, &second);
    y[i] = (DORY_Y_T)dory_requant(&q, channel, sum);
  }
}
