/* Blocks of 2 pixels x 2 output channels in assembly: products, requantisation and stores of all
 * pairs of channels of two pixels. Same layouts and results as dory_stm32h7_matmul_impl.h.
 *
 * The order of instructions is that of a core that issues two at a time: single loads, which pair
 * with a multiplication; extensions first of their cycle; each load two cycles before its use. The
 * next weights and columns are loaded while the last ones are multiplied: up to 8 bytes behind the
 * weights and 12 behind the columns are read, and never used.
 *
 * Registers: r0 weights, r1 columns, r2 rounds that are left, r3 to r6 sums (first channel of both
 * pixels, second channel), r7 and r8 weights, r11, r12 and lr inputs. */

/* What DORY_PAIRS asks for: 8-bit weights, one step with immediate bounds. Order of the fields and
 * all sizes as in the assembly. */
typedef struct {
  const uint32_t *weights, *columns;
  int32_t rounds;         /* of DORY_VECTORS vectors, at least one */
  const int32_t *records; /* parameters of the first channel */
  DORY_Y_T *y;            /* first channel of the first pixel */
  int32_t pitch;          /* bytes to the second pixel; 0: there is none */
  DORY_Y_T *end;          /* behind the last pair of channels of the first pixel, which is not y */
  int32_t skipped;        /* bytes of code of the vectors that the first round has not */
} dory_pairs_t;

/* Vectors of a round, and bytes of code of one: it is fetched as fast as it is executed where it
 * begins at a multiple of eight. */
#define DORY_VECTORS 16
enum { DORY_VECTOR_CODE = 72 };

#include "dory_stm32h7_assembly.h"

/* A vector. Weights and columns move on with their next loads; each instruction has four bytes. */
#define DORY_VECTOR \
  "sxtb16 r9, r7\n ldr.w lr, [r1, #4]\n sxtb16 r10, r8\n smlad r3, r9, r11, r3\n" \
  "sxtb16 r7, r7, ror #8\n smlad r4, r9, r12, r4\n sxtb16 r8, r8, ror #8\n" \
  "smlad r5, r10, r11, r5\n smlad r6, r10, r12, r6\n ldr.w r9, [r1, #12]\n" \
  "smlad r3, r7, lr, r3\n ldr.w r11, [r1, #16]!\n smlad r5, r8, lr, r5\n" \
  "ldr.w r12, [r1, #8]\n smlad r4, r7, r9, r4\n ldr.w r7, [r0, #8]!\n" \
  "smlad r6, r8, r9, r6\n ldr.w r8, [r0, #4]\n"

/* Bytes of an output. */
#define DORY_STEP DORY_STRING(DORY_Y_BITS) "/8"

/* On the stack: columns, rounds, records, y, pitch, end, where the first round begins. */
#if DORY_BINARY32 || DORY_TURNED

/* The outputs of two sums a, b with the parameters `at` bytes behind r1: r11 and lr. */
#if DORY_BINARY32
#define DORY_RECORDS "24"
/* Two values at a time hide the latencies of the floating-point unit from each other. */
#define DORY_OUTPUTS(a, b, at) \
  "ldr r12, [r1, #" at "+8]\n ldr r9, [r1, #" at "]\n add " a ", " a ", r12\n" \
  "add " b ", " b ", r12\n vmov s0, " a "\n ldr r10, [r1, #" at "+4]\n vmov s1, " b "\n" \
  "vcvt.f32.s32 s0, s0\n vmov s2, r9\n vcvt.f32.s32 s1, s1\n" \
  "vmul.f32 s0, s0, s2\n vmul.f32 s1, s1, s2\n vcvtn.s32.f32 s0, s0\n vcvtn.s32.f32 s1, s1\n" \
  "vmov r11, s0\n vmov lr, s1\n add r11, r11, r10\n add lr, lr, r10\n" \
  DORY_SATURATED("r11", "r11") DORY_SATURATED("lr", "lr")
#else
#define DORY_RECORDS "40"
#define DORY_OUTPUTS(a, b, at) \
  "ldr r12, [r1, #" at "+12]\n ldr lr, [r1, #" at "+16]\n ldr r10, [r1, #" at "+4]\n" \
  "ldr r11, [r1, #" at "+8]\n add " a ", " a ", r12\n add " b ", " b ", r12\n" \
  "ldr r9, [r1, #" at "]\n bic r12, lr, " a ", asr #31\n bic lr, lr, " b ", asr #31\n" \
  "adds r12, r12, r10\n adc r2, r11, #0\n adds lr, lr, r10\n smlal r12, r2, r9, " a "\n" \
  "adc r10, r11, #0\n smlal lr, r10, r9, " b "\n" \
  DORY_SATURATED("r11", "r2") DORY_SATURATED("lr", "r10")
#endif

#define DORY_BLOCK_OUTPUTS \
  "ldr r1, [sp, #8]\n" DORY_OUTPUTS("r3", "r4", "0") \
  "ldr r2, [sp, #12]\n ldr r9, [sp, #16]\n" \
  DORY_STORE " lr, [r2, r9]\n" DORY_STORE " r11, [r2]\n" \
  DORY_OUTPUTS("r5", "r6", DORY_RECORDS "/2") \
  "ldr r2, [sp, #12]\n ldr r9, [sp, #16]\n add r1, r1, #" DORY_RECORDS "\n" \
  "ldr r10, [sp, #20]\n add r2, r2, #" DORY_STEP "\n str r1, [sp, #8]\n" \
  DORY_STORE " lr, [r2, r9]\n ldr r1, [sp]\n" DORY_STORE " r11, [r2]\n" \
  "add r2, r2, #" DORY_STEP "\n ldr r11, [r1]\n movs r3, #0\n ldr r12, [r1, #8]\n"

#else

/* Two words of the stack or of a record are loaded at a time, an addend again for its second use:
 * that is no slower than a copy. The first pixel is stored last, over a second one that is none. */
#define DORY_BLOCK_OUTPUTS \
  "ldr r1, [sp, #8]\n ldr r2, [sp, #12]\n ldr r9, [r1]\n ldr r10, [r1, #4]\n" \
  "ldr r11, [r1, #8]\n ldr r12, [r1, #4]\n smlal r10, r11, r9, r3\n ldr lr, [r1, #8]\n" \
  "smlal r12, lr, r9, r4\n ldr r9, [r1, #12]\n" \
  DORY_SATURATED("r11", "r11") "ldr r10, [r1, #16]\n" \
  DORY_SATURATED("lr", "lr") "ldr r3, [r1, #20]\n" \
  "smlal r10, r3, r9, r5\n ldr r12, [sp, #16]\n ldr r10, [r1, #16]\n ldr r4, [r1, #20]\n" \
  "smlal r10, r4, r9, r6\n add r1, r1, #24\n" DORY_STORE " lr, [r2, r12]\n ldr r10, [sp, #20]\n" \
  DORY_STORE " r11, [r2]\n add r2, r2, #" DORY_STEP "\n" \
  DORY_SATURATED("r3", "r3") "str r1, [sp, #8]\n" \
  DORY_SATURATED("r4", "r4") "ldr r1, [sp]\n" \
  DORY_STORE " r4, [r2, r12]\n" DORY_STORE " r3, [r2]\n ldr r11, [r1]\n" \
  "add r2, r2, #" DORY_STEP "\n ldr r12, [r1, #8]\n movs r3, #0\n"

#endif

__attribute__((naked, noinline)) static void dory_pairs(const dory_pairs_t *pairs
                                                        __attribute__((unused)))
{
  __asm__ volatile(
    "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
    "ldm r0, {r0, r1, r2, r3, r4, r5, r6, r7}\n"
    "adr.w r9, 1f\n add r9, r9, r7\n orr r9, r9, #1\n"
    "push {r1, r2, r3, r4, r5, r6, r9}\n"
    "ldr r7, [r0]\n ldr r11, [r1]\n ldr r8, [r0, #4]\n ldr r12, [r1, #8]\n"
    "movs r3, #0\n movs r4, #0\n movs r5, #0\n movs r6, #0\n bx r9\n"
    ".p2align 3\n"
    "1:\n"
    ".rept " DORY_STRING(DORY_VECTORS) "\n" DORY_VECTOR ".endr\n"
    "subs r2, #1\n bne 1b\n"
    DORY_BLOCK_OUTPUTS
    "ldr r9, [sp, #24]\n movs r4, #0\n movs r5, #0\n str r2, [sp, #12]\n movs r6, #0\n"
    "cmp r2, r10\n ldr r2, [sp, #4]\n beq 2f\n bx r9\n"
    "2: add sp, sp, #28\n pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
    : : : "memory");
}
