#include "dory_cortex_m55_softmax.h"

#include "dory_cortex_m55_divide.h"
#include "dory_cortex_m55_mve.h"

/* a * b / 2^31, rounded to nearest, ties up. */
static int32_t high_product(int32_t a, int32_t b)
{
  const int64_t sum = (int64_t)a * b + ((int64_t)1 << 30);
  return (int32_t)(sum < 0 ? ~(~sum >> 31) : sum >> 31);
}

static int32_t saturated(int64_t value)
{
  return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* 1 / (1 + a) in Q0.31 for a in [0, 1) of Q0.31: three steps of Newton and Raphson. */
static int32_t reciprocal(int32_t a)
{
  const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
  int32_t x = 1515870810 + high_product(half, -1010580540);
  for (int i = 0; i < 3; i++) {
    const int32_t error = ((int32_t)1 << 29) - high_product(half, x);
    x += saturated((int64_t)high_product(x, error) * 4);
  }
  return saturated((int64_t)x * 2);
}

/* The largest channel of a pixel; bytes are compared without a sign. */
static int32_t largest_of(const uint8_t *x, uint32_t channels, uint32_t is_signed)
{
  const uint8_t flip = is_signed ? 0x80u : 0u;
  uint8_t most = 0;
  for (uint32_t c = 0; c < channels; c += 16u) {
    const mve_pred16_t lanes = vctp8q(channels - c);
    most = vmaxvq_p_u8(most, veorq_u8(vldrbq_z_u8(x + c, lanes), vdupq_n_u8(flip)), lanes);
  }
  return (int32_t)most - flip;
}

/* Exponentials of four channels. */
DORY_M55_INLINE int32x4_t powers(const int32_t *table, int32_t largest, const uint8_t *x,
                                 mve_pred16_t lanes, uint32_t is_signed)
{
  const int32x4_t values =
    is_signed ? vldrbq_z_s32((const int8_t *)x, lanes) : bytes_as_s32(x, lanes);
  return words_at(table, vsubq_s32(vdupq_n_s32(largest), values), lanes);
}

/* The sum of all exponentials of a pixel, or of their upper 20 bits, rounded. */
DORY_M55_INLINE uint32_t sum_of(const dory_cortex_m55_softmax_t *a, int32_t largest,
                                const uint8_t *x, uint32_t is_signed, uint32_t is_whole)
{
  int32x4_t sums = vdupq_n_s32(0);
  for (uint32_t c = 0; c < a->x_c; c += 4u) {
    const int32x4_t own = powers(a->table, largest, x + c, vctp32q(a->x_c - c), is_signed);
    sums = vaddq_s32(sums, is_whole ? own : vrshlq_n_s32(own, -12));
  }
  int32_t parts[4];
  vst1q_s32(parts, sums);
  return (uint32_t)parts[0] + (uint32_t)parts[1] + (uint32_t)parts[2] + (uint32_t)parts[3];
}

DORY_M55_INLINE void put(const dory_cortex_m55_softmax_t *a, uint8_t *y, int32x4_t shares,
                         mve_pred16_t lanes)
{
  shares = vaddq_s32(shares, vdupq_n_s32(a->add));
  shares = vminq_s32(vmaxq_s32(shares, vdupq_n_s32(a->lo)), vdupq_n_s32(a->hi));
  vstrbq_p_s32((int8_t *)y, shares, lanes);
}

DORY_M55_INLINE void softmax_of(const dory_cortex_m55_softmax_t *a, const uint8_t *x, uint8_t *y,
                                uint32_t is_signed)
{
  const int32_t largest = largest_of(x, a->x_c, is_signed);
  uint32_t sum = sum_of(a, largest, x, is_signed, 0);
  int32_t shift = 35;
  for (; (sum & 0x80000000u) == 0; sum <<= 1) {
    shift--;
  }
  const int32_t scale = reciprocal((int32_t)(sum - 0x80000000u));
  for (uint32_t c = 0; c < a->y_c; c += 4u) {
    const mve_pred16_t lanes = vctp32q(a->y_c - c);
    const int32x4_t own = powers(a->table, largest, x + a->channel + c, lanes, is_signed);
    put(a, y + c, vrshlq_n_s32(vqrdmulhq_n_s32(own, scale), -shift), lanes);
  }
}

DORY_M55_INLINE void shares_of(const dory_cortex_m55_softmax_t *a, const uint8_t *x, uint8_t *y,
                               uint32_t is_signed)
{
  const int32_t largest = largest_of(x, a->x_c, is_signed);
  const dory_m55_divisor_t d = dory_m55_divisor(sum_of(a, largest, x, is_signed, 1));
  for (uint32_t c = 0; c < a->y_c; c += 4u) {
    const mve_pred16_t lanes = vctp32q(a->y_c - c);
    const int32x4_t own = powers(a->table, largest, x + a->channel + c, lanes, is_signed);
    put(a, y + c, quotients(vmulq_s32(own, vdupq_n_s32(a->factor)), d.factor, d.bits), lanes);
  }
}

void dory_cortex_m55_softmax(const dory_cortex_m55_softmax_t *given)
{
  const dory_cortex_m55_softmax_t a = *given; /* y might lie in *given */
  for (uint32_t i = 0; i < a.pixels; i++) {
    if (a.x_signed) {
      softmax_of(&a, a.x + i * a.x_c, a.y + i * a.y_c, 1);
    } else {
      softmax_of(&a, a.x + i * a.x_c, a.y + i * a.y_c, 0);
    }
  }
}

void dory_cortex_m55_shares(const dory_cortex_m55_softmax_t *given)
{
  const dory_cortex_m55_softmax_t a = *given; /* y might lie in *given */
  for (uint32_t i = 0; i < a.pixels; i++) {
    if (a.x_signed) {
      shares_of(&a, a.x + i * a.x_c, a.y + i * a.y_c, 1);
    } else {
      shares_of(&a, a.x + i * a.x_c, a.y + i * a.y_c, 0);
    }
  }
}
