#include "dory_cortex_m55_sums.h"

void dory_cortex_m55_sums(const dory_cortex_m55_sums_t *a)
{
  for (uint32_t i = 0; i < a->count; i += 4u) {
    const mve_pred16_t lanes = vctp32q(a->count - i);
    const int32x4_t sums = vaddq_s32(words_of_table(a->tables, a->x + i, lanes),
                                     words_of_table(a->tables + 256, a->x2 + i, lanes));
    vstrbq_p_s32((int8_t *)a->y + i, dory_m55_requant(&a->requant, sums, 0), lanes);
  }
}

static inline int32x4_t loaded(const uint8_t *x, mve_pred16_t lanes, uint32_t is_signed)
{
  return is_signed ? vldrbq_z_s32((const int8_t *)x, lanes) : bytes_as_s32(x, lanes);
}

static inline void line(const dory_cortex_m55_line_t *a, uint32_t x_signed, uint32_t x2_signed)
{
  const int32x4_t lo = vdupq_n_s32(a->lo), hi = vdupq_n_s32(a->hi), add = vdupq_n_s32(a->add);
  for (uint32_t i = 0; i < a->count; i += 4u) {
    const mve_pred16_t lanes = vctp32q(a->count - i);
    int32x4_t y = vmlaq_n_s32(add, loaded(a->x + i, lanes, x_signed), a->mul);
    y = vshlq_r_s32(vmlaq_n_s32(y, loaded(a->x2 + i, lanes, x2_signed), a->mul2), -a->down);
    vstrbq_p_s32((int8_t *)a->y + i, vminq_s32(vmaxq_s32(y, lo), hi), lanes);
  }
}

void dory_cortex_m55_line(const dory_cortex_m55_line_t *a)
{
  if (a->x_signed && a->x2_signed) {
    line(a, 1, 1);
  } else if (a->x_signed || a->x2_signed) {
    line(a, a->x_signed, a->x2_signed);
  } else {
    line(a, 0, 0);
  }
}
