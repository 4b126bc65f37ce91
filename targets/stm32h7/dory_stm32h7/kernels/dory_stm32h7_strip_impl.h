/* All outputs of a strip of one channel in assembly, from pairs of columns as in
 * dory_stm32h7_planar_impl.h: blocks of four outputs of a row, then of two, with their
 * requantisation. For one step with a shift of 32 or more and immediate bounds.
 *
 * The order of instructions is that of a core that issues two at a time: a product beside a load,
 * each load two cycles before its use. The first inputs of the next block are loaded while outputs
 * are stored: up to 16 bytes behind the last row are read, and never used.
 *
 * Registers: r0 inputs, r1 taps, r2 bytes of a row of inputs, r3 outputs, r4 to r7 sums, r8 to r10
 * inputs, r11, r12 and, with a step of 2, lr taps. */

/* Order of the fields as in the assembly. */
typedef struct {
  const uint32_t *x, *w;
  int32_t row; /* bytes from a row of inputs to the next */
  DORY_Y_T *y;
  int32_t mul;
  uint32_t add[2];
  int32_t fours; /* bytes of inputs from the first block of four outputs to behind the last */
  int32_t rest;  /* outputs behind those */
  int32_t step;  /* bytes from the inputs of a row of outputs to those of the next */
  int32_t rows;
  int32_t pitch; /* bytes from output to output */
#if DORY_TURNED
  int32_t offset, more; /* of the channel */
#endif
} dory_strip_t;

#include "dory_stm32h7_assembly.h"

#if DORY_TAPS > 3

#include "dory_stm32h7_wide_impl.h"

#elif DORY_PLANAR == 1

/* Two columns are a word: three words have the inputs of four outputs. */
#define DORY_FIRST "ldr r8, [r0]\n ldr r11, [r1]\n"
#define DORY_FOUR \
  "smuad r4, r8, r11\n ldr r9, [r0, #16]\n smultb r5, r8, r11\n ldr r12, [r1, #4]\n" \
  "ldr r10, [r0, #32]\n add r0, r0, r2\n smuad r6, r9, r11\n ldr r8, [r0]\n" \
  "smultb r7, r9, r11\n ldr r11, [r1, #8]\n smlabt r4, r9, r12, r4\n" \
  "smlad r5, r9, r12, r5\n ldr r9, [r0, #16]\n smlabt r6, r10, r12, r6\n" \
  "smlad r7, r10, r12, r7\n ldr r12, [r1, #12]\n" \
  "smlad r4, r8, r11, r4\n ldr r10, [r0, #32]\n smlatb r5, r8, r11, r5\n add r0, r0, r2\n" \
  "smlad r6, r9, r11, r6\n ldr r8, [r0]\n smlatb r7, r9, r11, r7\n ldr r11, [r1, #16]\n" \
  "smlabt r4, r9, r12, r4\n smlad r5, r9, r12, r5\n ldr r9, [r0, #16]\n" \
  "smlabt r6, r10, r12, r6\n smlad r7, r10, r12, r7\n ldr r12, [r1, #20]\n" \
  "smlad r4, r8, r11, r4\n ldr r10, [r0, #32]\n smlatb r5, r8, r11, r5\n" \
  "sub r0, r0, r2, lsl #1\n smlad r6, r9, r11, r6\n add r0, r0, #32\n" \
  "smlatb r7, r9, r11, r7\n smlabt r6, r10, r12, r6\n smlad r7, r10, r12, r7\n" \
  "ldr r8, [r0]\n smlabt r4, r9, r12, r4\n ldr r10, [sp]\n smlad r5, r9, r12, r5\n" \
  "ldr r11, [sp, #4]\n"
#define DORY_TWO \
  "smuad r4, r8, r11\n ldr r9, [r0, #16]\n smultb r5, r8, r11\n ldr r12, [r1, #4]\n" \
  "add r0, r0, r2\n ldr r8, [r0]\n ldr r11, [r1, #8]\n smlabt r4, r9, r12, r4\n" \
  "smlad r5, r9, r12, r5\n ldr r9, [r0, #16]\n smlad r4, r8, r11, r4\n ldr r12, [r1, #12]\n" \
  "smlatb r5, r8, r11, r5\n add r0, r0, r2\n ldr r8, [r0]\n ldr r11, [r1, #16]\n" \
  "smlabt r4, r9, r12, r4\n smlad r5, r9, r12, r5\n ldr r9, [r0, #16]\n" \
  "smlad r4, r8, r11, r4\n ldr r12, [r1, #20]\n smlatb r5, r8, r11, r5\n" \
  "sub r0, r0, r2, lsl #1\n smlabt r4, r9, r12, r4\n add r0, r0, #16\n" \
  "smlad r5, r9, r12, r5\n"

#else

/* Five words have the inputs of four outputs; the registers of the first and third word change
 * their places from row to row. */
#define DORY_FIRST "ldr r8, [r0]\n ldr r11, [r1]\n ldr r9, [r0, #16]\n ldr r12, [r1, #4]\n"
#define DORY_FOUR \
  "smuad r4, r8, r11\n ldr r10, [r0, #32]\n smlabt r4, r9, r12, r4\n ldr r8, [r0, #48]\n" \
  "smuad r5, r9, r11\n ldr lr, [r1, #8]\n smlabt r5, r10, r12, r5\n ldr r9, [r0, #64]\n" \
  "smuad r6, r10, r11\n add r0, r0, r2\n smlabt r6, r8, r12, r6\n ldr r10, [r0]\n" \
  "smuad r7, r8, r11\n smlabt r7, r9, r12, r7\n ldr r9, [r0, #16]\n ldr r12, [r1, #12]\n" \
  "smlad r4, r10, lr, r4\n ldr r8, [r0, #32]\n smlad r5, r9, lr, r5\n ldr r10, [r0, #48]\n" \
  "smlabt r4, r9, r12, r4\n ldr r11, [r1, #16]\n smlabt r5, r8, r12, r5\n ldr r9, [r0, #64]\n" \
  "smlad r6, r8, lr, r6\n add r0, r0, r2\n smlabt r6, r10, r12, r6\n ldr r8, [r0]\n" \
  "smlad r7, r10, lr, r7\n smlabt r7, r9, r12, r7\n ldr r9, [r0, #16]\n ldr r12, [r1, #20]\n" \
  "smlad r4, r8, r11, r4\n ldr r10, [r0, #32]\n smlad r5, r9, r11, r5\n ldr r8, [r0, #48]\n" \
  "smlabt r4, r9, r12, r4\n ldr r9, [r0, #64]\n smlabt r5, r10, r12, r5\n" \
  "sub r0, r0, r2, lsl #1\n smlad r6, r10, r11, r6\n add r0, r0, #64\n" \
  "smlabt r6, r8, r12, r6\n ldr r10, [sp]\n smlad r7, r8, r11, r7\n ldr r11, [sp, #4]\n" \
  "smlabt r7, r9, r12, r7\n ldr lr, [sp, #36]\n ldr r8, [r0]\n"
#define DORY_TWO \
  "smuad r4, r8, r11\n ldr r10, [r0, #32]\n smlabt r4, r9, r12, r4\n add r0, r0, r2\n" \
  "smuad r5, r9, r11\n ldr r8, [r0]\n smlabt r5, r10, r12, r5\n ldr r11, [r1, #8]\n" \
  "ldr r9, [r0, #16]\n ldr r12, [r1, #12]\n smlad r4, r8, r11, r4\n ldr r10, [r0, #32]\n" \
  "smlad r5, r9, r11, r5\n add r0, r0, r2\n smlabt r4, r9, r12, r4\n ldr r8, [r0]\n" \
  "smlabt r5, r10, r12, r5\n ldr r11, [r1, #16]\n ldr r9, [r0, #16]\n ldr r12, [r1, #20]\n" \
  "smlad r4, r8, r11, r4\n ldr r10, [r0, #32]\n smlad r5, r9, r11, r5\n" \
  "sub r0, r0, r2, lsl #1\n smlabt r4, r9, r12, r4\n add r0, r0, #32\n" \
  "smlabt r5, r10, r12, r5\n ldr lr, [sp, #36]\n"

#endif

/* On the stack: mul, both words of add, the inputs behind the blocks of four, those of the row,
 * step, fours, rest, rows, pitch, and offset and more where sums turn. lr is the pitch. Outputs of r4 to
 * r7 are in r9, r4, r12 and r6. */
#if DORY_TURNED
/* Register `high` becomes the product of a sum and mul, plus add and, where the sum is not negative,
 * more: r8, r10 to r12 are the upper word of add, mul, the lower word and more. */
#define DORY_TURNED_PRODUCT(sum, high) \
  "bic r9, r12, " sum ", asr #31\n adds r9, r9, r11\n adc " high ", r8, #0\n" \
  "smlal r9, " high ", r10, " sum "\n"
#define DORY_FOUR_PRODUCTS \
  "ldr r9, [sp, #40]\n ldr r12, [sp, #44]\n add r6, r6, r9\n add r7, r7, r9\n ldr r8, [sp, #8]\n" \
  "add r4, r4, r9\n add r5, r5, r9\n" DORY_TURNED_PRODUCT("r6", "lr") \
  DORY_TURNED_PRODUCT("r7", "r6") DORY_TURNED_PRODUCT("r4", "r7") DORY_TURNED_PRODUCT("r5", "r4") \
  DORY_SATURATED("r12", "lr") "ldr lr, [sp, #36]\n" DORY_SATURATED("r6", "r6") \
  DORY_SATURATED("r9", "r7") DORY_SATURATED("r4", "r4") "add r5, r3, lr, lsl #1\n"
#define DORY_FOUR_OUTPUTS \
  DORY_FOUR_PRODUCTS DORY_STORE " r12, [r5]\n ldr r10, [sp, #12]\n" DORY_STORE " r6, [r5, lr]\n" \
  DORY_STORE " r9, [r3]\n" DORY_STORE " r4, [r3, lr]\n add r3, r5, lr, lsl #1\n"
#define DORY_TWO_PRODUCTS \
  "ldr r9, [sp, #40]\n ldr r12, [sp, #44]\n add r4, r4, r9\n add r5, r5, r9\n ldr r8, [sp, #8]\n" \
  "ldr r10, [sp]\n ldr r11, [sp, #4]\n" DORY_TURNED_PRODUCT("r5", "r6") \
  DORY_TURNED_PRODUCT("r4", "r5") "cmp r7, #1\n" \
  DORY_SATURATED("r6", "r6") DORY_SATURATED("r12", "r5")
#else
#define DORY_FOUR_OUTPUTS \
  "ldr r9, [sp, #4]\n ldr r12, [sp, #8]\n smlal r9, r12, r10, r6\n ldr r6, [sp, #8]\n" \
  "smlal r11, r6, r10, r7\n ldr r7, [sp, #4]\n" \
  DORY_SATURATED("r12", "r12") "ldr r9, [sp, #8]\n" \
  DORY_SATURATED("r6", "r6") "ldr r11, [sp, #4]\n" \
  "smlal r7, r9, r10, r4\n ldr r4, [sp, #8]\n smlal r11, r4, r10, r5\n" \
  "add r5, r3, lr, lsl #1\n" DORY_STORE " r12, [r5]\n ldr r10, [sp, #12]\n" \
  DORY_SATURATED("r9", "r9") DORY_STORE " r6, [r5, lr]\n" \
  DORY_SATURATED("r4", "r4") DORY_STORE " r9, [r3]\n" \
  DORY_STORE " r4, [r3, lr]\n add r3, r5, lr, lsl #1\n"
#define DORY_TWO_PRODUCTS \
  "ldr r10, [sp]\n ldr r9, [sp, #4]\n ldr r12, [sp, #8]\n ldr r11, [sp, #4]\n" \
  "smlal r9, r12, r10, r4\n ldr r6, [sp, #8]\n smlal r11, r6, r10, r5\n cmp r7, #1\n" \
  DORY_SATURATED("r12", "r12") DORY_SATURATED("r6", "r6")
#endif
#define DORY_TWO_OUTPUTS \
  DORY_TWO_PRODUCTS "it gt\n " DORY_STORE "gt r6, [r3, lr]\n" DORY_STORE " r12, [r3]\n"

#if DORY_TURNED
#define DORY_TURN "ldrd r10, r11, [r12, #32]\n strd r10, r11, [sp, #40]\n"
#else
#define DORY_TURN
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
__attribute__((naked, noinline)) static void dory_strip_rows(const dory_strip_t *strip
                                                             __attribute__((unused)))
{
  __asm__ volatile(
    "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n mov r12, r0\n"
    "ldm r12!, {r0, r1, r2, r3}\n ldm r12, {r4, r5, r6, r7, r8, r9, r10, r11}\n"
    "sub sp, sp, #48\n strd r4, r5, [sp]\n str r6, [sp, #8]\n str r0, [sp, #16]\n"
    "str r7, [sp, #24]\n str r8, [sp, #28]\n str r9, [sp, #20]\n str r10, [sp, #32]\n"
    "str r11, [sp, #36]\n mov lr, r11\n" DORY_TURN
    "1: ldr r0, [sp, #16]\n ldr r7, [sp, #24]\n add r10, r0, r7\n cmp r7, #0\n"
    "str r10, [sp, #12]\n" DORY_FIRST "beq 3f\n"
    "2:\n"
    DORY_FOUR DORY_FOUR_OUTPUTS
    "cmp r0, r10\n" DORY_FIRST "bne 2b\n"
    "3: ldr r7, [sp, #28]\n cmp r7, #0\n ble 5f\n"
    "4:\n"
    DORY_TWO DORY_TWO_OUTPUTS
    "subs r7, r7, #2\n add r3, r3, lr\n it ge\n addge r3, r3, lr\n" DORY_FIRST "bgt 4b\n"
    "5: ldr r0, [sp, #16]\n ldr r9, [sp, #20]\n ldr r10, [sp, #32]\n add r0, r0, r9\n"
    "subs r10, r10, #1\n str r0, [sp, #16]\n str r10, [sp, #32]\n bne 1b\n"
    "add sp, sp, #48\n pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
    : : : "memory");
}
#pragma GCC diagnostic pop
