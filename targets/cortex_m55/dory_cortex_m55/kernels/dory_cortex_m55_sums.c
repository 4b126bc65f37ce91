#include "dory_cortex_m55_sums.h"

DORY_M55_INLINE void sums_as(const dory_cortex_m55_sums_t *a, uint32_t form)
{
  const dory_cortex_m55_requant_t requant = a->requant; /* y might lie in *a */
  const uint8_t *x = a->x, *x2 = a->x2;
  const int32_t *const table = a->tables, *const table2 = table + 256;
  int8_t *y = (int8_t *)a->y;
  for (int32_t left = (int32_t)a->count; left > 0; left -= 4, x += 4, x2 += 4, y += 4) {
    const mve_pred16_t lanes = vctp32q((uint32_t)left);
    const int32x4_t sums =
      vaddq_s32(words_of_table(table, x, lanes), words_of_table(table2, x2, lanes));
    vstrbq_p_s32(y, dory_m55_clipped(&requant, dory_m55_outputs(&requant, form, sums, 0)), lanes);
  }
}

void dory_cortex_m55_sums(const dory_cortex_m55_sums_t *a)
{
  if (a->requant.form <= DORY_REQUANT_PLAIN) {
    sums_as(a, DORY_REQUANT_VECTOR);
  } else {
    sums_as(a, a->requant.form);
  }
}

DORY_M55_INLINE int32x4_t loaded(const uint8_t *x, mve_pred16_t lanes, uint32_t is_signed)
{
  return is_signed ? vldrbq_z_s32((const int8_t *)x, lanes) : bytes_as_s32(x, lanes);
}

DORY_M55_INLINE int32x4_t on_line(const dory_cortex_m55_line_t *a, int32x4_t x, int32x4_t x2,
                                  uint32_t twice)
{
  int32x4_t y = vmlaq_n_s32(vmlaq_n_s32(vdupq_n_s32(a->add), x, a->mul), x2, a->mul2);
  y = vshlq_r_s32(y, -a->down);
  if (twice) {
    y = vshlq_r_s32(vmlaq_n_s32(vdupq_n_s32(a->add_after), y, a->mul_after), -a->down_after);
  }
  return vminq_s32(vmaxq_s32(y, vdupq_n_s32(a->lo)), vdupq_n_s32(a->hi));
}

DORY_M55_INLINE void line(const dory_cortex_m55_line_t *given, uint32_t x_signed,
                          uint32_t x2_signed, uint32_t twice)
{
  const dory_cortex_m55_line_t a = *given; /* y might lie in *given */
  const uint8_t *x = a.x, *x2 = a.x2;
  int8_t *y = (int8_t *)a.y;
  for (uint32_t fours = a.count / 4u; fours > 0; fours--, x += 4, x2 += 4, y += 4) {
    const mve_pred16_t all = 0xFFFFu;
    vstrbq_s32(y, on_line(&a, loaded(x, all, x_signed), loaded(x2, all, x2_signed), twice));
  }
  const mve_pred16_t lanes = vctp32q(a.count % 4u);
  vstrbq_p_s32(y, on_line(&a, loaded(x, lanes, x_signed), loaded(x2, lanes, x2_signed), twice),
               lanes);
}

void dory_cortex_m55_line(const dory_cortex_m55_line_t *a)
{
  const uint32_t twice = a->mul_after != 1 || a->down_after > 0;
  if (twice) {
    line(a, a->x_signed, a->x2_signed, 1);
  } else if (a->x_signed && a->x2_signed) {
    line(a, 1, 1, 0);
  } else {
    line(a, a->x_signed, a->x2_signed, 0);
  }
}
