/* The vector instructions that the kernels use: those of the core (MVE, Helium), or the same in C.
 *
 * A kernel is one text for both: names, types and meaning are those of arm_mve.h. */
#ifndef DORY_CORTEX_M55_MVE_H
#define DORY_CORTEX_M55_MVE_H

#include <stdint.h>

/* Functions that are written once and compiled for each of their constant arguments. */
#define DORY_M55_INLINE static inline __attribute__((always_inline))
/* Functions whose assembly takes nearly all registers: what calls them might keep one for its frame. */
#define DORY_M55_ALONE static __attribute__((noinline))

#if defined(__ARM_FEATURE_MVE)

#include <arm_mve.h>

#else

typedef struct {
  int32_t lane[4];
} int32x4_t;
typedef struct {
  int16_t lane[8];
} int16x8_t;
typedef struct {
  uint8_t lane[16];
} uint8x16_t;
typedef struct {
  int8_t lane[16];
} int8x16_t;
typedef struct {
  uint32_t lane[4];
} uint32x4_t;
/* A bit for each byte of a vector. */
typedef uint16_t mve_pred16_t;

#define EACH(count_) for (int i = 0; i < (count_); i++)

static inline mve_pred16_t vctp8q(uint32_t n)
{
  return (mve_pred16_t)(n < 16u ? (1u << n) - 1u : 0xFFFFu);
}
static inline mve_pred16_t vctp16q(uint32_t n) { return vctp8q(n < 8u ? 2u * n : 16u); }
static inline mve_pred16_t vctp32q(uint32_t n) { return vctp8q(n < 4u ? 4u * n : 16u); }
static inline int in_lane(mve_pred16_t lanes, int byte) { return (lanes >> byte & 1) != 0; }

static inline int32x4_t vdupq_n_s32(int32_t value)
{
  int32x4_t y = {{0}};
  EACH(4) y.lane[i] = value;
  return y;
}
static inline int16x8_t vdupq_n_s16(int16_t value)
{
  int16x8_t y = {{0}};
  EACH(8) y.lane[i] = value;
  return y;
}
static inline uint8x16_t vdupq_n_u8(uint8_t value)
{
  uint8x16_t y = {{0}};
  EACH(16) y.lane[i] = value;
  return y;
}
static inline int32x4_t vldrwq_s32(const int32_t *from)
{
  int32x4_t y = {{0}};
  EACH(4) y.lane[i] = from[i];
  return y;
}
static inline int32x4_t vldrwq_z_s32(const int32_t *from, mve_pred16_t lanes)
{
  int32x4_t y = {{0}};
  EACH(4) y.lane[i] = in_lane(lanes, 4 * i) ? from[i] : 0;
  return y;
}
static inline int8x16_t vldrbq_z_s8(const int8_t *from, mve_pred16_t lanes)
{
  int8x16_t y = {{0}};
  EACH(16) y.lane[i] = (int8_t)(in_lane(lanes, i) ? from[i] : 0);
  return y;
}
static inline int32x4_t vldrhq_z_s32(const int16_t *from, mve_pred16_t lanes)
{
  int32x4_t y = {{0}};
  EACH(4) y.lane[i] = in_lane(lanes, 4 * i) ? from[i] : 0;
  return y;
}
static inline void vst1q_s32(int32_t *to, int32x4_t x) { EACH(4) to[i] = x.lane[i]; }
static inline int32x4_t vldrbq_z_s32(const int8_t *from, mve_pred16_t lanes)
{
  int32x4_t y = {{0}};
  EACH(4) y.lane[i] = in_lane(lanes, 4 * i) ? from[i] : 0;
  return y;
}
static inline uint8x16_t vldrbq_z_u8(const uint8_t *from, mve_pred16_t lanes)
{
  uint8x16_t y = {{0}};
  EACH(16) y.lane[i] = (uint8_t)(in_lane(lanes, i) ? from[i] : 0);
  return y;
}
static inline void vstrbq_p_u8(uint8_t *to, uint8x16_t x, mve_pred16_t lanes)
{
  EACH(16) if (in_lane(lanes, i)) to[i] = x.lane[i];
}
static inline void vstrbq_p_s32(int8_t *to, int32x4_t x, mve_pred16_t lanes)
{
  EACH(4) if (in_lane(lanes, 4 * i)) to[i] = (int8_t)(x.lane[i] & 0xFF);
}

static inline void vstrhq_p_s32(int16_t *to, int32x4_t x, mve_pred16_t lanes)
{
  EACH(4) if (in_lane(lanes, 4 * i)) to[i] = (int16_t)(x.lane[i] & 0xFFFF);
}

/* Sums and products go round at the ends of their type where they do not saturate. */
static inline int32_t saturated32(int64_t x)
{
  return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
}
static inline int32x4_t vaddq_s32(int32x4_t a, int32x4_t b)
{
  EACH(4) a.lane[i] = (int32_t)((uint32_t)a.lane[i] + (uint32_t)b.lane[i]);
  return a;
}
static inline int32x4_t vsubq_s32(int32x4_t a, int32x4_t b)
{
  EACH(4) a.lane[i] = (int32_t)((uint32_t)a.lane[i] - (uint32_t)b.lane[i]);
  return a;
}
static inline int32x4_t vmulq_s32(int32x4_t a, int32x4_t b)
{
  EACH(4) a.lane[i] = (int32_t)((uint32_t)a.lane[i] * (uint32_t)b.lane[i]);
  return a;
}
static inline int32x4_t vmlaq_n_s32(int32x4_t sum, int32x4_t a, int32_t b)
{
  EACH(4) sum.lane[i] = (int32_t)((uint32_t)sum.lane[i] + (uint32_t)a.lane[i] * (uint32_t)b);
  return sum;
}
static inline int32x4_t vqaddq_s32(int32x4_t a, int32x4_t b)
{
  EACH(4) a.lane[i] = saturated32((int64_t)a.lane[i] + b.lane[i]);
  return a;
}
static inline int32x4_t vmulhq_s32(int32x4_t a, int32x4_t b)
{
  EACH(4)
  {
    const int64_t product = (int64_t)a.lane[i] * b.lane[i];
    a.lane[i] = (int32_t)(product < 0 ? ~(~product >> 32) : product >> 32);
  }
  return a;
}
static inline int32x4_t vqshlq_r_s32(int32x4_t a, int32_t bits)
{
  EACH(4) a.lane[i] = saturated32((int64_t)a.lane[i] * ((int64_t)1 << bits));
  return a;
}
static inline int32x4_t vqshlq_s32(int32x4_t a, int32x4_t bits)
{
  EACH(4) a.lane[i] = saturated32((int64_t)a.lane[i] * ((int64_t)1 << bits.lane[i]));
  return a;
}
/* bits: not positive, a shift to the right. */
static inline int32x4_t vshlq_r_s32(int32x4_t a, int32_t bits)
{
  EACH(4) a.lane[i] = a.lane[i] < 0 ? ~(~a.lane[i] >> -bits) : a.lane[i] >> -bits;
  return a;
}
/* bits: negative, a shift to the right that rounds ties up. */
static inline int32x4_t vrshlq_n_s32(int32x4_t a, int32_t bits)
{
  EACH(4)
  {
    const int64_t sum = a.lane[i] + ((int64_t)1 << (-bits - 1));
    a.lane[i] = (int32_t)(sum < 0 ? ~(~sum >> -bits) : sum >> -bits);
  }
  return a;
}
static inline int32x4_t vqrdmulhq_n_s32(int32x4_t a, int32_t b)
{
  EACH(4)
  {
    const int64_t sum = (int64_t)a.lane[i] * b + ((int64_t)1 << 30);
    a.lane[i] = saturated32(sum < 0 ? ~(~sum >> 31) : sum >> 31);
  }
  return a;
}
static inline int32x4_t vmaxq_s32(int32x4_t a, int32x4_t b)
{
  EACH(4) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
static inline int32x4_t vminq_s32(int32x4_t a, int32x4_t b)
{
  EACH(4) a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
static inline mve_pred16_t vcmpgtq_s32(int32x4_t a, int32x4_t b)
{
  uint32_t lanes = 0;
  EACH(4) lanes |= (a.lane[i] > b.lane[i] ? 0xFu : 0u) << 4 * i;
  return (mve_pred16_t)lanes;
}
static inline mve_pred16_t vcmpltq_n_s32(int32x4_t a, int32_t b)
{
  uint32_t lanes = 0;
  EACH(4) lanes |= (a.lane[i] < b ? 0xFu : 0u) << 4 * i;
  return (mve_pred16_t)lanes;
}
static inline int32x4_t vpselq_s32(int32x4_t a, int32x4_t b, mve_pred16_t lanes)
{
  EACH(4) a.lane[i] = in_lane(lanes, 4 * i) ? a.lane[i] : b.lane[i];
  return a;
}
static inline uint8x16_t veorq_u8(uint8x16_t a, uint8x16_t b)
{
  EACH(16) a.lane[i] ^= b.lane[i];
  return a;
}
static inline uint8x16_t vmaxq_u8(uint8x16_t a, uint8x16_t b)
{
  EACH(16) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
static inline uint8_t vmaxvq_p_u8(uint8_t most, uint8x16_t a, mve_pred16_t lanes)
{
  EACH(16) most = in_lane(lanes, i) && a.lane[i] > most ? a.lane[i] : most;
  return most;
}
static inline uint8x16_t vldrbq_gather_offset_z_u8(const uint8_t *base, uint8x16_t at,
                                                   mve_pred16_t lanes)
{
  uint8x16_t y = {{0}};
  EACH(16) y.lane[i] = (uint8_t)(in_lane(lanes, i) ? base[at.lane[i]] : 0);
  return y;
}
static inline void vstrbq_p_s16(int8_t *to, int16x8_t x, mve_pred16_t lanes)
{
  EACH(8) if (in_lane(lanes, 2 * i)) to[i] = (int8_t)(x.lane[i] & 0xFF);
}
static inline void vstrhq_p_s16(int16_t *to, int16x8_t x, mve_pred16_t lanes)
{
  EACH(8) if (in_lane(lanes, 2 * i)) to[i] = x.lane[i];
}
static inline void vstrbq_s32(int8_t *to, int32x4_t x) { vstrbq_p_s32(to, x, 0xFFFFu); }
static inline int32x4_t bytes_as_s32(const uint8_t *from, mve_pred16_t lanes)
{
  int32x4_t y = {{0}};
  EACH(4) y.lane[i] = in_lane(lanes, 4 * i) ? from[i] : 0;
  return y;
}
static inline int32x4_t words_at(const int32_t *base, int32x4_t at, mve_pred16_t lanes)
{
  int32x4_t y = {{0}};
  EACH(4) y.lane[i] = in_lane(lanes, 4 * i) ? base[at.lane[i]] : 0;
  return y;
}
static inline int32x4_t words_of_table(const int32_t *base, const uint8_t *at, mve_pred16_t lanes)
{
  int32x4_t y = {{0}};
  EACH(4) y.lane[i] = in_lane(lanes, 4 * i) ? base[at[i]] : 0;
  return y;
}
static inline int8x16_t vldrbq_s8(const int8_t *from)
{
  int8x16_t y = {{0}};
  EACH(16) y.lane[i] = from[i];
  return y;
}
static inline uint32x4_t vldrwq_u32(const uint32_t *from)
{
  uint32x4_t y = {{0}};
  EACH(4) y.lane[i] = from[i];
  return y;
}
static inline int8x16_t bytes_of_words(const uint8_t *base, uint32x4_t offsets)
{
  int8x16_t y = {{0}};
  EACH(16) y.lane[i] = (int8_t)base[offsets.lane[i / 4] + (uint32_t)(i % 4)];
  return y;
}
static inline int32_t vmladavaq_s8(int32_t sum, int8x16_t a, int8x16_t b)
{
  EACH(16) sum = (int32_t)((uint32_t)sum + (uint32_t)(a.lane[i] * b.lane[i]));
  return sum;
}
static inline int32_t vaddvaq_s8(int32_t sum, int8x16_t a)
{
  EACH(16) sum = (int32_t)((uint32_t)sum + (uint32_t)a.lane[i]);
  return sum;
}
static inline uint32_t vmladavaq_u8(uint32_t sum, uint8x16_t a, uint8x16_t b)
{
  EACH(16) sum += (uint32_t)a.lane[i] * b.lane[i];
  return sum;
}
static inline uint32_t vaddvaq_u8(uint32_t sum, uint8x16_t a)
{
  EACH(16) sum += a.lane[i];
  return sum;
}
static inline void vst1q_p_s32(int32_t *to, int32x4_t x, mve_pred16_t lanes)
{
  EACH(4) if (in_lane(lanes, 4 * i)) to[i] = x.lane[i];
}
static inline int32x4_t quotients(int32x4_t x, uint32_t factor, int32_t bits)
{
  EACH(4)
  {
    const uint64_t size = (uint64_t)(x.lane[i] < 0 ? -(int64_t)x.lane[i] : x.lane[i]);
    const int32_t quotient = (int32_t)((uint32_t)(2u * size * factor >> 32) >> bits);
    x.lane[i] = x.lane[i] < 0 ? -quotient : quotient;
  }
  return x;
}
static inline int16_t saturated16(int32_t x)
{
  return (int16_t)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x);
}
static inline int16x8_t narrowed(int32x4_t even, int32x4_t odd)
{
  int16x8_t y = {{0}};
  EACH(8) y.lane[i] = saturated16((i % 2 ? odd : even).lane[i / 2]);
  return y;
}
static inline uint8x16_t bytes_of(int16x8_t even, int16x8_t odd)
{
  uint8x16_t y = {{0}};
  EACH(16) y.lane[i] = (uint8_t)((i % 2 ? odd : even).lane[i / 2] & 0xFF);
  return y;
}
static inline int16x8_t vmaxq_s16(int16x8_t a, int16x8_t b)
{
  EACH(8) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}
static inline int16x8_t vminq_s16(int16x8_t a, int16x8_t b)
{
  EACH(8) a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
  return a;
}

#undef EACH

#endif

/* The instructions with a name of their own: both forms keep to these comments.
 *
 * bytes_as_s32: elements without a sign, 0 in lanes that are off.
 * words_at: base[at], 0 in lanes that are off.
 * words_of_table: base[at[i]], 0 in lanes that are off.
 * bytes_of_words: four words at offsets from a base.
 * sums_in_binary32: sums of numbers in binary32, which are given and returned as bits.
 * even_products: products in binary32 with factors given as bits, of x in binary32; the nearest
 *   integers, ties to even, saturated.
 * quotients: x / d rounded towards 0, of |x| < 2^31, for the factor floor(2^(31 + bits) / d) + 1 where
 *   2^(bits - 1) < d <= 2^bits.
 * narrowed: saturated to half the bits, even lanes first and third and so on.
 * bytes_of: lower halves, likewise. */
#if defined(__ARM_FEATURE_MVE)
static inline int32x4_t bytes_as_s32(const uint8_t *from, mve_pred16_t lanes)
{
  return vreinterpretq_s32_u32(vldrbq_z_u32(from, lanes));
}
static inline int32x4_t words_at(const int32_t *base, int32x4_t at, mve_pred16_t lanes)
{
  return vldrwq_gather_shifted_offset_z_s32(base, vreinterpretq_u32_s32(at), lanes);
}
static inline int32x4_t words_of_table(const int32_t *base, const uint8_t *at, mve_pred16_t lanes)
{
  return vldrwq_gather_shifted_offset_z_s32(base, vldrbq_z_u32(at, lanes), lanes);
}
static inline int8x16_t bytes_of_words(const uint8_t *base, uint32x4_t offsets)
{
  return vreinterpretq_s8_u32(vldrwq_gather_offset_u32((const uint32_t *)(const void *)base, offsets));
}
static inline int32x4_t quotients(int32x4_t x, uint32_t factor, int32_t bits)
{
  const uint32x4_t sizes = vreinterpretq_u32_s32(vabsq_s32(x));
  const uint32x4_t upper = vmulhq_u32(vaddq_u32(sizes, sizes), vdupq_n_u32(factor));
  const int32x4_t signs = vshrq_n_s32(x, 31);
  return vsubq_s32(veorq_s32(vreinterpretq_s32_u32(vshlq_r_u32(upper, -bits)), signs), signs);
}
static inline int16x8_t narrowed(int32x4_t even, int32x4_t odd)
{
  return vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(even), even), odd);
}
static inline uint8x16_t bytes_of(int16x8_t even, int16x8_t odd)
{
  return vreinterpretq_u8_s8(vmovntq_s16(vreinterpretq_s8_s16(even), odd));
}
#endif

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
static inline int32x4_t even_products(int32x4_t x, int32x4_t factors)
{
  return vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(x), vreinterpretq_f32_s32(factors)));
}
static inline int32x4_t sums_in_binary32(int32x4_t a, int32x4_t b)
{
  return vreinterpretq_s32_f32(vaddq_f32(vreinterpretq_f32_s32(a), vreinterpretq_f32_s32(b)));
}
#else
typedef union {
  int32_t bits;
  float value;
} binary32_t;
static inline int32_t even_product(int32_t x, int32_t bits)
{
  const binary32_t factor = {bits};
  /* Compilers may join operations and skip a rounding, but not across these. */
  const volatile float exact = (float)x, rounded = exact * factor.value;
  const float product = rounded;
  if (product >= 2147483648.0f || product < -2147483648.0f) {
    return product < 0 ? INT32_MIN : INT32_MAX;
  }
  const int32_t whole = (int32_t)product, on = product < 0 ? -1 : 1;
  const float rest = (product - (float)whole) * (float)on;
  return rest > 0.5f || (rest >= 0.5f && whole % 2 != 0) ? whole + on : whole;
}
static inline int32x4_t even_products(int32x4_t x, int32x4_t factors)
{
  int32_t lanes[4], bits[4];
  vst1q_s32(lanes, x);
  vst1q_s32(bits, factors);
  for (int i = 0; i < 4; i++) {
    lanes[i] = even_product(lanes[i], bits[i]);
  }
  return vldrwq_s32(lanes);
}
static inline int32x4_t sums_in_binary32(int32x4_t a, int32x4_t b)
{
  int32_t lanes[4], others[4];
  vst1q_s32(lanes, a);
  vst1q_s32(others, b);
  for (int i = 0; i < 4; i++) {
    const binary32_t first = {lanes[i]}, second = {others[i]};
    const binary32_t sum = {.value = first.value + second.value};
    lanes[i] = sum.bits;
  }
  return vldrwq_s32(lanes);
}
#endif

#endif
