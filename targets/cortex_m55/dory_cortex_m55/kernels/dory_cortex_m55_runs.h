/* Runs of bytes, 16 at a time. */
#ifndef DORY_CORTEX_M55_RUNS_H
#define DORY_CORTEX_M55_RUNS_H

#include <stdint.h>

#if defined(__ARM_FEATURE_MVE)

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
                   : [x] "+&r"(x), [y] "+&r"(y)
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
                   : [y] "+&r"(y)
                   : [bytes] "r"(bytes), [value] "r"(value)
                   : "lr", "q0", "memory");
}

/* Lays ``rows`` runs of ``run`` bytes, ``pitch`` bytes apart in x, one after the other: y = x ^ flip.
 * Bytes up to a whole vector are read and written after each. */
static inline void dory_m55_copy_rows(uint8_t *y, const uint8_t *x, uint32_t rows, uint32_t run,
                                      uint32_t pitch, uint8_t flip)
{
  const uint32_t vectors = (run + 15u) / 16u;
  if (vectors == 1u) {
    __asm__ volatile("vdup.8 q1, %[flip]\n\t"
                     "dls lr, %[rows]\n"
                     "1:\n\t"
                     "vldrb.8 q0, [%[x]]\n\t"
                     "add %[x], %[x], %[pitch]\n\t"
                     "veor q0, q0, q1\n\t"
                     "vstrb.8 q0, [%[y]]\n\t"
                     "add %[y], %[y], %[run]\n\t"
                     "le lr, 1b"
                     : [x] "+&r"(x), [y] "+&r"(y)
                     : [rows] "r"(rows), [run] "r"(run), [pitch] "r"(pitch), [flip] "r"(flip)
                     : "lr", "q0", "q1", "memory");
    return;
  }
  __asm__ volatile("vdup.8 q1, %[flip]\n"
                   "1:\n\t"
                   "dls lr, %[vectors]\n"
                   "2:\n\t"
                   "vldrb.8 q0, [%[x]], #16\n\t"
                   "veor q0, q0, q1\n\t"
                   "vstrb.8 q0, [%[y]], #16\n\t"
                   "le lr, 2b\n\t"
                   "add %[x], %[x], %[x_back]\n\t"
                   "add %[y], %[y], %[y_back]\n\t"
                   "subs %[rows], %[rows], #1\n\t"
                   "bne 1b"
                   : [x] "+&r"(x), [y] "+&r"(y), [rows] "+&r"(rows)
                   : [vectors] "r"(vectors), [x_back] "r"(pitch - 16u * vectors),
                     [y_back] "r"(run - 16u * vectors), [flip] "r"(flip)
                   : "lr", "cc", "q0", "q1", "memory");
}

#else

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

static inline void dory_m55_copy_rows(uint8_t *y, const uint8_t *x, uint32_t rows, uint32_t run,
                                      uint32_t pitch, uint8_t flip)
{
  for (; rows > 0; rows--, x += pitch, y += run) {
    for (uint32_t i = 0; i < run; i++) {
      y[i] = x[i] ^ flip;
    }
  }
}

#endif

#endif
