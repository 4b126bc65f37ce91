/* One step with the roundings of binary32 for XpulpV2, see dory_gap8_even.h: included by the assembly of
 * blocks and of strips, which defines
 *
 *   DORY_EVEN_V, DORY_EVEN_T   registers of the value and of its fraction, which nothing else uses
 *   DORY_EVEN_MUL, DORY_EVEN_ADD, DORY_EVEN_SHIFT, DORY_EVEN_UP   registers of the parameters
 *   DORY_EVEN_X       a word of the frame, by its offset
 *   DORY_EVEN_OFFSET  instructions that load the offset of the channel into s1, s0 being free; the
 *                     stack pointer is DORY_EVEN_FRAME lower
 *
 * What few values need lies behind the function (.subsection). */

#define DORY_EVEN_FRAME 32

/* The sum in x becomes its output, without the clip. */
#define DORY_EVEN(x)                                                                    \
  DORY_I("sll " #x ", " #x ", " DORY_EVEN_UP)                                           \
  DORY_I("mulh " DORY_EVEN_V ", " #x ", " DORY_EVEN_MUL)                                \
  DORY_I("add " DORY_EVEN_V ", " DORY_EVEN_V ", " DORY_EVEN_ADD)                        \
  DORY_I("p.ror " DORY_EVEN_T ", " DORY_EVEN_V ", " DORY_EVEN_SHIFT)                    \
  DORY_I("srli " DORY_EVEN_T ", " DORY_EVEN_T ", 21") /* 32 - DORY_EVEN_ZONE */         \
  DORY_I("beqz " DORY_EVEN_T ", 90f")                                                   \
  "91: " DORY_I("sra " #x ", " DORY_EVEN_V ", " DORY_EVEN_SHIFT)                        \
  DORY_I(".subsection 1")                                                               \
  "90: " DORY_I("sw " #x ", " DORY_TEXT(DORY_EVEN_X) "(sp)")                            \
  DORY_I("jal " DORY_EVEN_T ", 92f")                                                    \
  DORY_I("j 91b")                                                                       \
  DORY_I(".subsection 0")

/* Takes 2^shift off the value where it is to become the lower neighbour. With whole the integer part of
 * the product of magnitudes, the rest less a half is compared with its reach, 2^7 times 2 for each
 * digit of whole in units of 2^-32: that of an even whole has to exceed it. */
#define DORY_EVEN_FALLS                                                                 \
  DORY_I(".subsection 1")                                                               \
  "92: " DORY_I("addi sp, sp, -" DORY_TEXT(DORY_EVEN_FRAME))                            \
  DORY_I("sw s0, 0(sp)") DORY_I("sw s1, 4(sp)") DORY_I("sw s2, 8(sp)")                  \
  DORY_I("sw s3, 12(sp)") DORY_I("sw s4, 16(sp)") DORY_I("sw s5, 20(sp)")               \
  DORY_EVEN_OFFSET                                                                      \
  DORY_I("lw s0, " DORY_TEXT(DORY_EVEN_X) "+" DORY_TEXT(DORY_EVEN_FRAME) "(sp)")        \
  DORY_I("sll s1, s1, " DORY_EVEN_UP)                                                   \
  DORY_I("add s0, s0, s1")                                                              \
  DORY_I("srai s1, s0, 31")                                                             \
  DORY_I("xor s0, s0, s1")                                                              \
  DORY_I("sub s0, s0, s1")                   /* s0: magnitude, s1: sign */              \
  DORY_I("mul s2, s0, " DORY_EVEN_MUL)                                                  \
  DORY_I("mulhu s3, s0, " DORY_EVEN_MUL)     /* s3, s2: product */                      \
  DORY_I("srl s4, s3, " DORY_EVEN_SHIFT)     /* s4: whole */                            \
  DORY_I("sll s0, s4, " DORY_EVEN_SHIFT)                                                \
  DORY_I("sub s3, s3, s0")                                                              \
  DORY_I("li s5, 1")                                                                    \
  DORY_I("sll s5, s5, " DORY_EVEN_SHIFT)                                                \
  DORY_I("srli s5, s5, 1")                                                              \
  DORY_I("sub s3, s3, s5")                   /* s3, s2: rest less a half */             \
  DORY_I("andi s0, s4, 1")                                                              \
  DORY_I("xori s0, s0, 1")                   /* s0: whether whole is even */            \
  DORY_I("sltu s5, s2, s0")                                                             \
  DORY_I("sub s2, s2, s0")                                                              \
  DORY_I("sub s3, s3, s5")                                                              \
  DORY_I("sub s5, zero, " DORY_EVEN_SHIFT)                                              \
  DORY_I("srl s2, s2, " DORY_EVEN_SHIFT)                                                \
  DORY_I("sll s3, s3, s5")                                                              \
  DORY_I("or s2, s2, s3")                    /* s2: the same, less 1 if even, in 2^-32 */ \
  DORY_I("slli s4, s4, 1")                                                              \
  DORY_I("ori s4, s4, 1")                                                               \
  DORY_I("p.fl1 s4, s4")                                                                \
  DORY_I("addi s4, s4, 7")                                                              \
  DORY_I("li s5, 1")                                                                    \
  DORY_I("sll s5, s5, s4")                   /* s5: reach */                            \
  DORY_I("sub s0, zero, s0")                                                            \
  DORY_I("xor s5, s5, s0")                                                              \
  DORY_I("sub s5, s5, s0")                   /* its negative if even */                 \
  DORY_I("add s2, s2, s5")                                                              \
  DORY_I("srli s2, s2, 31")                                                             \
  DORY_I("srli s1, s1, 31")                                                             \
  DORY_I("xor s2, s2, s1")                                                              \
  DORY_I("sll s2, s2, " DORY_EVEN_SHIFT)                                                \
  DORY_I("sub " DORY_EVEN_V ", " DORY_EVEN_V ", s2")                                    \
  DORY_I("lw s0, 0(sp)") DORY_I("lw s1, 4(sp)") DORY_I("lw s2, 8(sp)")                  \
  DORY_I("lw s3, 12(sp)") DORY_I("lw s4, 16(sp)") DORY_I("lw s5, 20(sp)")               \
  DORY_I("addi sp, sp, " DORY_TEXT(DORY_EVEN_FRAME))                                    \
  DORY_I("jr " DORY_EVEN_T)                                                             \
  DORY_I(".subsection 0")
