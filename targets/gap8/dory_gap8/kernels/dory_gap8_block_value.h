/* From a sum of a dense convolution to its output, as the assembly of the chip computes it: included
 * where that assembly has a C form. Configured by DORY_BLOCK_FORM, DORY_BLOCK_REACH,
 * DORY_BLOCK_TURNED and DORY_BLOCK_CLIP, see dory_gap8_block_impl.h. */
#include "dory_gap8_simd.h"

#define DORY_BLOCK_RAW 0   /* 32-bit sums are stored */
#define DORY_BLOCK_STEP 1  /* (sum * mul + add) >> shift, all within 32 bits */
#define DORY_BLOCK_LIMBS 2 /* (sum * mul_high + (sum * mul_low >> low_bits) + add) >> shift */
#define DORY_BLOCK_HIGH 3  /* (((sum << low_bits) * mul >> 32) + add) >> shift, of the channel */
#define DORY_BLOCK_EVEN 4  /* even(f32(sum * scale)) + zero, of the channel: dory_gap8_even.h */

/* DORY_BLOCK_SHIFTS: whether each channel has a shift of its own (0 where not defined). */
#ifndef DORY_BLOCK_SHIFTS
#define DORY_BLOCK_SHIFTS 0
#endif

#define DORY_BLOCK_NO_CLIP 0
#define DORY_BLOCK_UNSIGNED 1 /* 0 .. hi */
#define DORY_BLOCK_SIGNED 2   /* -hi - 1 .. hi */

/* Words of a channel: [offset] [reach], then mul, add or mul_low, mul_high, add, then [below], and for
 * DORY_BLOCK_HIGH and where DORY_BLOCK_SHIFTS says so shift; for DORY_BLOCK_EVEN mul, add, shift, offset. */
#define DORY_BLOCK_PARAMETERS                                     \
  (DORY_BLOCK_FORM == DORY_BLOCK_RAW                              \
       ? 0                                                        \
       : (DORY_BLOCK_FORM == DORY_BLOCK_STEP   ? 2                \
          : DORY_BLOCK_FORM == DORY_BLOCK_EVEN ? 4                \
                                               : 3) +             \
             DORY_BLOCK_REACH + 2 * DORY_BLOCK_TURNED + DORY_BLOCK_SHIFTS)

#if !(defined(__riscv) && DORY_GAP8_XPULPV2)

#if DORY_BLOCK_FORM == DORY_BLOCK_EVEN
#include "dory_gap8_even.h"
#endif

/* p: parameters of the channel. */
static inline int32_t dory_block_value(int32_t sum, const int32_t *p, int32_t shift, int32_t low_bits,
                                       int32_t hi) {
  int32_t v = sum;
#if DORY_BLOCK_FORM == DORY_BLOCK_EVEN
  v = dory_gap8_even_value(sum, p, low_bits);
#elif DORY_BLOCK_FORM != DORY_BLOCK_RAW
  uint32_t product = 0;
#if DORY_BLOCK_TURNED
  v = (int32_t)((uint32_t)v + (uint32_t)*p++);
#endif
#if DORY_BLOCK_REACH
  v = dory_gap8_clip(v, -p[0] - 1, p[0]);
  p++;
#endif
#if DORY_BLOCK_FORM == DORY_BLOCK_LIMBS
  product = (uint32_t)((int32_t)((uint32_t)v * (uint32_t)*p++) >> low_bits);
#endif
#if DORY_BLOCK_TURNED
  product += v < 0 ? (uint32_t)p[2] : 0;
#endif
#if DORY_BLOCK_FORM == DORY_BLOCK_HIGH
  v = (int32_t)((uint32_t)v << low_bits);
  product += (uint32_t)((int64_t)v * p[0] >> 32);
  v = (int32_t)(product + (uint32_t)p[1]) >> p[2 + DORY_BLOCK_TURNED];
#else
#if DORY_BLOCK_SHIFTS
  shift = p[2 + DORY_BLOCK_TURNED];
#endif
  v = (int32_t)((uint32_t)v * (uint32_t)p[0] + product + (uint32_t)p[1]) >> shift;
#endif
#endif
#if DORY_BLOCK_CLIP == DORY_BLOCK_UNSIGNED
  v = dory_gap8_clip(v, 0, hi);
#elif DORY_BLOCK_CLIP == DORY_BLOCK_SIGNED
  v = dory_gap8_clip(v, -hi - 1, hi);
#endif
  (void)p;
  (void)shift;
  (void)low_bits;
  (void)hi;
  return v;
}

#endif
