/* Arithmetic of binary32 in integers: exact on cores without a floating-point unit. */
#ifndef DORY_PORTABLE_FLOAT_H
#define DORY_PORTABLE_FLOAT_H

#include <stdint.h>

/* Significant bits of binary32. */
#define DORY_PORTABLE_DIGITS 24

/* Returns the number of bits of a value, 0 for 0. */
static inline int dory_portable_bits(uint64_t value)
{
  int bits = 0;

  for (int step = 32; step > 0; step /= 2) {
    if (value >> step) {
      value >>= step;
      bits += step;
    }
  }
  return bits + (value != 0);
}

/* Returns value / 2^shift rounded to an integer, ties to even. shift: 0 or more. */
static inline uint64_t dory_portable_even_shift(uint64_t value, int shift)
{
  if (shift <= 0) {
    return value;
  }
  if (shift > 63) {
    return 0; /* values are below 2^63 */
  }
  const uint64_t rest = value & (((uint64_t)1 << shift) - 1u), half = (uint64_t)1 << (shift - 1);
  const uint64_t quotient = value >> shift;
  return quotient + (rest > half || (rest == half && (quotient & 1u)));
}

/* Returns value rounded to the significant bits of binary32, ties to even. */
static inline uint64_t dory_portable_round(uint64_t value)
{
  const int excess = dory_portable_bits(value) - DORY_PORTABLE_DIGITS;

  return excess <= 0 ? value : dory_portable_even_shift(value, excess) << excess;
}

/* Returns even(f32(f32(value) * S)), S = (scale & (2^32 - 1)) * 2^(-(scale >> 32)) with a mantissa
 * of 24 bits; |value| < 2^38. Where the result exceeds 2^23, it is any number that does, of its
 * sign. */
static inline int64_t dory_portable_even_product(int64_t value, int64_t scale)
{
  const uint64_t mantissa = (uint64_t)scale & 0xffffffffu;
  const int shift = (int)((scale - (int64_t)mantissa) / ((int64_t)1 << 32));
  const uint64_t magnitude = value < 0 ? (uint64_t)-value : (uint64_t)value;
  const uint64_t product = dory_portable_round(dory_portable_round(magnitude) * mantissa);
  const uint64_t rounded = dory_portable_even_shift(product, shift);

  return value < 0 ? -(int64_t)rounded : (int64_t)rounded;
}

#endif
