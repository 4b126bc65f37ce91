/* From sums of products to outputs: x is a sum, and a bias where the form has one.
 *
 * VECTOR   y = clip(((saturated(x << up) + add) * mul >> 32) >> down), without a bias
 * PLAIN    the same, and nothing saturates
 * TURNED   the same, with a bias, and another addend where x < 0: add + below
 * SHIFTED  the same, and it might saturate; each channel has its own up
 * SCALAR   y = clip((mul * x + add + (below where x < 0)) >> down) in 64 bits
 * BINARY32 y = clip(even(x * mul) + up): x, which has a bias, and the product are rounded to binary32,
 *          even is the nearest integer, ties are rounded to even; mul has the bits of a binary32
 * ROUNDED  y = clip(((x << up) * mul >> 32) >> down), the last shift rounds ties up; nothing saturates
 * SUMS     y = x with its bias, in 32 bits; channels are in their order
 *
 * The numbers are such that y is that of the network for every sum that can occur.
 *
 * Sums and numbers of eight channels lie in two vectors: channels 0 2 4 6, then 1 3 5 7, so that
 * narrowing brings outputs into their order. */
#ifndef DORY_CORTEX_M55_REQUANT_H
#define DORY_CORTEX_M55_REQUANT_H

#include <stdint.h>

#include "dory_cortex_m55_mve.h"

enum {
  DORY_REQUANT_VECTOR,
  DORY_REQUANT_PLAIN,
  DORY_REQUANT_TURNED,
  DORY_REQUANT_SHIFTED,
  DORY_REQUANT_SCALAR,
  DORY_REQUANT_SUMS,
  DORY_REQUANT_BINARY32,
  DORY_REQUANT_ROUNDED
};

typedef struct {
  /* [eights][parts][8] int32 or, of SCALAR, int64 numbers: VECTOR and PLAIN have add,
   * mul; TURNED (bias << up) + add, add, below, mul; SCALAR bias, below, add, mul; SHIFTED up as well;
   * BINARY32 and ROUNDED bias, mul. SUMS have a bias. */
  const uint8_t *channels;
  uint32_t form;
  int32_t up, down;
  int32_t lo, hi;
  const uint8_t *table; /* of a step that follows, by the bytes of the others; NULL without one */
} dory_cortex_m55_requant_t;

/* Parts of a form. */
DORY_M55_INLINE uint32_t dory_m55_parts(uint32_t form)
{
  switch (form) {
    case DORY_REQUANT_VECTOR:
    case DORY_REQUANT_PLAIN:
    case DORY_REQUANT_BINARY32:
    case DORY_REQUANT_ROUNDED: return 2;
    case DORY_REQUANT_SHIFTED: return 5;
    default: return 4;
  }
}

static inline int32x4_t dory_m55_scalar(const dory_cortex_m55_requant_t *a, int32x4_t sums,
                                        uint32_t at)
{
  const int64_t *const own =
    (const int64_t *)(const void *)a->channels + at / 8u * 32u + at % 8u;
  int32_t lanes[4];
  vst1q_s32(lanes, sums);
  for (int i = 0; i < 4; i++) {
    const int64_t x = (int64_t)lanes[i] + own[i];
    const int64_t value = own[24 + i] * x + own[16 + i] + (x < 0 ? own[8 + i] : 0);
    const int64_t y = value < 0 ? ~(~value >> a->down) : value >> a->down;
    lanes[i] = y < a->lo ? a->lo : y > a->hi ? a->hi : (int32_t)y;
  }
  return vldrwq_s32(lanes);
}

static inline int32x4_t dory_m55_words(const uint8_t *from)
{
  return vldrwq_s32((const int32_t *)(const void *)from);
}

static inline int32x4_t dory_m55_clipped(const dory_cortex_m55_requant_t *a, int32x4_t y)
{
  return vminq_s32(vmaxq_s32(y, vdupq_n_s32(a->lo)), vdupq_n_s32(a->hi));
}

/* Returns four outputs as ``form`` has them, not clipped yet, whose numbers lie at place ``at``, a
 * multiple of 4. Callers copy the parameters first: what they write might lie in *a. */
DORY_M55_INLINE int32x4_t dory_m55_outputs(const dory_cortex_m55_requant_t *a, uint32_t form,
                                           int32x4_t sums, uint32_t at)
{
  if (form == DORY_REQUANT_SCALAR) {
    return dory_m55_scalar(a, sums, at);
  }
  const uint32_t parts = dory_m55_parts(form);
  const uint8_t *const own = a->channels + at / 8u * 32u * parts + at % 8u * 4u;
  if (form <= DORY_REQUANT_PLAIN) {
    const int32x4_t x = vqaddq_s32(vqshlq_r_s32(sums, a->up), dory_m55_words(own));
    return vshlq_r_s32(vmulhq_s32(x, dory_m55_words(own + 32u)), -a->down);
  }
  if (form == DORY_REQUANT_TURNED) {
    const int32x4_t turned = vmlaq_n_s32(dory_m55_words(own), sums, (int32_t)(1u << a->up));
    const mve_pred16_t is_below = vcmpgtq_s32(dory_m55_words(own + 32u), turned);
    const int32x4_t below = vaddq_s32(turned, dory_m55_words(own + 64u));
    const int32x4_t line = vpselq_s32(below, turned, is_below);
    return vshlq_r_s32(vmulhq_s32(line, dory_m55_words(own + 96u)), -a->down);
  }
  sums = vaddq_s32(sums, dory_m55_words(own));
  if (form == DORY_REQUANT_BINARY32) {
    return vqaddq_s32(even_products(sums, dory_m55_words(own + 32u)), vdupq_n_s32(a->up));
  }
  if (form == DORY_REQUANT_ROUNDED) {
    const int32x4_t product = vmulhq_s32(vqshlq_r_s32(sums, a->up), dory_m55_words(own + 32u));
    return vrshlq_n_s32(product, -a->down);
  }
  int32x4_t x = vqshlq_s32(sums, dory_m55_words(own + 128u));
  x = vpselq_s32(vqaddq_s32(x, dory_m55_words(own + 32u)), x, vcmpltq_n_s32(sums, 0));
  x = vmulhq_s32(vqaddq_s32(x, dory_m55_words(own + 64u)), dory_m55_words(own + 96u));
  return vshlq_r_s32(x, -a->down);
}

/* Four outputs of one channel, of whatever form. */
static inline int32x4_t dory_m55_requant(const dory_cortex_m55_requant_t *a, int32x4_t sums)
{
  return dory_m55_clipped(a, a->form <= DORY_REQUANT_PLAIN
                               ? dory_m55_outputs(a, DORY_REQUANT_VECTOR, sums, 0)
                               : dory_m55_outputs(a, a->form, sums, 0));
}

#endif
