/* Two 16-bit numbers in a word, four bytes in a word: instructions of the Cortex-M7 (ACLE), and the
 * same in plain C for every other machine. Nothing here depends on the order of bytes but load4:
 * both sides are little-endian. */
#ifndef DORY_STM32H7_SIMD_H
#define DORY_STM32H7_SIMD_H

#include <stdint.h>

#if defined(__GNUC__)
/* A call of memcpy is one in freestanding programs. */
#define dory_copy4(to, from) __builtin_memcpy((to), (from), 4)
#else
#include <string.h>
#define dory_copy4(to, from) memcpy((to), (from), 4)
#endif

/* A function that keeps its registers to itself: inlined into a large loop, its sums would be
 * spilled. */
#if defined(__GNUC__)
#define DORY_SEPARATE static __attribute__((noinline))
#else
#define DORY_SEPARATE static
#endif

/* Before a loop of few, constant steps, of which no loop is left; before one of few steps whose
 * number is known late, for which a copy of its body would take longer to enter than to run. */
#if defined(__clang__)
#define DORY_UNROLLED _Pragma("clang loop unroll(full)")
#define DORY_ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define DORY_UNROLLED _Pragma("GCC unroll 32")
#define DORY_ROLLED _Pragma("GCC unroll 1")
#else
#define DORY_UNROLLED
#define DORY_ROLLED
#endif

/* gcc extends a sum of a loop to 64 bits behind the loop and multiplies 64 by 64 bits later: with the
 * value out of its sight up to here, the product stays one of 32 by 32 bits. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__arm__)
#define DORY_KEEP(value) __asm__("" : "+r"(value))
#else
#define DORY_KEEP(value) ((void)0)
#endif

/* Four bytes at any address; the first is the lowest. */
static inline uint32_t dory_load4(const void *bytes)
{
  uint32_t word;
  dory_copy4(&word, bytes);
  return word;
}

static inline void dory_store4(void *bytes, uint32_t word) { dory_copy4(bytes, &word); }

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_SAT)

#include <arm_acle.h>

/* Bytes to extend: ACLE has them unsigned, clang signed. */
#if defined(__clang__)
typedef int8x4_t dory_bytes_t;
typedef int16x2_t dory_halves_t;
#else
typedef uint8x4_t dory_bytes_t;
typedef uint16x2_t dory_halves_t;
#endif

/* sums + a.low * b.low + a.high * b.high */
#define dory_smlad(a, b, sum) __smlad((int16x2_t)(a), (int16x2_t)(b), (sum))
/* sum + a.low * b.low; sum + a.high * b.high */
#define dory_smlabb(a, b, sum) __smlabb((int32_t)(a), (int32_t)(b), (sum))
#define dory_smlatt(a, b, sum) __smlatt((int32_t)(a), (int32_t)(b), (sum))
/* sum + a.low * b.high; sum + a.high * b.low */
#define dory_smlabt(a, b, sum) __smlabt((int32_t)(a), (int32_t)(b), (sum))
#define dory_smlatb(a, b, sum) __smlatb((int32_t)(a), (int32_t)(b), (sum))
/* Bytes 0 and 2, zero-extended or sign-extended. */
#define dory_uxtb16(word) ((uint32_t)__uxtb16((dory_bytes_t)(word)))
#define dory_sxtb16(word) ((uint32_t)__sxtb16((int8x4_t)(word)))
/* The same added to two 16-bit sums. */
#define dory_uxtab16(sums, word) ((uint32_t)__uxtab16((dory_halves_t)(sums), (dory_bytes_t)(word)))
#define dory_sxtab16(sums, word) ((uint32_t)__sxtab16((int16x2_t)(sums), (int8x4_t)(word)))
/* Differences of bytes, not below 0; sums of bytes modulo 256. */
#define dory_uqsub8(a, b) ((uint32_t)__uqsub8((uint8x4_t)(a), (uint8x4_t)(b)))
#define dory_uadd8(a, b) ((uint32_t)__uadd8((uint8x4_t)(a), (uint8x4_t)(b)))
#define dory_usat(value, bits) ((int32_t)__usat((value), (bits)))
/* gcc's __ssat converts the sign of its own result, which -Wconversion reports. */
#if defined(__clang__)
#define dory_ssat(value, bits) ((int32_t)__ssat((value), (bits)))
#else
#define dory_ssat(value, bits) ((int32_t)__builtin_arm_ssat((value), (bits)))
#endif

#if defined(__clang__)
#define dory_uxtb16_odd(word) dory_uxtb16(__ror((word), 8))
#define dory_sxtb16_odd(word) dory_sxtb16(__ror((word), 8))
#define dory_sxtab16_odd(sums, word) dory_sxtab16((sums), __ror((word), 8))
#else
/* gcc rotates in an instruction of its own. */
static inline uint32_t dory_uxtb16_odd(uint32_t word)
{
  uint32_t pair;
  __asm__("uxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
}

static inline uint32_t dory_sxtb16_odd(uint32_t word)
{
  uint32_t pair;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
}

static inline uint32_t dory_sxtab16_odd(uint32_t sums, uint32_t word)
{
  uint32_t pair;
  __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(pair) : "r"(sums), "r"(word));
  return pair;
}
#endif

#else

static inline int32_t dory_low16(uint32_t pair) { return (int16_t)(pair & 0xFFFFu); }
static inline int32_t dory_high16(uint32_t pair) { return (int16_t)(pair >> 16); }

/* Sums are modulo 2^32, as on the chip. */
static inline int32_t dory_smlabb(uint32_t a, uint32_t b, int32_t sum)
{
  return (int32_t)((uint32_t)sum + (uint32_t)(dory_low16(a) * dory_low16(b)));
}

static inline int32_t dory_smlatt(uint32_t a, uint32_t b, int32_t sum)
{
  return (int32_t)((uint32_t)sum + (uint32_t)(dory_high16(a) * dory_high16(b)));
}

static inline int32_t dory_smlabt(uint32_t a, uint32_t b, int32_t sum)
{
  return dory_smlabb(a, b >> 16, sum);
}

static inline int32_t dory_smlatb(uint32_t a, uint32_t b, int32_t sum)
{
  return dory_smlabb(a >> 16, b, sum);
}

static inline int32_t dory_smlad(uint32_t a, uint32_t b, int32_t sum)
{
  return dory_smlatt(a, b, dory_smlabb(a, b, sum));
}

static inline uint32_t dory_uxtb16(uint32_t word) { return word & 0x00FF00FFu; }
static inline uint32_t dory_uxtb16_odd(uint32_t word) { return (word >> 8) & 0x00FF00FFu; }

static inline uint32_t dory_sxtb16(uint32_t word)
{
  const uint32_t low = (uint32_t)(int32_t)(int8_t)(word & 0xFFu) & 0xFFFFu;
  return low | (uint32_t)(int32_t)(int8_t)(word >> 16 & 0xFFu) << 16;
}

static inline uint32_t dory_sxtb16_odd(uint32_t word) { return dory_sxtb16(word >> 8); }

static inline uint32_t dory_add16(uint32_t a, uint32_t b)
{
  return ((a + b) & 0xFFFFu) | ((a >> 16) + (b >> 16)) << 16;
}

static inline uint32_t dory_uxtab16(uint32_t sums, uint32_t word)
{
  return dory_add16(sums, dory_uxtb16(word));
}

static inline uint32_t dory_sxtab16(uint32_t sums, uint32_t word)
{
  return dory_add16(sums, dory_sxtb16(word));
}

static inline uint32_t dory_sxtab16_odd(uint32_t sums, uint32_t word)
{
  return dory_add16(sums, dory_sxtb16_odd(word));
}

static inline uint32_t dory_uqsub8(uint32_t a, uint32_t b)
{
  uint32_t result = 0;
  for (uint32_t at = 0; at < 32u; at += 8u) {
    const uint32_t x = a >> at & 0xFFu, y = b >> at & 0xFFu;
    result |= (x > y ? x - y : 0u) << at;
  }
  return result;
}

static inline uint32_t dory_uadd8(uint32_t a, uint32_t b)
{
  return ((a & 0x7F7F7F7Fu) + (b & 0x7F7F7F7Fu)) ^ ((a ^ b) & 0x80808080u);
}

static inline int32_t dory_clamp(int32_t value, int32_t lo, int32_t hi)
{
  return value < lo ? lo : value > hi ? hi : value;
}

static inline int32_t dory_usat(int32_t value, uint32_t bits)
{
  return dory_clamp(value, 0, (int32_t)((1u << bits) - 1u));
}

static inline int32_t dory_ssat(int32_t value, uint32_t bits)
{
  const int32_t most = (int32_t)((1u << (bits - 1u)) - 1u);
  return dory_clamp(value, -most - 1, most);
}

#endif

/* The low, the high halves of two words: one PKHBT, one PKHTB, which gcc does not find. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__thumb2__) && defined(__ARM_FEATURE_DSP)

static inline uint32_t dory_low_halves(uint32_t a, uint32_t b)
{
  uint32_t word;
  __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(word) : "r"(a), "r"(b));
  return word;
}

static inline uint32_t dory_high_halves(uint32_t a, uint32_t b)
{
  uint32_t word;
  __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(word) : "r"(b), "r"(a));
  return word;
}

#else

static inline uint32_t dory_low_halves(uint32_t a, uint32_t b) { return (a & 0xFFFFu) | b << 16; }

static inline uint32_t dory_high_halves(uint32_t a, uint32_t b)
{
  return (b & 0xFFFF0000u) | a >> 16;
}

#endif

/* The greater of each pair of unsigned bytes. */
static inline uint32_t dory_umax8(uint32_t a, uint32_t b)
{
  return dory_uadd8(dory_uqsub8(a, b), b);
}

/* Elements of 8 bits as two words of 16-bit pairs, even elements in the first: ``word`` has four
 * elements of type DORY_X_SIGNED. */
#define DORY_EVEN(is_signed, word) ((is_signed) ? dory_sxtb16(word) : dory_uxtb16(word))
#define DORY_ODD(is_signed, word) ((is_signed) ? dory_sxtb16_odd(word) : dory_uxtb16_odd(word))

#endif
