/* Sums of four outputs of a row, and of two, of depthwise filters of 5, 7, 9 or 11 taps in a row, in
 * assembly, as dory_stm32h7_strip_impl.h has them for 3x3: the same registers and the same order of
 * products and loads. Square filters of 5x5 and 7x7, and one row.
 *
 * Taps of a row: words of the first and second, the second and third, and so on. In the macros `w` is
 * the number of the row, a to d are registers of inputs, u and v of taps, and `x` bytes of inputs. */

/* Bytes of the taps of a row, and some of them. */
#define DORY_TAPS_BYTES 4 * DORY_TAPS - 4
#define DORY_AT(row, bytes) "[r1, #(" DORY_STRING(DORY_TAPS_BYTES) ")*(" #row ")+" #bytes "]"

/* From a row of inputs to the next; behind the last one to the first of the next outputs. */
#define DORY_ON "add r0, r0, r2\n"
#if DORY_KERNEL_H == 7
#define DORY_BACK "sub r0, r0, r2, lsl #1\n sub r0, r0, r2, lsl #2\n"
#elif DORY_KERNEL_H == 5
#define DORY_BACK "sub r0, r0, r2, lsl #2\n"
#else
#define DORY_BACK
#endif

/* Rows of the filter, of which the last one has no next one. */
#if DORY_KERNEL_H == 7
#define DORY_ALL_ROWS(row, last) row(0) row(1) row(2) row(3) row(4) row(5) last(6)
#elif DORY_KERNEL_H == 5
#define DORY_ALL_ROWS(row, last) row(0) row(1) row(2) row(3) last(4)
#else
#define DORY_ALL_ROWS(row, last) last(0)
#endif

#define DORY_ZEROS "mov r4, #0\n mov r5, #0\n mov r6, #0\n mov r7, #0\n"
#define DORY_TWO_ZEROS "mov r4, #0\n mov r5, #0\n"
/* What the requantisation of four outputs finds in registers. */
#define DORY_FOUND "ldr r10, [sp]\n ldr r11, [sp, #4]\n ldr lr, [sp, #36]\n"

#if DORY_PLANAR == 1

/* Even outputs begin with the first word of taps, odd ones with its upper half: each step has two
 * words of taps, for one product of each output. The registers of inputs take turns. */
#define DORY_FIRST "ldr r8, [r0]\n ldr r11, [r1]\n"
#define DORY_HEAD(w) \
  "smlad r4, r8, r11, r4\n ldr r9, [r0, #16]\n smlatb r5, r8, r11, r5\n ldr r12, " DORY_AT(w, 4) "\n" \
  "smlad r6, r9, r11, r6\n ldr r10, [r0, #32]\n smlatb r7, r9, r11, r7\n" \
  "ldr r11, " DORY_AT(w, 8) "\n smlad r5, r9, r12, r5\n ldr lr, [r0, #48]\n" \
  "smlad r7, r10, r12, r7\n ldr r12, " DORY_AT(w, 12) "\n"
#define DORY_STEP(w, taps, behind, a, b, c, d, x) \
  "smlad r4, " a ", r11, r4\n ldr " d ", [r0, #" #x "]\n smlad r6, " b ", r11, r6\n" \
  "ldr r11, " DORY_AT(w, taps) "\n smlad r5, " b ", r12, r5\n smlad r7, " c ", r12, r7\n" \
  "ldr r12, " DORY_AT(w, behind) "\n"
/* The last step; r8 is free behind `b` or `c`, whose products come first. */
#define DORY_TAIL_B(a, b, c, on, taps, inputs) \
  "smlad r4, " a ", r11, r4\n" on "smlad r6, " b ", r11, r6\n" taps \
  "smlabt r4, " b ", r12, r4\n smlad r5, " b ", r12, r5\n smlabt r6, " c ", r12, r6\n" inputs \
  "smlad r7, " c ", r12, r7\n"
#define DORY_TAIL_C(a, b, c, on, taps, inputs) \
  "smlad r4, " a ", r11, r4\n" on "smlad r6, " b ", r11, r6\n" taps \
  "smlabt r6, " c ", r12, r6\n smlad r7, " c ", r12, r7\n smlabt r4, " b ", r12, r4\n" inputs \
  "smlad r5, " b ", r12, r5\n"
#if DORY_TAPS == 5
#define DORY_STEPS_OF(w)
#define DORY_LAST_STEP(on, taps, inputs) DORY_TAIL_B("r9", "r10", "lr", on, taps, inputs)
#elif DORY_TAPS == 7
#define DORY_STEPS_OF(w) DORY_STEP(w, 16, 20, "r9", "r10", "lr", "r8", 64)
#define DORY_LAST_STEP(on, taps, inputs) DORY_TAIL_C("r10", "lr", "r8", on, taps, inputs)
#elif DORY_TAPS == 9
#define DORY_STEPS_OF(w) \
  DORY_STEP(w, 16, 20, "r9", "r10", "lr", "r8", 64) \
  DORY_STEP(w, 24, 28, "r10", "lr", "r8", "r9", 80)
#define DORY_LAST_STEP(on, taps, inputs) DORY_TAIL_B("lr", "r8", "r9", on, taps, inputs)
#else
#define DORY_STEPS_OF(w) \
  DORY_STEP(w, 16, 20, "r9", "r10", "lr", "r8", 64) \
  DORY_STEP(w, 24, 28, "r10", "lr", "r8", "r9", 80) \
  DORY_STEP(w, 32, 36, "lr", "r8", "r9", "r10", 96)
#define DORY_LAST_STEP(on, taps, inputs) DORY_TAIL_B("r8", "r9", "r10", on, taps, inputs)
#endif
#define DORY_ROW(w) \
  DORY_HEAD(w) DORY_STEPS_OF(w) \
  DORY_LAST_STEP(DORY_ON, "ldr r11, " DORY_AT(w + 1, 0) "\n", "ldr r8, [r0]\n")
#define DORY_LAST_ROW(w) DORY_HEAD(w) DORY_STEPS_OF(w) DORY_LAST_STEP(DORY_BACK, "", "")
#define DORY_FOUR \
  DORY_ZEROS DORY_ALL_ROWS(DORY_ROW, DORY_LAST_ROW) "add r0, r0, #32\n" DORY_FOUND

/* Two outputs: inputs in r8 and r9 by turns. */
#define DORY_PAIR_STEP(w, taps, a, b, x) \
  "smlad r4, " a ", r11, r4\n ldr " a ", [r0, #" #x "]\n smlad r5, " b ", r12, r5\n" \
  "ldr r11, " DORY_AT(w, taps) "\n ldr r12, " DORY_AT(w, taps + 4) "\n"
#define DORY_PAIR_HEAD(w) \
  "smlad r4, r8, r11, r4\n ldr r9, [r0, #16]\n ldr r12, " DORY_AT(w, 4) "\n" \
  "smlatb r5, r8, r11, r5\n ldr r8, [r0, #32]\n ldr r11, " DORY_AT(w, 8) "\n" \
  "smlad r5, r9, r12, r5\n ldr r12, " DORY_AT(w, 12) "\n"
#define DORY_PAIR_TAIL(a, b, on) \
  "smlad r4, " a ", r11, r4\n" on "smlabt r4, " b ", r12, r4\n smlad r5, " b ", r12, r5\n"
#if DORY_TAPS == 5
#define DORY_PAIR_STEPS(w, on) DORY_PAIR_TAIL("r9", "r8", on)
#elif DORY_TAPS == 7
#define DORY_PAIR_STEPS(w, on) \
  DORY_PAIR_STEP(w, 16, "r9", "r8", 48) DORY_PAIR_TAIL("r8", "r9", on)
#elif DORY_TAPS == 9
#define DORY_PAIR_STEPS(w, on) \
  DORY_PAIR_STEP(w, 16, "r9", "r8", 48) DORY_PAIR_STEP(w, 24, "r8", "r9", 64) \
  DORY_PAIR_TAIL("r9", "r8", on)
#else
#define DORY_PAIR_STEPS(w, on) \
  DORY_PAIR_STEP(w, 16, "r9", "r8", 48) DORY_PAIR_STEP(w, 24, "r8", "r9", 64) \
  DORY_PAIR_STEP(w, 32, "r9", "r8", 80) DORY_PAIR_TAIL("r8", "r9", on)
#endif
#define DORY_PAIR_ROW(w) \
  DORY_PAIR_HEAD(w) DORY_PAIR_STEPS(w, DORY_ON) "ldr r8, [r0]\n ldr r11, " DORY_AT(w + 1, 0) "\n"
#define DORY_LAST_PAIR_ROW(w) DORY_PAIR_HEAD(w) DORY_PAIR_STEPS(w, DORY_BACK)
#define DORY_TWO \
  DORY_TWO_ZEROS DORY_ALL_ROWS(DORY_PAIR_ROW, DORY_LAST_PAIR_ROW) "add r0, r0, #16\n"

#else

/* Every output begins with the first word of taps. A word of taps has a product of each output; then
 * the first of four inputs makes room for the next one. The last tap is the upper half of a word. */
#define DORY_FIRST "ldr r8, [r0]\n ldr r11, [r1]\n ldr r9, [r0, #16]\n ldr r10, [r0, #32]\n"
#define DORY_WORD_FIRST(w, taps, a, b, c, d, u, v) \
  "smlad r4, " a ", " u ", r4\n ldr " d ", [r0, #48]\n smlad r5, " b ", " u ", r5\n" \
  "ldr " v ", " DORY_AT(w, taps) "\n smlad r6, " c ", " u ", r6\n ldr " a ", [r0, #64]\n" \
  "smlad r7, " d ", " u ", r7\n"
#define DORY_WORD(w, taps, a, b, c, d, u, v, x) \
  "smlad r4, " a ", " u ", r4\n ldr " v ", " DORY_AT(w, taps) "\n smlad r5, " b ", " u ", r5\n" \
  "ldr " a ", [r0, #" #x "]\n smlad r6, " c ", " u ", r6\n smlad r7, " d ", " u ", r7\n"
#define DORY_WORD_LAST(w, a, b, c, d, u, v) \
  "smlabt r4, " a ", " u ", r4\n ldr " v ", " DORY_AT(w + 1, 0) "\n smlabt r5, " b ", " u ", r5\n" \
  "ldr " a ", [r0]\n smlabt r6, " c ", " u ", r6\n ldr " b ", [r0, #16]\n" \
  "smlabt r7, " d ", " u ", r7\n ldr " c ", [r0, #32]\n"
#define DORY_WORD_END(a, b, c, d, u) \
  "smlabt r4, " a ", " u ", r4\n smlabt r5, " b ", " u ", r5\n" \
  "smlabt r6, " c ", " u ", r6\n smlabt r7, " d ", " u ", r7\n"
#if DORY_TAPS == 5
#define DORY_WORDS(w, a, b, c, d, u, v, on) \
  DORY_WORD_FIRST(w, 8, a, b, c, d, u, v) DORY_WORD(w, 12, b, c, d, a, v, u, 80) on
#define DORY_ROW_OF(w, a, b, c, d, u, v) \
  DORY_WORDS(w, a, b, c, d, u, v, DORY_ON) DORY_WORD_LAST(w, c, d, a, b, u, v)
#define DORY_END_OF(w, a, b, c, d, u, v) \
  DORY_WORDS(w, a, b, c, d, u, v, DORY_BACK) DORY_WORD_END(c, d, a, b, u)
#define DORY_EVERY_ROW(row, last) \
  row(0, "r8", "r9", "r10", "lr", "r11", "r12") row(1, "r10", "lr", "r8", "r9", "r12", "r11") \
  row(2, "r8", "r9", "r10", "lr", "r11", "r12") row(3, "r10", "lr", "r8", "r9", "r12", "r11") \
  last(4, "r8", "r9", "r10", "lr", "r11", "r12")
#elif DORY_TAPS == 7
#define DORY_WORDS(w, a, b, c, d, u, v, on) \
  DORY_WORD_FIRST(w, 8, a, b, c, d, u, v) DORY_WORD(w, 16, b, c, d, a, v, u, 80) \
  DORY_WORD(w, 20, c, d, a, b, u, v, 96) on
#define DORY_ROW_OF(w, a, b, c, d, u, v) \
  DORY_WORDS(w, a, b, c, d, u, v, DORY_ON) DORY_WORD_LAST(w, d, a, b, c, v, u)
#define DORY_END_OF(w, a, b, c, d, u, v) \
  DORY_WORDS(w, a, b, c, d, u, v, DORY_BACK) DORY_WORD_END(d, a, b, c, v)
#define DORY_EVERY_ROW(row, last) \
  row(0, "r8", "r9", "r10", "lr", "r11", "r12") row(1, "lr", "r8", "r9", "r10", "r11", "r12") \
  row(2, "r10", "lr", "r8", "r9", "r11", "r12") row(3, "r9", "r10", "lr", "r8", "r11", "r12") \
  row(4, "r8", "r9", "r10", "lr", "r11", "r12") row(5, "lr", "r8", "r9", "r10", "r11", "r12") \
  last(6, "r10", "lr", "r8", "r9", "r11", "r12")
#elif DORY_TAPS == 9
#define DORY_WORDS(w, a, b, c, d, u, v, on) \
  DORY_WORD_FIRST(w, 8, a, b, c, d, u, v) DORY_WORD(w, 16, b, c, d, a, v, u, 80) \
  DORY_WORD(w, 24, c, d, a, b, u, v, 96) DORY_WORD(w, 28, d, a, b, c, v, u, 112) on
#define DORY_END_OF(w, a, b, c, d, u, v) \
  DORY_WORDS(w, a, b, c, d, u, v, DORY_BACK) DORY_WORD_END(a, b, c, d, u)
#else
#define DORY_WORDS(w, a, b, c, d, u, v, on) \
  DORY_WORD_FIRST(w, 8, a, b, c, d, u, v) DORY_WORD(w, 16, b, c, d, a, v, u, 80) \
  DORY_WORD(w, 24, c, d, a, b, u, v, 96) DORY_WORD(w, 32, d, a, b, c, v, u, 112) \
  DORY_WORD(w, 36, a, b, c, d, u, v, 128) on
#define DORY_END_OF(w, a, b, c, d, u, v) \
  DORY_WORDS(w, a, b, c, d, u, v, DORY_BACK) DORY_WORD_END(b, c, d, a, v)
#endif
#if DORY_KERNEL_H == 1
#undef DORY_EVERY_ROW
#define DORY_EVERY_ROW(row, last) last(0, "r8", "r9", "r10", "lr", "r11", "r12")
#endif
#define DORY_FOUR \
  DORY_ZEROS DORY_EVERY_ROW(DORY_ROW_OF, DORY_END_OF) "add r0, r0, #64\n" DORY_FOUND

/* Two outputs: each input is the second one's first and the first one's second. */
#define DORY_PAIR_WORD(w, taps, a, b, x) \
  "smlad r4, " a ", r11, r4\n ldr " a ", [r0, #" #x "]\n smlad r5, " b ", r11, r5\n" \
  "ldr r11, " DORY_AT(w, taps) "\n"
#define DORY_PAIR_LAST(a, b) "smlabt r4, " a ", r11, r4\n smlabt r5, " b ", r11, r5\n"
#if DORY_TAPS == 5
#define DORY_PAIR_WORDS(w) \
  DORY_PAIR_WORD(w, 8, "r8", "r9", 32) DORY_PAIR_WORD(w, 12, "r9", "r8", 48) \
  DORY_PAIR_LAST("r8", "r9")
#elif DORY_TAPS == 7
#define DORY_PAIR_WORDS(w) \
  DORY_PAIR_WORD(w, 8, "r8", "r9", 32) DORY_PAIR_WORD(w, 16, "r9", "r8", 48) \
  DORY_PAIR_WORD(w, 20, "r8", "r9", 64) DORY_PAIR_LAST("r9", "r8")
#elif DORY_TAPS == 9
#define DORY_PAIR_WORDS(w) \
  DORY_PAIR_WORD(w, 8, "r8", "r9", 32) DORY_PAIR_WORD(w, 16, "r9", "r8", 48) \
  DORY_PAIR_WORD(w, 24, "r8", "r9", 64) DORY_PAIR_WORD(w, 28, "r9", "r8", 80) \
  DORY_PAIR_LAST("r8", "r9")
#else
#define DORY_PAIR_WORDS(w) \
  DORY_PAIR_WORD(w, 8, "r8", "r9", 32) DORY_PAIR_WORD(w, 16, "r9", "r8", 48) \
  DORY_PAIR_WORD(w, 24, "r8", "r9", 64) DORY_PAIR_WORD(w, 32, "r9", "r8", 80) \
  DORY_PAIR_WORD(w, 36, "r8", "r9", 96) DORY_PAIR_LAST("r9", "r8")
#endif
#define DORY_PAIR_ROW(w) \
  DORY_PAIR_WORDS(w) \
  DORY_ON "ldr r8, [r0]\n ldr r9, [r0, #16]\n ldr r11, " DORY_AT(w + 1, 0) "\n"
#define DORY_LAST_PAIR_ROW(w) DORY_PAIR_WORDS(w) DORY_BACK
#define DORY_TWO \
  DORY_TWO_ZEROS DORY_ALL_ROWS(DORY_PAIR_ROW, DORY_LAST_PAIR_ROW) "add r0, r0, #32\n"

#endif
