/* Pieces of assembly for one requantisation step with immediate bounds: its last instruction, the
 * outputs of two channels, and the store of an output. DORY_BINARY32, DORY_TURNED, DORY_CLIP,
 * DORY_CLIP_BITS, DORY_SHIFT and DORY_Y_BITS are those of the instance. */
#ifndef DORY_STM32H7_ASSEMBLY_H
#define DORY_STM32H7_ASSEMBLY_H

#define DORY_STRING_(text) #text
#define DORY_STRING(text) DORY_STRING_(text)

#if DORY_CLIP == DORY_UNSIGNED
#define DORY_SATURATE "usat"
#else
#define DORY_SATURATE "ssat"
#endif
#if DORY_SHIFT > 32
#define DORY_BEHIND ", asr #" DORY_STRING(DORY_SHIFT) "-32"
#else
#define DORY_BEHIND ""
#endif
#if DORY_Y_BITS == 8
#define DORY_STORE "strb"
#elif DORY_Y_BITS == 16
#define DORY_STORE "strh"
#else
#define DORY_STORE "str"
#endif

/* Register `to` becomes the output of the upper word `from` of product and addend. */
#define DORY_SATURATED(to, from) \
  DORY_SATURATE " " to ", #" DORY_STRING(DORY_CLIP_BITS) ", " from DORY_BEHIND "\n"

/* DORY_RECORDS: bytes of the parameters of two channels. DORY_CHANNEL_OUTPUTS: outputs of the sums a
 * and b of two channels, whose parameters lie `at` bytes behind the register q. Needs r7 to r12. */
#if DORY_BINARY32
#define DORY_RECORDS "24"
#define DORY_CHANNEL_OUTPUTS(a, b, q, at) \
  "ldr r7, [" q ", #" at "+8]\n ldr r8, [" q ", #" at "+20]\n ldr r9, [" q ", #" at "]\n" \
  "add " a ", " a ", r7\n ldr r10, [" q ", #" at "+12]\n add " b ", " b ", r8\n" \
  "vmov s0, " a "\n ldr r11, [" q ", #" at "+4]\n vmov s1, " b "\n ldr r12, [" q ", #" at "+16]\n" \
  "vcvt.f32.s32 s0, s0\n vmov s2, r9\n vcvt.f32.s32 s1, s1\n vmov s3, r10\n" \
  "vmul.f32 s0, s0, s2\n vmul.f32 s1, s1, s3\n vcvtn.s32.f32 s0, s0\n vcvtn.s32.f32 s1, s1\n" \
  "vmov " a ", s0\n vmov " b ", s1\n add " a ", " a ", r11\n add " b ", " b ", r12\n" \
  DORY_SATURATED(a, a) DORY_SATURATED(b, b)
#elif DORY_TURNED
#define DORY_RECORDS "40"
#define DORY_CHANNEL_OUTPUTS(a, b, q, at) \
  "ldr r7, [" q ", #" at "+12]\n ldr r8, [" q ", #" at "+16]\n add " a ", " a ", r7\n" \
  "ldr r9, [" q ", #" at "+32]\n ldr r10, [" q ", #" at "+36]\n add " b ", " b ", r9\n" \
  "ldr r7, [" q ", #" at "+4]\n ldr r9, [" q ", #" at "+24]\n bic r8, r8, " a ", asr #31\n" \
  "ldr r11, [" q ", #" at "+8]\n ldr r12, [" q ", #" at "]\n bic r10, r10, " b ", asr #31\n" \
  "adds r7, r7, r8\n adc r11, r11, #0\n ldr r8, [" q ", #" at "+28]\n" \
  "smlal r7, r11, r12, " a "\n adds r9, r9, r10\n ldr r12, [" q ", #" at "+20]\n" \
  "adc r8, r8, #0\n smlal r9, r8, r12, " b "\n" \
  DORY_SATURATED(a, "r11") DORY_SATURATED(b, "r8")
#else
#define DORY_RECORDS "24"
#define DORY_CHANNEL_OUTPUTS(a, b, q, at) \
  "ldr r7, [" q ", #" at "]\n ldr r8, [" q ", #" at "+4]\n ldr r9, [" q ", #" at "+8]\n" \
  "ldr r10, [" q ", #" at "+12]\n ldr r11, [" q ", #" at "+16]\n smlal r8, r9, r7, " a "\n" \
  "ldr r12, [" q ", #" at "+20]\n smlal r11, r12, r10, " b "\n" \
  DORY_SATURATED(a, "r9") DORY_SATURATED(b, "r12")
#endif

#endif
