/* Sums and products of two operands, element by element. */
#ifndef DORY_CORTEX_M55_SUMS_H
#define DORY_CORTEX_M55_SUMS_H

#include <stdint.h>

#include "dory_cortex_m55_requant.h"

/* Operands: bytes that a table turns into numbers; 16 bits with a sign, or 32, as they are; one byte for
 * all elements of a run; 32 bits by a factor of each element of a run: ((x << up) * factor >> 32) >> down,
 * the last shift rounds ties up. */
enum {
  DORY_OPERAND_BYTES,
  DORY_OPERAND_HALVES,
  DORY_OPERAND_WORDS,
  DORY_OPERAND_ONE,
  DORY_OPERAND_SCALED
};

typedef struct {
  const uint8_t *x;
  const int32_t *table; /* the number of each byte, or factors */
  uint32_t kind;
  uint32_t next; /* bytes from the elements of a run to those of the next one */
  int32_t up, down;
} dory_cortex_m55_operand_t;

typedef struct {
  dory_cortex_m55_operand_t first, second;
  uint8_t *y;
  uint32_t y_bytes;
  uint32_t runs, count;              /* of so many elements */
  dory_cortex_m55_requant_t requant; /* eight times the same; SUMS: none, outputs are the sums */
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
