/* Fully connected layer: four output channels at a time share the widened inputs. An instance
 * defines DORY_KERNEL, DORY_Y_T and the macros of dory_stm32h7_vector_impl.h,
 * dory_stm32h7_weights_impl.h and dory_stm32h7_requant_impl.h.
 *
 * Rows of weights are padded with zeros to multiples of four. Bytes of the rows a, b, c, d of four
 * channels lie as a0 b0 a2 b2 c0 d0 c2 d2 a1 b1 a3 b3 c1 d1 c3 d3, so that a word has two of each of
 * two rows; 16-bit numbers are interleaved by fours. The rows of the last one to three channels follow
 * one after the other.
 * DORY_LIFTED: 1: weights are what is stored plus the number `lift`.
 * DORY_COMBINED: 1: the two bytes of two rows are the 16-bit number 256 * b + a. It is multiplied as
 * it is, which gives 256 times the sum of b plus that of a, modulo 2^32: of the sum of b, which has 24
 * bits, nothing is lost, and b need not be widened. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

#include "dory_stm32h7_vector_impl.h"

#include "dory_stm32h7_weights_impl.h"

#if DORY_X_BITS == 8 && DORY_W_BITS == 8 && defined(__GNUC__) && defined(__thumb2__) && \
    defined(__ARM_FEATURE_DSP)
#define DORY_ASSEMBLY 1
/* Whether the assembly has outputs, not sums. */
#define DORY_FINISHED \
  (!DORY_LIFTED && DORY_STEPS == 1 && !DORY_SHIFTED && !DORY_BINARY32 && DORY_SHIFT >= 32 && \
   DORY_TURNED != DORY_BELOW && (DORY_CLIP == DORY_UNSIGNED || DORY_CLIP == DORY_SIGNED))
#include "dory_stm32h7_rows_impl.h"
#else
#define DORY_ASSEMBLY 0
#define DORY_FINISHED 0
#endif

static inline int32_t dory_product(const uint32_t *w, dory_vector_t x, int32_t sum)
{
  const dory_weights_t four = dory_weights_at(w);
  return dory_smlad(four.odd, x.odd, dory_smlad(four.even, x.even, sum));
}

static inline int32_t dory_row(const uint32_t *w, const DORY_X_T *x, int32_t n)
{
  int32_t sum = 0;
  for (; n >= 4; n -= 4, x += 4, w += DORY_W_WORDS) {
    sum = dory_product(w, dory_vector_at(x), sum);
  }
  return n > 0 ? dory_product(w, dory_rest_at(x, n), sum) : sum;
}

/* Modulo 2^32: what is missing may exceed 32 bits, their sum does not. */
static inline int32_t dory_plus(int32_t sum, int32_t more)
{
  return (int32_t)((uint32_t)sum + (uint32_t)more);
}

/* What all sums lack of those with the weights as they are stored. */
static inline int32_t dory_lift(const dory_stm32h7_linear_t *a)
{
#if DORY_LIFTED
  const uint32_t ones = 0x00010001u;
  const DORY_X_T *x = a->x;
  int32_t sum = 0, n = a->x_c;
  for (; n >= 4; n -= 4, x += 4) {
    const dory_vector_t four = dory_vector_at(x);
    sum = dory_smlad(four.odd, ones, dory_smlad(four.even, ones, sum));
  }
  for (; n > 0; n--) {
    sum += *x++;
  }
  return (int32_t)((uint32_t)sum * (uint32_t)a->lift);
#else
  (void)a;
  return 0;
#endif
}

#if !DORY_ASSEMBLY

typedef struct {
  int32_t s0, s1, s2, s3;
} dory_sums_t;

#if DORY_W_BITS == 8

/* What the sum of the second row takes of a word. */
static inline uint32_t dory_second(uint32_t word)
{
  return DORY_COMBINED ? word : dory_sxtb16_odd(word);
}

static inline dory_sums_t dory_four(const uint32_t *w, dory_vector_t x, dory_sums_t sums)
{
  const dory_sums_t even = {
    dory_smlad(dory_sxtb16(w[0]), x.even, sums.s0), dory_smlad(dory_second(w[0]), x.even, sums.s1),
    dory_smlad(dory_sxtb16(w[1]), x.even, sums.s2), dory_smlad(dory_second(w[1]), x.even, sums.s3)};
  const dory_sums_t result = {
    dory_smlad(dory_sxtb16(w[2]), x.odd, even.s0), dory_smlad(dory_second(w[2]), x.odd, even.s1),
    dory_smlad(dory_sxtb16(w[3]), x.odd, even.s2), dory_smlad(dory_second(w[3]), x.odd, even.s3)};
  return result;
}

#else

static inline dory_sums_t dory_four(const uint32_t *w, dory_vector_t x, dory_sums_t sums)
{
  const dory_sums_t result = {
    dory_product(w, x, sums.s0), dory_product(w + DORY_W_WORDS, x, sums.s1),
    dory_product(w + 2 * DORY_W_WORDS, x, sums.s2), dory_product(w + 3 * DORY_W_WORDS, x, sums.s3)};
  return result;
}

#endif

/* The sum of the second row without that of the first. */
static inline int32_t dory_apart(int32_t both, int32_t first)
{
  return DORY_COMBINED ? (int32_t)((uint32_t)both - (uint32_t)first) >> 8 : both;
}

/* Products of four rows and the inputs; returns the weights behind them. */
static inline const uint32_t *dory_four_rows(const uint32_t *w, const DORY_X_T *x, int32_t n,
                                             int32_t sums[4])
{
  dory_sums_t four = {0, 0, 0, 0};
  for (; n >= 4; n -= 4, x += 4, w += 4 * DORY_W_WORDS) {
    four = dory_four(w, dory_vector_at(x), four);
  }
  if (n > 0) {
    four = dory_four(w, dory_rest_at(x, n), four);
    w += 4 * DORY_W_WORDS;
  }
  sums[0] = four.s0;
  sums[1] = dory_apart(four.s1, four.s0);
  sums[2] = four.s2;
  sums[3] = dory_apart(four.s3, four.s2);
  return w;
}

#endif

void DORY_KERNEL(const dory_stm32h7_linear_t *a)
{
  /* A copy: stores of bytes could change anything that is reached by a pointer. */
  const dory_stm32h7_requant_t q = a->requant;
  const uint32_t *w = a->weights;
  DORY_Y_T *const y = a->y;
  const int32_t lift = dory_lift(a);
  int32_t c = 0;
#if DORY_FINISHED
  c = a->y_c & ~3;
  if (c > 0) {
    const dory_rows_t rows = {w, a->x, (a->x_c + 3) / 4, q.channels, y, y + c};
    w = dory_four_rows(&rows);
  }
#endif
  for (; c < a->y_c - 3; c += 4) {
    int32_t sums[4];
#if DORY_ASSEMBLY
    const dory_rows_t rows = {w, a->x, (a->x_c + 3) / 4, 0, sums, sums + 4};
    w = dory_four_rows(&rows);
#else
    w = dory_four_rows(w, a->x, a->x_c, sums);
#endif
    DORY_UNROLLED
    for (int k = 0; k < 4; k++) {
      sums[k] = dory_requant(&q, dory_channel(&q, c + k), dory_plus(sums[k], lift));
    }
    DORY_UNROLLED
    for (int k = 0; k < 4; k++) {
      y[c + k] = (DORY_Y_T)sums[k];
    }
  }
  for (; c < a->y_c; c++) {
    const int32_t sum = dory_row(w, a->x, a->x_c);
    y[c] = (DORY_Y_T)dory_requant(&q, dory_channel(&q, c), dory_plus(sum, lift));
    w += (a->x_c + 3) / 4 * DORY_W_WORDS;
  }
}
