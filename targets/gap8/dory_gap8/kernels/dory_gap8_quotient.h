/* Quotients of many numbers by one divisor, as products with its inverse. */
#ifndef DORY_GAP8_QUOTIENT_H
#define DORY_GAP8_QUOTIENT_H

#include <stdint.h>

/* ceil(2^(32 + shift) / divisor) < 2^32 with divisor <= 2^(shift + 1): the product with a number
 * below 2^31 is too large by less than 2^(32 + shift) / divisor, so that no quotient changes. The
 * divisor 1 has the inverse 0 and keeps the number. */
typedef struct {
  uint32_t inverse, shift, keep;
} dory_gap8_divisor_t;

/* divisor: below 2^31. */
static inline dory_gap8_divisor_t dory_gap8_divisor(uint32_t divisor) {
  dory_gap8_divisor_t found = {0, 0, 0xffffffffu};
  if (divisor > 1) {
    while (divisor > 2u << found.shift) {
      found.shift++;
    }
    found.inverse = (uint32_t)((((uint64_t)1 << (32 + found.shift)) + divisor - 1) / divisor);
    found.keep = 0;
  }
  return found;
}

/* value: below 2^31. */
static inline uint32_t dory_gap8_quotient(uint32_t value, dory_gap8_divisor_t by) {
  return ((uint32_t)(((uint64_t)value * by.inverse) >> 32) >> by.shift) + (value & by.keep);
}

#endif
