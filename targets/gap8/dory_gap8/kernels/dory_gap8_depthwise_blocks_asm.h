/* What the assembly of strips shares that lays blocks of four rows, see dory_gap8_depthwise_blocks.h:
 * included by that of filters up to 3x3 and up to 5x5.
 *
 * One call computes strips that follow one another in a group of channels: it transposes the blocks of
 * rows that a strip adds, and goes through the channels. Transposing, pointers to four rows are in
 * a0 .. a3, their steps (0 in the padding) in a4 .. a7, orders of shuffles in s5 .. s7, the place to
 * store in s8.
 *
 * Those who include it define DORY_BLOCKS_END, the bytes of those of block[] that are read, and
 * DORY_LAY_BLOCK, which lays the columns of a block. */

#include "dory_gap8_depthwise_outputs_asm.h"

/* Fields of dory_strip_t. */
#define DORY_AT_FIRST "0(ra)"
#define DORY_AT_SECOND "4(ra)"
#define DORY_AT_THIRD "8(ra)"
#define DORY_AT_WEIGHTS "12(ra)"
#define DORY_AT_PARAMETERS "16(ra)"
#define DORY_AT_Y "20(ra)"
#define DORY_AT_LEFT "24(ra)"
#define DORY_AT_Y_ROW "28(ra)"
#define DORY_AT_STEP "32(ra)"
#define DORY_AT_LOOPS "36(ra)"
#define DORY_AT_REST "40(ra)"
#define DORY_AT_X_BACK "44(ra)"
#define DORY_AT_Y_BACK "48(ra)"
#define DORY_AT_CHANNELS "52(ra)"
#define DORY_AT_SHIFT "56(ra)"
#define DORY_AT_LOW_BITS "60(ra)"
#define DORY_AT_HI "64(ra)"
#define DORY_AT_STRIPS "68(ra)"
#define DORY_AT_FRESH "72(ra)"
#define DORY_AT_X "76(ra)"
#define DORY_AT_ROW "80(ra)"
#define DORY_AT_ROWS "84(ra)"
#define DORY_AT_X_ROW "88(ra)"
#define DORY_AT_X_STEP "92(ra)"
#define DORY_AT_INSIDE "96(ra)"
#define DORY_AT_BEFORE "100(ra)"
#define DORY_AT_PADDING "104(ra)"
#define DORY_AT_LANE "108(ra)"

/* The next row: its pointer and step, or those of the padding. */
#define DORY_ROW(pointer, step)             \
  DORY_I("mv " #pointer ", s3")             \
  DORY_I("li " #step ", 0")                 \
  DORY_I("bgeu t3, t4, 1f")                 \
  DORY_I("mv " #pointer ", s11")            \
  DORY_I("mv " #step ", t6")                \
  "1: " DORY_I("addi t3, t3, 1")            \
  DORY_I("add s11, s11, t5")

/* Four words of four channels each, t0, t1, s0 and s1, become a word of four elements per channel. */
#define DORY_TRANSPOSED(label)              \
  DORY_I("pv.pack.h s2, t1, t0")            \
  DORY_I("pv.shuffle2.b t1, t0, s7")        \
  DORY_I("pv.pack.h s4, s1, s0")            \
  DORY_I("pv.shuffle2.b s1, s0, s7")        \
  DORY_I("mv t0, s2")                       \
  DORY_I("mv s0, t1")                       \
  DORY_I("pv.shuffle2.b t0, s4, s5")        \
  DORY_I("pv.shuffle2.b s2, s4, s6")        \
  DORY_I("pv.shuffle2.b s0, s1, s5")        \
  DORY_I("pv.shuffle2.b t1, s1, s6")        \
  DORY_I("p.sw t0, 4(s8!)")                 \
  DORY_I("p.sw s2, 4(s8!)")                 \
  DORY_I("p.sw s0, 4(s8!)")                 \
  label DORY_I("p.sw t1, 4(s8!)")

/* Blocks from number FRESH on. */
#define DORY_LAY                            \
  DORY_I("lw t2, " DORY_AT_FRESH)           \
  DORY_I("li a0, " DORY_BLOCKS_END)         \
  DORY_I("lw t3, " DORY_AT_ROW)             \
  DORY_I("bgeu t2, a0, 7f")                 \
  DORY_I("lw t5, " DORY_AT_X_ROW)           \
  DORY_I("lw s11, " DORY_AT_X)              \
  DORY_I("lw t4, " DORY_AT_ROWS)            \
  DORY_I("mul t0, t3, t5")                  \
  DORY_I("lw t6, " DORY_AT_X_STEP)          \
  DORY_I("lw s9, " DORY_AT_INSIDE)          \
  DORY_I("lw s10, " DORY_AT_BEFORE)         \
  DORY_I("lw s3, " DORY_AT_PADDING)         \
  DORY_I("li s5, 0x06040200")               \
  DORY_I("li s6, 0x07050301")               \
  DORY_I("li s7, 0x03020706")               \
  DORY_I("add s11, s11, t0")                \
  DORY_I("add t2, t2, ra")                  \
  "6: " DORY_I("p.lw s8, 4(t2!)")           \
  DORY_ROW(a0, a4)                          \
  DORY_ROW(a1, a5)                          \
  DORY_ROW(a2, a6)                          \
  DORY_ROW(a3, a7)                          \
  DORY_I("add s8, s8, s10")                 \
  DORY_LAY_BLOCK                            \
  DORY_I("addi a0, ra, " DORY_BLOCKS_END)   \
  DORY_I("bne t2, a0, 6b")                  \
  DORY_I("sw t3, " DORY_AT_ROW)             \
  "7: "

/* To label 5 while strips are left. rows: outputs of a strip across it, 2 to the power of shift. */
#define DORY_NEXT_STRIP(rows, shift)        \
  DORY_I("lw a0, " DORY_AT_LEFT)            \
  DORY_I("lw a1, " DORY_AT_Y_ROW)           \
  DORY_I("lw a2, " DORY_AT_Y)               \
  DORY_I("lw a3, " DORY_AT_STRIPS)          \
  DORY_I("addi a0, a0, -" rows)             \
  DORY_I("slli a1, a1, " shift)             \
  DORY_I("add a2, a2, a1")                  \
  DORY_I("addi a3, a3, -1")                 \
  DORY_I("sw a0, " DORY_AT_LEFT)            \
  DORY_I("li a0, 4")                        \
  DORY_I("sw a2, " DORY_AT_Y)               \
  DORY_I("sw a0, " DORY_AT_FRESH)           \
  DORY_I("sw a3, " DORY_AT_STRIPS)          \
  DORY_I("bnez a3, 5b")
