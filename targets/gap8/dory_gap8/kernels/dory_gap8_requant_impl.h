/* Requantisation of one kernel instance: template, configured by
 *
 *   DORY_Y_T            type of the output
 *   DORY_STEPS          steps in sequence: 0, 1 or 2
 *   DORY_Q_BITS         32 or 64: arithmetic that range analysis proved sufficient
 *   DORY_MUL_T          type of a multiplier array
 *   DORY_PER_CHANNEL    whether the first step has arrays
 *   DORY_DIV1, DORY_DIV2     form of the divisor of each step, DORY_CLIP1, DORY_CLIP2 its clip
 *
 * The final value is in range, so products and sums are computed modulo 2^32 or 2^64 and are exact.
 * Right shifts of negative numbers are arithmetic, as on every compiler of this target: they floor.
 */
#include "dory_gap8_simd.h"
#include "dory_gap8_types.h"

#define DORY_NO_STEP 0
#define DORY_SHIFT 1 /* 2^shift */
#define DORY_ONES 2  /* 2^shift - 1, for values up to about 2^(3 * shift) */
#define DORY_EXACT 3 /* any divisor */

#if DORY_Q_BITS == 64
typedef int64_t dory_q_t;
typedef uint64_t dory_q_modular_t;
#else
typedef int32_t dory_q_t;
typedef uint32_t dory_q_modular_t;
#endif

/* floor(v / divisor) */
static inline dory_q_t dory_divide(dory_q_t v, int form, const dory_gap8_step_t *s) {
  if (form == DORY_SHIFT) {
    return v >> s->shift;
  }
  if (form == DORY_ONES) {
    /* v = high * 2^k + low = high * (2^k - 1) + (high + low); once more for that sum leaves a rest
     * of less than twice the divisor. */
    const dory_q_t ones = (dory_q_t)(((dory_q_modular_t)1 << s->shift) - 1);
    const dory_q_t high = v >> s->shift;
    const dory_q_t sum = high + (v & ones);
    const dory_q_t carry = sum >> s->shift;
    const dory_q_t rest = carry + (sum & ones);
    return high + carry + (rest >= ones) - (rest < 0);
  }
  {
    const dory_q_t divisor = (dory_q_t)s->div;
    const dory_q_t quotient = v / divisor;
    return quotient - (v - quotient * divisor < 0);
  }
}

/* clip(floor((mul * v + add) / divisor)) */
static inline dory_q_t dory_step(dory_q_t v, dory_q_t mul, dory_q_t add, int form, int clip,
                                 const dory_gap8_step_t *s) {
  const dory_q_modular_t product = (dory_q_modular_t)v * (dory_q_modular_t)mul;
  dory_q_t q = (dory_q_t)(product + (dory_q_modular_t)add);
  q = dory_divide(q, form, s);
  if (clip) {
#if DORY_Q_BITS == 64
    q = q < s->lo ? s->lo : q;
    q = q > s->hi ? s->hi : q;
#else
    q = dory_gap8_clip(q, s->lo, s->hi);
#endif
  }
  return q;
}

/* The output of channel c for an accumulator. */
static inline DORY_Y_T dory_requantise(dory_q_t acc, int32_t c, const dory_gap8_requant_t *r) {
  dory_q_t q = acc;
  (void)c;
  (void)r;
#if DORY_STEPS >= 1
#if DORY_PER_CHANNEL
  q = dory_step(q, ((const DORY_MUL_T *)r->mul)[c], ((const dory_q_t *)r->add)[c], DORY_DIV1,
                DORY_CLIP1, &r->step[0]);
#else
  q = dory_step(q, (dory_q_t)r->step[0].mul, (dory_q_t)r->step[0].add, DORY_DIV1, DORY_CLIP1,
                &r->step[0]);
#endif
#endif
#if DORY_STEPS == 2
  q = dory_step(q, (dory_q_t)r->step[1].mul, (dory_q_t)r->step[1].add, DORY_DIV2, DORY_CLIP2,
                &r->step[1]);
#endif
  return (DORY_Y_T)q;
}
