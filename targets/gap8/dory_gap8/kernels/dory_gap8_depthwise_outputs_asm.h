/* What strips of depthwise convolutions in assembly share: the parameters of a channel, and the way
 * from four sums to the bytes that are stored. Included by the assembly of filters up to 3x3
 * (DORY_STRIDE 1 or 2) and of any window (no DORY_STRIDE).
 *
 * Sums of the four outputs of a strip lie in a0 .. a3, their places in a6, a7, t0, t1, the step from
 * one place to the next in t2; multiplier, addend, shift and upper bound in t3 .. t6. Forms of two
 * limbs or two addends use ra too. A bound is in s11 or, with two limbs, fetched to ra; with stride 2
 * it is in s5. Where the upper word of a product counts, the bits by which sums are shifted first are
 * in s11; forms that look for ties use ra and s10, too. */

#include "dory_gap8_function_asm.h"

#define DORY_STRIP_NAME DORY_TEXT(DORY_KERNEL) "_strip"

void dory_strip_run(dory_strip_t *s) __asm__(DORY_STRIP_NAME);

/* The frame: what has no register. */
#define DORY_FRAME_ARGUMENTS "0(sp)"
#define DORY_FRAME_REACH "4(sp)"
#define DORY_FRAME_OFFSET "64(sp)"
#define DORY_FRAME_WEIGHTS "68(sp)"
#define DORY_FRAME_PARAMETERS "72(sp)"

#define DORY_SAVED(op)                                                                        \
  DORY_I(op " ra, 12(sp)") DORY_I(op " s0, 16(sp)") DORY_I(op " s1, 20(sp)")                  \
  DORY_I(op " s2, 24(sp)") DORY_I(op " s3, 28(sp)") DORY_I(op " s4, 32(sp)")                  \
  DORY_I(op " s5, 36(sp)") DORY_I(op " s6, 40(sp)") DORY_I(op " s7, 44(sp)")                  \
  DORY_I(op " s8, 48(sp)") DORY_I(op " s9, 52(sp)") DORY_I(op " s10, 56(sp)")                 \
  DORY_I(op " s11, 60(sp)")

#if DORY_X_SIGNED
#define DORY_START "pv.dotsp.b "
#define DORY_ADD "pv.sdotsp.b "
#else
#define DORY_START "pv.dotusp.b "
#define DORY_ADD "pv.sdotusp.b "
#endif

/* -- parameters of a channel, from a1 -- */

#if DORY_Q_FORM == DORY_Q_LIMBS
#define DORY_LOAD_LOW DORY_I("p.lw s11, 4(a1!)")
#else
#define DORY_LOAD_LOW
#endif

/* The upper word of the product of shifted sums; `pointer` goes through the parameters of a channel, of
 * which its shift is the last one. */
#if DORY_Q_FORM == DORY_Q_EVEN
#define DORY_LOAD_UP DORY_I("lw s11, " DORY_AT_LOW_BITS)
#define DORY_LOAD_SHIFT(pointer) DORY_I("p.lw t5, 8(" #pointer "!)")
#elif DORY_Q_FORM == DORY_Q_HIGH
#define DORY_PRODUCT "mulh "
#define DORY_LOAD_UP DORY_I("lw s11, " DORY_AT_LOW_BITS)
#define DORY_LOAD_SHIFT(pointer) DORY_I("p.lw t5, 4(" #pointer "!)")
#define DORY_SHIFT_UP(r) DORY_I("sll " #r ", " #r ", s11")
#else
#define DORY_PRODUCT "mul "
#define DORY_LOAD_UP
#if DORY_Q_SHIFTS
#define DORY_LOAD_SHIFT(pointer) DORY_I("p.lw t5, 4(" #pointer "!)")
#else
#define DORY_LOAD_SHIFT(pointer)
#endif
#define DORY_SHIFT_UP(r)
#endif
#define DORY_SHIFT_ALL_UP DORY_SHIFT_UP(a3) DORY_SHIFT_UP(a2) DORY_SHIFT_UP(a1) DORY_SHIFT_UP(a0)

/* The bounds of a clamp: in the frame where no register is left. */
#if !DORY_Q_REACH
#define DORY_LOAD_REACH
#define DORY_KEEP_REACH
#define DORY_FETCH_REACH
#define DORY_CLAMP
#else
#if DORY_STRIDE == 2
#define DORY_REACH "s5"
#elif DORY_Q_FORM == DORY_Q_LIMBS
#define DORY_REACH "ra"
#else
#define DORY_REACH "s11"
#endif
#if DORY_STRIDE != 2 && DORY_Q_FORM == DORY_Q_LIMBS
#define DORY_LOAD_REACH DORY_I("p.lw a2, 4(a1!)")
#define DORY_KEEP_REACH DORY_I("sw a2, " DORY_FRAME_REACH)
#define DORY_FETCH_REACH DORY_I("lw ra, " DORY_FRAME_REACH)
#else
#define DORY_LOAD_REACH DORY_I("p.lw " DORY_REACH ", 4(a1!)")
#define DORY_KEEP_REACH
#define DORY_FETCH_REACH
#endif
#define DORY_CLAMP                          \
  DORY_I("p.clipr a3, a3, " DORY_REACH)     \
  DORY_I("p.clipr a2, a2, " DORY_REACH)     \
  DORY_I("p.clipr a1, a1, " DORY_REACH)     \
  DORY_I("p.clipr a0, a0, " DORY_REACH)
#endif

/* An offset of the sums, from the frame; what is added to a product where its sum is negative then:
 * the sign, moved to its place of 1, multiplies it. */
#if DORY_Q_TURNED
#define DORY_LOAD_OFFSET DORY_I("p.lw a3, 4(a1!)")
#define DORY_KEEP_OFFSET DORY_I("sw a3, " DORY_FRAME_OFFSET)
#define DORY_LOAD_BELOW DORY_I("p.lw t6, 4(a1!)")
#define DORY_FETCH_OFFSET DORY_I("lw ra, " DORY_FRAME_OFFSET)
#define DORY_TURN                    \
  DORY_I("add a3, a3, ra")           \
  DORY_I("add a2, a2, ra")           \
  DORY_I("add a1, a1, ra")           \
  DORY_I("add a0, a0, ra")
#define DORY_BELOW(to, sum)                   \
  DORY_I("srli " #sum ", " #sum ", 31")       \
  DORY_I("p.mac " #to ", " #sum ", t6")
#else
#define DORY_LOAD_OFFSET
#define DORY_KEEP_OFFSET
#define DORY_LOAD_BELOW
#define DORY_FETCH_OFFSET
#define DORY_TURN
#define DORY_BELOW(to, sum)
#endif

#if DORY_PER_CHANNEL
#define DORY_NEXT_PARAMETERS DORY_I("sw a1, " DORY_FRAME_PARAMETERS)
#else
#define DORY_NEXT_PARAMETERS
#endif

/* -- from sums to outputs -- */

#if DORY_Q_TURNED && DORY_Q_CLIP == DORY_CLIP_UNSIGNED
#define DORY_CLIP(r) DORY_I("p.clipu " #r ", " #r ", 9")
#elif DORY_Q_TURNED
#define DORY_CLIP(r) DORY_I("p.clip " #r ", " #r ", 8")
#elif DORY_Q_CLIP == DORY_CLIP_UNSIGNED
#define DORY_CLIP(r) DORY_I("p.clipur " #r ", " #r ", t6")
#elif DORY_Q_CLIP == DORY_CLIP_SIGNED
#define DORY_CLIP(r) DORY_I("p.clipr " #r ", " #r ", t6")
#else
#define DORY_CLIP(r)
#endif

#if DORY_Q_FORM == DORY_Q_EVEN

/* A value and its fraction are in ra and s10, or where DORY_EVEN_V and DORY_EVEN_T say. */
#define DORY_EVEN_MUL "t3"
#define DORY_EVEN_ADD "t4"
#define DORY_EVEN_SHIFT "t5"
#ifndef DORY_EVEN_V
#define DORY_EVEN_V "ra"
#define DORY_EVEN_T "s10"
#endif
#ifndef DORY_EVEN_UP
#define DORY_EVEN_UP "s11"
#endif
#define DORY_EVEN_X 4 /* the place of a bound, which there is not */
#define DORY_EVEN_OFFSET                                             \
  DORY_I("lw s0, 72+" DORY_TEXT(DORY_EVEN_FRAME) "(sp)")             \
  DORY_I("nop")                                                      \
  DORY_I("lw s1, " DORY_OFFSET_OF_PARAMETERS "(s0)")
#if DORY_PER_CHANNEL
#define DORY_OFFSET_OF_PARAMETERS "-4"
#else
#define DORY_OFFSET_OF_PARAMETERS "12"
#endif
#include "dory_gap8_even_asm.h"

#define DORY_COLD DORY_EVEN_FALLS
#define DORY_FETCH_ARGUMENTS DORY_I("lw ra, " DORY_FRAME_ARGUMENTS)
#define DORY_FETCH_FIRST
#define DORY_STORE_EVEN(r, place, label) \
  DORY_EVEN(r)                           \
  DORY_CLIP(r)                           \
  label DORY_I("p.sb " #r ", t2(" #place "!)")
#define DORY_OUTPUT(label)        \
  DORY_STORE_EVEN(a3, t1, "")     \
  DORY_STORE_EVEN(a2, t0, "")     \
  DORY_STORE_EVEN(a1, a7, "")     \
  DORY_STORE_EVEN(a0, a6, label)

#elif DORY_Q_FORM == DORY_Q_LIMBS || DORY_Q_TURNED

#define DORY_FETCH_ARGUMENTS DORY_I("lw ra, " DORY_FRAME_ARGUMENTS)

/* mul_low in s11, low_bits in s10. The first value is made in ra, each of the others in the register
 * of the sum before, which is no longer needed. */
#if DORY_Q_FORM == DORY_Q_LIMBS
#define DORY_START_VALUE(to, sum) DORY_I("mul " #to ", " #sum ", s11")
#define DORY_LOW_SHIFT(to) DORY_I("sra " #to ", " #to ", s10")
#define DORY_HIGH(to, sum) DORY_I("p.mac " #to ", " #sum ", t3")
#else
#define DORY_START_VALUE(to, sum) DORY_I(DORY_PRODUCT #to ", " #sum ", t3")
#define DORY_LOW_SHIFT(to)
#define DORY_HIGH(to, sum)
#endif
#define DORY_FINISH(r) DORY_I("p.addNr " #r ", t4, t5")
#define DORY_OUTPUT(label)        \
  DORY_TURN                       \
  DORY_FETCH_CLAMP                \
  DORY_CLAMP                      \
  DORY_SHIFT_ALL_UP               \
  DORY_START_VALUE(ra, a3)        \
  DORY_LOW_SHIFT(ra)              \
  DORY_HIGH(ra, a3)               \
  DORY_BELOW(ra, a3)              \
  DORY_START_VALUE(a3, a2)        \
  DORY_FINISH(ra)                 \
  DORY_LOW_SHIFT(a3)              \
  DORY_CLIP(ra)                   \
  DORY_HIGH(a3, a2)               \
  DORY_I("p.sb ra, t2(t1!)")      \
  DORY_BELOW(a3, a2)              \
  DORY_START_VALUE(a2, a1)        \
  DORY_FINISH(a3)                 \
  DORY_LOW_SHIFT(a2)              \
  DORY_CLIP(a3)                   \
  DORY_HIGH(a2, a1)               \
  DORY_I("p.sb a3, t2(t0!)")      \
  DORY_BELOW(a2, a1)              \
  DORY_START_VALUE(a1, a0)        \
  DORY_FINISH(a2)                 \
  DORY_LOW_SHIFT(a1)              \
  DORY_CLIP(a2)                   \
  DORY_HIGH(a1, a0)               \
  DORY_I("p.sb a2, t2(a7!)")      \
  DORY_BELOW(a1, a0)              \
  DORY_FINISH(a1)                 \
  DORY_CLIP(a1)                   \
  label DORY_I("p.sb a1, t2(a6!)")
/* ra holds the offset before the clamp. */
#if DORY_Q_TURNED
#define DORY_FETCH_CLAMP DORY_FETCH_REACH
#define DORY_FETCH_FIRST DORY_FETCH_OFFSET
#else
#define DORY_FETCH_CLAMP
#define DORY_FETCH_FIRST DORY_FETCH_REACH
#endif

#else

#define DORY_FETCH_ARGUMENTS
#define DORY_FETCH_FIRST DORY_FETCH_REACH
#define DORY_EACH(op, rest)       \
  DORY_I(op " a3, " rest)         \
  DORY_I(op " a2, " rest)         \
  DORY_I(op " a1, " rest)         \
  DORY_I(op " a0, " rest)
#define DORY_OUTPUT(label)        \
  DORY_CLAMP                      \
  DORY_SHIFT_ALL_UP               \
  DORY_I(DORY_PRODUCT "a3, a3, t3") \
  DORY_I(DORY_PRODUCT "a2, a2, t3") \
  DORY_I(DORY_PRODUCT "a1, a1, t3") \
  DORY_I(DORY_PRODUCT "a0, a0, t3") \
  DORY_EACH("p.addNr", "t4, t5")  \
  DORY_CLIP(a3)                   \
  DORY_CLIP(a2)                   \
  DORY_CLIP(a1)                   \
  DORY_CLIP(a0)                   \
  DORY_I("p.sb a3, t2(t1!)")      \
  DORY_I("p.sb a2, t2(t0!)")      \
  DORY_I("p.sb a1, t2(a7!)")      \
  label DORY_I("p.sb a0, t2(a6!)")

#endif

#ifndef DORY_COLD
#define DORY_COLD
#endif
