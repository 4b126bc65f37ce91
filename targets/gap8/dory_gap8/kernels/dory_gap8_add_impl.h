/* Sum of two tensors, each requantised, and so is the sum: template of the kernel DORY_KERNEL,
 * configured as dory_gap8_requant_impl.h and
 *
 *   DORY_X_BITS, DORY_X_SIGNED, DORY_X2_BITS, DORY_X2_SIGNED   operands
 *   DORY_Y_BITS                              the output
 *   DORY_OPERAND1, DORY_OPERAND2             form of each operand's divisor, DORY_NO_STEP: as it is
 *   DORY_OPERAND_CLIP1, DORY_OPERAND_CLIP2   whether it is clipped
 */
#include "dory_gap8_packed.h"
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

#define DORY_WHOLE_BYTES (DORY_X_BITS >= 8 && DORY_X2_BITS >= 8 && DORY_Y_BITS >= 8)

static inline dory_q_t dory_operand(dory_q_t v, int form, int clip, const dory_gap8_step_t *s) {
  return form == DORY_NO_STEP ? v
                              : dory_step(v, (dory_q_t)s->mul, (dory_q_t)s->add, form, clip, s);
}

/* Elements c .. c + n - 1 of a pixel, n up to 4. */
static inline void dory_sum4(const dory_gap8_add_t *a, const uint8_t *x, const uint8_t *x2,
                             uint8_t *y, int32_t c, int32_t n) {
  int32_t v[4] = {0, 0, 0, 0}, v2[4] = {0, 0, 0, 0}, q[4] = {0, 0, 0, 0};
  dory_gap8_get4(x, c, n, DORY_X_BITS, DORY_X_SIGNED, v);
  dory_gap8_get4(x2, c, n, DORY_X2_BITS, DORY_X2_SIGNED, v2);
  for (int32_t i = 0; i < n; i++) {
    const dory_q_t sum = dory_operand(v[i], DORY_OPERAND1, DORY_OPERAND_CLIP1, &a->operand[0]) +
                         dory_operand(v2[i], DORY_OPERAND2, DORY_OPERAND_CLIP2, &a->operand[1]);
    q[i] = dory_requantise(sum, 0, &a->requant);
  }
  dory_gap8_put4(y, c, n, DORY_Y_BITS, q);
}

/* Computes one tile. Every core calls it and takes its part of the pixels, or of the elements where
 * they lie without gaps. */
void DORY_KERNEL(const dory_gap8_add_t *a) {
  const int dense = DORY_WHOLE_BYTES || (a->channels & 3) == 0;
  const int32_t pixels = dense ? 1 : a->pixels;
  const int32_t channels = dense ? a->pixels * a->channels : a->channels;
  const int32_t cores = (int32_t)dory_core_count(), core = (int32_t)dory_core_id();
  const dory_gap8_range_t whole = {0, dense ? 1 : channels};
  const dory_gap8_range_t mine =
      dense ? dory_gap8_part(channels, 4, cores, core) : dory_gap8_part(pixels, 1, cores, core);
  const dory_gap8_range_t rows = dense ? whole : mine;
  const dory_gap8_range_t part = dense ? mine : whole;
  for (int32_t pixel = rows.first; pixel < rows.end; pixel++) {
    const uint8_t *const x =
        (const uint8_t *)a->x + pixel * dory_gap8_bytes(channels, DORY_X_BITS);
    const uint8_t *const x2 =
        (const uint8_t *)a->x2 + pixel * dory_gap8_bytes(channels, DORY_X2_BITS);
    uint8_t *const y = (uint8_t *)a->y + pixel * dory_gap8_bytes(channels, DORY_Y_BITS);
    int32_t c = part.first;
    for (; c + 4 <= part.end; c += 4) {
      dory_sum4(a, x, x2, y, c, 4);
    }
    if (c < part.end) {
      dory_sum4(a, x, x2, y, c, part.end - c);
    }
  }
}
