/* From sums of products to outputs: x is a sum, and a bias where the form has one.
 *
 * VECTOR   y = clip(((saturated(x << up) + add) * mul >> 32) >> down), without a bias
 * MOVED    the same, with a bias
 * TURNED   the same, with another addend where x < 0: add + below
 * SHIFTED  the same, and each channel has its own up
 * SCALAR   y = clip((mul * x + add + (below where x < 0)) >> down) in 64 bits
 *
 * The numbers are such that y is that of the network for every sum that can occur.
 *
 * Sums and numbers of 16 channels lie in four vectors: channels 0 4 8 12, then 2 6 10 14, 1 5 9 13, 3 7
 * 11 15, so that narrowing brings outputs into their order. Where eight channels or fewer are left they
 * lie in two: 0 2 4 6, then 1 3 5 7. */
#ifndef DORY_CORTEX_M55_REQUANT_H
#define DORY_CORTEX_M55_REQUANT_H

#include <stdint.h>

#include "dory_cortex_m55_mve.h"

enum {
  DORY_REQUANT_VECTOR,
  DORY_REQUANT_MOVED,
  DORY_REQUANT_TURNED,
  DORY_REQUANT_SHIFTED,
  DORY_REQUANT_SCALAR
};

typedef struct {
  /* [eights][parts][8] int32 or, of SCALAR, int64 numbers: VECTOR has add, mul; MOVED bias, add, mul;
   * TURNED and SCALAR bias, below, add, mul; SHIFTED up as well. */
  const uint8_t *channels;
  uint32_t form;
  int32_t up, down;
  int32_t lo, hi;
} dory_cortex_m55_requant_t;

/* Parts of a form. */
DORY_M55_INLINE uint32_t dory_m55_parts(uint32_t form)
{
  return form == DORY_REQUANT_VECTOR    ? 2u
         : form == DORY_REQUANT_MOVED   ? 3u
         : form == DORY_REQUANT_SHIFTED ? 5u
                                        : 4u;
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
  if (form != DORY_REQUANT_VECTOR) {
    sums = vaddq_s32(sums, dory_m55_words(own));
  }
  int32x4_t x = form == DORY_REQUANT_SHIFTED ? vqshlq_s32(sums, dory_m55_words(own + 128u))
                                             : vqshlq_r_s32(sums, a->up);
  const uint8_t *const add = form == DORY_REQUANT_VECTOR ? own : own + (parts > 3u ? 64u : 32u);
  if (form == DORY_REQUANT_TURNED || form == DORY_REQUANT_SHIFTED) {
    x = vpselq_s32(vqaddq_s32(x, dory_m55_words(own + 32u)), x, vcmpltq_n_s32(sums, 0));
  }
  x = vmulhq_s32(vqaddq_s32(x, dory_m55_words(add)), dory_m55_words(add + 32u));
  return vshlq_r_s32(x, -a->down);
}

/* Four outputs of one channel, of whatever form. */
static inline int32x4_t dory_m55_requant(const dory_cortex_m55_requant_t *a, int32x4_t sums)
{
  return dory_m55_clipped(a, a->form == DORY_REQUANT_VECTOR
                               ? dory_m55_outputs(a, DORY_REQUANT_VECTOR, sums, 0)
                               : dory_m55_outputs(a, a->form, sums, 0));
}

/* Outputs of ``count`` channels of some pixels, which are ``y_step`` apart; their sums, in whole eights,
 * are ``pitch`` apart. The first channel is a multiple of 16. */
typedef struct {
  uint8_t *y;
  const int32_t *sums;
  uint32_t channel, count, pixels, pitch, y_step;
} dory_cortex_m55_outputs_t;

/* Outputs of eight channels. */
DORY_M55_INLINE int16x8_t dory_m55_eight(const dory_cortex_m55_requant_t *a, uint32_t form,
                                         const int32_t *sums, uint32_t at)
{
  const int16x8_t y = narrowed(dory_m55_outputs(a, form, vldrwq_s32(sums), at),
                               dory_m55_outputs(a, form, vldrwq_s32(sums + 4), at + 4u));
  return vminq_s16(vmaxq_s16(y, vdupq_n_s16((int16_t)a->lo)), vdupq_n_s16((int16_t)a->hi));
}

DORY_M55_INLINE void dory_m55_finish_form(const dory_cortex_m55_requant_t *given, uint32_t form,
                                          const dory_cortex_m55_outputs_t *all)
{
  const dory_cortex_m55_requant_t own = *given;
  const dory_cortex_m55_outputs_t o = *all;
  for (uint32_t pixel = 0; pixel < o.pixels; pixel++) {
    const int32_t *sums = o.sums + pixel * o.pitch;
    uint8_t *const y = o.y + pixel * o.y_step;
    uint32_t c = 0, at = o.channel;
    for (; c + 8u < o.count; c += 16u, at += 16u, sums += 16) {
      const int16x8_t even = dory_m55_eight(&own, form, sums, at);
      const int16x8_t odd = dory_m55_eight(&own, form, sums + 8, at + 8u);
      vstrbq_p_u8(y + c, bytes_of(even, odd), vctp8q(o.count - c));
    }
    if (c < o.count) {
      vstrbq_p_s16((int8_t *)y + c, dory_m55_eight(&own, form, sums, at), vctp16q(o.count - c));
    }
  }
}

#if defined(__ARM_FEATURE_MVE)

/* Two vectors, even and odd outputs, before they are shifted to the right. */
#define TWO_OF_VECTOR                                                                           \
  "vldrw.u32 q0, [%[sums]], #16\n\tvldrw.u32 q1, [%[sums]], #16\n\tvqshl.s32 q0, %[up]\n\t"      \
  "vldrw.u32 q2, [%[own]], #16\n\tvqshl.s32 q1, %[up]\n\tvldrw.u32 q3, [%[own]], #16\n\t"        \
  "vqadd.s32 q0, q0, q2\n\tvldrw.u32 q2, [%[own]], #16\n\tvqadd.s32 q1, q1, q3\n\t"             \
  "vldrw.u32 q3, [%[own]], #16\n\tvmulh.s32 q0, q0, q2\n\tvmulh.s32 q1, q1, q3\n\t"
#define ONE_OF_TURNED(x_)                                                                       \
  "vldrw.u32 " x_ ", [%[sums]], #16\n\tvldrw.u32 q2, [%[own]], #16\n\t"                         \
  "vadd.i32 " x_ ", " x_ ", q2\n\tvldrw.u32 q3, [%[own], #16]\n\tvqshl.s32 " x_ ", %[up]\n\t"   \
  "vldrw.u32 q2, [%[own], #48]\n\tvpt.s32 lt, " x_ ", zr\n\t"                                   \
  "vqaddt.s32 " x_ ", " x_ ", q3\n\tvldrw.u32 q3, [%[own], #80]\n\t"                            \
  "vqadd.s32 " x_ ", " x_ ", q2\n\tvmulh.s32 " x_ ", " x_ ", q3\n\t"
#define TWO_OF_TURNED ONE_OF_TURNED("q0") ONE_OF_TURNED("q1") "add %[own], %[own], #96\n\t"
/* The same as one vector, shifted by 16 or by another number. Binutils 2.40 takes vqshrn for vqrshrn;
 * upper halves need not saturate. */
#define BY_16(y_) "vshrnb.i32 " y_ ", q0, #16\n\tvshrnt.i32 " y_ ", q1, #16\n\t"
#define BY_ANY(y_)                                                                              \
  "vshl.s32 q0, %[down]\n\tvshl.s32 q1, %[down]\n\tvqmovnb.s32 " y_ ", q0\n\t"                  \
  "vqmovnt.s32 " y_ ", q1\n\t"
#define CLIPPED(y_) "vmax.s16 " y_ ", " y_ ", q6\n\tvmin.s16 " y_ ", " y_ ", q7\n\t"

/* All outputs: of a pixel sixteens while more than eight are left, then eight. The registers of the
 * bounds become what is left of a pixel and its sixteens. */
#define ALL(two_, by_)                                                                          \
  __asm__ volatile("vdup.16 q6, %[left]\n\t"                                                    \
                   "vdup.16 q7, %[blocks]\n"                                                    \
                   "0:\n\t"                                                                     \
                   "add %[blocks], %[count], #7\n\t"                                            \
                   "mov %[left], %[count]\n\t"                                                  \
                   "lsr %[blocks], %[blocks], #4\n\t"                                           \
                   "wls lr, %[blocks], 2f\n"                                                    \
                   "1:\n\t" two_ by_("q4") CLIPPED("q4") two_ by_("q5") CLIPPED("q5")           \
                   "vctp.8 %[left]\n\t"                                                         \
                   "vmovnt.i16 q4, q5\n\t"                                                      \
                   "sub %[left], %[left], #16\n\t"                                              \
                   "vpst\n\t"                                                                   \
                   "vstrbt.8 q4, [%[y]], #16\n\t"                                               \
                   "le lr, 1b\n"                                                                \
                   "2:\n\t"                                                                     \
                   "cmp %[left], #0\n\t"                                                        \
                   "ble 3f\n\t" two_ by_("q4") CLIPPED("q4")                                    \
                   "vctp.16 %[left]\n\t"                                                        \
                   "vpst\n\t"                                                                   \
                   "vstrbt.16 q4, [%[y]]\n"                                                     \
                   "3:\n\t"                                                                     \
                   "add %[sums], %[sums], %[sums_on]\n\t"                                       \
                   "add %[y], %[y], %[y_on]\n\t"                                                \
                   "sub %[own], %[own], %[numbers]\n\t"                                         \
                   "subs %[pixels], %[pixels], #1\n\t"                                          \
                   "bne 0b"                                                                     \
                   : [sums] "+&r"(sums), [own] "+&r"(own), [y] "+&l"(y), [left] "+&r"(left),    \
                     [blocks] "+&r"(blocks), [pixels] "+&r"(pixels)                             \
                   : [count] "r"(o->count), [sums_on] "r"(sums_on), [y_on] "r"(y_on),           \
                     [numbers] "r"(numbers), [up] "r"(a->up), [down] "r"(-a->down)              \
                   : "lr", "cc", "memory", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7")

/* The same as dory_m55_finish_form, of VECTOR, or of TURNED where down is 16. */
static inline void dory_m55_finish_fast(const dory_cortex_m55_requant_t *a,
                                        const dory_cortex_m55_outputs_t *o)
{
  const uint32_t places = (o->count + 7u) & ~7u, bytes = 4u * dory_m55_parts(a->form);
  const uint32_t numbers = places * bytes, sums_on = 4u * (o->pitch - places);
  const uint32_t y_on = o->y_step - ((o->count + 7u) & ~15u);
  const int32_t *sums = o->sums;
  const uint8_t *own = a->channels + o->channel * bytes;
  uint8_t *y = o->y;
  int32_t left = a->lo, blocks = a->hi;
  uint32_t pixels = o->pixels;
  if (a->form == DORY_REQUANT_TURNED) {
    ALL(TWO_OF_TURNED, BY_16);
  } else if (a->down == 16) {
    ALL(TWO_OF_VECTOR, BY_16);
  } else {
    ALL(TWO_OF_VECTOR, BY_ANY);
  }
}

#endif

/* Writes outputs of one pixel or more. */
static inline void dory_m55_finish(const dory_cortex_m55_requant_t *a,
                                   const dory_cortex_m55_outputs_t *all)
{
#if defined(__ARM_FEATURE_MVE)
  if (a->form == DORY_REQUANT_VECTOR || (a->form == DORY_REQUANT_TURNED && a->down == 16)) {
    dory_m55_finish_fast(a, all);
    return;
  }
#endif
  switch (a->form) {
    case DORY_REQUANT_VECTOR: dory_m55_finish_form(a, DORY_REQUANT_VECTOR, all); break;
    case DORY_REQUANT_SHIFTED: dory_m55_finish_form(a, DORY_REQUANT_SHIFTED, all); break;
    default: dory_m55_finish_form(a, a->form, all); break;
  }
}

#endif
