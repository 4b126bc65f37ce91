/* From sums of products to outputs, four channels at a time: x is a sum that began with a bias.
 *
 * VECTOR   y = clip(((saturated(x << up) + add) * mul >> 32) >> down)
 * TURNED   the same, with another addend where x < 0: add + below
 * SHIFTED  the same, and each channel has its own up
 * SCALAR   y = clip((mul * x + add + (below where x < 0)) >> down) in 64 bits
 *
 * The numbers are such that y is that of the network for every sum that can occur. */
#ifndef DORY_CORTEX_M55_REQUANT_H
#define DORY_CORTEX_M55_REQUANT_H

#include <stdint.h>

#include "dory_cortex_m55_mve.h"

enum { DORY_REQUANT_VECTOR, DORY_REQUANT_TURNED, DORY_REQUANT_SHIFTED, DORY_REQUANT_SCALAR };

typedef struct {
  /* int32 or, of SCALAR, int64 numbers of all channels: add, mul, below, up as far as the form has
   * them, ``stride`` bytes each. */
  const uint8_t *channels;
  uint32_t stride;
  uint32_t form;
  int32_t up, down;
  int32_t lo, hi;
} dory_cortex_m55_requant_t;

static inline int32x4_t dory_m55_scalar(const dory_cortex_m55_requant_t *a, int32x4_t sums,
                                        uint32_t channel)
{
  const int64_t *const add = (const int64_t *)(const void *)a->channels + channel;
  const int64_t *const mul = (const int64_t *)(const void *)(a->channels + a->stride) + channel;
  const int64_t *const below =
    (const int64_t *)(const void *)(a->channels + 2u * a->stride) + channel;
  int32_t lanes[4];
  vst1q_s32(lanes, sums);
  for (int i = 0; i < 4; i++) {
    const int64_t value = mul[i] * lanes[i] + add[i] + (lanes[i] < 0 ? below[i] : 0);
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

/* Returns the outputs of channels channel .. channel + 3, channel a multiple of 4, as ``form`` has
 * them. Callers copy the parameters first: what they write might lie in *a. */
DORY_M55_INLINE int32x4_t dory_m55_outputs(const dory_cortex_m55_requant_t *a, uint32_t form,
                                           int32x4_t sums, uint32_t channel)
{
  if (form == DORY_REQUANT_SCALAR) {
    return dory_m55_scalar(a, sums, channel);
  }
  const uint8_t *const own = a->channels + 4u * channel;
  int32x4_t x = form == DORY_REQUANT_SHIFTED
                  ? vqshlq_s32(sums, dory_m55_words(own + 3u * a->stride))
                  : vqshlq_r_s32(sums, a->up);
  x = vqaddq_s32(x, dory_m55_words(own));
  if (form != DORY_REQUANT_VECTOR) {
    x = vpselq_s32(vqaddq_s32(x, dory_m55_words(own + 2u * a->stride)), x,
                   vcmpltq_n_s32(sums, 0));
  }
  x = vmulhq_s32(x, dory_m55_words(own + a->stride));
  return dory_m55_clipped(a, vshlq_r_s32(x, -a->down));
}

/* The same, of whatever form. */
static inline int32x4_t dory_m55_requant(const dory_cortex_m55_requant_t *a, int32x4_t sums,
                                         uint32_t channel)
{
  return a->form == DORY_REQUANT_VECTOR
           ? dory_m55_outputs(a, DORY_REQUANT_VECTOR, sums, channel)
           : dory_m55_outputs(a, a->form, sums, channel);
}

/* Outputs of some channels of some pixels, whose sums are ``pitch`` apart, and they ``y_step``. */
typedef struct {
  uint8_t *y;
  const int32_t *sums, *bias;
  uint32_t channel, count, pixels, pitch, y_step;
} dory_cortex_m55_outputs_t;

DORY_M55_INLINE void dory_m55_finish_form(const dory_cortex_m55_requant_t *given, uint32_t form,
                                          const dory_cortex_m55_outputs_t *all)
{
  const dory_cortex_m55_requant_t own = *given;
  const dory_cortex_m55_outputs_t o = *all;
  for (uint32_t pixel = 0; pixel < o.pixels; pixel++) {
    const int32_t *const sums = o.sums + pixel * o.pitch, *const bias = o.bias + o.channel;
    int8_t *const y = (int8_t *)o.y + pixel * o.y_step;
    uint32_t c = 0;
    for (; c + 4u <= o.count; c += 4u) {
      const int32x4_t x = vaddq_s32(vldrwq_s32(sums + c), vldrwq_s32(bias + c));
      vstrbq_s32(y + c, dory_m55_outputs(&own, form, x, o.channel + c));
    }
    if (c < o.count) {
      const int32x4_t x = vaddq_s32(vldrwq_s32(sums + c), vldrwq_s32(bias + c));
      vstrbq_p_s32(y + c, dory_m55_outputs(&own, form, x, o.channel + c), vctp32q(o.count - c));
    }
  }
}

/* Writes outputs: channel is a multiple of 4, and sums have whole fours. */
static inline void dory_m55_finish(const dory_cortex_m55_requant_t *a,
                                   const dory_cortex_m55_outputs_t *all)
{
  switch (a->form) {
    case DORY_REQUANT_VECTOR: dory_m55_finish_form(a, DORY_REQUANT_VECTOR, all); break;
    case DORY_REQUANT_TURNED: dory_m55_finish_form(a, DORY_REQUANT_TURNED, all); break;
    case DORY_REQUANT_SHIFTED: dory_m55_finish_form(a, DORY_REQUANT_SHIFTED, all); break;
    default: dory_m55_finish_form(a, DORY_REQUANT_SCALAR, all); break;
  }
}

#endif
