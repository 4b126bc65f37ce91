/* Products of four rows of bytes and one vector of bytes in assembly. Rows lie as in
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

/* Four elements; w, x: bytes from r0 and r1. */
#define DORY_FOUR_ROWS(w8, w12, next_w0, next_w4, next_x) \
  "sxtb16 r10, r8\n ldr lr, [r0, #" w8 "]\n sxtb16 r8, r8, ror #8\n smlad r3, r10, r11, r3\n" \
  "sxtb16 r10, r9\n smlad r3, r8, r12, r3\n sxtb16 r9, r9, ror #8\n smlad r4, r10, r11, r4\n" \
  "ldr r8, [r0, #" w12 "]\n smlad r4, r9, r12, r4\n sxtb16 r10, lr\n ldr r7, [r1, #" next_x "]\n" \
  "sxtb16 lr, lr, ror #8\n smlad r5, r10, r11, r5\n sxtb16 r10, r8\n smlad r5, lr, r12, r5\n" \
  "sxtb16 r9, r8, ror #8\n smlad r6, r10, r11, r6\n ldr r8, [r0, #" next_w0 "]\n" \
  "smlad r6, r9, r12, r6\n" DORY_WIDENED " r11, r7\n ldr r9, [r0, #" next_w4 "]\n" \
  DORY_WIDENED " r12, r7, ror #8\n"

/* Returns the weights behind those of `fours` times four elements. */
__attribute__((naked, noinline)) static const uint32_t *dory_four_rows(
  const uint32_t *w __attribute__((unused)), const void *x __attribute__((unused)),
  int32_t fours __attribute__((unused)), int32_t *sums __attribute__((unused)))
{
  __asm__ volatile(
    "push {r3, r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
    "ldr r7, [r1]\n movs r3, #0\n ldr r8, [r0]\n movs r4, #0\n ldr r9, [r0, #4]\n movs r5, #0\n"
    DORY_WIDENED " r11, r7\n movs r6, #0\n" DORY_WIDENED " r12, r7, ror #8\n"
    "subs r2, #4\n blt 2f\n"
    "1:\n"
    DORY_FOUR_ROWS("8", "12", "16", "20", "4")
    DORY_FOUR_ROWS("24", "28", "32", "36", "8")
    DORY_FOUR_ROWS("40", "44", "48", "52", "12")
    DORY_FOUR_ROWS("56", "60", "64", "68", "16")
    "add r0, r0, #64\n add r1, r1, #16\n subs r2, #4\n bge 1b\n"
    "2: adds r2, #4\n beq 4f\n"
    "3:\n"
    DORY_FOUR_ROWS("8", "12", "16", "20", "4")
    "add r0, r0, #16\n add r1, r1, #4\n subs r2, #1\n bne 3b\n"
    "4: ldr r7, [sp]\n stm r7, {r3, r4, r5, r6}\n"
    "pop {r3, r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
    : : : "memory");
}
