/* Numbers of binary32 with a sign, by integers. */
#ifndef DORY_PORTABLE_REAL_H
#define DORY_PORTABLE_REAL_H

#include "dory_portable_float.h"

typedef struct {
  dory_portable_positive_t size;
  int is_negative;
} dory_portable_number_t;

static inline dory_portable_number_t dory_portable_number(int64_t digits, int exponent)
{
  const dory_portable_number_t value = {
      {digits < 0 ? (uint64_t)-digits : (uint64_t)digits, exponent}, digits < 0};

  return value;
}

/* Returns the number with these bits of binary32. */
static inline dory_portable_number_t dory_portable_from_bits(int32_t bits)
{
  const int exponent = (int)((uint32_t)bits >> 23 & 0xffu);
  const int64_t fraction = (int64_t)((uint32_t)bits & 0x7fffffu);
  const dory_portable_number_t value = {{(uint64_t)(exponent > 0 ? fraction | 0x800000 : fraction),
                                         (exponent > 0 ? exponent : 1) - 150},
                                        bits < 0};

  return value;
}

static inline int dory_portable_is_less(dory_portable_positive_t a, dory_portable_positive_t b)
{
  const int a_top = dory_portable_bits(a.digits) + a.exponent;
  const int b_top = dory_portable_bits(b.digits) + b.exponent;

  if (a.digits == 0 || b.digits == 0) {
    return b.digits != 0;
  }
  if (a_top != b_top) {
    return a_top < b_top;
  }
  return a.digits << (63 - dory_portable_bits(a.digits)) <
         b.digits << (63 - dory_portable_bits(b.digits));
}

/* Returns the difference of two numbers of at most 48 digits, of which the first is the larger. */
static inline dory_portable_positive_t dory_portable_less(dory_portable_positive_t larger,
                                                          dory_portable_positive_t smaller)
{
  if (smaller.digits == 0) {
    return dory_portable_positive(larger);
  }
  const int up = 60 - dory_portable_bits(larger.digits);
  const int shift = larger.exponent - up - smaller.exponent;
  larger.digits <<= up;
  larger.exponent -= up;
  if (shift <= 0) {
    larger.digits -= smaller.digits << -shift;
  } else { /* what falls off is below all digits that count, but makes no tie */
    const uint64_t whole = shift < 63 ? smaller.digits >> shift : 0u;
    const int is_whole = shift < 63 && whole << shift == smaller.digits;
    larger.digits -= whole + (is_whole ? 0u : 1u);
    larger.digits |= is_whole ? 0u : 1u;
  }
  return dory_portable_positive(larger);
}

/* Returns the sum of two numbers of at most 48 digits, rounded once. */
static inline dory_portable_number_t dory_portable_plus(dory_portable_number_t a,
                                                        dory_portable_number_t b)
{
  const int turns = dory_portable_is_less(a.size, b.size);
  const dory_portable_number_t larger = turns ? b : a, smaller = turns ? a : b;
  dory_portable_number_t sum = larger;

  sum.size = a.is_negative == b.is_negative
                 ? dory_portable_positive(dory_portable_sum(a.size, b.size))
                 : dory_portable_less(larger.size, smaller.size);
  return sum;
}

/* Returns the product of two numbers of 24 digits, not rounded. */
static inline dory_portable_positive_t dory_portable_times(dory_portable_positive_t a,
                                                           dory_portable_positive_t b)
{
  const dory_portable_positive_t product = {a.digits * b.digits, a.exponent + b.exponent};

  return product;
}

static inline dory_portable_positive_t dory_portable_root(dory_portable_positive_t value)
{
  /* An even exponent, and 62 or 61 digits: the root has 31. */
  const int up = 62 - dory_portable_bits(value.digits);
  const int odd = (value.exponent - up) & 1;
  const uint64_t digits = value.digits << (up - odd);
  dory_portable_positive_t root = {0, (value.exponent - up + odd) / 2};

  for (uint64_t bit = (uint64_t)1 << 30; bit != 0; bit >>= 1) {
    const uint64_t next = root.digits | bit;
    root.digits = next * next <= digits ? next : root.digits;
  }
  /* A rest makes no tie. */
  root.digits = root.digits << 1 | (root.digits * root.digits != digits);
  root.exponent -= 1;
  return dory_portable_positive(root);
}

#endif
