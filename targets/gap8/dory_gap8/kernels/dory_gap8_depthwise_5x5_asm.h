/* The strips of dory_gap8_depthwise_5x5_impl.h for XpulpV2, and nothing else: included by that file.
 *
 * A step loads the four squares that a place along b adds, and multiplies them for the three outputs
 * along b, two along a each, that meet them: 4 loads and 18 dot products for two outputs. Sums of the
 * three lie in a0, a1, in a2, a3 and in s0, s1, and change roles from step to step; weights in s2 .. s10,
 * squares in t0 and t1, pointers to the blocks in a4 and a5, places of outputs in a6 and a7, the step
 * from one place to the next in t2; multiplier, addend, shift and upper bound in t3 .. t6. The bound of
 * a clamp or the lower part of the multiplier is in s11, low_bits in ra and, by which sums are shifted, s11. With two addends t6 is what is
 * added below zero, and the clip is that of a whole byte.
 *
 * Hardware loop 0 runs over squares that are laid and over outputs, loop 1 over channels; the end of a
 * hardware loop is its last instruction. */

/* What forms that look for ties use. */
#define DORY_EVEN_V "t0"
#define DORY_EVEN_T "t1"
#define DORY_EVEN_UP "ra"

#include "dory_gap8_depthwise_blocks_asm.h"

/* Fields of dory_strip_t, of dory_class_t, and the frame: what has no register. */
#define DORY_AT_EDGE_FIRST "112(ra)"
#define DORY_AT_EDGE_LAST "116(ra)"
#define DORY_AT_CLASS_COUNT "120(ra)"
#define DORY_AT_CLASSES "124"
#define DORY_CLASS_SKIPPED "0(a1)"
#define DORY_CLASS_Y "4(a1)"
#define DORY_CLASS_WEIGHTS "8(a1)"
#define DORY_CLASS_LOOPS "12(a1)"
#define DORY_CLASS_REST "16(a1)"
#define DORY_CLASS_X_BACK "20(a1)"
#define DORY_CLASS_Y_BACK "24(a1)"
#define DORY_CLASS_BYTES "28"
#define DORY_FRAME_LOOPS "76(sp)"
#define DORY_FRAME_REST "80(sp)"
#define DORY_FRAME_X_BACK "84(sp)"
#define DORY_FRAME_Y_BACK "88(sp)"
#define DORY_FRAME_CLASS_COUNT "92(sp)"
#define DORY_FRAME_CLASS "96(sp)"

#if DORY_CLASSES == 1
#define DORY_SPREAD_TEXT "1"
#define DORY_SPREAD_ROWS(r)
#define DORY_NEXT_FILTER
#define DORY_ROWS_TEXT "2"
#define DORY_ROWS_SHIFT "1"
#else
#define DORY_SPREAD_TEXT "2"
#define DORY_SPREAD_ROWS(r) DORY_I("slli " #r ", " #r ", 1")
/* The same class of the next channel. */
#define DORY_NEXT_FILTER DORY_I("addi a0, a0, 108")
#define DORY_ROWS_TEXT "4"
#define DORY_ROWS_SHIFT "2"
#endif

/* -- sums -- */

#define DORY_DOT(dot, sum, x, w) DORY_I(dot #sum ", " #x ", " #w)

/* The squares of a place: three times three that begin with it, then those that began one and two
 * places before. */
#define DORY_STARTED(a, b, w0, w1, w2)            \
  DORY_I("p.lw t0, 16(a4!)")                      \
  DORY_I("p.lw t1, 16(a4!)")                      \
  DORY_DOT(DORY_START, a, t0, w0)                 \
  DORY_I("p.lw t0, 16(a5!)")                      \
  DORY_DOT(DORY_ADD, a, t1, w1)                   \
  DORY_DOT(DORY_START, b, t1, w0)                 \
  DORY_I("p.lw t1, 16(a5!)")                      \
  DORY_DOT(DORY_ADD, a, t0, w2)                   \
  DORY_DOT(DORY_ADD, b, t0, w1)                   \
  DORY_DOT(DORY_ADD, b, t1, w2)
#define DORY_SECOND_PLACE                         \
  DORY_I("p.lw t0, 16(a4!)")                      \
  DORY_I("p.lw t1, 16(a4!)")                      \
  DORY_DOT(DORY_ADD, a0, t0, s5)                  \
  DORY_DOT(DORY_START, a2, t0, s2)                \
  DORY_I("p.lw t0, 16(a5!)")                      \
  DORY_DOT(DORY_ADD, a0, t1, s6)                  \
  DORY_DOT(DORY_ADD, a1, t1, s5)                  \
  DORY_DOT(DORY_ADD, a2, t1, s3)                  \
  DORY_DOT(DORY_START, a3, t1, s2)                \
  DORY_I("p.lw t1, 16(a5!)")                      \
  DORY_DOT(DORY_ADD, a0, t0, s7)                  \
  DORY_DOT(DORY_ADD, a1, t0, s6)                  \
  DORY_DOT(DORY_ADD, a2, t0, s4)                  \
  DORY_DOT(DORY_ADD, a3, t0, s3)                  \
  DORY_DOT(DORY_ADD, a1, t1, s7)                  \
  DORY_DOT(DORY_ADD, a3, t1, s4)

/* A step: sums p, q end, r, u are one place on, v, w start; then the outputs of p and q. */
#define DORY_OUTPUT_STEP(p, q, r, u, v, w, label) \
  DORY_I("p.lw t0, 16(a4!)")                      \
  DORY_I("p.lw t1, 16(a4!)")                      \
  DORY_DOT(DORY_ADD, p, t0, s8)                   \
  DORY_DOT(DORY_ADD, r, t0, s5)                   \
  DORY_DOT(DORY_START, v, t0, s2)                 \
  DORY_I("p.lw t0, 16(a5!)")                      \
  DORY_DOT(DORY_ADD, p, t1, s9)                   \
  DORY_DOT(DORY_ADD, q, t1, s8)                   \
  DORY_DOT(DORY_ADD, r, t1, s6)                   \
  DORY_DOT(DORY_ADD, u, t1, s5)                   \
  DORY_DOT(DORY_ADD, v, t1, s3)                   \
  DORY_DOT(DORY_START, w, t1, s2)                 \
  DORY_I("p.lw t1, 16(a5!)")                      \
  DORY_DOT(DORY_ADD, p, t0, s10)                  \
  DORY_DOT(DORY_ADD, q, t0, s9)                   \
  DORY_DOT(DORY_ADD, r, t0, s7)                   \
  DORY_DOT(DORY_ADD, u, t0, s6)                   \
  DORY_DOT(DORY_ADD, v, t0, s4)                   \
  DORY_DOT(DORY_ADD, w, t0, s3)                   \
  DORY_FETCH_T0                                   \
  DORY_DOT(DORY_ADD, q, t1, s10)                  \
  DORY_DOT(DORY_ADD, u, t1, s7)                   \
  DORY_DOT(DORY_ADD, w, t1, s4)                   \
  DORY_TWO(p, q, label)

/* -- from sums to outputs -- */

#if DORY_Q_TURNED
#define DORY_FETCH_T0 DORY_I("lw t0, " DORY_FRAME_OFFSET)
#define DORY_TURN_TWO(p, q)                       \
  DORY_I("add " #q ", " #q ", t0")                \
  DORY_I("add " #p ", " #p ", t0")
#define DORY_BELOW_TWO(p, q)                      \
  DORY_I("srli " #q ", " #q ", 31")               \
  DORY_I("srli " #p ", " #p ", 31")               \
  DORY_I("p.mac t0, " #q ", t6")                  \
  DORY_I("p.mac t1, " #p ", t6")
#else
#define DORY_TURN_TWO(p, q)
#define DORY_BELOW_TWO(p, q)
#endif

/* The bound of a clamp, from the frame where no register is left. */
#if !DORY_Q_REACH || DORY_Q_FORM != DORY_Q_LIMBS
#define DORY_BOUND "s11"
#elif DORY_Q_TURNED
#define DORY_BOUND "t1"
#define DORY_FETCH_T1 DORY_I("lw t1, " DORY_FRAME_REACH)
#else
#define DORY_BOUND "t0"
#define DORY_FETCH_T0 DORY_I("lw t0, " DORY_FRAME_REACH)
#endif
#ifndef DORY_FETCH_T0
#define DORY_FETCH_T0
#endif
#ifndef DORY_FETCH_T1
#define DORY_FETCH_T1
#endif
#if DORY_Q_REACH
#define DORY_CLAMP_TWO(p, q)                      \
  DORY_I("p.clipr " #q ", " #q ", " DORY_BOUND)   \
  DORY_I("p.clipr " #p ", " #p ", " DORY_BOUND)
#else
#define DORY_CLAMP_TWO(p, q)
#endif

#if DORY_Q_FORM == DORY_Q_LIMBS
#define DORY_VALUES(p, q)                         \
  DORY_I("mul t0, " #q ", s11")                   \
  DORY_I("mul t1, " #p ", s11")                   \
  DORY_I("sra t0, t0, ra")                        \
  DORY_I("sra t1, t1, ra")                        \
  DORY_I("p.mac t0, " #q ", t3")                  \
  DORY_I("p.mac t1, " #p ", t3")
#else
#define DORY_VALUES(p, q)                         \
  DORY_SHIFT_UP(q)                                \
  DORY_SHIFT_UP(p)                                \
  DORY_I(DORY_PRODUCT "t0, " #q ", t3")           \
  DORY_I(DORY_PRODUCT "t1, " #p ", t3")
#endif
#if DORY_Q_FORM == DORY_Q_EVEN
#define DORY_TWO(p, q, label)                     \
  DORY_STORE_EVEN(q, a7, "")                      \
  DORY_STORE_EVEN(p, a6, label)
#else
#define DORY_TWO(p, q, label)                     \
  DORY_FETCH_T1                                   \
  DORY_TURN_TWO(p, q)                             \
  DORY_CLAMP_TWO(p, q)                            \
  DORY_VALUES(p, q)                               \
  DORY_BELOW_TWO(p, q)                            \
  DORY_I("p.addNr t0, t4, t5")                    \
  DORY_I("p.addNr t1, t4, t5")                    \
  DORY_CLIP(t0)                                   \
  DORY_CLIP(t1)                                   \
  DORY_I("p.sb t0, t2(a7!)")                      \
  label DORY_I("p.sb t1, t2(a6!)")
#endif

/* -- rows of the tile, transposed -- */

#define DORY_TWO_ROWS(t0, t1, s0, s1, label)      \
  DORY_I(t0)                                      \
  DORY_I(t1)                                      \
  DORY_I(s0)                                      \
  DORY_I(s1)                                      \
  DORY_TRANSPOSED(label)
#define DORY_PADDING(r) "lw " #r ", 0(s3)"
#define DORY_PIXEL(r, step, row) "p.lw " #r ", " #step "(" #row "!)"

/* Squares of both rows: the first one where its first column is padding, those with two columns of the
 * tile, the last one where its second column is padding. */
#define DORY_LAY_BLOCK                                                                              \
  DORY_I("lw t0, " DORY_AT_EDGE_FIRST)                                                              \
  DORY_I("beqz t0, 2f")                                                                             \
  DORY_TWO_ROWS(DORY_PADDING(t0), DORY_PIXEL(t1, a4, a0), DORY_PADDING(s0), DORY_PIXEL(s1, a5, a1), \
                "")                                                                                 \
  DORY_TWO_ROWS(DORY_PADDING(t0), DORY_PIXEL(t1, a6, a2), DORY_PADDING(s0), DORY_PIXEL(s1, a7, a3), \
                "")                                                                                 \
  "2: " DORY_I("beqz s9, 8f")                                                                       \
  DORY_ALIGN DORY_I("lp.setup x0, s9, 1f")                                                          \
  DORY_TWO_ROWS(DORY_PIXEL(t0, a4, a0), DORY_PIXEL(t1, a4, a0), DORY_PIXEL(s0, a5, a1),             \
                DORY_PIXEL(s1, a5, a1), "")                                                         \
  DORY_TWO_ROWS(DORY_PIXEL(t0, a6, a2), DORY_PIXEL(t1, a6, a2), DORY_PIXEL(s0, a7, a3),             \
                DORY_PIXEL(s1, a7, a3), "1: ")                                                      \
  "8: " DORY_I("lw t0, " DORY_AT_EDGE_LAST)                                                         \
  DORY_I("beqz t0, 2f")                                                                             \
  DORY_TWO_ROWS(DORY_PIXEL(t0, a4, a0), DORY_PADDING(t1), DORY_PIXEL(s0, a5, a1), DORY_PADDING(s1), \
                "")                                                                                 \
  DORY_TWO_ROWS(DORY_PIXEL(t0, a6, a2), DORY_PADDING(t1), DORY_PIXEL(s0, a7, a3), DORY_PADDING(s1), \
                "")                                                                                 \
  "2: "
#define DORY_BLOCKS_END "8"

/* -- the function -- */

__asm__(DORY_FUNCTION(DORY_STRIP_NAME)
        DORY_I("addi sp, sp, -112")
        DORY_SAVED("sw")
        DORY_I("mv ra, a0")
        DORY_I("sw a0, " DORY_FRAME_ARGUMENTS)
        "5: "
        DORY_LAY
        DORY_I("lw a0, " DORY_AT_CLASS_COUNT)
        DORY_I("addi a1, ra, " DORY_AT_CLASSES)
        DORY_I("sw a0, " DORY_FRAME_CLASS_COUNT)
        /* A class: its first two outputs along a, the second one at the place of the first one where
         * the tile ends before it. */
        "9: " DORY_I("lw a2, " DORY_CLASS_SKIPPED)
        DORY_I("lw a0, " DORY_AT_LEFT)
        DORY_I("sw a1, " DORY_FRAME_CLASS)
        DORY_I("lw a6, " DORY_AT_Y)
        DORY_I("bge a2, a0, 10f")
        DORY_I("lw a3, " DORY_CLASS_Y)
        DORY_I("lw a5, " DORY_AT_Y_ROW)
        DORY_I("addi a2, a2, " DORY_SPREAD_TEXT)
        DORY_I("add a6, a6, a3")
        DORY_SPREAD_ROWS(a5)
        DORY_I("mv a7, a6")
        DORY_I("bge a2, a0, 1f")
        DORY_I("add a7, a7, a5")
        "1: " DORY_I("lw a0, " DORY_AT_WEIGHTS)
        DORY_I("lw a2, " DORY_CLASS_WEIGHTS)
        DORY_I("lw a3, " DORY_AT_PARAMETERS)
        DORY_I("add a0, a0, a2")
        DORY_I("sw a3, " DORY_FRAME_PARAMETERS)
        DORY_I("sw a0, " DORY_FRAME_WEIGHTS)
        DORY_I("lw a0, " DORY_CLASS_LOOPS)
        DORY_I("lw a2, " DORY_CLASS_REST)
        DORY_I("lw a3, " DORY_CLASS_X_BACK)
        DORY_I("lw a4, " DORY_CLASS_Y_BACK)
        DORY_I("sw a0, " DORY_FRAME_LOOPS)
        DORY_I("sw a2, " DORY_FRAME_REST)
        DORY_I("sw a3, " DORY_FRAME_X_BACK)
        DORY_I("sw a4, " DORY_FRAME_Y_BACK)
        DORY_I("lw a3, " DORY_AT_LANE)
        DORY_I("lw a4, " DORY_AT_FIRST)
        DORY_I("lw a5, " DORY_AT_SECOND)
        DORY_I("lw a2, " DORY_AT_CHANNELS)
        DORY_I("lw t2, " DORY_AT_STEP)
        DORY_I("lw t5, " DORY_AT_SHIFT)
        DORY_I("lw t6, " DORY_AT_HI)
        DORY_I("add a4, a4, a3")
        DORY_I("add a5, a5, a3")
        DORY_LOAD_UP
        DORY_I("lw ra, " DORY_AT_LOW_BITS)
        DORY_I("lp.setup x1, a2, 4f")
        DORY_I("lw a0, " DORY_FRAME_WEIGHTS)
        DORY_I("lw a1, " DORY_FRAME_PARAMETERS)
        DORY_I("p.lw s2, 4(a0!)")
        DORY_I("p.lw s3, 4(a0!)")
        DORY_I("p.lw s4, 4(a0!)")
        DORY_I("p.lw s5, 4(a0!)")
        DORY_I("p.lw s6, 4(a0!)")
        DORY_I("p.lw s7, 4(a0!)")
        DORY_I("p.lw s8, 4(a0!)")
        DORY_I("p.lw s9, 4(a0!)")
        DORY_I("p.lw s10, 4(a0!)")
        DORY_LOAD_OFFSET
        DORY_LOAD_REACH
        DORY_LOAD_LOW
        DORY_I("p.lw t3, 4(a1!)")
        DORY_I("p.lw t4, 4(a1!)")
        DORY_LOAD_BELOW
        DORY_LOAD_SHIFT(a1)
        DORY_NEXT_FILTER
        DORY_I("sw a0, " DORY_FRAME_WEIGHTS)
        DORY_KEEP_REACH
        DORY_KEEP_OFFSET
        DORY_NEXT_PARAMETERS
        DORY_STARTED(a0, a1, s2, s3, s4)
        DORY_SECOND_PLACE
        DORY_I("lw t0, " DORY_FRAME_LOOPS)
        DORY_I("nop")
        DORY_I("beqz t0, 2f")
        DORY_ALIGN DORY_I("lp.setup x0, t0, 1f")
        DORY_OUTPUT_STEP(a0, a1, a2, a3, s0, s1, "")
        DORY_OUTPUT_STEP(a2, a3, s0, s1, a0, a1, "")
        DORY_OUTPUT_STEP(s0, s1, a0, a1, a2, a3, "1: ")
        "2: " DORY_I("lw t0, " DORY_FRAME_REST)
        DORY_I("nop")
        DORY_I("beqz t0, 3f")
        DORY_OUTPUT_STEP(a0, a1, a2, a3, s0, s1, "")
        DORY_I("lw t0, " DORY_FRAME_REST)
        DORY_I("li t1, 1")
        DORY_I("beq t0, t1, 3f")
        DORY_OUTPUT_STEP(a2, a3, s0, s1, a0, a1, "")
        "3: " DORY_I("lw t0, " DORY_FRAME_Y_BACK)
        DORY_I("lw t1, " DORY_FRAME_X_BACK)
        DORY_I("sub a6, a6, t0")
        DORY_I("sub a7, a7, t0")
        DORY_I("sub a4, a4, t1")
        "4: " DORY_I("sub a5, a5, t1")
        DORY_I("lw ra, " DORY_FRAME_ARGUMENTS)
        "10: " DORY_I("lw a0, " DORY_FRAME_CLASS_COUNT)
        DORY_I("lw a1, " DORY_FRAME_CLASS)
        DORY_I("addi a0, a0, -1")
        DORY_I("addi a1, a1, " DORY_CLASS_BYTES)
        DORY_I("sw a0, " DORY_FRAME_CLASS_COUNT)
        DORY_I("bnez a0, 9b")
        DORY_I("lw a0, " DORY_AT_FIRST)
        DORY_I("lw a1, " DORY_AT_SECOND)
        DORY_I("sw a0, " DORY_AT_SECOND)
        DORY_I("sw a1, " DORY_AT_FIRST)
        DORY_NEXT_STRIP(DORY_ROWS_TEXT, DORY_ROWS_SHIFT)
        DORY_SAVED("lw")
        DORY_I("addi sp, sp, 112")
        DORY_I("ret")
        DORY_COLD
        DORY_FUNCTION_END(DORY_STRIP_NAME));
