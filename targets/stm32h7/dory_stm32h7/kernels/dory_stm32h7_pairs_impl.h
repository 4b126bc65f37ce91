/* Blocks of 2 pixels x 2 output channels in assembly: products, requantisation and stores of all
 * pairs of channels of two pixels. Same layouts and results as dory_stm32h7_matmul_impl.h.
 *
 * The order of instructions is that of a core that issues two at a time: single loads, which pair
 * with a multiplication; extensions first of their cycle; each load two cycles before its use. The
 * next weights and columns are loaded while the last ones are multiplied: up to 8 bytes behind the
 * weights and 12 behind the columns are read, and never used.
 *
 * Registers: r0 weights, r1 columns, r2 vectors that are left, r3 to r6 sums (first channel of both
 * pixels, second channel), r7 and r8 weights, r11, r12 and lr inputs. */

/* What DORY_PAIRS asks for: 8-bit weights, one step with immediate bounds. */
typedef struct {
  const uint32_t *weights, *columns;
  int32_t vectors;
  const int32_t *records; /* parameters of the first channel */
  DORY_Y_T *y;            /* first channel of the first pixel */
  int32_t pitch;          /* bytes to the second pixel */
  int32_t pairs;          /* at least one */
} dory_pairs_t;

#define DORY_STRING_(text) #text
#define DORY_STRING(text) DORY_STRING_(text)

/* A vector; w, x: bytes of the one in the registers from r0 and r1. */
#define DORY_VECTOR(x4, x12, next_x0, next_x8, next_w0, next_w4) \
  "sxtb16 r9, r7\n ldr lr, [r1, #" x4 "]\n sxtb16 r10, r8\n smlad r3, r9, r11, r3\n" \
  "sxtb16 r7, r7, ror #8\n smlad r4, r9, r12, r4\n sxtb16 r8, r8, ror #8\n" \
  "smlad r5, r10, r11, r5\n smlad r6, r10, r12, r6\n ldr r9, [r1, #" x12 "]\n" \
  "smlad r3, r7, lr, r3\n ldr r11, [r1, #" next_x0 "]\n smlad r5, r8, lr, r5\n" \
  "ldr r12, [r1, #" next_x8 "]\n smlad r4, r7, r9, r4\n ldr r7, [r0, #" next_w0 "]\n" \
  "smlad r6, r8, r9, r6\n ldr r8, [r0, #" next_w4 "]\n"

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

#define DORY_SATURATED(to, from) \
  DORY_SATURATE " " to ", #" DORY_STRING(DORY_CLIP_BITS) ", " from DORY_BEHIND "\n"

/* The outputs of two sums a, b with the parameters at r2: r11 and lr. The way through r1 costs a
 * load. */
#if DORY_BINARY32
/* Two values at a time hide the latencies of the floating-point unit from each other. */
#define DORY_OUTPUTS(a, b) \
  "ldm r2!, {r9, r10, r12}\n add " a ", " a ", r12\n vmov s0, " a "\n add " b ", " b ", r12\n" \
  "vmov s1, " b "\n vcvt.f32.s32 s0, s0\n vmov s2, r9\n vcvt.f32.s32 s1, s1\n" \
  "vmul.f32 s0, s0, s2\n vmul.f32 s1, s1, s2\n vcvtn.s32.f32 s0, s0\n vcvtn.s32.f32 s1, s1\n" \
  "vmov r11, s0\n vmov lr, s1\n add r11, r11, r10\n add lr, lr, r10\n" \
  DORY_SATURATED("r11", "r11") DORY_SATURATED("lr", "lr")
#elif DORY_TURNED
#define DORY_OUTPUTS(a, b) \
  "ldm r2!, {r9, r10, r11, r12, lr}\n add " a ", " a ", r12\n add " b ", " b ", r12\n" \
  "bic r12, lr, " a ", asr #31\n bic lr, lr, " b ", asr #31\n" \
  "adds r12, r12, r10\n adc r1, r11, #0\n adds lr, lr, r10\n adc r10, r11, #0\n" \
  "smlal r12, r1, r9, " a "\n smlal lr, r10, r9, " b "\n" \
  DORY_SATURATED("r11", "r1") "ldr r1, [sp]\n" DORY_SATURATED("lr", "r10")
#else
#define DORY_OUTPUTS(a, b) \
  "ldm r2!, {r9, r10, r11}\n mov r12, r10\n mov lr, r11\n" \
  "smlal r10, r11, r9, " a "\n smlal r12, lr, r9, " b "\n" \
  DORY_SATURATED("r11", "r11") DORY_SATURATED("lr", "lr")
#endif

__attribute__((naked, noinline)) static void dory_pairs(dory_pairs_t *pairs
                                                        __attribute__((unused)))
{
  __asm__ volatile(
    "push {r0, r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
    "ldm r0, {r0, r1, r2}\n"
    "movs r3, #0\n movs r4, #0\n movs r5, #0\n movs r6, #0\n"
    "ldr r7, [r0]\n ldr r11, [r1]\n ldr r8, [r0, #4]\n ldr r12, [r1, #8]\n"
    "0: subs r2, #4\n blt 2f\n"
    "1:\n"
    DORY_VECTOR("4", "12", "16", "24", "8", "12")
    DORY_VECTOR("20", "28", "32", "40", "16", "20")
    DORY_VECTOR("36", "44", "48", "56", "24", "28")
    DORY_VECTOR("52", "60", "64", "72", "32", "36")
    "add r1, r1, #64\n add r0, r0, #32\n subs r2, #4\n bge 1b\n"
    "2: adds r2, #4\n beq 4f\n"
    "3:\n"
    DORY_VECTOR("4", "12", "16", "24", "8", "12")
    "add r1, r1, #16\n add r0, r0, #8\n subs r2, #1\n bne 3b\n"
    "4: ldr r1, [sp]\n ldr r2, [r1, #12]\n"
    DORY_OUTPUTS("r3", "r4")
    "ldrd r3, r4, [r1, #16]\n"
    DORY_STORE " r11, [r3]\n" DORY_STORE " lr, [r3, r4]\n"
    DORY_OUTPUTS("r5", "r6")
    "add r3, r3, #" DORY_STRING(DORY_Y_BITS) "/8\n ldr r5, [r1, #24]\n str r2, [r1, #12]\n"
    DORY_STORE " r11, [r3]\n" DORY_STORE " lr, [r3, r4]\n"
    "add r3, r3, #" DORY_STRING(DORY_Y_BITS) "/8\n subs r5, #1\n str r3, [r1, #16]\n"
    "str r5, [r1, #24]\n beq 5f\n"
    "ldrd r1, r2, [r1, #4]\n movs r3, #0\n movs r4, #0\n ldr r11, [r1]\n movs r5, #0\n"
    "movs r6, #0\n ldr r12, [r1, #8]\n b 0b\n"
    "5: pop {r0, r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
    : : : "memory");
}
