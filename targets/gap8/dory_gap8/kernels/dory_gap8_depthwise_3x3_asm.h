/* The strips of dory_gap8_depthwise_3x3_impl.h for XpulpV2, and nothing else: included by that file.
 *
 * Sums of the four outputs of a strip lie in a0 .. a3, their places in a6, a7, t0, t1, the step from
 * one place to the next in t2; multiplier, addend, shift and upper bound in t3 .. t6.
 *
 *   stride 1   weights of the three tap columns in s0 .. s5, each as it is and one row later, two
 *              columns of inputs in s6, s7 and s8, s9, pointers to the blocks in a4, a5
 *   stride 2   weights in s0, s2, s4, a column of inputs in s6 .. s9, pointers in a4, a5, s1
 *
 * ra points to the arguments but for forms of two limbs or two addends, where all registers are in
 * use. With two addends t6 is what is added below zero, and the clip is that of a whole byte. No
 * instruction of a loop uses what the one before it loaded, but the clamp behind an offset.
 *
 * Hardware loop 0 runs over columns and outputs, loop 1 over channels; the end of a hardware loop is
 * its last instruction. */

#include "dory_gap8_depthwise_blocks_asm.h"

/* The frame: what has no register. */
#define DORY_FRAME_ORDER "8(sp)"
#define DORY_FRAME_REST "76(sp)"

/* Bytes 6, 7, 0, 1: the last two elements of the second word, the first two of the first. */
#define DORY_ORDER "0x01000706"

/* -- sums -- */

#if DORY_STRIDE == 1

/* The order of the shuffle. */
#if DORY_Q_FORM == DORY_Q_LIMBS || DORY_Q_FORM == DORY_Q_EVEN
#define DORY_SHUFFLE_ORDER "ra"
#define DORY_FETCH_ORDER DORY_I("lw ra, " DORY_FRAME_ORDER)
#else
#define DORY_SHUFFLE_ORDER "s10"
#define DORY_FETCH_ORDER
#endif

/* A column of inputs times the weights of a tap column. */
#define DORY_DOTS(dot, upper, lower, even, odd)  \
  DORY_I(dot "a0, " #upper ", " #even)           \
  DORY_I(dot "a1, " #upper ", " #odd)            \
  DORY_I(dot "a2, " #lower ", " #even)           \
  DORY_I(dot "a3, " #lower ", " #odd)

/* Outputs from the columns u, l (the older one, replaced by the next) and v, m. */
#define DORY_QUAD(u, l, v, m, label)                              \
  DORY_DOTS(DORY_START, u, l, s0, s1)                             \
  DORY_FETCH_ORDER                                                \
  DORY_I("p.lw " #u ", 16(a4!)")                                  \
  DORY_I("p.lw " #l ", 16(a5!)")                                  \
  DORY_DOTS(DORY_ADD, v, m, s2, s3)                               \
  DORY_I("pv.shuffle2.b " #l ", " #u ", " DORY_SHUFFLE_ORDER)     \
  DORY_FETCH_FIRST                                                \
  DORY_DOTS(DORY_ADD, u, l, s4, s5)                               \
  DORY_OUTPUT(label)

#define DORY_FIRST_COLUMNS                                        \
  DORY_I("p.lw s6, 16(a4!)")                                      \
  DORY_I("p.lw s7, 16(a5!)")                                      \
  DORY_I("p.lw s8, 16(a4!)")                                      \
  DORY_I("p.lw s9, 16(a5!)")                                      \
  DORY_I("li a3, " DORY_ORDER)                                    \
  DORY_I("pv.shuffle2.b s7, s6, a3")                              \
  DORY_I("pv.shuffle2.b s9, s8, a3")                              \
  DORY_I("lw a0, " DORY_AT_LOOPS)                                 \
  DORY_I("slli s1, s0, 8")                                        \
  DORY_I("slli s3, s2, 8")                                        \
  DORY_I("slli s5, s4, 8")

#define DORY_OUTPUTS                                              \
  DORY_I("beqz a0, 2f")                                           \
  DORY_ALIGN DORY_I("lp.setup x0, a0, 1f")                        \
  DORY_QUAD(s6, s7, s8, s9, "")                                   \
  DORY_QUAD(s8, s9, s6, s7, "1: ")                                \
  "2: " DORY_I("lw a0, " DORY_FRAME_REST)                         \
  DORY_I("lw ra, " DORY_FRAME_ARGUMENTS)                          \
  DORY_I("beqz a0, 3f")                                           \
  DORY_QUAD(s6, s7, s8, s9, "")                                   \
  DORY_FETCH_ARGUMENTS                                            \
  "3: "

#if DORY_Q_FORM == DORY_Q_LIMBS || DORY_Q_FORM == DORY_Q_EVEN
#define DORY_SET_UP                          \
  DORY_I("li a3, " DORY_ORDER)               \
  DORY_I("sw a3, " DORY_FRAME_ORDER)         \
  DORY_I("lw s10, " DORY_AT_LOW_BITS)
#else
#define DORY_SET_UP DORY_I("li s10, " DORY_ORDER)
#endif
#define DORY_TURN_BACK_THIRD
#define DORY_BLOCKS_END "8"
#define DORY_ROTATE                  \
  DORY_I("lw a0, " DORY_AT_FIRST)    \
  DORY_I("lw a1, " DORY_AT_SECOND)   \
  DORY_I("sw a0, " DORY_AT_SECOND)   \
  DORY_I("sw a1, " DORY_AT_FIRST)

#else

#define DORY_DOTS(dot, w)            \
  DORY_I(dot "a0, s6, " #w)          \
  DORY_I(dot "a1, s7, " #w)          \
  DORY_I(dot "a2, s8, " #w)          \
  DORY_I(dot "a3, s9, " #w)

/* Rows 0..3, 2..5, 4..7, 6..9 of the next column. */
#define DORY_COLUMN                  \
  DORY_I("p.lw s6, 16(a4!)")         \
  DORY_I("p.lw s8, 16(a5!)")         \
  DORY_I("p.lw s9, 16(s1!)")         \
  DORY_I("mv s7, s8")                \
  DORY_I("pv.shuffle2.b s7, s6, s3") \
  DORY_I("pv.shuffle2.b s9, s8, s3")

#define DORY_FIRST_COLUMNS           \
  DORY_I("lw a0, " DORY_AT_LOOPS)    \
  DORY_COLUMN

#define DORY_OUTPUTS                 \
  DORY_ALIGN DORY_I("lp.setup x0, a0, 1f") \
  DORY_DOTS(DORY_START, s0)          \
  DORY_COLUMN                        \
  DORY_DOTS(DORY_ADD, s2)            \
  DORY_COLUMN                        \
  DORY_FETCH_FIRST                   \
  DORY_DOTS(DORY_ADD, s4)            \
  DORY_OUTPUT("1: ")                 \
  DORY_FETCH_ARGUMENTS

#define DORY_SET_UP                  \
  DORY_I("lw s10, " DORY_AT_LOW_BITS)\
  DORY_I("lw s1, " DORY_AT_THIRD)    \
  DORY_I("lw a0, " DORY_AT_LANE)     \
  DORY_I("li s3, " DORY_ORDER)       \
  DORY_I("add s1, s1, a0")
#define DORY_TURN_BACK_THIRD DORY_I("sub s1, s1, a1")
#define DORY_BLOCKS_END "12"
#define DORY_ROTATE                  \
  DORY_I("lw a0, " DORY_AT_FIRST)    \
  DORY_I("lw a1, " DORY_AT_SECOND)   \
  DORY_I("lw a2, " DORY_AT_THIRD)    \
  DORY_I("sw a0, " DORY_AT_SECOND)   \
  DORY_I("sw a1, " DORY_AT_THIRD)    \
  DORY_I("sw a2, " DORY_AT_FIRST)

#endif

/* -- rows of the tile, transposed -- */

/* A column of four rows. */
#define DORY_LAY_BLOCK                      \
  DORY_I("beqz s9, 8f")                     \
  DORY_ALIGN DORY_I("lp.setup x0, s9, 1f")  \
  DORY_I("p.lw t0, a4(a0!)")                \
  DORY_I("p.lw t1, a5(a1!)")                \
  DORY_I("p.lw s0, a6(a2!)")                \
  DORY_I("p.lw s1, a7(a3!)")                \
  DORY_TRANSPOSED("1: ")                    \
  "8: "

/* -- the function -- */

/* The place of the next output, at that of the one before where the tile ends before it. */
#define DORY_PLACE(place, before, number)   \
  DORY_I("li a2, " #number)                 \
  DORY_I("mv " #place ", " #before)         \
  DORY_I("bge a2, a0, 1f")                  \
  DORY_I("add " #place ", " #place ", a1")  \
  "1: "

__asm__(DORY_FUNCTION(DORY_STRIP_NAME)
        DORY_I("addi sp, sp, -80")
        DORY_SAVED("sw")
        DORY_I("mv ra, a0")
        DORY_I("lw a1, " DORY_AT_REST)
        DORY_I("sw a0, " DORY_FRAME_ARGUMENTS)
        DORY_I("sw a1, " DORY_FRAME_REST)
        "5: "
        DORY_LAY
        DORY_I("lw a0, " DORY_AT_LEFT)
        DORY_I("lw a1, " DORY_AT_Y_ROW)
        DORY_I("lw a6, " DORY_AT_Y)
        DORY_I("lw a4, " DORY_AT_FIRST)
        DORY_PLACE(a7, a6, 1)
        DORY_PLACE(t0, a7, 2)
        DORY_PLACE(t1, t0, 3)
        DORY_I("lw a3, " DORY_AT_LANE)
        DORY_I("lw a5, " DORY_AT_SECOND)
        DORY_I("lw a0, " DORY_AT_WEIGHTS)
        DORY_I("lw a1, " DORY_AT_PARAMETERS)
        DORY_I("add a4, a4, a3")
        DORY_I("add a5, a5, a3")
        DORY_I("sw a0, " DORY_FRAME_WEIGHTS)
        DORY_I("sw a1, " DORY_FRAME_PARAMETERS)
        DORY_I("lw a2, " DORY_AT_CHANNELS)
        DORY_I("lw t2, " DORY_AT_STEP)
        DORY_I("lw t5, " DORY_AT_SHIFT)
        DORY_I("lw t6, " DORY_AT_HI)
        DORY_LOAD_UP
        DORY_SET_UP
        DORY_I("lp.setup x1, a2, 4f")
        DORY_I("lw a0, " DORY_FRAME_WEIGHTS)
        DORY_I("lw a1, " DORY_FRAME_PARAMETERS)
        DORY_I("p.lw s0, 4(a0!)")
        DORY_I("p.lw s2, 4(a0!)")
        DORY_I("p.lw s4, 4(a0!)")
        DORY_LOAD_OFFSET
        DORY_LOAD_REACH
        DORY_LOAD_LOW
        DORY_I("p.lw t3, 4(a1!)")
        DORY_I("p.lw t4, 4(a1!)")
        DORY_LOAD_BELOW
        DORY_LOAD_SHIFT(a1)
        DORY_I("sw a0, " DORY_FRAME_WEIGHTS)
        DORY_KEEP_REACH
        DORY_KEEP_OFFSET
        DORY_NEXT_PARAMETERS
        DORY_FIRST_COLUMNS
        DORY_OUTPUTS
        DORY_I("lw a0, " DORY_AT_Y_BACK)
        DORY_I("lw a1, " DORY_AT_X_BACK)
        DORY_I("sub a6, a6, a0")
        DORY_I("sub a7, a7, a0")
        DORY_I("sub t0, t0, a0")
        DORY_I("sub t1, t1, a0")
        DORY_TURN_BACK_THIRD
        DORY_I("sub a4, a4, a1")
        "4: " DORY_I("sub a5, a5, a1")
        DORY_ROTATE
        DORY_NEXT_STRIP("4", "2")
        DORY_SAVED("lw")
        DORY_I("addi sp, sp, 80")
        DORY_I("ret")
        DORY_COLD
        DORY_FUNCTION_END(DORY_STRIP_NAME));
