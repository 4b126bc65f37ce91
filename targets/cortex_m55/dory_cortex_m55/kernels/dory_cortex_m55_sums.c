#include "dory_cortex_m55_sums.h"

/* Four elements of an operand from element ``i`` of a run on. */
DORY_M55_INLINE int32x4_t operand(const dory_cortex_m55_operand_t *o, uint32_t kind,
                                  const uint8_t *x, uint32_t i, mve_pred16_t lanes)
{
  switch (kind) {
    case DORY_OPERAND_HALVES: return vldrhq_z_s32((const int16_t *)(const void *)x + i, lanes);
    case DORY_OPERAND_WORDS: return vldrwq_z_s32((const int32_t *)(const void *)x + i, lanes);
    case DORY_OPERAND_ONE: return vdupq_n_s32(o->table[x[0]]);
    case DORY_OPERAND_SCALED: {
      const int32x4_t own = vldrwq_z_s32((const int32_t *)(const void *)x + i, lanes);
      const int32x4_t factors = vldrwq_z_s32(o->table + i, lanes);
      return vrshlq_n_s32(vmulhq_s32(vqshlq_r_s32(own, o->up), factors), -o->down);
    }
    default: return words_of_table(o->table, x + i, lanes);
  }
}

DORY_M55_INLINE void put(uint8_t *y, uint32_t bytes, uint32_t i, int32x4_t outputs,
                         mve_pred16_t lanes)
{
  switch (bytes) {
    case 4: vst1q_p_s32((int32_t *)(void *)y + i, outputs, lanes); break;
    case 2: vstrhq_p_s32((int16_t *)(void *)y + i, outputs, lanes); break;
    default: vstrbq_p_s32((int8_t *)y + i, outputs, lanes); break;
  }
}

/* Outputs run by run. */
DORY_M55_INLINE void pairs_as(const dory_cortex_m55_sums_t *given, uint32_t form, uint32_t kind,
                              uint32_t kind2, uint32_t bytes, int multiplies)
{
  const dory_cortex_m55_sums_t a = *given; /* y might lie in *given */
  const uint8_t *x = a.first.x, *x2 = a.second.x;
  uint8_t *y = a.y;
  for (uint32_t run = 0; run < a.runs; run++, x += a.first.next, x2 += a.second.next) {
    for (uint32_t i = 0; i < a.count; i += 4u) {
      const mve_pred16_t lanes = vctp32q(a.count - i);
      const int32x4_t first = operand(&a.first, kind, x, i, lanes);
      const int32x4_t second = operand(&a.second, kind2, x2, i, lanes);
      int32x4_t outputs = multiplies ? vmulq_s32(first, second) : vaddq_s32(first, second);
      if (form != DORY_REQUANT_SUMS) {
        outputs = dory_m55_clipped(&a.requant, dory_m55_outputs(&a.requant, form, outputs, 0));
      }
      put(y, bytes, i, outputs, lanes);
    }
    y += a.count * bytes;
  }
}

/* Most layers have tables, outputs of bytes, and a line: their loop has no switch. */
DORY_M55_INLINE void pairs(const dory_cortex_m55_sums_t *a, int multiplies)
{
  const uint32_t form = a->requant.form, kind = a->first.kind, kind2 = a->second.kind;
  if (form > DORY_REQUANT_PLAIN || a->y_bytes > 1u) {
    pairs_as(a, form, kind, kind2, a->y_bytes, multiplies);
  } else if (kind == DORY_OPERAND_BYTES && kind2 == DORY_OPERAND_BYTES) {
    pairs_as(a, DORY_REQUANT_VECTOR, DORY_OPERAND_BYTES, DORY_OPERAND_BYTES, 1, multiplies);
  } else {
    pairs_as(a, DORY_REQUANT_VECTOR, kind, kind2, 1, multiplies);
  }
}

void dory_cortex_m55_sums(const dory_cortex_m55_sums_t *a) { pairs(a, 0); }

void dory_cortex_m55_products(const dory_cortex_m55_sums_t *a) { pairs(a, 1); }

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
