/* The strip of dory_gap8_depthwise_any_impl.h for XpulpV2, and nothing else: included by that file.
 *
 * Two outputs along b at a time share the loads of weights: 6 loads and 8 dot products per word of
 * their inputs. Sums of the four outputs of the first lie in a0 .. a3, of the second in s0 .. s3,
 * weights in s4 .. s7, inputs in s8 and s9; pointers to the inputs in a4 and a5, to the weights in ra.
 * Registers of outputs are those of dory_gap8_depthwise_outputs_asm.h. Of an odd number of outputs
 * the last one is computed with a second one that is not stored.
 *
 * Hardware loop 0 runs over the words of a run, loop 1 over runs; the end of a hardware loop is its
 * last instruction. */

#include "dory_gap8_depthwise_outputs_asm.h"

/* Fields of dory_strip_t, and the frame: what has no register. */
#define DORY_AT_X "0(ra)"
#define DORY_AT_WEIGHTS "4(ra)"
#define DORY_AT_PARAMETERS "8(ra)"
#define DORY_AT_Y "12(ra)"
#define DORY_AT_PLACE1 "16(ra)"
#define DORY_AT_PLACE2 "20(ra)"
#define DORY_AT_PLACE3 "24(ra)"
#define DORY_AT_STEP "28(ra)"
#define DORY_AT_COUNT "32(ra)"
#define DORY_AT_X_STEP "36(ra)"
#define DORY_AT_RUNS "40(ra)"
#define DORY_AT_RUN_WORDS "44(ra)"
#define DORY_AT_RUN_SKIP "48(ra)"
#define DORY_AT_X_NEXT "52(ra)"
#define DORY_AT_LANE_BYTES "56(ra)"
#define DORY_AT_ROW "60(ra)"
#define DORY_AT_Y_BACK "64(ra)"
#define DORY_AT_CHANNELS "68(ra)"
#define DORY_AT_SHIFT "72(ra)"
#define DORY_AT_LOW_BITS "76(ra)"
#define DORY_AT_HI "80(ra)"
#define DORY_AT_BACK1 "84(ra)"
#define DORY_AT_BACK2 "88(ra)"
#define DORY_AT_BACK3 "92(ra)"
#define DORY_AT_BACK "96(ra)"
#define DORY_FRAME_COUNT "76(sp)"
#define DORY_FRAME_X "80(sp)"
#define DORY_FRAME_RUNS "84(sp)"
#define DORY_FRAME_RUN_WORDS "88(sp)"
#define DORY_FRAME_RUN_SKIP "92(sp)"
#define DORY_FRAME_X_NEXT "96(sp)"
#define DORY_FRAME_CHANNELS "100(sp)"
#define DORY_FRAME_BACK "104(sp)"

/* Two fields at once: no instruction waits for the one before it. */
#define DORY_COPY_TWO(to1, from1, to2, from2) \
  DORY_I("lw a0, " from1)                     \
  DORY_I("lw a1, " from2)                     \
  DORY_I("sw a0, " to1)                       \
  DORY_I("sw a1, " to2)

/* Of the last outputs of a line some may be beyond the tile; s9 counts those to come, as `back` does. */
#if DORY_LINE
#define DORY_LOAD_BACK DORY_I("lw a0, " DORY_AT_BACK)
#define DORY_KEEP_BACK DORY_I("sw a0, " DORY_FRAME_BACK)
#define DORY_LAST(label)                 \
  DORY_I("lw s8, " DORY_FRAME_BACK)      \
  DORY_I("bne s9, s8, " label "f")       \
  DORY_I("lw ra, " DORY_FRAME_ARGUMENTS) \
  DORY_I("lw s8, " DORY_AT_BACK1)        \
  DORY_I("lw s9, " DORY_AT_BACK2)        \
  DORY_I("lw ra, " DORY_AT_BACK3)        \
  DORY_I("sub a7, a7, s8")               \
  DORY_I("sub t0, t0, s9")               \
  DORY_I("sub t1, t1, ra")               \
  DORY_I("li s9, 1")                     \
  label ": "
#define DORY_NEXT_PLACES                 \
  DORY_I("lw a7, " DORY_AT_PLACE1)       \
  DORY_I("lw t0, " DORY_AT_PLACE2)       \
  DORY_I("lw t1, " DORY_AT_PLACE3)       \
  DORY_I("add a7, a7, a6")               \
  DORY_I("add t0, t0, a6")               \
  DORY_I("add t1, t1, a6")
#else
#define DORY_LOAD_BACK
#define DORY_KEEP_BACK
#define DORY_LAST(label)
#define DORY_NEXT_PLACES                 \
  DORY_I("sub a7, a7, a0")               \
  DORY_I("sub t0, t0, a0")               \
  DORY_I("sub t1, t1, a0")
#endif

__asm__(DORY_FUNCTION(DORY_STRIP_NAME)
        DORY_I("addi sp, sp, -112")
        DORY_SAVED("sw")
        DORY_I("mv ra, a0")
        DORY_I("sw a0, " DORY_FRAME_ARGUMENTS)
        DORY_COPY_TWO(DORY_FRAME_X, DORY_AT_X, DORY_FRAME_WEIGHTS, DORY_AT_WEIGHTS)
        DORY_COPY_TWO(DORY_FRAME_PARAMETERS, DORY_AT_PARAMETERS, DORY_FRAME_RUNS, DORY_AT_RUNS)
        DORY_COPY_TWO(DORY_FRAME_RUN_WORDS, DORY_AT_RUN_WORDS, DORY_FRAME_RUN_SKIP, DORY_AT_RUN_SKIP)
        DORY_COPY_TWO(DORY_FRAME_X_NEXT, DORY_AT_X_NEXT, DORY_FRAME_CHANNELS, DORY_AT_CHANNELS)
        DORY_LOAD_BACK
        DORY_I("lw a6, " DORY_AT_Y)
        DORY_KEEP_BACK
        DORY_I("lw a7, " DORY_AT_PLACE1)
        DORY_I("lw t0, " DORY_AT_PLACE2)
        DORY_I("lw t1, " DORY_AT_PLACE3)
        DORY_I("lw t2, " DORY_AT_STEP)
        DORY_I("lw t5, " DORY_AT_SHIFT)
        DORY_I("lw t6, " DORY_AT_HI)
        DORY_I("lw s10, " DORY_AT_LOW_BITS)
        DORY_LOAD_UP
        DORY_I("add a7, a7, a6")
        DORY_I("add t0, t0, a6")
        DORY_I("add t1, t1, a6")
        /* A channel. */
        "5: "
        DORY_I("lw a1, " DORY_FRAME_PARAMETERS)
        DORY_I("lw a4, " DORY_FRAME_X)
        DORY_I("lw a5, " DORY_AT_X_STEP)
        DORY_I("lw s8, " DORY_AT_COUNT)
        DORY_LOAD_OFFSET
        DORY_LOAD_REACH
        DORY_LOAD_LOW
        DORY_I("p.lw t3, 4(a1!)")
        DORY_I("p.lw t4, 4(a1!)")
        DORY_LOAD_BELOW
        DORY_LOAD_SHIFT(a1)
        DORY_I("add a5, a5, a4")
        DORY_I("sw s8, " DORY_FRAME_COUNT)
        DORY_KEEP_REACH
        DORY_KEEP_OFFSET
        DORY_NEXT_PARAMETERS
        /* Two outputs along b. */
        "6: "
        DORY_I("lw s8, " DORY_FRAME_RUNS)
        DORY_I("lw ra, " DORY_FRAME_WEIGHTS)
        DORY_I("li a0, 0")
        DORY_I("li a1, 0")
        DORY_I("li a2, 0")
        DORY_I("li a3, 0")
        DORY_I("li s0, 0")
        DORY_I("li s1, 0")
        DORY_I("li s2, 0")
        DORY_I("li s3, 0")
        DORY_I("lp.setup x1, s8, 2f")
        DORY_I("lw s9, " DORY_FRAME_RUN_WORDS)
        DORY_I("nop")
        DORY_ALIGN DORY_I("lp.setup x0, s9, 1f")
        DORY_I("p.lw s8, 4(a4!)")
        DORY_I("p.lw s9, 4(a5!)")
        DORY_I("p.lw s4, 4(ra!)")
        DORY_I("p.lw s5, 4(ra!)")
        DORY_I("p.lw s6, 4(ra!)")
        DORY_I("p.lw s7, 4(ra!)")
        DORY_I(DORY_ADD "a0, s8, s4")
        DORY_I(DORY_ADD "s0, s9, s4")
        DORY_I(DORY_ADD "a1, s8, s5")
        DORY_I(DORY_ADD "s1, s9, s5")
        DORY_I(DORY_ADD "a2, s8, s6")
        DORY_I(DORY_ADD "s2, s9, s6")
        DORY_I(DORY_ADD "a3, s8, s7")
        "1: " DORY_I(DORY_ADD "s3, s9, s7")
        DORY_I("lw s8, " DORY_FRAME_RUN_SKIP)
        DORY_I("nop")
        DORY_I("add a4, a4, s8")
        "2: " DORY_I("add a5, a5, s8")
        DORY_I("lw s9, " DORY_FRAME_COUNT)
        DORY_LAST("8")
        DORY_I("lw s8, " DORY_FRAME_X_NEXT)
        DORY_FETCH_FIRST
        DORY_I("add a4, a4, s8")
        DORY_I("add a5, a5, s8")
        DORY_OUTPUT("")
        DORY_I("addi s9, s9, -1")
        DORY_I("mv a0, s0")
        DORY_I("beqz s9, 7f")
        DORY_LAST("9")
        DORY_FETCH_FIRST
        DORY_I("mv a1, s1")
        DORY_I("mv a2, s2")
        DORY_I("mv a3, s3")
        DORY_OUTPUT("")
        DORY_I("addi s9, s9, -1")
        DORY_I("sw s9, " DORY_FRAME_COUNT)
        DORY_I("bnez s9, 6b")
        "7: "
        DORY_I("lw ra, " DORY_FRAME_ARGUMENTS)
        DORY_I("lw a3, " DORY_FRAME_CHANNELS)
        DORY_I("lw a0, " DORY_AT_Y_BACK)
        DORY_I("lw a1, " DORY_AT_ROW)
        DORY_I("lw a2, " DORY_FRAME_WEIGHTS)
        DORY_I("lw a4, " DORY_AT_LANE_BYTES)
        DORY_I("lw a5, " DORY_FRAME_X)
        DORY_I("sub a6, a6, a0")
        DORY_NEXT_PLACES
        DORY_I("add a2, a2, a1")
        DORY_I("add a5, a5, a4")
        DORY_I("addi a3, a3, -1")
        DORY_I("sw a2, " DORY_FRAME_WEIGHTS)
        DORY_I("sw a5, " DORY_FRAME_X)
        DORY_I("sw a3, " DORY_FRAME_CHANNELS)
        DORY_I("bnez a3, 5b")
        DORY_SAVED("lw")
        DORY_I("addi sp, sp, 112")
        DORY_I("ret")
        DORY_COLD
        DORY_FUNCTION_END(DORY_STRIP_NAME));
