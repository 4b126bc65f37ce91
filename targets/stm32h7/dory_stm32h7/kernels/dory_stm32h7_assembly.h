/* Pieces of assembly for one requantisation step with immediate bounds: its last instruction, and
 * the store of an output. DORY_CLIP, DORY_CLIP_BITS, DORY_SHIFT and DORY_Y_BITS are those of the
 * instance. */
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

#endif
