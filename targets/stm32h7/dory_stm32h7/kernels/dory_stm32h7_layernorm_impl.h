/* Layer normalisation over the channels of each pixel in binary32, in the order of sums of onnxruntime
 * for AVX2. An instance defines DORY_KERNEL, DORY_X_T, DORY_Y_T, and
 *
 *   DORY_BIAS     1 where biases stand behind the weights
 *   DORY_CENTRED  1 where the mean is taken off */
#include <string.h>

#include "dory_stm32h7_binary32_impl.h"
#include "dory_stm32h7_simd.h"

#define DORY_LANES 8
/* Squares of the end of a row that are rounded before they are added. */
#define DORY_ROUNDED 4

/* a * b + c, rounded once. */
static inline float dory_fused(float a, float b, float c)
{
#if defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_FMA)
  __asm__("vfma.f32 %0, %1, %2" : "+t"(c) : "t"(a), "t"(b));
  return c;
#else
  /* The product is exact. The sum is rounded to odd, so that the next rounding sees what it drops. */
  const volatile double product = (double)a * b, addend = c;
  const volatile double total = product + addend, part = total - product;
  const volatile double left = total - part, first = product - left, second = addend - part;
  const volatile double error = first + second;
  uint64_t bits;
  double odd = total;
  memcpy(&bits, &odd, sizeof bits);
  if (error != 0.0 && (bits & 1u) == 0) {
    bits = (error > 0.0) == (total > 0.0) ? bits + 1u : bits - 1u;
    memcpy(&odd, &bits, sizeof odd);
  }
  return (float)odd;
#endif
}

/* digits * 2^exponent in binary32, for digits below 2^62 and normal numbers. */
static float dory_real_of(uint64_t digits, int32_t exponent)
{
  int32_t bits = 0;
  uint32_t word;
  float value;
  while (digits >> bits != 0) {
    bits++;
  }
  if (bits > 24) {
    const int32_t drop = bits - 24;
    const uint64_t half = (uint64_t)1 << (drop - 1), rest = digits & ((half << 1) - 1);
    digits >>= drop;
    digits += rest > half || (rest == half && (digits & 1u));
    exponent += drop;
  }
  const float whole = (float)(int32_t)digits; /* exact */
  memcpy(&word, &whole, sizeof word);
  word += digits != 0 ? (uint32_t)exponent << 23 : 0;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* The root of a normal number. */
static float dory_root(float value)
{
  uint32_t word;
  uint64_t root = 0;
  memcpy(&word, &value, sizeof word);
  const int32_t exponent = (int32_t)(word >> 23) - 150, odd = exponent & 1;
  const uint64_t digits = (uint64_t)((word & 0x7fffffu) | 0x800000u) << (36 + odd);
  for (uint64_t bit = (uint64_t)1 << 30; bit != 0; bit >>= 1) {
    const uint64_t next = root | bit;
    root = next * next <= digits ? next : root;
  }
  /* A rest makes no tie. */
  return dory_real_of(root << 1 | (root * root != digits), (exponent - odd - 36) / 2 - 1);
}

static inline int32_t dory_leading_zeros(uint32_t value)
{
#ifdef __GNUC__
  return __builtin_clz(value);
#else
  int32_t zeros = 0;
  for (; (value & 0x80000000u) == 0; value <<= 1) {
    zeros++;
  }
  return zeros;
#endif
}

/* The mean of the channels: their sum is exact in units of 2^-digits. */
static float dory_mean(const dory_stm32h7_layernorm_t *a, const DORY_X_T *x)
{
  int64_t sum = 0;
  for (int32_t c = 0; c < a->x_c; c++) {
    const int32_t value = x[c] - a->zero_point;
    const uint32_t size = (uint32_t)(value < 0 ? -value : value) * a->mantissa;
    const int32_t drop = size >> 24 == 0 ? 0 : 8 - dory_leading_zeros(size);
    uint64_t digits = size;
    if (drop > 0) {
      const uint32_t half = 1u << (drop - 1), rest = size & ((half << 1) - 1u);
      digits = size >> drop;
      digits = (digits + (rest > half || (rest == half && (digits & 1u)))) << drop;
    }
    sum += value < 0 ? -(int64_t)digits : (int64_t)digits;
  }
  uint64_t size = (uint64_t)(sum < 0 ? -sum : sum);
  int32_t up = 0;
  while (size != 0 && size >> 61 == 0) {
    size <<= 1;
    up++;
  }
  const uint64_t count = (uint64_t)a->x_c;
  const float mean = dory_real_of(size / count | (size % count != 0), -up - a->digits);
  return sum < 0 ? -mean : mean;
}

static inline float dory_deviation(const dory_stm32h7_layernorm_t *a, const DORY_X_T *x, int32_t c,
                                   float mean)
{
  return dory_real(dory_real((float)(x[c] - a->zero_point) * a->scale) - mean);
}

static float dory_sum_of_squares(const dory_stm32h7_layernorm_t *a, const DORY_X_T *x, float mean)
{
  float lanes[DORY_LANES] = {0.0f};
  const int32_t whole = a->x_c / DORY_LANES * DORY_LANES;
  const int32_t rounded = a->x_c - whole >= DORY_ROUNDED ? whole + DORY_ROUNDED : whole;
  for (int32_t c = 0; c < whole; c += DORY_LANES) {
    for (int32_t n = 0; n < DORY_LANES; n++) {
      const float value = dory_deviation(a, x, c + n, mean);
      lanes[n] = dory_fused(value, value, lanes[n]);
    }
  }
  for (int32_t n = 0; n < 4; n++) {
    lanes[n] = dory_real(lanes[n] + lanes[n + 4]);
  }
  float total = dory_real(dory_real(lanes[0] + lanes[2]) + dory_real(lanes[1] + lanes[3]));
  for (int32_t c = whole; c < a->x_c; c++) {
    const float value = dory_deviation(a, x, c, mean);
    total = c < rounded ? dory_real(total + dory_real(value * value))
                        : dory_fused(value, value, total);
  }
  return total;
}

static void dory_pixel(const dory_stm32h7_layernorm_t *a, const DORY_X_T *x, DORY_Y_T *y)
{
  const float *const weights = a->weights;
  const float mean = DORY_CENTRED ? dory_mean(a, x) : 0.0f;
  const float variance = dory_real(dory_sum_of_squares(a, x, mean) / (float)a->x_c);
  const float inverse = dory_real(1.0f / dory_root(dory_real(variance + a->epsilon)));
  for (int32_t c = 0; c < a->y_c; c++) {
    const float normal = dory_real(dory_deviation(a, x, a->channel + c, mean) * inverse);
    const float value = DORY_BIAS ? dory_fused(normal, weights[c], weights[a->y_c + c])
                                  : dory_real(normal * weights[c]);
    const int32_t step = dory_even(dory_real(value / a->out_scale)) + a->add;
    y[c] = (DORY_Y_T)(step < a->lo ? a->lo : step > a->hi ? a->hi : step);
  }
}

void DORY_KERNEL(const dory_stm32h7_layernorm_t *a)
{
  const DORY_X_T *x = a->x;
  DORY_Y_T *y = a->y;
  for (int32_t pixel = 0; pixel < a->pixels; pixel++, x += a->x_c, y += a->y_c) {
    dory_pixel(a, x, y);
  }
}
