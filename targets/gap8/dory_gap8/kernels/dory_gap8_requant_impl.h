/* Requantisation of one kernel instance: template, configured by
 *
 *   DORY_Y_T          type of the output
 *   DORY_STEPS        steps that the layer has: 0, 1 or 2; with 0 the sum and `bias` are the output
 *   DORY_Q_FORM       how they are computed, proven for every accumulator that can occur:
 *     DORY_Q_NARROW     clip((x * mul + add) >> shift), all within 32 bits
 *     DORY_Q_LIMBS      clip((x * mul_high + (x * mul_low >> low_bits) + add) >> shift), likewise
 *     DORY_Q_HIGH       clip(((x << low_bits) * mul >> 32) + add >> shift), in words but for the product
 *     DORY_Q_STEPS      step by step as the network has them
 *     DORY_Q_EVEN       clip(even(f32(x * S)) + zero), one step with the roundings of binary32, by the
 *                       upper word of a product: see dory_gap8_even.h
 *     DORY_Q_BINARY32   the same, its roundings one after the other
 *   DORY_Q_REACH      narrow forms: whether x is the accumulator clamped to [-reach - 1, reach]
 *                     (one p.clipr), which changes no output; otherwise x is the accumulator
 *   DORY_Q_TURNED     whether x is offset more than the accumulator, and `below` more is added
 *                     where x is negative (of steps: in the first one)
 *   DORY_Q_WIDE       of DORY_Q_BINARY32: whether accumulators exceed 2^24 and are rounded to the digits of
 *                     binary32 first
 *   DORY_Q_SHIFTS     whether each channel of a narrow form has a shift of its own (0 where not defined)
 *   DORY_Q_CLIP       these forms: DORY_CLIP_NONE, DORY_CLIP_UNSIGNED (0 .. hi), DORY_CLIP_SIGNED
 *                     (-hi - 1 .. hi), DORY_CLIP_BOUNDS (lo .. hi)
 *   DORY_PER_CHANNEL  whether each channel has a record of parameters; otherwise there is only one
 *   DORY_Q_OWN        the only word in which the records of the channels differ: after one record follow
 *                     these words of all channels; not defined where each channel has a record
 *   DORY_Q_BITS       steps: 32 or 64, arithmetic that range analysis proved sufficient
 *   DORY_DIV1, DORY_DIV2, DORY_CLIP1, DORY_CLIP2   steps: forms of divisors, whether clipped
 *
 * A record is 32-bit words in the order in which they are needed, and the records of the channels
 * of a weight block follow one another, 4-byte aligned (the part "mul" of the block):
 *
 *   DORY_Q_NARROW   [offset] [reach] mul add [below] [shift]
 *   DORY_Q_LIMBS    [offset] [reach] mul_low mul_high add [below] [shift]
 *   DORY_Q_HIGH     [offset] mul add [below] shift
 *   DORY_Q_STEPS    [offset] mul add [below]; with 64 bits each of them two words, the lower first
 *   DORY_Q_EVEN     mul add shift offset: x is the accumulator plus offset, which add has, too
 *   DORY_Q_BINARY32 offset mul shift: likewise, S = mul / 2^(32 + shift)
 *
 * Other shifts, low_bits and the bounds of the clip are the same for all channels. Sums and products are
 * taken modulo 2^32 (2^64): what is shifted lies in range. Right shifts of negative numbers are
 * arithmetic, as on every compiler of this target: they floor.
 */
#include "dory_gap8_simd.h"
#include "dory_gap8_types.h"

#define DORY_Q_STEPS 0
#define DORY_Q_NARROW 1
#define DORY_Q_LIMBS 2
#define DORY_Q_HIGH 3
#define DORY_Q_EVEN 4
#define DORY_Q_BINARY32 5

#define DORY_CLIP_NONE 0
#define DORY_CLIP_UNSIGNED 1
#define DORY_CLIP_SIGNED 2
#define DORY_CLIP_BOUNDS 3

#ifndef DORY_Q_SHIFTS
#define DORY_Q_SHIFTS 0
#endif

/* Words of a record. */
#if DORY_Q_FORM == DORY_Q_EVEN
#define DORY_Q_WORDS 4
#elif DORY_Q_FORM == DORY_Q_BINARY32
#define DORY_Q_WORDS 3
#elif DORY_Q_FORM == DORY_Q_HIGH
#define DORY_Q_WORDS (3 + 2 * DORY_Q_TURNED)
#elif DORY_Q_FORM == DORY_Q_STEPS
#define DORY_Q_WORDS ((1 + DORY_Q_TURNED) * DORY_Q_BITS / 16)
#else
#define DORY_Q_WORDS (DORY_Q_REACH + 1 + DORY_Q_FORM + 2 * DORY_Q_TURNED + DORY_Q_SHIFTS)
#endif

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

#if DORY_STEPS > 0

/* The parameters of one channel, in registers. */
typedef struct {
  int32_t word[DORY_Q_WORDS];
} dory_parameters_t;

static inline dory_parameters_t dory_parameters(int32_t c, const dory_gap8_requant_t *r) {
  dory_parameters_t p;
#ifdef DORY_Q_OWN
  const int32_t *const record = r->channels;
#else
  const int32_t *const record = r->channels + (DORY_PER_CHANNEL ? c * DORY_Q_WORDS : 0);
#endif
  for (int i = 0; i < DORY_Q_WORDS; i++) {
    p.word[i] = record[i];
  }
#ifdef DORY_Q_OWN
  p.word[DORY_Q_OWN] = record[DORY_Q_WORDS + c];
#endif
  return p;
}

#if DORY_Q_FORM != DORY_Q_STEPS

static inline int32_t dory_clipped(int32_t q, const dory_gap8_requant_t *r) {
#if DORY_Q_CLIP == DORY_CLIP_UNSIGNED
  return dory_gap8_clip_unsigned(q, r->hi);
#elif DORY_Q_CLIP == DORY_CLIP_SIGNED
  return dory_gap8_clip_signed(q, r->hi);
#elif DORY_Q_CLIP == DORY_CLIP_BOUNDS
  return dory_gap8_clip(q, r->lo, r->hi);
#else
  (void)r;
  return q;
#endif
}

#endif

#if DORY_Q_FORM == DORY_Q_EVEN

#include "dory_gap8_even.h"

static inline DORY_Y_T dory_apply(dory_q_t acc, const dory_parameters_t *p,
                                  const dory_gap8_requant_t *r) {
  return (DORY_Y_T)dory_clipped(dory_gap8_even_value((int32_t)acc, p->word, r->low_bits), r);
}

#elif DORY_Q_FORM == DORY_Q_BINARY32

#include "dory_gap8_even.h"

/* A magnitude rounded to the 24 digits of binary32, ties to even. */
static inline uint32_t dory_single(uint32_t magnitude) {
#if DORY_Q_WIDE
  if (magnitude >> 24) {
    uint32_t shift = 1;
    while (magnitude >> 24 >> shift) {
      shift++;
    }
    const uint32_t rest = magnitude & ((1u << shift) - 1), half = 1u << (shift - 1);
    uint32_t digits = magnitude >> shift;
    digits += rest > half || (rest == half && (digits & 1));
    return digits << shift;
  }
#endif
  return magnitude;
}

/* The product of x, rounded to 24 digits, with mul / 2^(32 + shift), rounded as in binary32 and then to an
 * integer, ties to even. Products of 2^9 and more are any number that is. */
static inline int32_t dory_even(int32_t x, uint32_t mul, uint32_t shift) {
  const int32_t sign = x >> 31;
  const uint64_t product = (uint64_t)dory_single((uint32_t)((x ^ sign) - sign)) * mul;
  const uint32_t high = (uint32_t)(product >> 32);
  const uint32_t fraction = high << 1 << (31 - shift) | (uint32_t)product >> shift;
  uint32_t whole = high >> shift;
  if (fraction - 0x7fff0000u <= 0x20000u) {
    whole = dory_gap8_even_tie(product, whole, shift);
  } else {
    whole += fraction >> 31;
  }
  return ((int32_t)whole ^ sign) - sign;
}

static inline DORY_Y_T dory_apply(dory_q_t acc, const dory_parameters_t *p,
                                  const dory_gap8_requant_t *r) {
  const int32_t x = (int32_t)acc + p->word[0];
  const int32_t q = dory_even(x, (uint32_t)p->word[1], (uint32_t)p->word[2]);
  return (DORY_Y_T)dory_clipped(q + r->zero, r);
}

#elif DORY_Q_FORM == DORY_Q_STEPS

#if DORY_Q_BITS == 64
#define DORY_PARAMETER(p, i) \
  ((dory_q_t)((uint64_t)(uint32_t)(p)->word[2 * (i) + 1] << 32 | (uint32_t)(p)->word[2 * (i)]))
#else
#define DORY_PARAMETER(p, i) ((p)->word[i])
#endif

/* The output of an accumulator of the channel that has the parameters p. */
static inline DORY_Y_T dory_apply(dory_q_t acc, const dory_parameters_t *p,
                                  const dory_gap8_requant_t *r) {
#if DORY_Q_TURNED
  const dory_q_t x = acc + DORY_PARAMETER(p, 0);
  const dory_q_t add = DORY_PARAMETER(p, 2) + (x < 0 ? DORY_PARAMETER(p, 3) : 0);
  dory_q_t q = dory_step(x, DORY_PARAMETER(p, 1), add, DORY_DIV1, DORY_CLIP1, &r->steps[0]);
#else
  dory_q_t q = dory_step(acc, DORY_PARAMETER(p, 0), DORY_PARAMETER(p, 1), DORY_DIV1, DORY_CLIP1,
                         &r->steps[0]);
#endif
#if DORY_STEPS == 2
  q = dory_step(q, (dory_q_t)r->steps[1].mul, (dory_q_t)r->steps[1].add, DORY_DIV2, DORY_CLIP2,
                &r->steps[1]);
#endif
  return (DORY_Y_T)q;
}

#elif DORY_Q_FORM == DORY_Q_HIGH

static inline DORY_Y_T dory_apply(dory_q_t acc, const dory_parameters_t *p,
                                  const dory_gap8_requant_t *r) {
  const int32_t *const word = p->word + DORY_Q_TURNED;
  const int32_t offset = DORY_Q_TURNED ? p->word[0] : 0;
  const int32_t x = (int32_t)(((uint32_t)acc + (uint32_t)offset) << r->low_bits);
  const int32_t shift = p->word[DORY_Q_WORDS - 1];
  uint32_t sum = (uint32_t)((int64_t)x * word[0] >> 32);
#if DORY_Q_TURNED
  sum += (uint32_t)((x >> 31) & word[2]);
#endif
  return (DORY_Y_T)dory_clipped(dory_gap8_add_shift((int32_t)sum, word[1], shift), r);
}

#else

/* Where mul (or its high limb) stands in a record. */
#define DORY_Q_MUL (DORY_Q_TURNED + DORY_Q_REACH + DORY_Q_FORM - 1)

static inline DORY_Y_T dory_apply(dory_q_t acc, const dory_parameters_t *p,
                                  const dory_gap8_requant_t *r) {
  int32_t x = (int32_t)acc;
  uint32_t sum = 0;
  int32_t q;
#if DORY_Q_TURNED
  x += p->word[0];
#endif
#if DORY_Q_REACH
  x = dory_gap8_clip_signed(x, p->word[DORY_Q_TURNED]);
#endif
#if DORY_Q_FORM == DORY_Q_LIMBS
  sum = (uint32_t)((x * p->word[DORY_Q_TURNED + DORY_Q_REACH]) >> r->low_bits);
#endif
#if DORY_Q_TURNED
  sum += (uint32_t)((x >> 31) & p->word[DORY_Q_MUL + 2]);
#endif
  sum += (uint32_t)x * (uint32_t)p->word[DORY_Q_MUL];
  q = dory_gap8_add_shift((int32_t)sum, p->word[DORY_Q_MUL + 1],
                          DORY_Q_SHIFTS ? p->word[DORY_Q_WORDS - 1] : r->shift);
  return (DORY_Y_T)dory_clipped(q, r);
}

#endif

#endif

/* The output of channel c for an accumulator. */
static inline DORY_Y_T dory_requantise(dory_q_t acc, int32_t c, const dory_gap8_requant_t *r) {
#if DORY_STEPS == 0
  (void)c;
  (void)r;
  return (DORY_Y_T)acc;
#else
  const dory_parameters_t p = dory_parameters(c, r);
  return dory_apply(acc, &p, r);
#endif
}
