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

/* Returns a number of either sign rounded to the significant bits of binary32. */
static inline int64_t dory_portable_round_signed(int64_t value)
{
  return value < 0 ? -(int64_t)dory_portable_round((uint64_t)-value)
                   : (int64_t)dory_portable_round((uint64_t)value);
}

/* digits * 2^exponent. Results have no more digits than binary32; its least and largest exponents
 * bound nothing here. */
typedef struct {
  uint64_t digits;
  int exponent;
} dory_portable_positive_t;

/* Returns the same number rounded to binary32, with no more than 24 bits of digits. */
static inline dory_portable_positive_t dory_portable_positive(dory_portable_positive_t value)
{
  const int excess = dory_portable_bits(value.digits) - DORY_PORTABLE_DIGITS;

  if (excess > 0) {
    value.digits = dory_portable_even_shift(value.digits, excess);
    value.exponent += excess;
  }
  return value;
}

/* Returns the quotient of two numbers; the divisor has at most 32 bits of digits and is not 0. */
static inline dory_portable_positive_t dory_portable_divide(dory_portable_positive_t value,
                                                            dory_portable_positive_t by)
{
  const int shift = 62 - dory_portable_bits(value.digits);
  const uint64_t wide = value.digits << shift;
  const dory_portable_positive_t quotient = {
      wide / by.digits | (wide % by.digits != 0), /* what is left cannot make a tie */
      value.exponent - shift - by.exponent};

  return dory_portable_positive(quotient);
}

/* Returns the sum of two numbers. */
static inline dory_portable_positive_t dory_portable_sum(dory_portable_positive_t a,
                                                         dory_portable_positive_t b)
{
  dory_portable_positive_t larger = a, smaller = b;

  if (a.digits == 0 || (b.digits != 0 && dory_portable_bits(a.digits) + a.exponent <
                                             dory_portable_bits(b.digits) + b.exponent)) {
    larger = b;
    smaller = a;
  }
  if (smaller.digits == 0) {
    return larger;
  }
  const int up = 60 - dory_portable_bits(larger.digits); /* as far as there is room */
  const int shift = larger.exponent - up - smaller.exponent;
  larger.digits <<= up;
  larger.exponent -= up;
  if (shift <= 0) {
    larger.digits += smaller.digits << -shift;
  } else if (shift < 63) { /* what falls off is below all digits that count, but makes no tie */
    larger.digits += smaller.digits >> shift;
    larger.digits |= (smaller.digits & (((uint64_t)1 << shift) - 1u)) != 0;
  } else {
    larger.digits |= 1u;
  }
  return dory_portable_positive(larger);
}

/* Returns even(f32(value + zero)) for value * -1 where is_negative; beyond 2^22 any number that is. */
static inline int64_t dory_portable_even_sum(dory_portable_positive_t value, int is_negative,
                                             int32_t zero)
{
  const int bits = dory_portable_bits(value.digits) + value.exponent;

  if (value.digits == 0 || bits < -1) {
    return zero; /* below a quarter */
  }
  if (bits > 23) {
    return is_negative ? -((int64_t)1 << 23) : (int64_t)1 << 23;
  }
  /* At most 24 digits, so that no more than 25 lie behind the point; a positive exponent adds. */
  const int shift = value.exponent < 0 ? -value.exponent : 0;
  const int64_t magnitude =
      (int64_t)(value.exponent < 0 ? value.digits : value.digits << value.exponent);
  const int64_t sum =
      (is_negative ? -magnitude : magnitude) + (int64_t)zero * ((int64_t)1 << shift);
  const uint64_t rounded = dory_portable_round((uint64_t)(sum < 0 ? -sum : sum));
  const int64_t result = (int64_t)dory_portable_even_shift(rounded, shift);

  return sum < 0 ? -result : result;
}

#endif
