/* Sums of products of bytes. */
#ifndef DORY_CORTEX_M55_DOT_H
#define DORY_CORTEX_M55_DOT_H

#include <stdint.h>

#include "dory_cortex_m55_mve.h"

#if defined(__ARM_FEATURE_MVE)

/* sums[p][k] += x_p * w_k over n > 0 bytes, for two pixels and two rows of weights. A load and a
 * product alternate, so that each hides behind the other: the first operand of a round is loaded at
 * the end of the round before, at most 16 bytes behind the pixel. */
static inline void dory_m55_dot_2x2(const int8_t *x0, const int8_t *x1, const int8_t *w0,
                                    const int8_t *w1, uint32_t n, int32_t sums[2][2])
{
  int32_t s00 = sums[0][0], s01 = sums[0][1], s10 = sums[1][0], s11 = sums[1][1];
  __asm__ volatile("dlstp.8 lr, %[n]\n\t"
                   "vldrb.8 q0, [%[x0]], #16\n"
                   "1:\n\t"
                   "vldrb.8 q1, [%[w0]], #16\n\t"
                   "vmladava.s8 %[s00], q0, q1\n\t"
                   "vldrb.8 q2, [%[w1]], #16\n\t"
                   "vmladava.s8 %[s01], q0, q2\n\t"
                   "vldrb.8 q3, [%[x1]], #16\n\t"
                   "vmladava.s8 %[s10], q3, q1\n\t"
                   "vldrb.8 q0, [%[x0]], #16\n\t"
                   "vmladava.s8 %[s11], q3, q2\n\t"
                   "letp lr, 1b"
                   : [s00] "+Te"(s00), [s01] "+Te"(s01), [s10] "+Te"(s10), [s11] "+Te"(s11),
                     [x0] "+r"(x0), [x1] "+r"(x1), [w0] "+r"(w0), [w1] "+r"(w1)
                   : [n] "r"(n)
                   : "lr", "q0", "q1", "q2", "q3", "memory");
  sums[0][0] = s00, sums[0][1] = s01, sums[1][0] = s10, sums[1][1] = s11;
}

/* sums[k] += x * w_k over n > 0 bytes, for four rows of weights, pitch bytes apart. */
static inline void dory_m55_dot_1x4(const int8_t *x, const int8_t *w, uint32_t pitch, uint32_t n,
                                    int32_t sums[4])
{
  const int8_t *w1 = w + pitch, *w2 = w1 + pitch, *w3 = w2 + pitch;
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  __asm__ volatile("dlstp.8 lr, %[n]\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[x]], #16\n\t"
                   "vldrb.8 q1, [%[w0]], #16\n\t"
                   "vmladava.s8 %[s0], q0, q1\n\t"
                   "vldrb.8 q2, [%[w1]], #16\n\t"
                   "vmladava.s8 %[s1], q0, q2\n\t"
                   "vldrb.8 q1, [%[w2]], #16\n\t"
                   "vmladava.s8 %[s2], q0, q1\n\t"
                   "vldrb.8 q2, [%[w3]], #16\n\t"
                   "vmladava.s8 %[s3], q0, q2\n\t"
                   "letp lr, 1b"
                   : [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [s3] "+Te"(s3), [x] "+r"(x),
                     [w0] "+r"(w), [w1] "+r"(w1), [w2] "+r"(w2), [w3] "+r"(w3)
                   : [n] "r"(n)
                   : "lr", "q0", "q1", "q2", "memory");
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

/* y = x ^ flip over bytes. */
static inline void dory_m55_copy(uint8_t *y, const uint8_t *x, uint32_t bytes, uint8_t flip)
{
  __asm__ volatile("vdup.8 q1, %[flip]\n\t"
                   "wlstp.8 lr, %[bytes], 2f\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%[x]], #16\n\t"
                   "veor q0, q0, q1\n\t"
                   "vstrb.8 q0, [%[y]], #16\n\t"
                   "letp lr, 1b\n"
                   "2:"
                   : [x] "+r"(x), [y] "+r"(y)
                   : [bytes] "r"(bytes), [flip] "r"(flip)
                   : "lr", "q0", "q1", "memory");
}

static inline void dory_m55_fill(uint8_t *y, uint8_t value, uint32_t bytes)
{
  __asm__ volatile("vdup.8 q0, %[value]\n\t"
                   "wlstp.8 lr, %[bytes], 2f\n"
                   "1:\n\t"
                   "vstrb.8 q0, [%[y]], #16\n\t"
                   "letp lr, 1b\n"
                   "2:"
                   : [y] "+r"(y)
                   : [bytes] "r"(bytes), [value] "r"(value)
                   : "lr", "q0", "memory");
}

#else

static inline int32_t dory_m55_dot(const int8_t *x, const int8_t *w, uint32_t n, int32_t sum)
{
  uint32_t s = (uint32_t)sum; /* like the core's, it goes round */
  for (uint32_t i = 0; i < n; i++) {
    s += (uint32_t)(x[i] * w[i]);
  }
  return (int32_t)s;
}

static inline void dory_m55_dot_2x2(const int8_t *x0, const int8_t *x1, const int8_t *w0,
                                    const int8_t *w1, uint32_t n, int32_t sums[2][2])
{
  sums[0][0] = dory_m55_dot(x0, w0, n, sums[0][0]);
  sums[0][1] = dory_m55_dot(x0, w1, n, sums[0][1]);
  sums[1][0] = dory_m55_dot(x1, w0, n, sums[1][0]);
  sums[1][1] = dory_m55_dot(x1, w1, n, sums[1][1]);
}

static inline void dory_m55_dot_1x4(const int8_t *x, const int8_t *w, uint32_t pitch, uint32_t n,
                                    int32_t sums[4])
{
  for (int k = 0; k < 4; k++) {
    sums[k] = dory_m55_dot(x, w + (uint32_t)k * pitch, n, sums[k]);
  }
}

static inline void dory_m55_copy(uint8_t *y, const uint8_t *x, uint32_t bytes, uint8_t flip)
{
  for (uint32_t i = 0; i < bytes; i++) {
    y[i] = x[i] ^ flip;
  }
}

static inline void dory_m55_fill(uint8_t *y, uint8_t value, uint32_t bytes)
{
  for (uint32_t i = 0; i < bytes; i++) {
    y[i] = value;
  }
}

#endif

#endif
