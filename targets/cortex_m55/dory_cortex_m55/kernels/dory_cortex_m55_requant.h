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

/* Returns the outputs of channels channel .. channel + 3, channel a multiple of 4. */
static inline int32x4_t dory_m55_requant(const dory_cortex_m55_requant_t *a, int32x4_t sums,
                                         uint32_t channel)
{
  if (a->form == DORY_REQUANT_SCALAR) {
    return dory_m55_scalar(a, sums, channel);
  }
  const uint8_t *const own = a->channels + 4u * channel;
  int32x4_t x = a->form == DORY_REQUANT_SHIFTED
                  ? vqshlq_s32(sums, vldrwq_s32((const int32_t *)(const void *)(own + 3u * a->stride)))
                  : vqshlq_r_s32(sums, a->up);
  x = vqaddq_s32(x, vldrwq_s32((const int32_t *)(const void *)own));
  if (a->form != DORY_REQUANT_VECTOR) {
    const int32x4_t below = vldrwq_s32((const int32_t *)(const void *)(own + 2u * a->stride));
    x = vpselq_s32(vqaddq_s32(x, below), x, vcmpltq_n_s32(sums, 0));
  }
  x = vmulhq_s32(x, vldrwq_s32((const int32_t *)(const void *)(own + a->stride)));
  x = vshlq_r_s32(x, -a->down);
  return vminq_s32(vmaxq_s32(x, vdupq_n_s32(a->lo)), vdupq_n_s32(a->hi));
}

/* Writes the outputs of channels channel .. channel + 3, of which there are ``count`` in all. */
static inline void dory_m55_finish(const dory_cortex_m55_requant_t *a, uint8_t *y, int32x4_t sums,
                                   uint32_t channel, uint32_t count)
{
  vstrbq_p_s32((int8_t *)y + channel, dory_m55_requant(a, sums, channel),
               vctp32q(count - channel));
}

#endif
