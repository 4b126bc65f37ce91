/* The last strip of dory_gap8_depthwise_3x3_impl.h for XpulpV2 where it has one or two outputs along a,
 * half of what others have: included by that file. It reads one block fewer, and nothing follows it.
 *
 * Sums of both outputs lie in a0 and a1, what becomes of them in a2 and a3, their places in a6 and a7,
 * the step from one place to the next in t2; multiplier, addend, shift and upper bound in t3 .. t6,
 * the second limb in s11 and s10. The bound of a clamp is in t0, an offset of the sums in t1; with two
 * addends t6 is what is added below zero. Forms that look for ties use t0 and t1. s8 points to parameters, s9 to weights.
 *
 *   stride 1   weights of the three tap columns in s0 .. s5, each as it is and one row later, two
 *              columns of inputs in s6 and s7, a pointer to the block in a4, outputs left over in a5
 *   stride 2   weights in s0, s2, s4, a column of inputs in s6 and s7, pointers in a4 and a5, the
 *              order of a shuffle in s3
 *
 * ra points to the arguments. No instruction of a loop uses what the one before it loaded. */

#include "dory_gap8_depthwise_3x3_asm.h"

#define DORY_HALF_NAME DORY_TEXT(DORY_KERNEL) "_half"

void dory_half_run(dory_strip_t *s) __asm__(DORY_HALF_NAME);

/* -- from sums to outputs -- */

#if DORY_Q_TURNED
#define DORY_HALF_TURN               \
  DORY_I("add a1, a1, t1")           \
  DORY_I("add a0, a0, t1")
#define DORY_HALF_BELOW              \
  DORY_I("srli a1, a1, 31")          \
  DORY_I("srli a0, a0, 31")          \
  DORY_I("p.mac a3, a1, t6")         \
  DORY_I("p.mac a2, a0, t6")
#define DORY_HALF_LOAD_OFFSET DORY_I("p.lw t1, 4(s8!)")
#define DORY_HALF_LOAD_BELOW DORY_I("p.lw t6, 4(s8!)")
#else
#define DORY_HALF_TURN
#define DORY_HALF_BELOW
#define DORY_HALF_LOAD_OFFSET
#define DORY_HALF_LOAD_BELOW
#endif

#if DORY_Q_REACH
#define DORY_HALF_CLAMP              \
  DORY_I("p.clipr a1, a1, t0")       \
  DORY_I("p.clipr a0, a0, t0")
#define DORY_HALF_LOAD_REACH DORY_I("p.lw t0, 4(s8!)")
#else
#define DORY_HALF_CLAMP
#define DORY_HALF_LOAD_REACH
#endif

#if DORY_Q_FORM == DORY_Q_LIMBS
#define DORY_HALF_VALUES             \
  DORY_I("mul a3, a1, s11")          \
  DORY_I("mul a2, a0, s11")          \
  DORY_I("sra a3, a3, s10")          \
  DORY_I("sra a2, a2, s10")          \
  DORY_I("p.mac a3, a1, t3")         \
  DORY_I("p.mac a2, a0, t3")
#define DORY_HALF_LOAD_LOW DORY_I("p.lw s11, 4(s8!)")
#else
#define DORY_HALF_VALUES             \
  DORY_SHIFT_UP(a1)                  \
  DORY_SHIFT_UP(a0)                  \
  DORY_I(DORY_PRODUCT "a3, a1, t3")  \
  DORY_I(DORY_PRODUCT "a2, a0, t3")
#define DORY_HALF_LOAD_LOW
#endif

#if DORY_Q_FORM == DORY_Q_EVEN
#undef DORY_EVEN_V
#undef DORY_EVEN_T
#undef DORY_EVEN_OFFSET
#define DORY_EVEN_V "t0"
#define DORY_EVEN_T "t1"
#define DORY_EVEN_OFFSET DORY_I("lw s1, -4(s8)")
#define DORY_HALF_OUTPUT(label)      \
  DORY_STORE_EVEN(a1, a7, "")        \
  DORY_STORE_EVEN(a0, a6, label)
#else
#define DORY_HALF_OUTPUT(label)      \
  DORY_HALF_TURN                     \
  DORY_HALF_CLAMP                    \
  DORY_HALF_VALUES                   \
  DORY_HALF_BELOW                    \
  DORY_I("p.addNr a3, t4, t5")       \
  DORY_I("p.addNr a2, t4, t5")       \
  DORY_CLIP(a3)                      \
  DORY_CLIP(a2)                      \
  DORY_I("p.sb a3, t2(a7!)")         \
  label DORY_I("p.sb a2, t2(a6!)")
#endif

/* -- parameters: of each channel, or of all -- */

#define DORY_HALF_LOADS              \
  DORY_HALF_LOAD_OFFSET              \
  DORY_HALF_LOAD_REACH               \
  DORY_HALF_LOAD_LOW                 \
  DORY_I("p.lw t3, 4(s8!)")          \
  DORY_I("p.lw t4, 4(s8!)")          \
  DORY_HALF_LOAD_BELOW               \
  DORY_LOAD_SHIFT(s8)

#if DORY_PER_CHANNEL
#define DORY_HALF_LOADS_ONCE
#define DORY_HALF_LOADS_EACH DORY_HALF_LOADS
#else
#define DORY_HALF_LOADS_ONCE DORY_HALF_LOADS
#define DORY_HALF_LOADS_EACH
#endif

/* -- sums -- */

#define DORY_HALF_DOT(dot, sum, x, w) DORY_I(dot #sum ", " #x ", " #w)

#if DORY_STRIDE == 1

/* Outputs from the columns u (the older one, replaced by the next) and v. */
#define DORY_HALF_PAIR(u, v, label)        \
  DORY_HALF_DOT(DORY_START, a0, u, s0)     \
  DORY_HALF_DOT(DORY_START, a1, u, s1)     \
  DORY_I("p.lw " #u ", 16(a4!)")           \
  DORY_HALF_DOT(DORY_ADD, a0, v, s2)       \
  DORY_HALF_DOT(DORY_ADD, a1, v, s3)       \
  DORY_HALF_DOT(DORY_ADD, a0, u, s4)       \
  DORY_HALF_DOT(DORY_ADD, a1, u, s5)       \
  DORY_HALF_OUTPUT(label)

#define DORY_HALF_SET_UP DORY_I("lw a5, " DORY_AT_REST)

#define DORY_HALF_CHANNEL                  \
  DORY_I("lw a0, " DORY_AT_LOOPS)          \
  DORY_I("p.lw s6, 16(a4!)")               \
  DORY_I("p.lw s7, 16(a4!)")               \
  DORY_I("slli s1, s0, 8")                 \
  DORY_I("slli s3, s2, 8")                 \
  DORY_I("slli s5, s4, 8")                 \
  DORY_I("beqz a0, 2f")                    \
  DORY_ALIGN DORY_I("lp.setup x0, a0, 1f") \
  DORY_HALF_PAIR(s6, s7, "")               \
  DORY_HALF_PAIR(s7, s6, "1: ")            \
  "2: " DORY_I("beqz a5, 3f")              \
  DORY_HALF_PAIR(s6, s7, "")               \
  "3: "

#define DORY_HALF_BACK "4: " DORY_I("sub a4, a4, a1")

#undef DORY_BLOCKS_END
#define DORY_BLOCKS_END "4"

#else

/* Rows 0..3 and 2..5 of the next column, the second ones behind `between`. */
#define DORY_HALF_COLUMN(between)          \
  DORY_I("p.lw s6, 16(a4!)")               \
  DORY_I("p.lw s7, 16(a5!)")               \
  between                                  \
  DORY_I("pv.shuffle2.b s7, s6, s3")

#define DORY_HALF_SET_UP                   \
  DORY_I("lw a5, " DORY_AT_SECOND)         \
  DORY_I("li s3, " DORY_ORDER)             \
  DORY_I("add a5, a5, a3")

#define DORY_HALF_CHANNEL                                \
  DORY_HALF_COLUMN(DORY_I("lw a0, " DORY_AT_LOOPS))      \
  DORY_ALIGN DORY_I("lp.setup x0, a0, 1f")               \
  DORY_HALF_DOT(DORY_START, a0, s6, s0)                  \
  DORY_HALF_DOT(DORY_START, a1, s7, s0)                  \
  DORY_HALF_COLUMN(DORY_HALF_DOT(DORY_ADD, a0, s6, s2))  \
  DORY_HALF_DOT(DORY_ADD, a1, s7, s2)                    \
  DORY_HALF_COLUMN(DORY_HALF_DOT(DORY_ADD, a0, s6, s4))  \
  DORY_HALF_DOT(DORY_ADD, a1, s7, s4)                    \
  DORY_HALF_OUTPUT("1: ")

#define DORY_HALF_BACK               \
  DORY_I("sub a5, a5, a1")           \
  "4: " DORY_I("sub a4, a4, a1")

#undef DORY_BLOCKS_END
#define DORY_BLOCKS_END "8"

#endif

/* -- the function -- */

__asm__(DORY_FUNCTION(DORY_HALF_NAME)
        DORY_I("addi sp, sp, -64")
        DORY_SAVED("sw")
        DORY_I("mv ra, a0")
        DORY_LAY
        DORY_I("lw a0, " DORY_AT_LEFT)
        DORY_I("lw a1, " DORY_AT_Y_ROW)
        DORY_I("lw a6, " DORY_AT_Y)
        DORY_I("lw a4, " DORY_AT_FIRST)
        DORY_PLACE(a7, a6, 1)
        DORY_I("lw a3, " DORY_AT_LANE)
        DORY_I("lw s8, " DORY_AT_PARAMETERS)
        DORY_I("lw s9, " DORY_AT_WEIGHTS)
        DORY_I("add a4, a4, a3")
        DORY_I("lw a2, " DORY_AT_CHANNELS)
        DORY_I("lw t2, " DORY_AT_STEP)
        DORY_I("lw t5, " DORY_AT_SHIFT)
        DORY_I("lw t6, " DORY_AT_HI)
        DORY_I("lw s10, " DORY_AT_LOW_BITS)
        DORY_LOAD_UP
        DORY_HALF_SET_UP
        DORY_HALF_LOADS_ONCE
        DORY_I("lp.setup x1, a2, 4f")
        DORY_I("p.lw s0, 4(s9!)")
        DORY_I("p.lw s2, 4(s9!)")
        DORY_I("p.lw s4, 4(s9!)")
        DORY_HALF_LOADS_EACH
        DORY_HALF_CHANNEL
        DORY_I("lw a0, " DORY_AT_Y_BACK)
        DORY_I("lw a1, " DORY_AT_X_BACK)
        DORY_I("sub a6, a6, a0")
        DORY_I("sub a7, a7, a0")
        DORY_HALF_BACK
        DORY_SAVED("lw")
        DORY_I("addi sp, sp, 64")
        DORY_I("ret")
        DORY_COLD
        DORY_FUNCTION_END(DORY_HALF_NAME));
