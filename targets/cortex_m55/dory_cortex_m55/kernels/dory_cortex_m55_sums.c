#include "dory_cortex_m55_sums.h"

DORY_M55_INLINE void pairs_as(const dory_cortex_m55_sums_t *a, uint32_t form, int multiplies)
{
  const dory_cortex_m55_sums_t own = *a; /* y might lie in *a */
  const int32_t *const table = own.tables, *const table2 = table + 256;
  const uint8_t *x = own.x;
  uint8_t *y = own.y;
  for (uint32_t run = 0; run < own.runs; run++, x += own.count, y += own.count) {
    for (uint32_t i = 0; i < own.count; i += 4u) {
      const mve_pred16_t lanes = vctp32q(own.count - i);
      const int32x4_t first = words_of_table(table, x + i, lanes);
      const int32x4_t second = words_of_table(table2, own.x2 + i, lanes);
      const int32x4_t sums = multiplies ? vmulq_s32(first, second) : vaddq_s32(first, second);
      const int32x4_t outputs = dory_m55_outputs(&own.requant, form, sums, 0);
      vstrbq_p_s32((int8_t *)y + i, dory_m55_clipped(&own.requant, outputs), lanes);
    }
  }
}

void dory_cortex_m55_sums(const dory_cortex_m55_sums_t *a)
{
  if (a->requant.form <= DORY_REQUANT_PLAIN) {
    pairs_as(a, DORY_REQUANT_VECTOR, 0);
  } else {
    pairs_as(a, a->requant.form, 0);
  }
}

void dory_cortex_m55_products(const dory_cortex_m55_sums_t *a)
{
  if (a->requant.form <= DORY_REQUANT_PLAIN) {
    pairs_as(a, DORY_REQUANT_VECTOR, 1);
  } else {
    pairs_as(a, a->requant.form, 1);
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
