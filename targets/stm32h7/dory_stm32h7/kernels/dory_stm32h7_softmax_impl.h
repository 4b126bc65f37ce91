/* Softmax over the channels of each pixel. An instance defines DORY_KERNEL, DORY_X_T, DORY_Y_T, and
 *
 *   DORY_REAL  0: the integers of TensorFlow Lite. Exponentials are a table of the distance from the
 *              largest channel, in Q0.31; products are high halves of 64 bits. 1: in binary32, as
 *              onnxruntime; the table holds exponentials, which are added channel by channel */
#include "dory_stm32h7_simd.h"

#if DORY_REAL

#include "dory_stm32h7_binary32_impl.h"

#else

/* a * b / 2^31, rounded to nearest, halves up. */
static inline int32_t dory_high_product(int32_t a, int32_t b)
{
  return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

static inline int32_t dory_saturated(int64_t value)
{
  return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* 1 / (1 + a) in Q0.31 for a in [0, 1) of Q0.31: three steps of Newton and Raphson. */
static int32_t dory_reciprocal(int32_t a)
{
  const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
  int32_t x = 1515870810 + dory_high_product(half, -1010580540);
  for (int32_t i = 0; i < 3; i++) {
    const int32_t error = ((int32_t)1 << 29) - dory_high_product(half, x);
    x += dory_saturated((int64_t)dory_high_product(x, error) * 4);
  }
  return dory_saturated((int64_t)x * 2);
}

#endif

static inline int32_t dory_limited(int32_t value, int32_t lo, int32_t hi)
{
  return value < lo ? lo : value > hi ? hi : value;
}

static inline int32_t dory_largest(const DORY_X_T *x, int32_t channels)
{
  int32_t largest = x[0];
  for (int32_t c = 1; c < channels; c++) {
    largest = x[c] > largest ? x[c] : largest;
  }
  return largest;
}

#if DORY_REAL

/* Digits of a number that is not negative, and its exponent, but for a constant. */
static inline uint32_t dory_digits(uint32_t bits)
{
  return bits >> 23 == 0 ? bits : (bits & 0x7fffffu) | 0x800000u;
}

static inline int32_t dory_exponent(uint32_t bits)
{
  return bits >> 23 == 0 ? 1 : (int32_t)(bits >> 23);
}

static inline uint32_t dory_bits(float value)
{
  union {
    float value;
    uint32_t bits;
  } number = {value};
  return number.bits;
}

/* factor * part / total, rounded once, ties to even. factor: below 2^20; part: at most the total. */
static int32_t dory_share(float part, float total, float factor)
{
  const uint32_t part_bits = dory_bits(part), total_bits = dory_bits(total);
  const int32_t shift = dory_exponent(total_bits) - dory_exponent(part_bits);
  if (shift > 21) {
    return 0; /* below a half */
  }
  /* At most one from the result, which products of integers tell. */
  const int32_t near = dory_even(dory_real(dory_real(part * factor) / total));
  const uint64_t twice = (uint64_t)dory_digits(part_bits) * (2u * (uint32_t)factor);
  const uint64_t by = (uint64_t)dory_digits(total_bits) << shift;
  const uint64_t below = near > 0 ? by * (2u * (uint32_t)near - 1u) : 0;
  const uint64_t above = by * (2u * (uint32_t)near + 1u);
  const int32_t is_odd = near & 1;
  if (twice > above || (twice == above && is_odd)) {
    return near + 1;
  }
  return twice < below || (twice == below && is_odd) ? near - 1 : near;
}

static void dory_pixel(const dory_stm32h7_softmax_t *a, const DORY_X_T *x, DORY_Y_T *y)
{
  const float *const table = a->table;
  const int32_t largest = dory_largest(x, a->x_c);
  float total = 0.0f;
  for (int32_t c = 0; c < a->x_c; c++) {
    total = dory_real(total + table[largest - x[c]]);
  }
  for (int32_t c = 0; c < a->y_c; c++) {
    const int32_t part = dory_share(table[largest - x[a->channel + c]], total, a->factor);
    y[c] = (DORY_Y_T)dory_limited(part + a->add, a->lo, a->hi);
  }
}

#else

static void dory_pixel(const dory_stm32h7_softmax_t *a, const DORY_X_T *x, DORY_Y_T *y)
{
  const int32_t *const table = a->table;
  const int32_t largest = dory_largest(x, a->x_c);
  uint32_t sum = 0;
  int32_t zeros = 0;
  for (int32_t c = 0; c < a->x_c; c++) {
    sum += ((uint32_t)table[largest - x[c]] + (1u << 11)) >> 12;
  }
  while ((sum & 0x80000000u) == 0) {
    sum <<= 1;
    zeros++;
  }
  const int32_t scale = dory_reciprocal((int32_t)(sum - 0x80000000u)), shift = 35 - zeros;
  /* What is divided lies below 2^31. */
  const uint32_t half = shift < 32 ? 1u << (shift - 1) : 0;
  for (int32_t c = 0; c < a->y_c; c++) {
    const uint32_t share = (uint32_t)dory_high_product(scale, table[largest - x[a->channel + c]]);
    const int32_t part = shift < 32 ? (int32_t)((share + half) >> shift) : 0;
    y[c] = (DORY_Y_T)dory_limited(part + a->add, a->lo, a->hi);
  }
}

#endif

void DORY_KERNEL(const dory_stm32h7_softmax_t *a)
{
  const DORY_X_T *x = a->x;
  DORY_Y_T *y = a->y;
  for (int32_t pixel = 0; pixel < a->pixels; pixel++, x += a->x_c, y += a->y_c) {
    dory_pixel(a, x, y);
  }
}
