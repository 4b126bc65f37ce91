/* One step with the roundings of binary32: ties, and the step by the upper word of a product, as the
 * assembly of the chip computes it. */
#ifndef DORY_GAP8_EVEN_H
#define DORY_GAP8_EVEN_H

#include <stdint.h>

#include "dory_gap8_simd.h"

/* Fractions below 2^-DORY_EVEN_ZONE may be those of ties, behind the half that is added. */
#define DORY_EVEN_ZONE 11

/* Rounds product / 2^(32 + shift) = whole + a fraction near a half, as binary32 does: the product
 * has 24 digits, so that fractions nearer to the half than half of the last digit are ties. */
static DORY_GAP8_NOINLINE uint32_t dory_gap8_even_tie(uint64_t product, uint32_t whole,
                                                      uint32_t shift) {
  const uint64_t half = (uint64_t)1 << (shift + 31);
  const uint64_t fraction = product & (2 * half - 1);
  uint32_t bits = 0;
  while (bits < 16 && whole >> bits) {
    bits++;
  }
  const uint64_t reach = (uint64_t)1 << (shift + 7 + bits);
  return whole + (whole & 1 ? fraction + reach >= half : fraction > half + reach);
}

/* Whether x * mul / 2^(32 + shift), whose fraction is near a half, becomes the lower of its two
 * neighbours. */
static inline int32_t dory_gap8_even_falls(int32_t x, int32_t mul, int32_t shift) {
  const int32_t sign = x >> 31;
  const uint64_t product = (uint64_t)(uint32_t)((x ^ sign) - sign) * (uint32_t)mul;
  const uint32_t whole = (uint32_t)(product >> 32) >> shift;
  return (dory_gap8_even_tie(product, whole, (uint32_t)shift) == whole) != (sign < 0);
}

/* The output of a sum before its clip. p: mul, add, shift, offset of the channel. */
static inline int32_t dory_gap8_even_value(int32_t sum, const int32_t *p, int32_t up) {
  const int32_t x = (int32_t)((uint32_t)sum << up), shift = p[2];
  int32_t v = (int32_t)((uint32_t)((int64_t)x * p[0] >> 32) + (uint32_t)p[1]);
  if ((uint32_t)v << (32 - shift) >> (32 - DORY_EVEN_ZONE) == 0) {
    const int32_t whole = (int32_t)((uint32_t)x + ((uint32_t)p[3] << up));
    v -= (int32_t)((uint32_t)dory_gap8_even_falls(whole, p[0], shift) << shift);
  }
  return v >> shift;
}

#endif
