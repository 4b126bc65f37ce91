/* Sum of two tensors, each requantised, and so is the sum: template of the kernel DORY_KERNEL,
 * configured as dory_gap8_requant_impl.h and
 *
 *   DORY_X_T, DORY_X2_T                      types of the operands
 *   DORY_OPERAND1, DORY_OPERAND2             form of each operand's divisor, DORY_NO_STEP: as it is
 *   DORY_OPERAND_CLIP1, DORY_OPERAND_CLIP2   whether it is clipped
 */
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

static inline dory_q_t dory_operand(dory_q_t v, int form, int clip, const dory_gap8_step_t *s) {
  return form == DORY_NO_STEP ? v
                              : dory_step(v, (dory_q_t)s->mul, (dory_q_t)s->add, form, clip, s);
}

/* Computes one tile. Every core calls it and takes its part of the elements. */
void DORY_KERNEL(const dory_gap8_add_t *a) {
  const DORY_X_T *const x = a->x;
  const DORY_X2_T *const x2 = a->x2;
  DORY_Y_T *const y = a->y;
  const dory_gap8_range_t part =
      dory_gap8_part(a->elements, 4, (int32_t)dory_core_count(), (int32_t)dory_core_id());
  for (int32_t i = part.first; i < part.end; i++) {
    const dory_q_t q = dory_operand(x[i], DORY_OPERAND1, DORY_OPERAND_CLIP1, &a->operand[0]) +
                       dory_operand(x2[i], DORY_OPERAND2, DORY_OPERAND_CLIP2, &a->operand[1]);
    y[i] = dory_requantise(q, 0, &a->requant);
  }
}
