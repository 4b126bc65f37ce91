/* Sum of bytes, element by element, by a table for each operand. An instance defines DORY_KERNEL,
 * DORY_Y_T, and
 *
 *   DORY_Y_SIGNED  1: outputs are saturated to a signed byte
 *   DORY_SHIFT     of the sum of two entries
 *   DORY_RESULTS   1: the output is a byte of a third table
 *
 * Bytes of the inputs are the indices, whatever their signs. The generator has checked the output of
 * every pair of bytes. */
#include "dory_stm32h7_simd.h"

/* The output of a sum. */
static inline DORY_Y_T dory_output(const int32_t *tables, int32_t sum)
{
#if DORY_RESULTS
  return ((const DORY_Y_T *)(const void *)(tables + 512))[sum >> DORY_SHIFT];
#else
  (void)tables;
  sum >>= DORY_SHIFT;
  return (DORY_Y_T)(DORY_Y_SIGNED ? dory_ssat(sum, 8) : dory_usat(sum, 8));
#endif
}

/* The sums of the entries of four pairs of bytes. In assembly: each index is two cycles old where it
 * is used, which gcc does not see to. */
static inline void dory_four_sums(const int32_t *tables, uint32_t word, uint32_t word2, int32_t s[4])
{
  const int32_t *const second = tables + 256;
#if defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_DSP)
  int32_t s0, s1, s2, s3;
  uint32_t a, b, c;
  __asm__(
    "uxtb %[a], %[x]\n uxtb %[b], %[x], ror #8\n uxtb %[c], %[x], ror #16\n"
    "ldr %[s0], [%[t], %[a], lsl #2]\n uxtb %[a], %[y]\n ldr %[s1], [%[t], %[b], lsl #2]\n"
    "uxtb %[b], %[y], ror #8\n ldr %[s2], [%[t], %[c], lsl #2]\n lsr %[x], %[x], #24\n"
    "uxtb %[c], %[y], ror #16\n ldr %[a], [%[u], %[a], lsl #2]\n lsr %[y], %[y], #24\n"
    "ldr %[b], [%[u], %[b], lsl #2]\n ldr %[s3], [%[t], %[x], lsl #2]\n add %[s0], %[s0], %[a]\n"
    "ldr %[c], [%[u], %[c], lsl #2]\n add %[s1], %[s1], %[b]\n ldr %[y], [%[u], %[y], lsl #2]\n"
    "add %[s2], %[s2], %[c]\n add %[s3], %[s3], %[y]\n"
    : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [a] "=&r"(a), [b] "=&r"(b),
      [c] "=&r"(c), [x] "+r"(word), [y] "+r"(word2)
    : [t] "r"(tables), [u] "r"(second)
    : "memory");
  s[0] = s0;
  s[1] = s1;
  s[2] = s2;
  s[3] = s3;
#else
  for (int32_t k = 0; k < 4; k++) {
    s[k] = tables[word >> 8 * k & 0xFFu] + second[word2 >> 8 * k & 0xFFu];
  }
#endif
}

void DORY_KERNEL(const dory_stm32h7_sums_t *a)
{
  const int32_t *const tables = a->tables, *const second = tables + 256;
  const uint8_t *x = a->x, *x2 = a->x2;
  DORY_Y_T *y = a->y;
  int32_t n = a->count;
  /* Four at a time: no load waits for the one before it. */
  for (; n >= 4; n -= 4, x += 4, x2 += 4, y += 4) {
    const uint32_t word = dory_load4(x), word2 = dory_load4(x2);
    int32_t s[4];
    dory_four_sums(tables, word, word2, s);
    const DORY_Y_T y0 = dory_output(tables, s[0]), y1 = dory_output(tables, s[1]);
    const DORY_Y_T y2 = dory_output(tables, s[2]), y3 = dory_output(tables, s[3]);
    y[0] = y0;
    y[1] = y1;
    y[2] = y2;
    y[3] = y3;
  }
  DORY_ROLLED
  for (; n > 0; n--) {
    *y++ = dory_output(tables, tables[*x++] + second[*x2++]);
  }
}
