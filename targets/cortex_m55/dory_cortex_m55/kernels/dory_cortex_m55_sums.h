/* Sums and products of two tensors of bytes, element by element. */
#ifndef DORY_CORTEX_M55_SUMS_H
#define DORY_CORTEX_M55_SUMS_H

#include <stdint.h>

#include "dory_cortex_m55_requant.h"

typedef struct {
  const uint8_t *x, *x2;
  uint8_t *y;
  const int32_t *tables; /* the operand that each byte of x is, then of x2 */
  uint32_t runs, count;  /* of so many elements; each run has the same x2, or there is one */
  dory_cortex_m55_requant_t requant; /* eight times the same */
} dory_cortex_m55_sums_t;

void dory_cortex_m55_sums(const dory_cortex_m55_sums_t *a);
/* The same of products. */
void dory_cortex_m55_products(const dory_cortex_m55_sums_t *a);

typedef struct {
  const uint8_t *x, *x2;
  uint8_t *y;
  uint32_t count;
  uint32_t x_signed, x2_signed;
  int32_t mul, mul2, add; /* all that follows stays within 32 bits */
  int32_t down;
  int32_t mul_after, add_after, down_after; /* 1, 0, 0 where there is one step */
  int32_t lo, hi;
} dory_cortex_m55_line_t;

/* y = clip((((mul * x + mul2 * x2 + add) >> down) * mul_after + add_after) >> down_after) */
void dory_cortex_m55_line(const dory_cortex_m55_line_t *a);

#endif
