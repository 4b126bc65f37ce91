/* Blocks of 3 pixels x 2 output channels in assembly: products, requantisation and stores of all
 * pairs of channels of three pixels, of two, or of one. Same layouts and results as
 * dory_stm32h7_matmul_impl.h.
 *
 * The order of instructions is that of a core that issues two at a time: each cycle has a
 * multiplication and something else; extensions first of their cycle; each load two cycles before its
 * use. The next weights and columns are loaded while the last ones are multiplied: 4 bytes behind
 * the weights and 12 behind the columns are read, and never used.
 *
 * Registers: r0 weights, r1 columns, r2 to r4 sums of the first channel, r5 to r7 of the second, r8 to
 * r10 inputs, r11 weights, r12 and lr those of one channel each. The last product of a step, of r7,
 * stands in the next one, so that a round begins and ends with r12 free. */

/* What DORY_PAIRS asks for: 8-bit weights, one step with immediate bounds. Order of the fields and
 * all sizes as in the assembly. */
typedef struct {
  const uint32_t *weights, *columns;
  const uint32_t *columns_end;
  const int32_t *records; /* parameters of the first channel */
  DORY_Y_T *y;            /* first channel of the first pixel */
  int32_t pitch, pitch2;  /* bytes to the second and to the third pixel; 0: there is none */
  DORY_Y_T *end;          /* behind the last pair of channels of the first pixel, which is not y */
  int32_t skipped;        /* bytes of code of the vectors that the first round has not: for one pixel
                           * those of three */
  int32_t two;            /* 1: two pixels */
} dory_pairs_t;

/* Vectors of a round, and bytes of code of one, for three pixels and for two; for one pixel they are
 * half of those for three. It is fetched as fast as it is executed where it begins at a multiple of
 * eight. */
#define DORY_VECTORS 16
enum { DORY_VECTOR_CODE = 96, DORY_VECTOR_CODE_TWO = 72 };

#include "dory_stm32h7_assembly.h"

/* Half a vector of three pixels: inputs and weights of the next half are loaded by what follows.
 * Each instruction has four bytes. */
#define DORY_HALF(third, weights, first, second) \
  "sxtb16 r12, r11\n smlad r7, lr, r10, r7\n smlad r2, r12, r8, r2\n ldr.w r10, [r1, #" third "]\n" \
  "sxtb16 lr, r11, ror #8\n smlad r3, r12, r9, r3\n smlad r4, r12, r10, r4\n" \
  "ldr.w r11, [r0, #" weights "\n smlad r5, lr, r8, r5\n ldr.w r8, [r1, #" first "\n" \
  "smlad r6, lr, r9, r6\n ldr.w r9, [r1, #" second "]\n"

#define DORY_VECTOR DORY_HALF("16", "4]", "4]", "12") DORY_HALF("20", "8]!", "24]!", "8")

/* A vector of two pixels: r4 has weights and r7 inputs, too. */
#define DORY_VECTOR_TWO \
  "sxtb16 r12, r11\n ldr.w r4, [r0, #4]\n sxtb16 lr, r11, ror #8\n smlad r2, r12, r8, r2\n" \
  "smlad r3, r12, r9, r3\n ldr.w r10, [r1, #4]\n sxtb16 r12, r4\n smlad r5, lr, r8, r5\n" \
  "smlad r6, lr, r9, r6\n ldr.w r7, [r1, #12]\n sxtb16 lr, r4, ror #8\n" \
  "smlad r2, r12, r10, r2\n smlad r3, r12, r7, r3\n ldr.w r8, [r1, #24]!\n" \
  "smlad r5, lr, r10, r5\n ldr.w r9, [r1, #8]\n smlad r6, lr, r7, r6\n ldr.w r11, [r0, #8]!\n"

/* On the stack: columns, their end, records, y, both pitches, end, where the first round begins.
 * Below: r2 to r7 become outputs, the record moves on, lr becomes y, r8 and r9 the pitches. */
#if DORY_BINARY32 || DORY_TURNED

/* The outputs of three sums with the parameters `at` bytes behind r1. */
#if DORY_BINARY32
/* Several values at a time hide the latencies of the floating-point unit from each other. */
#define DORY_OUTPUTS(a, b, c, at) \
  "ldr r12, [r1, #" at "+8]\n ldr r9, [r1, #" at "]\n add " a ", " a ", r12\n" \
  "add " b ", " b ", r12\n vmov s0, " a "\n add " c ", " c ", r12\n vmov s1, " b "\n" \
  "ldr r10, [r1, #" at "+4]\n vmov s2, " c "\n" \
  "vcvt.f32.s32 s0, s0\n vmov s3, r9\n vcvt.f32.s32 s1, s1\n vcvt.f32.s32 s2, s2\n" \
  "vmul.f32 s0, s0, s3\n vmul.f32 s1, s1, s3\n vmul.f32 s2, s2, s3\n" \
  "vcvtn.s32.f32 s0, s0\n vcvtn.s32.f32 s1, s1\n vcvtn.s32.f32 s2, s2\n" \
  "vmov " a ", s0\n vmov " b ", s1\n add " a ", " a ", r10\n vmov " c ", s2\n" \
  "add " b ", " b ", r10\n add " c ", " c ", r10\n" \
  DORY_SATURATED(a, a) DORY_SATURATED(b, b) DORY_SATURATED(c, c)
#else
/* Products of a, b and c end in r1, a and b: their registers are free one after the other. */
#define DORY_OUTPUTS(a, b, c, at) \
  "ldr r12, [r1, #" at "+12]\n ldr r8, [r1, #" at "+16]\n add " a ", " a ", r12\n" \
  "ldr r10, [r1, #" at "+4]\n add " b ", " b ", r12\n ldr r11, [r1, #" at "+8]\n" \
  "add " c ", " c ", r12\n ldr r9, [r1, #" at "]\n bic lr, r8, " a ", asr #31\n" \
  "bic r12, r8, " b ", asr #31\n bic r8, r8, " c ", asr #31\n" \
  "adds lr, lr, r10\n adc r1, r11, #0\n smlal lr, r1, r9, " a "\n adds r12, r12, r10\n" \
  "adc " a ", r11, #0\n smlal r12, " a ", r9, " b "\n adds r8, r8, r10\n" \
  "adc " b ", r11, #0\n smlal r8, " b ", r9, " c "\n" \
  DORY_SATURATED("lr", "r1") "ldr r1, [sp, #8]\n" \
  DORY_SATURATED("r12", a) DORY_SATURATED(c, b) "mov " a ", lr\n mov " b ", r12\n"
#endif

#define DORY_BLOCK_OUTPUTS \
  "ldr r1, [sp, #8]\n smlad r7, lr, r10, r7\n" DORY_OUTPUTS("r2", "r3", "r4", "0") \
  DORY_OUTPUTS("r5", "r6", "r7", DORY_RECORDS "/2") \
  "ldr r9, [sp, #20]\n ldr lr, [sp, #12]\n ldr r8, [sp, #16]\n add r1, r1, #" DORY_RECORDS "\n" \
  "str r1, [sp, #8]\n"

#else

/* An addend is loaded again for its next use: that is no slower than a copy. */
#define DORY_BLOCK_OUTPUTS \
  "ldr r1, [sp, #8]\n smlad r7, lr, r10, r7\n ldr lr, [sp, #12]\n ldr r8, [r1]\n" \
  "ldr r9, [r1, #4]\n ldr r10, [r1, #8]\n ldr r11, [r1, #4]\n smlal r9, r10, r8, r2\n" \
  "ldr r12, [r1, #8]\n smlal r11, r12, r8, r3\n ldr r9, [r1, #4]\n" \
  DORY_SATURATED("r2", "r10") "ldr r10, [r1, #8]\n" \
  DORY_SATURATED("r3", "r12") "smlal r9, r10, r8, r4\n ldr r8, [r1, #12]\n ldr r11, [r1, #16]\n" \
  DORY_SATURATED("r4", "r10") "ldr r12, [r1, #20]\n smlal r11, r12, r8, r5\n" \
  "ldr r9, [r1, #16]\n ldr r10, [r1, #20]\n ldr r11, [r1, #16]\n" \
  DORY_SATURATED("r5", "r12") "smlal r9, r10, r8, r6\n ldr r12, [r1, #20]\n add r1, r1, #24\n" \
  DORY_SATURATED("r6", "r10") "smlal r11, r12, r8, r7\n ldr r9, [sp, #20]\n str r1, [sp, #8]\n" \
  DORY_SATURATED("r7", "r12") "ldr r8, [sp, #16]\n"

#endif

/* Stores the first pixel last, over a third one that is none. Two narrow outputs are one store. */
#if DORY_Y_BITS == 32
#define DORY_STORE_OUTPUTS \
  "ldr r10, [sp, #24]\n ldr r12, [sp, #28]\n str r4, [lr, r9]\n ldr r1, [sp]\n str r3, [lr, r8]\n" \
  "movs r4, #0\n str r2, [lr], #4\n movs r3, #0\n str r7, [lr, r9]\n movs r2, #0\n" \
  "str r6, [lr, r8]\n movs r6, #0\n str r5, [lr], #4\n movs r5, #0\n"
#else
#if DORY_Y_BITS == 16
#define DORY_JOINED(a, b) "pkhbt " a ", " a ", " b ", lsl #16\n"
#define DORY_STORE_TWO "str"
#else
#define DORY_JOINED(a, b) "bfi " a ", " b ", #8, #8\n"
#define DORY_STORE_TWO "strh"
#endif
#define DORY_STORE_OUTPUTS \
  DORY_JOINED("r2", "r5") "ldr r1, [sp]\n" DORY_JOINED("r3", "r6") "ldr r10, [sp, #24]\n" \
  DORY_JOINED("r4", "r7") "ldr r12, [sp, #28]\n" DORY_STORE_TWO " r4, [lr, r9]\n movs r5, #0\n" \
  DORY_STORE_TWO " r3, [lr, r8]\n movs r6, #0\n" DORY_STORE_TWO " r2, [lr], #" DORY_STRING(DORY_Y_BITS) "/4\n" \
  "movs r4, #0\n movs r3, #0\n"
#endif

#define DORY_BLOCK_STORES \
  DORY_STORE_OUTPUTS \
  "ldr r8, [r1]\n ldr r9, [r1, #8]\n str lr, [sp, #12]\n movs r2, #0\n cmp lr, r10\n ldr r11, [r0]\n"

__attribute__((naked, noinline)) static void dory_pairs(const dory_pairs_t *pairs
                                                        __attribute__((unused)))
{
  __asm__ volatile(
    "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
    "ldm r0, {r0, r1, r2, r3, r4, r5, r6, r7, r8, r9}\n"
    "adr.w r12, 2f\n adr.w r10, 1f\n cmp r9, #0\n it ne\n movne r12, r10\n"
    "add r12, r12, r8\n orr r12, r12, #1\n"
    "push {r1, r2, r3, r4, r5, r6, r7, r12}\n"
    "ldr r8, [r1]\n ldr r11, [r0]\n ldr r9, [r1, #8]\n movs r2, #0\n movs r3, #0\n movs r4, #0\n"
    "movs r5, #0\n movs r6, #0\n b 4f\n"
    ".p2align 3\n"
    "1:\n"
    ".rept " DORY_STRING(DORY_VECTORS) "\n" DORY_VECTOR_TWO ".endr\n"
    "ldr r12, [sp, #4]\n cmp r1, r12\n bne 1b\n b 3f\n"
    ".p2align 3\n"
    "2:\n"
    ".rept " DORY_STRING(DORY_VECTORS) "\n" DORY_VECTOR ".endr\n"
    "ldr r12, [sp, #4]\n cmp r1, r12\n bne 2b\n"
    "3:\n"
    DORY_BLOCK_OUTPUTS DORY_BLOCK_STORES
    "beq 5f\n"
    "4: movs r7, #0\n mov.w lr, #0\n bx r12\n"
    "5: add sp, sp, #32\n pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
    : : : "memory");
}

/* A vector of one pixel. Registers: r0 weights, r1 columns, r2 their end, r3 record, r4 output, r5
 * and r6 sums, r8 and r10 inputs, r7 and r11 weights, r12 and lr those of one channel each. */
#define DORY_VECTOR_ONE \
  "sxtb16 r12, r11\n ldr.w r7, [r0, #4]\n sxtb16 lr, r11, ror #8\n smlad r5, r12, r8, r5\n" \
  "smlad r6, lr, r8, r6\n ldr.w r10, [r1, #4]\n sxtb16 r12, r7\n ldr.w r11, [r0, #8]!\n" \
  "sxtb16 lr, r7, ror #8\n smlad r5, r12, r10, r5\n smlad r6, lr, r10, r6\n ldr.w r8, [r1, #24]!\n"

#if DORY_Y_BITS == 32
#define DORY_STORE_ONE "str r5, [r4], #4\n str r6, [r4], #4\n"
#else
#define DORY_STORE_ONE \
  DORY_JOINED("r5", "r6") DORY_STORE_TWO " r5, [r4], #" DORY_STRING(DORY_Y_BITS) "/4\n"
#endif

/* The same for one pixel. On the stack: columns, end, where the first round begins. */
__attribute__((naked, noinline)) static void dory_pairs_of_one(const dory_pairs_t *pairs
                                                               __attribute__((unused)))
{
  __asm__ volatile(
    "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
    "ldm r0, {r0, r1, r2, r3, r4, r5, r6, r7, r8}\n"
    "adr.w r12, 1f\n add r12, r12, r8, lsr #1\n orr r12, r12, #1\n push {r1, r7, r12}\n"
    "0: ldr r11, [r0]\n movs r5, #0\n ldr r8, [r1]\n movs r6, #0\n bx r12\n"
    ".p2align 3\n"
    "1:\n"
    ".rept " DORY_STRING(DORY_VECTORS) "\n" DORY_VECTOR_ONE ".endr\n"
    "cmp r1, r2\n bne 1b\n"
    DORY_CHANNEL_OUTPUTS("r5", "r6", "r3", "0")
    "ldr r1, [sp]\n add r3, r3, #" DORY_RECORDS "\n ldr r9, [sp, #4]\n" DORY_STORE_ONE
    "ldr r12, [sp, #8]\n cmp r4, r9\n bne 0b\n"
    "add sp, sp, #12\n pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
    : : : "memory");
}
