/* Fixed-point functions of gemmlowp (fixedpoint/fixedpoint.h), which TensorFlow Lite computes with. */
#ifndef DORY_PORTABLE_FIXED_H
#define DORY_PORTABLE_FIXED_H

#include <stdint.h>

/* Returns a * b / 2^31, rounded to nearest, halves up. */
static inline int32_t dory_fixed_high_product(int32_t a, int32_t b)
{
  const int64_t sum = (int64_t)a * b + ((int64_t)1 << 30);
  return (int32_t)(sum < 0 ? ~(~sum >> 31) : sum >> 31);
}

/* Returns a / 2^shift of a number that is not negative, rounded to nearest. */
static inline int32_t dory_fixed_rounded_shift(int32_t a, uint32_t shift)
{
  return (int32_t)(((int64_t)a + ((int64_t)1 << (shift - 1u))) >> shift);
}

static inline int32_t dory_fixed_saturated(int64_t value)
{
  return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* Returns 1 / (1 + a) in Q0.31 for a in [0, 1) of Q0.31: three steps of Newton-Raphson. */
static inline int32_t dory_fixed_reciprocal(int32_t a)
{
  const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
  int32_t x = 1515870810 + dory_fixed_high_product(half, -1010580540);

  for (int i = 0; i < 3; i++) {
    const int32_t error = ((int32_t)1 << 29) - dory_fixed_high_product(half, x);
    x += dory_fixed_saturated((int64_t)dory_fixed_high_product(x, error) * 4);
  }
  return dory_fixed_saturated((int64_t)x * 2);
}

static inline uint32_t dory_fixed_leading_zeros(uint32_t value)
{
  uint32_t zeros = 0;

  while ((value & 0x80000000u) == 0u) {
    value <<= 1;
    zeros++;
  }
  return zeros;
}

#endif
