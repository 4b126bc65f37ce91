/* Sums of products of inputs of 8 or 16 bits by bytes. */
#ifndef DORY_CORTEX_M55_DOT_H
#define DORY_CORTEX_M55_DOT_H

#include <stdint.h>

#include "dory_cortex_m55_mve.h"

/* Columns are vectors of 16 bytes: 16 inputs, or 8 of two bytes. Weights are as many bytes, and lie as
 * [rows / 2][vectors][2][inputs of a vector] where a column is longer than DORY_HELD vectors, else row
 * after row: [rows][vectors][inputs of a vector]. What a column has not is zero in all rows: loads go
 * on to the end of a vector. All rows together have few vectors up to DORY_FEW. */
enum { DORY_HELD = 6, DORY_FEW = 48 };

/* A column of inputs of ``bits`` each. */
typedef struct {
  uint32_t vectors, length, bits;
} dory_m55_column_t;

#if defined(__ARM_FEATURE_MVE)

/* Weights, and products, of inputs of 8 and of 16 bits. */
#define W_8(q_) "vldrb.8 " q_ ", [%[w]], #16\n\t"
#define W_16(q_) "vldrb.s16 " q_ ", [%[w]], #8\n\t"
#define FIRST_8(sum_, x_, w_) "vmladav.s8 %[" sum_ "], " x_ ", " w_ "\n\t"
#define FIRST_16(sum_, x_, w_) "vmladav.s16 %[" sum_ "], " x_ ", " w_ "\n\t"
#define MORE_8(sum_, x_, w_) "vmladava.s8 %[" sum_ "], " x_ ", " w_ "\n\t"
#define MORE_16(sum_, x_, w_) "vmladava.s16 %[" sum_ "], " x_ ", " w_ "\n\t"

/* A product, and the load for the product after the next: each hides behind the other. */
#define PAIR_FIRST(b_, sum_, x_, w_, next_) W_##b_(next_) FIRST_##b_(sum_, x_, w_)
#define PAIR(b_, sum_, x_, w_, next_) W_##b_(next_) MORE_##b_(sum_, x_, w_)
#define ROW_1(b_, s_, i_, o_) PAIR_FIRST(b_, s_, "q0", i_, o_)
#define ROW_2(b_, s_, i_, o_) ROW_1(b_, s_, i_, o_) PAIR(b_, s_, "q1", o_, i_)
#define ROW_3(b_, s_, i_, o_) ROW_2(b_, s_, i_, o_) PAIR(b_, s_, "q2", i_, o_)
#define ROW_4(b_, s_, i_, o_) ROW_3(b_, s_, i_, o_) PAIR(b_, s_, "q3", o_, i_)
#define ROW_5(b_, s_, i_, o_) ROW_4(b_, s_, i_, o_) PAIR(b_, s_, "q4", i_, o_)
#define ROW_6(b_, s_, i_, o_) ROW_5(b_, s_, i_, o_) PAIR(b_, s_, "q5", o_, i_)
#define TWO_EVEN(b_, row_) row_(b_, "s0", "q6", "q7") row_(b_, "s1", "q6", "q7")
#define TWO_ODD(b_, row_) row_(b_, "s0", "q6", "q7") row_(b_, "s1", "q7", "q6")
#define LOADED "vldrb.8 q0, [%[x]]\n\t"
#define LOADED_2 LOADED "vldrb.8 q1, [%[x], #16]\n\t"
#define LOADED_3 LOADED_2 "vldrb.8 q2, [%[x], #32]\n\t"
#define LOADED_4 LOADED_3 "vldrb.8 q3, [%[x], #48]\n\t"
#define LOADED_5 LOADED_4 "vldrb.8 q4, [%[x], #64]\n\t"
#define LOADED_6 LOADED_5 "vldrb.8 q5, [%[x], #80]\n\t"

/* Some rows stay in registers while all columns pass. */
#define X(q_, at_) "vldrb.8 " q_ ", [%[x], #" at_ "]\n\t"
#define NEXT_X "add %[x], %[x], %[step]\n\t"
#define NEXT_SUMS "add %[sums], %[sums], %[pitch]\n\t"
#define FOUR_ROWS(b_) W_##b_("q2") W_##b_("q3") W_##b_("q4") W_##b_("q5")
#define SIX_ROWS(b_) FOUR_ROWS(b_) W_##b_("q6") W_##b_("q7")
#define FOUR_OF_1(b_)                                                                           \
  X("q0", "0") FIRST_##b_("s0", "q0", "q2") NEXT_X FIRST_##b_("s1", "q0", "q3")                 \
  FIRST_##b_("s2", "q0", "q4") "strd %[s0], %[s1], [%[sums]]\n\t" FIRST_##b_("s3", "q0", "q5")  \
  "strd %[s2], %[s3], [%[sums], #8]\n\t" NEXT_SUMS
#define TWO_OF_2(b_)                                                                            \
  X("q0", "0") FIRST_##b_("s0", "q0", "q2") X("q1", "16") FIRST_##b_("s1", "q0", "q4") NEXT_X   \
  MORE_##b_("s0", "q1", "q3") MORE_##b_("s1", "q1", "q5")                                       \
  "strd %[s0], %[s1], [%[sums]]\n\t" NEXT_SUMS
#define TWO_OF_3(b_)                                                                            \
  X("q0", "0") FIRST_##b_("s0", "q0", "q2") X("q1", "16") FIRST_##b_("s1", "q0", "q5")          \
  X("q0", "32") MORE_##b_("s0", "q1", "q3") NEXT_X MORE_##b_("s1", "q1", "q6")                  \
  MORE_##b_("s0", "q0", "q4") MORE_##b_("s1", "q0", "q7")                                       \
  "strd %[s0], %[s1], [%[sums]]\n\t" NEXT_SUMS
#define FEW(own_, column_)                                                                      \
  __asm__ volatile(own_ "dls lr, %[columns]\n"                                                  \
                   "1:\n\t" column_ "le lr, 1b"                                                 \
                   : [s0] "=&Te"(s0), [s1] "=&Te"(s1), [s2] "=&Te"(s2), [s3] "=&Te"(s3),        \
                     [x] "+&r"(x), [w] "+&l"(weights), [sums] "+&r"(sums)                       \
                   : [columns] "r"(columns), [step] "r"(step), [pitch] "r"(4u * rows)           \
                   : "lr", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory")
#define FEW_OF(b_)                                                                              \
  switch (c->vectors) {                                                                         \
    case 1: FEW(FOUR_ROWS(b_), FOUR_OF_1(b_)); break;                                           \
    case 2: FEW(FOUR_ROWS(b_), TWO_OF_2(b_)); break;                                            \
    default: FEW(SIX_ROWS(b_), TWO_OF_3(b_)); break;                                            \
  }

/* sums[k] = sum of x * w_k over a column of at most three vectors, for rows in eights; the same of the
 * next columns, step bytes apart. Sums of a column follow those of the last. */
static inline void dory_m55_dot_few(const dory_m55_column_t *c, const int8_t *const first,
                                    uint32_t step, uint32_t columns, const int8_t *weights,
                                    uint32_t rows, int32_t *const all)
{
  const uint32_t at_once = c->vectors == 1u ? 4u : 2u;
  for (uint32_t row = 0; row < rows; row += at_once) {
    const int8_t *x = first;
    int32_t *sums = all + row, s0, s1, s2, s3;
    if (c->bits == 16u) {
      FEW_OF(16)
    } else {
      FEW_OF(8)
    }
  }
}

/* A column stays in registers, two rows are multiplied in a round. */
#define HELD(b_, loaded_, two_)                                                                 \
  __asm__ volatile("1:\n\t" loaded_ "mov %[w], %[weights]\n\t"                                  \
                   "add %[x], %[x], %[step]\n\t"                                                \
                   W_##b_("q6")                                                                 \
                   "dls lr, %[rounds]\n"                                                        \
                   "2:\n\t" two_ "strd %[s0], %[s1], [%[sums]], #8\n\t"                         \
                   "le lr, 2b\n\t"                                                              \
                   "subs %[columns], %[columns], #1\n\t"                                        \
                   "bne 1b"                                                                     \
                   : [s0] "=&Te"(s0), [s1] "=&Te"(s1), [x] "+&r"(x), [w] "=&l"(w),               \
                     [sums] "+&r"(sums), [columns] "+&r"(columns)                                 \
                   : [weights] "r"(weights), [rounds] "r"(rows / 2u), [step] "r"(step)          \
                   : "lr", "cc", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory");     \
  break;

#define HELD_OF(b_)                                                                             \
  switch (c->vectors) {                                                                         \
    case 1: HELD(b_, LOADED, TWO_ODD(b_, ROW_1))                                                \
    case 2: HELD(b_, LOADED_2, TWO_EVEN(b_, ROW_2))                                             \
    case 3: HELD(b_, LOADED_3, TWO_ODD(b_, ROW_3))                                              \
    case 4: HELD(b_, LOADED_4, TWO_EVEN(b_, ROW_4))                                             \
    case 5: HELD(b_, LOADED_5, TWO_ODD(b_, ROW_5))                                              \
    default: HELD(b_, LOADED_6, TWO_EVEN(b_, ROW_6))                                            \
  }

/* The same of columns of at most DORY_HELD vectors: better for many rows. */
static inline void dory_m55_dot_held(const dory_m55_column_t *c, const int8_t *x, uint32_t step,
                                     uint32_t columns, const int8_t *weights, uint32_t rows,
                                     int32_t *sums)
{
  const int8_t *w;
  int32_t s0, s1;
  if (c->bits == 16u) {
    HELD_OF(16)
  } else {
    HELD_OF(8)
  }
}

#define TWO_COLUMNS(b_)                                                                         \
  __asm__ volatile("1:\n\t"                                                                     \
                   "vldrb.8 q0, [%[a]], #16\n\t"                                                \
                   "dls lr, %[more]\n\t" W_##b_("q1") FIRST_##b_("s00", "q0", "q1") W_##b_("q2") \
                     FIRST_##b_("s01", "q0", "q2") "vldrb.8 q3, [%[b]], #16\n\t"                \
                   FIRST_##b_("s10", "q3", "q1") "vldrb.8 q0, [%[a]], #16\n\t"                  \
                   FIRST_##b_("s11", "q3", "q2") "2:\n\t" W_##b_("q1")                          \
                   MORE_##b_("s00", "q0", "q1") W_##b_("q2") MORE_##b_("s01", "q0", "q2")       \
                   "vldrb.8 q3, [%[b]], #16\n\t" MORE_##b_("s10", "q3", "q1")                   \
                   "vldrb.8 q0, [%[a]], #16\n\t" MORE_##b_("s11", "q3", "q2") "le lr, 2b\n\t"   \
                   "sub %[a], %[a], %[more], lsl #4\n\t"                                        \
                   "sub %[b], %[b], %[more], lsl #4\n\t"                                        \
                   "subs %[a], %[a], #32\n\t"                                                   \
                   "subs %[b], %[b], #16\n\t"                                                   \
                   "strd %[s00], %[s01], [%[sums0]], #8\n\t"                                    \
                   "strd %[s10], %[s11], [%[sums1]], #8\n\t"                                    \
                   "cmp %[sums0], %[end]\n\t"                                                   \
                   "bne 1b"                                                                     \
                   : [s00] "=&Te"(s00), [s01] "=&Te"(s01), [s10] "=&Te"(s10), [s11] "=&Te"(s11), \
                     [a] "+&r"(x0), [b] "+&r"(x1), [w] "+&l"(w), [sums0] "+&r"(sums0),          \
                     [sums1] "+&r"(sums1)                                                       \
                   : [more] "r"(more), [end] "r"(end)                                           \
                   : "lr", "cc", "q0", "q1", "q2", "q3", "memory")

/* The same for two longer columns at once. Loads and products alternate; the first operand of a
 * round is loaded in the round before. */
static inline void dory_m55_dot_two(const dory_m55_column_t *c, const int8_t *x0, const int8_t *x1,
                                    const int8_t *w, uint32_t rows, int32_t *sums0, int32_t *sums1)
{
  const uint32_t more = c->vectors - 1u;
  const int32_t *const end = sums0 + rows;
  int32_t s00, s01, s10, s11;
  if (c->bits == 16u) {
    TWO_COLUMNS(16);
  } else {
    TWO_COLUMNS(8);
  }
}

#define ONE_COLUMN(b_)                                                                          \
  __asm__ volatile("1:\n\t"                                                                     \
                   "mov %[s0], #0\n\t"                                                          \
                   "mov %[s1], #0\n\t"                                                          \
                   "vldrb.8 q0, [%[a]], #16\n\t"                                                \
                   "dls lr, %[vectors]\n"                                                       \
                   "2:\n\t" W_##b_("q1") MORE_##b_("s0", "q0", "q1") W_##b_("q2")               \
                     MORE_##b_("s1", "q0", "q2") "vldrb.8 q0, [%[a]], #16\n\t"                  \
                   "le lr, 2b\n\t"                                                              \
                   "sub %[a], %[a], %[vectors], lsl #4\n\t"                                     \
                   "subs %[a], %[a], #16\n\t"                                                   \
                   "strd %[s0], %[s1], [%[sums]], #8\n\t"                                       \
                   "cmp %[sums], %[end]\n\t"                                                    \
                   "bne 1b"                                                                     \
                   : [s0] "=&Te"(s0), [s1] "=&Te"(s1), [a] "+&r"(x), [w] "+&l"(w),              \
                     [sums] "+&r"(sums)                                                         \
                   : [vectors] "r"(vectors), [end] "r"(end)                                     \
                   : "lr", "cc", "q0", "q1", "q2", "memory")

/* The same for one longer column. */
static inline void dory_m55_dot_one(const dory_m55_column_t *c, const int8_t *x, const int8_t *w,
                                    uint32_t rows, int32_t *sums)
{
  const uint32_t vectors = c->vectors;
  const int32_t *const end = sums + rows;
  int32_t s0, s1;
  if (c->bits == 16u) {
    ONE_COLUMN(16);
  } else {
    ONE_COLUMN(8);
  }
}

#else

/* step: from the weights of a vector to the next of the row. */
static inline int32_t dory_m55_dot(const dory_m55_column_t *c, const int8_t *x, const int8_t *w,
                                   uint32_t step)
{
  const int16_t *const wide = (const int16_t *)(const void *)x;
  const uint32_t inputs = 128u / c->bits;
  uint32_t sum = 0; /* like the core's, it goes round */
  for (uint32_t i = 0; i < c->length; i++) {
    const int32_t value = c->bits == 16u ? wide[i] : x[i];
    sum += (uint32_t)(value * w[i / inputs * step + i % inputs]);
  }
  return (int32_t)sum;
}

static inline void dory_m55_dot_held(const dory_m55_column_t *c, const int8_t *x, uint32_t step,
                                     uint32_t columns, const int8_t *weights, uint32_t rows,
                                     int32_t *sums)
{
  const uint32_t inputs = 128u / c->bits;
  for (uint32_t i = 0; i < columns; i++, x += step, sums += rows) {
    for (uint32_t k = 0; k < rows; k++) {
      sums[k] = dory_m55_dot(c, x, weights + k * c->vectors * inputs, inputs);
    }
  }
}

static inline void dory_m55_dot_few(const dory_m55_column_t *c, const int8_t *x, uint32_t step,
                                    uint32_t columns, const int8_t *weights, uint32_t rows,
                                    int32_t *sums)
{
  dory_m55_dot_held(c, x, step, columns, weights, rows, sums);
}

static inline void dory_m55_dot_one(const dory_m55_column_t *c, const int8_t *x, const int8_t *w,
                                    uint32_t rows, int32_t *sums)
{
  const uint32_t inputs = 128u / c->bits;
  for (uint32_t k = 0; k < rows; k++) {
    const uint32_t pair = k / 2u * 2u * c->vectors * inputs;
    sums[k] = dory_m55_dot(c, x, w + pair + k % 2u * inputs, 2u * inputs);
  }
}

static inline void dory_m55_dot_two(const dory_m55_column_t *c, const int8_t *x0, const int8_t *x1,
                                    const int8_t *w, uint32_t rows, int32_t *sums0, int32_t *sums1)
{
  dory_m55_dot_one(c, x0, w, rows, sums0);
  dory_m55_dot_one(c, x1, w, rows, sums1);
}

#endif

#endif
