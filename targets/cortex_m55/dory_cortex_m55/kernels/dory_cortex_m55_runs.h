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

#endif

#endif
