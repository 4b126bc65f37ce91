/* Products of rows of bytes, four at a time, and one vector of bytes in assembly, with their
 * requantisation where that is one step with immediate bounds. Rows lie as in
 * dory_stm32h7_linear_impl.h, and elements behind the vector meet weights of zero.
 *
 * The order of instructions is that of a core that issues two at a time: extensions first of their
 * cycle, with a multiplication or a load. The next input and weights are loaded while the last ones
 * are multiplied: up to 8 bytes behind the weights and 7 behind the vector are read, and never used.
 *
 * Registers: r0 weights, r1 vector, r2 fours of elements that are left, r3 to r6 sums, r11 and r12
 * inputs, r7 the next ones, r8 and r9 the first two weights. */
#if DORY_X_SIGNED
#define DORY_WIDENED "sxtb16"
#else
#define DORY_WIDENED "uxtb16"
#endif

#if DORY_COMBINED

/* Four elements, with the weights and the vector at w and x bytes from r0 and r1. */
#define DORY_FOUR_ROWS(w, x) \
  "sxtb16 r10, r8\n ldr lr, [r0, #" w "+8]\n smlad r4, r8, r11, r4\n ldr r8, [r0, #" w "+12]\n" \
  "smlad r3, r10, r11, r3\n sxtb16 r10, r9\n smlad r6, r9, r11, r6\n ldr r7, [r1, #" x "+4]\n" \
  "smlad r5, r10, r11, r5\n sxtb16 r10, lr\n smlad r4, lr, r12, r4\n ldr r9, [r0, #" w "+20]\n" \
  "smlad r3, r10, r12, r3\n sxtb16 r10, r8\n smlad r6, r8, r12, r6\n" DORY_WIDENED " r11, r7\n" \
  "smlad r5, r10, r12, r5\n ldr r8, [r0, #" w "+16]\n" DORY_WIDENED " r12, r7, ror #8\n"

/* Eight elements: in pairs of instructions, of which four elements have an odd number. */
#define DORY_EIGHT_ROWS(w, x) \
  "smlad r6, r9, r11, r6\n sxtb16 r10, r8\n ldr lr, [r0, #" w "+8]\n" \
  "smlad r3, r10, r11, r3\n ldr r7, [r1, #" x "+4]\n sxtb16 r10, r9\n" \
  "smlad r4, r8, r11, r4\n smlad r5, r10, r11, r5\n ldr r8, [r0, #" w "+12]\n" \
  "sxtb16 r10, lr\n smlad r4, lr, r12, r4\n " DORY_WIDENED " r11, r7\n" \
  "smlad r3, r10, r12, r3\n sxtb16 r10, r8\n smlad r6, r8, r12, r6\n" \
  "ldr r8, [r0, #" w "+16]\n smlad r5, r10, r12, r5\n sxtb16 r10, r8\n" \
  "ldr lr, [r0, #" w "+24]\n smlad r3, r10, r11, r3\n ldr r9, [r0, #" w "+20]\n" \
  "sxtb16 r10, r9\n smlad r4, r8, r11, r4\n ldr r8, [r0, #" w "+28]\n" \
  "smlad r6, r9, r11, r6\n " DORY_WIDENED " r12, r7, ror #8\n smlad r5, r10, r11, r5\n" \
  "sxtb16 r10, lr\n smlad r4, lr, r12, r4\n ldr r7, [r1, #" x "+8]\n" \
  "smlad r3, r10, r12, r3\n " DORY_WIDENED " r11, r7\n ldr r9, [r0, #" w "+36]\n" \
  "sxtb16 r10, r8\n smlad r6, r8, r12, r6\n smlad r5, r10, r12, r5\n" \
  "ldr r8, [r0, #" w "+32]\n " DORY_WIDENED " r12, r7, ror #8\n"

/* The sums of the second and the fourth row without those of the first and the third. */
#define DORY_APART "subs r4, r4, r3\n subs r6, r6, r5\n asrs r4, r4, #8\n asrs r6, r6, #8\n"

#else

#define DORY_FOUR_ROWS(w, x) \
  "sxtb16 r10, r8\n ldr lr, [r0, #" w "+8]\n sxtb16 r8, r8, ror #8\n smlad r3, r10, r11, r3\n" \
  "sxtb16 r10, r9\n smlad r4, r8, r11, r4\n sxtb16 r9, r9, ror #8\n smlad r5, r10, r11, r5\n" \
  "ldr r8, [r0, #" w "+12]\n smlad r6, r9, r11, r6\n sxtb16 r10, lr\n ldr r7, [r1, #" x "+4]\n" \
  "sxtb16 lr, lr, ror #8\n smlad r3, r10, r12, r3\n sxtb16 r10, r8\n smlad r4, lr, r12, r4\n" \
  "sxtb16 r9, r8, ror #8\n smlad r5, r10, r12, r5\n ldr r8, [r0, #" w "+16]\n" \
  "smlad r6, r9, r12, r6\n" DORY_WIDENED " r11, r7\n ldr r9, [r0, #" w "+20]\n" \
  DORY_WIDENED " r12, r7, ror #8\n"
#define DORY_EIGHT_ROWS(w, x) DORY_FOUR_ROWS(w, x) DORY_FOUR_ROWS(w "+16", x "+4")
#define DORY_APART ""

#endif

/* Order of the fields as in the assembly. y: outputs, or sums where they are no outputs yet. */
typedef struct {
  const uint32_t *w;
  const void *x;
  int32_t fours;          /* of elements */
  const int32_t *records; /* parameters of the first row */
  void *y, *end;          /* of the first row, and behind the last one; at least four */
} dory_rows_t;

/* DORY_OUTPUTS makes outputs of the sums and moves r1, the record, on; stores are at r2. */
#if DORY_FINISHED

#include "dory_stm32h7_assembly.h"

#if DORY_TURNED
#define DORY_OUTPUTS \
  DORY_CHANNEL_OUTPUTS("r3", "r4", "r1", "0") \
  DORY_CHANNEL_OUTPUTS("r5", "r6", "r1", DORY_RECORDS) "adds r1, #80\n"
#else
#define DORY_OUTPUTS \
  "ldr r7, [r1]\n ldr r8, [r1, #4]\n ldr r9, [r1, #8]\n ldr r10, [r1, #12]\n ldr r11, [r1, #16]\n" \
  "smlal r8, r9, r7, r3\n ldr r12, [r1, #20]\n ldr r7, [r1, #24]\n smlal r11, r12, r10, r4\n" \
  "ldr r8, [r1, #28]\n" DORY_SATURATED("r3", "r9") "ldr r9, [r1, #32]\n ldr r10, [r1, #36]\n" \
  DORY_SATURATED("r4", "r12") "smlal r8, r9, r7, r5\n ldr r11, [r1, #40]\n ldr r12, [r1, #44]\n" \
  "smlal r11, r12, r10, r6\n adds r1, #48\n" DORY_SATURATED("r5", "r9") DORY_SATURATED("r6", "r12")
#endif

/* Narrow outputs are joined to words. */
#if DORY_Y_BITS == 8
#define DORY_STORED \
  "bfi r3, r4, #8, #8\n bfi r3, r5, #16, #8\n bfi r3, r6, #24, #8\n str r3, [r2], #4\n"
#elif DORY_Y_BITS == 16
#define DORY_STORED \
  "pkhbt r3, r3, r4, lsl #16\n pkhbt r5, r5, r6, lsl #16\n str r3, [r2], #4\n str r5, [r2], #4\n"
#else
#define DORY_STORED "stm r2!, {r3, r4, r5, r6}\n"
#endif

#else
#define DORY_OUTPUTS
#define DORY_STORED "stm r2!, {r3, r4, r5, r6}\n"
#endif

/* Returns the weights behind those of all rows. */
__attribute__((naked, noinline)) static const uint32_t *dory_four_rows(const dory_rows_t *rows
                                                                       __attribute__((unused)))
{
  __asm__ volatile(
    "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n ldm r0, {r0, r1, r2, r3, r4, r5}\n"
    "push {r1, r2, r3, r4, r5}\n ldr r7, [r1]\n"
    "0: ldr r8, [r0]\n movs r3, #0\n ldr r9, [r0, #4]\n movs r4, #0\n"
    DORY_WIDENED " r11, r7\n movs r5, #0\n" DORY_WIDENED " r12, r7, ror #8\n movs r6, #0\n"
    "subs r2, #4\n blt 2f\n"
    ".p2align 3\n"
    "1:\n"
    DORY_EIGHT_ROWS("0", "0")
    DORY_EIGHT_ROWS("32", "8")
    "add r0, r0, #64\n add r1, r1, #16\n subs r2, #4\n bge 1b\n"
    "2: adds r2, #4\n beq 4f\n"
    "3:\n"
    DORY_FOUR_ROWS("0", "0")
    "add r0, r0, #16\n add r1, r1, #4\n subs r2, #1\n bne 3b\n"
    "4: ldr r1, [sp, #8]\n ldr r2, [sp, #12]\n"
    DORY_APART DORY_OUTPUTS DORY_STORED
    "ldr r8, [sp, #16]\n str r1, [sp, #8]\n ldr r1, [sp]\n str r2, [sp, #12]\n cmp r2, r8\n"
    "ldr r2, [sp, #4]\n ldr r7, [r1]\n bne 0b\n"
    "add sp, sp, #20\n pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
    : : : "memory");
}
