/* Arithmetic of binary32 with one rounding for each operation. Compilers may join a product and a sum
 * and skip a rounding: dory_real keeps a value from that. Roundings are the default ones, to nearest,
 * ties to even, as the core has them after reset. DORY_HAS_BINARY32: whether the core rounds itself. */
/* FPv5 has VCVTN. clang says that it is there, gcc does not: doubles (bit 3 of __ARM_FP) and Armv8-M
 * have nothing else, and DORY_FPV5 is what the part's core has, if the code uses an FPU at all. */
#if defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FP) && \
    (defined(DORY_FPV5) || defined(__ARM_FPV5__) || defined(__ARM_FEATURE_DIRECTED_ROUNDING) || \
     (__ARM_ARCH_PROFILE == 'M' && ((__ARM_FP & 8) != 0 || __ARM_ARCH >= 8)))

#define DORY_HAS_BINARY32 1

static inline float dory_real(float value)
{
  __asm__("" : "+t"(value));
  return value;
}

/* The integer next to a value, ties to even, saturated. */
static inline int32_t dory_even(float value)
{
  float bits;
  int32_t whole;
  __asm__("vcvtn.s32.f32 %0, %1" : "=t"(bits) : "t"(value));
  __asm__("vmov %0, %1" : "=r"(whole) : "t"(bits));
  return whole;
}

#else

#define DORY_HAS_BINARY32 0

static inline float dory_real(float value)
{
  volatile float rounded = value;
  return rounded;
}

/* The integer next to a value, ties to even; beyond 2^22 some one that is. */
static inline int32_t dory_even(float value)
{
  const float limit = 4194304.0f; /* 2^22: sums with 3 * 2^22 have no digits behind the point */
  const float inside = value < -limit ? -limit : value > limit ? limit : value;
  const float whole = dory_real(dory_real(inside + 3.0f * limit) - 3.0f * limit);
  return (int32_t)whole;
}

#endif
