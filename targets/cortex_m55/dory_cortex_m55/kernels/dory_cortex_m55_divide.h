/* Divisions of many numbers by the same one. */
#ifndef DORY_CORTEX_M55_DIVIDE_H
#define DORY_CORTEX_M55_DIVIDE_H

#include <stdint.h>

/* A divisor as the factor of quotients (dory_cortex_m55_mve.h). */
typedef struct {
  uint32_t factor;
  int32_t bits;
} dory_m55_divisor_t;

/* value: from 1 to 2^31. */
static inline dory_m55_divisor_t dory_m55_divisor(uint32_t value)
{
  dory_m55_divisor_t d = {0, 0};
  while (value > ((uint32_t)1 << d.bits)) {
    d.bits++;
  }
  d.factor = (uint32_t)(((uint64_t)1 << (31 + d.bits)) / value) + 1u;
  return d;
}

#endif
