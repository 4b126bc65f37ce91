/* The block of dory_gap8_block_impl.h for XpulpV2, and nothing else: included by that file.
 *
 * Sums of pixel 0 lie in s0 .. s3 (a channel each), of pixel 1 in s4 .. s7, of pixel 2 in s8 .. s11,
 * of pixel 3 in a4 .. a7; weights of the four channels in t0 .. t3, inputs in t4 and t5; pointers to
 * the inputs in a0 .. a3, to the weights in t6, into the table in ra. What a step does not need lies
 * on the stack. No instruction uses what the one before it loaded. Blocks of three pixels leave out
 * what belongs to pixel 3.
 *
 * Hardware loop 0 runs over the steps of a segment, loop 1 over groups of channels; the end of a
 * hardware loop is its last instruction. The first step of a group starts the sums, which is why a
 * segment has two steps at least. Around them runs a loop over blocks of pixels, which moves the
 * pointers of the table in place.
 *
 * Where all blocks have one segment (DORY_BLOCK_ONE), its pointers lie on the stack instead, and ra
 * holds the steps of the loop. Terms of channels and of pixels are added behind the last step. */

#include "dory_gap8_function_asm.h"

#define DORY_BLOCK_NAME DORY_TEXT(DORY_KERNEL) "_block"

void dory_block_run(const dory_block_t *b) __asm__(DORY_BLOCK_NAME);

/* What follows the arguments of dory_block_t; the frame of the block. */
#define DORY_AT_TABLE_END "0(sp)"
#define DORY_AT_STEPS "4(sp)"
#define DORY_AT_FIRST_STEPS "8(sp)"
#define DORY_AT_TABLE "12(sp)"
#define DORY_AT_PARAMETERS "16(sp)"
#define DORY_AT_Y "20(sp)"
#define DORY_AT_Y_BYTES "24(sp)"
#define DORY_AT_SHIFT "28(sp)"
#define DORY_AT_LOW_BITS "32(sp)"
#define DORY_AT_HI "36(sp)"
#define DORY_AT_SKIP "40(sp)"
#define DORY_AT_GROUPS "96(sp)"
#define DORY_AT_WEIGHTS "100(sp)"
#define DORY_AT_FIRST_PARAMETERS "104(sp)"
#define DORY_AT_FIRST_Y "108(sp)"
#define DORY_AT_FOURS "112(sp)"
#define DORY_AT_X_STEP "116(sp)"
#define DORY_AT_INPUT_0 "120(sp)"
#define DORY_AT_INPUT_1 "124(sp)"
#define DORY_AT_INPUT_2 "128(sp)"
#define DORY_AT_INPUT_3 "132(sp)"
#define DORY_AT_TERMS "136(sp)"

/* What belongs to pixel 3. */
#if DORY_BLOCK_PIXELS == 4
#define DORY_FOURTH(text) text
#define DORY_THIRD_LABEL(label) ""
#else
#define DORY_FOURTH(text)
#define DORY_THIRD_LABEL(label) label
#endif

/* -- the steps -- */

#if DORY_LANES == 4
#define DORY_LANE "b "
#else
#define DORY_LANE "h "
#endif
#if DORY_X_SIGNED
#define DORY_START "pv.dotsp." DORY_LANE
#define DORY_ADD "pv.sdotsp." DORY_LANE
#else
#define DORY_START "pv.dotusp." DORY_LANE
#define DORY_ADD "pv.sdotusp." DORY_LANE
#endif

/* A word of inputs times the weights of four channels; `label` is that of the last instruction. */
#define DORY_DOTS(dot, a, b, c, d, x, label) \
  DORY_I(dot #a ", " #x ", t0")              \
  DORY_I(dot #b ", " #x ", t1")              \
  DORY_I(dot #c ", " #x ", t2")              \
  label DORY_I(dot #d ", " #x ", t3")

#if DORY_HALVES

/* The first halves of four inputs, then the second ones, which are loaded behind each other. */
#define DORY_STEP(dot, label)                 \
  DORY_I("p.lw t0, 4(t6!)")                   \
  DORY_I("p.lw t1, 4(t6!)")                   \
  DORY_I("p.lw t2, 4(t6!)")                   \
  DORY_I("p.lw t3, 4(t6!)")                   \
  DORY_I("p.lw t4, 4(a0!)")                   \
  DORY_I("p.lw t5, 4(a0!)")                   \
  DORY_DOTS(dot, s0, s1, s2, s3, t4, "")      \
  DORY_I("p.lw t4, 4(a1!)")                   \
  DORY_DOTS(DORY_ADD, s0, s1, s2, s3, t5, "") \
  DORY_I("p.lw t5, 4(a1!)")                   \
  DORY_DOTS(dot, s4, s5, s6, s7, t4, "")      \
  DORY_I("p.lw t4, 4(a2!)")                   \
  DORY_DOTS(DORY_ADD, s4, s5, s6, s7, t5, "") \
  DORY_I("p.lw t5, 4(a2!)")                   \
  DORY_DOTS(dot, s8, s9, s10, s11, t4, "")    \
  DORY_FOURTH(DORY_I("p.lw t4, 4(a3!)"))      \
  DORY_DOTS(DORY_ADD, s8, s9, s10, s11, t5, DORY_THIRD_LABEL(label)) \
  DORY_FOURTH(DORY_I("p.lw t5, 4(a3!)")       \
              DORY_DOTS(dot, a4, a5, a6, a7, t4, "") \
              DORY_DOTS(DORY_ADD, a4, a5, a6, a7, t5, label))

#else

#define DORY_STEP(dot, label)                 \
  DORY_I("p.lw t0, 4(t6!)")                   \
  DORY_I("p.lw t1, 4(t6!)")                   \
  DORY_I("p.lw t2, 4(t6!)")                   \
  DORY_I("p.lw t3, 4(t6!)")                   \
  DORY_I("p.lw t4, 4(a0!)")                   \
  DORY_I("p.lw t5, 4(a1!)")                   \
  DORY_DOTS(dot, s0, s1, s2, s3, t4, "")      \
  DORY_I("p.lw t4, 4(a2!)")                   \
  DORY_DOTS(dot, s4, s5, s6, s7, t5, "")      \
  DORY_FOURTH(DORY_I("p.lw t5, 4(a3!)"))      \
  DORY_DOTS(dot, s8, s9, s10, s11, t4, DORY_THIRD_LABEL(label)) \
  DORY_FOURTH(DORY_DOTS(dot, a4, a5, a6, a7, t5, label))

#endif

#define DORY_POINTERS        \
  DORY_I("p.lw a0, 4(ra!)")  \
  DORY_I("p.lw a1, 4(ra!)")  \
  DORY_I("p.lw a2, 4(ra!)")  \
  DORY_FOURTH(DORY_I("p.lw a3, 4(ra!)"))

/* -- from sums to outputs -- */

/* An instruction for each pixel, with the sum of a channel as target and first operand. */
#define DORY_EACH(op, a, b, c, d, rest) \
  DORY_I(op #a ", " #a ", " rest)       \
  DORY_I(op #b ", " #b ", " rest)       \
  DORY_I(op #c ", " #c ", " rest)       \
  DORY_FOURTH(DORY_I(op #d ", " #d ", " rest))

#define DORY_LOAD(r) DORY_I("p.lw " #r ", 4(t1!)")
#define DORY_OWN_SHIFTS (DORY_BLOCK_SHIFTS || DORY_BLOCK_FORM == DORY_BLOCK_HIGH)
#define DORY_NOTHING(r)

#if DORY_BLOCK_FORM != DORY_BLOCK_RAW && DORY_BLOCK_REACH
#define DORY_LOAD_REACH(load, r) load(r)
#define DORY_CLAMP(a, b, c, d, r) DORY_EACH("p.clipr ", a, b, c, d, #r)
#else
#define DORY_LOAD_REACH(load, r)
#define DORY_CLAMP(a, b, c, d, r)
#endif

#if DORY_BLOCK_CLIP == DORY_BLOCK_UNSIGNED
#define DORY_CLIP(to, from) DORY_I("p.clipur " #to ", " #from ", t3")
#elif DORY_BLOCK_CLIP == DORY_BLOCK_SIGNED
#define DORY_CLIP(to, from) DORY_I("p.clipr " #to ", " #from ", t3")
#else
#define DORY_CLIP(to, from) DORY_I("mv " #to ", " #from)
#endif

/* The outputs of a pixel in one word. */
#define DORY_PACK(a, b, c, d)                \
  DORY_I("pv.packlo.b " #a ", " #b ", " #a)  \
  DORY_I("pv.packhi.b " #a ", " #d ", " #c)

#define DORY_PACK_AND_STORE                  \
  DORY_I("lw t0, " DORY_AT_Y)                \
  DORY_I("lw t4, " DORY_AT_Y_BYTES)          \
  DORY_I("sw t1, " DORY_AT_PARAMETERS)       \
  DORY_I("addi t1, t0, 4")                   \
  DORY_I("sw t1, " DORY_AT_Y)                \
  DORY_PACK(s0, s1, s2, s3)                  \
  DORY_PACK(s4, s5, s6, s7)                  \
  DORY_PACK(s8, s9, s10, s11)                \
  DORY_FOURTH(DORY_PACK(a4, a5, a6, a7))     \
  DORY_I("p.sw s0, t4(t0!)")                 \
  DORY_I("p.sw s4, t4(t0!)")                 \
  DORY_THIRD_LABEL("4: ")                    \
  DORY_I("p.sw s8, t4(t0!)")                 \
  DORY_FOURTH("4: " DORY_I("sw a4, 0(t0)"))

#if DORY_BLOCK_FORM == DORY_BLOCK_RAW

#define DORY_SUMS(a, b, c, d, label) \
  DORY_I("sw " #a ", 0(t0)")         \
  DORY_I("sw " #b ", 4(t0)")         \
  DORY_I("sw " #c ", 8(t0)")         \
  label DORY_I("sw " #d ", 12(t0)")
#define DORY_OUTPUT                  \
  DORY_I("lw t0, " DORY_AT_Y)        \
  DORY_I("lw t4, " DORY_AT_Y_BYTES)  \
  DORY_I("addi t1, t0, 16")          \
  DORY_I("sw t1, " DORY_AT_Y)        \
  DORY_SUMS(s0, s1, s2, s3, "")      \
  DORY_I("add t0, t0, t4")           \
  DORY_SUMS(s4, s5, s6, s7, "")      \
  DORY_I("add t0, t0, t4")           \
  DORY_SUMS(s8, s9, s10, s11, DORY_THIRD_LABEL("4: ")) \
  DORY_FOURTH(DORY_I("add t0, t0, t4")                 \
              DORY_SUMS(a4, a5, a6, a7, "4: "))

#elif DORY_BLOCK_TURNED

/* Offset and reach lie in ra one after the other, mul_low, mul (or its high limb), add and below in
 * a0, a1, a2, a3, the shift in t2. Values of two pixels are made at a time in t0 and t4. The sign of a
 * sum, moved to its place of 1, multiplies what is added below zero. The next offset is loaded a
 * channel ahead. */
#if DORY_BLOCK_REACH
#define DORY_CLAMP_TURNED(a, b, c, d) DORY_EACH("p.clipr ", a, b, c, d, "ra")
#else
#define DORY_CLAMP_TURNED(a, b, c, d)
#endif
#if DORY_OWN_SHIFTS
#define DORY_FETCH_SHIFT
#define DORY_LOAD_SHIFT DORY_LOAD(t2)
#else
#define DORY_FETCH_SHIFT DORY_I("lw t2, " DORY_AT_SHIFT)
#define DORY_LOAD_SHIFT
#endif
#if DORY_BLOCK_FORM == DORY_BLOCK_LIMBS
#define DORY_LOAD_LOW DORY_LOAD(a0)
#define DORY_FETCH_LOW_BITS DORY_I("lw t5, " DORY_AT_LOW_BITS)
#define DORY_SHIFT_UP(a, b, c, d)
#define DORY_PRODUCTS(a, b, second)            \
  DORY_I("mul t0, " #a ", a0")                 \
  second(DORY_I("mul t4, " #b ", a0"))         \
  DORY_I("sra t0, t0, t5")                     \
  second(DORY_I("sra t4, t4, t5"))             \
  DORY_I("p.mac t0, " #a ", a1")               \
  second(DORY_I("p.mac t4, " #b ", a1"))
#elif DORY_BLOCK_FORM == DORY_BLOCK_HIGH
#define DORY_LOAD_LOW
#define DORY_FETCH_LOW_BITS DORY_I("lw t5, " DORY_AT_LOW_BITS)
#define DORY_SHIFT_UP(a, b, c, d) DORY_EACH("sll ", a, b, c, d, "t5")
#define DORY_PRODUCTS(a, b, second)            \
  DORY_I("mulh t0, " #a ", a1")                \
  second(DORY_I("mulh t4, " #b ", a1"))
#else
#define DORY_LOAD_LOW
#define DORY_FETCH_LOW_BITS
#define DORY_SHIFT_UP(a, b, c, d)
#define DORY_PRODUCTS(a, b, second)            \
  DORY_I("mul t0, " #a ", a1")                 \
  second(DORY_I("mul t4, " #b ", a1"))
#endif
/* Nothing uses what the instruction before it loaded. */
#if DORY_OWN_SHIFTS && DORY_BLOCK_FORM == DORY_BLOCK_STEP
#define DORY_NO_STALL DORY_I("nop")
#else
#define DORY_NO_STALL
#endif
/* Two pixels, or the first of them where `second` leaves out the other one. */
#define DORY_KEPT(text) text
#define DORY_TWO(a, b, second)                 \
  DORY_PRODUCTS(a, b, second)                  \
  DORY_I("srli " #a ", " #a ", 31")            \
  second(DORY_I("srli " #b ", " #b ", 31"))    \
  DORY_I("p.mac t0, " #a ", a3")               \
  second(DORY_I("p.mac t4, " #b ", a3"))       \
  DORY_I("p.addNr t0, a2, t2")                 \
  second(DORY_I("p.addNr t4, a2, t2"))         \
  DORY_CLIP(a, t0)                             \
  second(DORY_CLIP(b, t4))
#define DORY_CHANNEL(a, b, c, d, load)   \
  DORY_EACH("add ", a, b, c, d, "ra")    \
  DORY_LOAD_REACH(DORY_LOAD, ra)         \
  DORY_LOAD_LOW DORY_LOAD(a1)            \
  DORY_LOAD(a2)                          \
  DORY_CLAMP_TURNED(a, b, c, d)          \
  DORY_LOAD(a3) DORY_LOAD_SHIFT load(ra) \
  DORY_SHIFT_UP(a, b, c, d)              \
  DORY_TWO(a, b, DORY_KEPT)              \
  DORY_TWO(c, d, DORY_FOURTH)
#define DORY_OUTPUT                             \
  DORY_I("lw t3, " DORY_AT_HI)                  \
  DORY_LOAD(ra)                                 \
  DORY_FETCH_SHIFT                              \
  DORY_FETCH_LOW_BITS                           \
  DORY_NO_STALL                                 \
  DORY_CHANNEL(s0, s4, s8, a4, DORY_LOAD)       \
  DORY_CHANNEL(s1, s5, s9, a5, DORY_LOAD)       \
  DORY_CHANNEL(s2, s6, s10, a6, DORY_LOAD)      \
  DORY_CHANNEL(s3, s7, s11, a7, DORY_NOTHING)   \
  DORY_PACK_AND_STORE

#elif DORY_BLOCK_FORM == DORY_BLOCK_STEP || DORY_BLOCK_FORM == DORY_BLOCK_HIGH

/* Parameters are loaded a channel ahead: reach, mul, add into a0, a1, a2 and a3, t5, ra in turn. A
 * channel's shift comes in place of reach: no sum is clamped then. */
#if DORY_OWN_SHIFTS
#define DORY_LOAD_EVEN(load) load(a1) load(a2) load(a0)
#define DORY_LOAD_ODD(load) load(t5) load(ra) load(a3)
#define DORY_SHIFT_BY(shift) #shift
#else
#define DORY_LOAD_EVEN(load) DORY_LOAD_REACH(load, a0) load(a1) load(a2)
#define DORY_LOAD_ODD(load) DORY_LOAD_REACH(load, a3) load(t5) load(ra)
#define DORY_SHIFT_BY(shift) "t2"
#endif
#if DORY_BLOCK_FORM == DORY_BLOCK_HIGH
#define DORY_FETCH_SHIFT DORY_I("lw t4, " DORY_AT_LOW_BITS)
#define DORY_PRODUCTS(a, b, c, d, shift, mul) \
  DORY_EACH("sll ", a, b, c, d, "t4")         \
  DORY_EACH("mulh ", a, b, c, d, #mul)
#else
#define DORY_FETCH_SHIFT DORY_I("lw t2, " DORY_AT_SHIFT)
#define DORY_PRODUCTS(a, b, c, d, reach, mul) \
  DORY_CLAMP_BY(a, b, c, d, reach)            \
  DORY_EACH("mul ", a, b, c, d, #mul)
#endif
#if DORY_OWN_SHIFTS
#define DORY_CLAMP_BY(a, b, c, d, reach)
#else
#define DORY_CLAMP_BY(a, b, c, d, reach) DORY_CLAMP(a, b, c, d, reach)
#endif
#define DORY_CHANNEL(a, b, c, d, first, mul, add)            \
  DORY_PRODUCTS(a, b, c, d, first, mul)                      \
  DORY_EACH_ADDED(a, b, c, d, #add ", " DORY_SHIFT_BY(first)) \
  DORY_CLIP_IN_PLACE(a, b, c, d)
#define DORY_EACH_ADDED(a, b, c, d, rest)   \
  DORY_I("p.addNr " #a ", " rest)           \
  DORY_I("p.addNr " #b ", " rest)           \
  DORY_I("p.addNr " #c ", " rest)           \
  DORY_FOURTH(DORY_I("p.addNr " #d ", " rest))
#if DORY_BLOCK_CLIP == DORY_BLOCK_NO_CLIP
#define DORY_CLIP_IN_PLACE(a, b, c, d)
#else
#define DORY_CLIP_IN_PLACE(a, b, c, d) \
  DORY_CLIP(a, a) DORY_CLIP(b, b) DORY_CLIP(c, c) DORY_FOURTH(DORY_CLIP(d, d))
#endif
#define DORY_OUTPUT                                \
  DORY_FETCH_SHIFT                                 \
  DORY_LOAD_EVEN(DORY_LOAD)                        \
  DORY_I("lw t3, " DORY_AT_HI)                     \
  DORY_LOAD_ODD(DORY_LOAD)                         \
  DORY_CHANNEL(s0, s4, s8, a4, a0, a1, a2)         \
  DORY_LOAD_EVEN(DORY_LOAD)                        \
  DORY_CHANNEL(s1, s5, s9, a5, a3, t5, ra)         \
  DORY_LOAD_ODD(DORY_LOAD)                         \
  DORY_CHANNEL(s2, s6, s10, a6, a0, a1, a2)        \
  DORY_CHANNEL(s3, s7, s11, a7, a3, t5, ra)        \
  DORY_PACK_AND_STORE

#elif DORY_BLOCK_FORM == DORY_BLOCK_EVEN

#define DORY_EVEN_V "t0"
#define DORY_EVEN_T "ra"
#define DORY_EVEN_MUL "a1"
#define DORY_EVEN_ADD "a2"
#define DORY_EVEN_SHIFT "t2"
#define DORY_EVEN_UP "t4"
#define DORY_EVEN_X 28 /* the place of a shift of all channels, which there is not */
#define DORY_EVEN_OFFSET DORY_I("lw s1, -4(t1)")
#include "dory_gap8_even_asm.h"

#define DORY_CHANNEL(a, b, c, d)                \
  DORY_LOAD(a1) DORY_LOAD(a2)                   \
  DORY_I("p.lw t2, 8(t1!)")                     \
  DORY_EVEN(a) DORY_CLIP(a, a)                  \
  DORY_EVEN(b) DORY_CLIP(b, b)                  \
  DORY_EVEN(c) DORY_CLIP(c, c)                  \
  DORY_FOURTH(DORY_EVEN(d) DORY_CLIP(d, d))
#define DORY_OUTPUT                             \
  DORY_I("lw t4, " DORY_AT_LOW_BITS)            \
  DORY_I("lw t3, " DORY_AT_HI)                  \
  DORY_CHANNEL(s0, s4, s8, a4)                  \
  DORY_CHANNEL(s1, s5, s9, a5)                  \
  DORY_CHANNEL(s2, s6, s10, a6)                 \
  DORY_CHANNEL(s3, s7, s11, a7)                 \
  DORY_PACK_AND_STORE
#define DORY_COLD DORY_EVEN_FALLS

#else

/* Reach, mul_low, mul_high, add in ra, a0, a1, a2; then the products with the low limb in t0, t4,
 * a3, ra. Each parameter of the next channel is loaded as soon as its register is free. */
#define DORY_CHANNEL(a, b, c, d, load)                \
  DORY_CLAMP(a, b, c, d, ra)                          \
  DORY_I("mul t0, " #a ", a0")                        \
  DORY_I("mul t4, " #b ", a0")                        \
  DORY_I("mul a3, " #c ", a0")                        \
  DORY_FOURTH(DORY_I("mul ra, " #d ", a0"))           \
  DORY_I("sra t0, t0, t5")                            \
  DORY_I("sra t4, t4, t5")                            \
  DORY_I("sra a3, a3, t5")                            \
  DORY_FOURTH(DORY_I("sra ra, ra, t5"))               \
  DORY_I("p.mac t0, " #a ", a1")                      \
  DORY_I("p.mac t4, " #b ", a1")                      \
  DORY_I("p.mac a3, " #c ", a1")                      \
  DORY_FOURTH(DORY_I("p.mac ra, " #d ", a1"))         \
  DORY_I("p.addNr t0, a2, t2")                        \
  DORY_I("p.addNr t4, a2, t2")                        \
  DORY_I("p.addNr a3, a2, t2")                        \
  DORY_FOURTH(DORY_I("p.addNr ra, a2, t2"))           \
  DORY_CLIP(a, t0)                                    \
  DORY_CLIP(b, t4)                                    \
  DORY_CLIP(c, a3)                                    \
  DORY_FOURTH(DORY_CLIP(d, ra))                       \
  DORY_LOAD_REACH(load, ra) load(a0) load(a1) load(a2) DORY_LOAD_SHIFT(load)
#if DORY_OWN_SHIFTS
#define DORY_LOAD_SHIFT(load) load(t2)
#else
#define DORY_LOAD_SHIFT(load)
#endif
#define DORY_OUTPUT                                           \
  DORY_I("lw t2, " DORY_AT_SHIFT)                             \
  DORY_LOAD_REACH(DORY_LOAD, ra)                              \
  DORY_LOAD(a0) DORY_LOAD(a1) DORY_LOAD(a2) DORY_LOAD_SHIFT(DORY_LOAD) \
  DORY_I("lw t3, " DORY_AT_HI)                                \
  DORY_I("lw t5, " DORY_AT_LOW_BITS)                          \
  DORY_CHANNEL(s0, s4, s8, a4, DORY_LOAD)                     \
  DORY_CHANNEL(s1, s5, s9, a5, DORY_LOAD)                     \
  DORY_CHANNEL(s2, s6, s10, a6, DORY_LOAD)                    \
  DORY_CHANNEL(s3, s7, s11, a7, DORY_NOTHING)                 \
  DORY_PACK_AND_STORE

#endif

#ifndef DORY_COLD
#define DORY_COLD
#endif

/* -- the function -- */

#define DORY_SAVED(op)                                                                        \
  DORY_I(op " ra, 44(sp)") DORY_I(op " s0, 48(sp)") DORY_I(op " s1, 52(sp)")                  \
  DORY_I(op " s2, 56(sp)") DORY_I(op " s3, 60(sp)") DORY_I(op " s4, 64(sp)")                  \
  DORY_I(op " s5, 68(sp)") DORY_I(op " s6, 72(sp)") DORY_I(op " s7, 76(sp)")                  \
  DORY_I(op " s8, 80(sp)") DORY_I(op " s9, 84(sp)") DORY_I(op " s10, 88(sp)")                 \
  DORY_I(op " s11, 92(sp)")

#if DORY_BLOCK_SLIDE

#include "dory_gap8_slide_asm.h"

#else

/* -- loops -- */

#if DORY_BLOCK_ONE

#if DORY_BLOCK_COLUMN_TERMS
#define DORY_ADD_COLUMN_TERMS               \
  DORY_I("p.lw t0, 4(t6!)")                 \
  DORY_I("p.lw t1, 4(t6!)")                 \
  DORY_I("p.lw t2, 4(t6!)")                 \
  DORY_I("p.lw t3, 4(t6!)")                 \
  DORY_EACH("add ", s0, s4, s8, a4, "t0")   \
  DORY_EACH("add ", s1, s5, s9, a5, "t1")   \
  DORY_EACH("add ", s2, s6, s10, a6, "t2")  \
  DORY_EACH("add ", s3, s7, s11, a7, "t3")
#else
#define DORY_ADD_COLUMN_TERMS
#endif
#if DORY_BLOCK_ROW_TERMS
/* The terms of the pixels come where their pointers were, which the next group loads again. */
#define DORY_FIRST_TERMS DORY_I("lw a1, 60(a0)")
#define DORY_KEEP_TERMS DORY_I("sw a1, " DORY_AT_TERMS)
#define DORY_ADD_ROW_TERMS                  \
  DORY_I("lw a2, 8(t4)")                    \
  DORY_I("lw a0, 0(t4)")                    \
  DORY_I("lw a1, 4(t4)")                    \
  DORY_I("lw a3, 12(t4)")                   \
  DORY_EACH("add ", s0, s1, s2, s3, "a0")   \
  DORY_EACH("add ", s4, s5, s6, s7, "a1")   \
  DORY_EACH("add ", s8, s9, s10, s11, "a2") \
  DORY_EACH("add ", a4, a5, a6, a7, "a3")
#define DORY_LOAD_TERMS DORY_I("lw t4, " DORY_AT_TERMS)
#define DORY_MOVE_TERMS                     \
  DORY_I("lw t4, " DORY_AT_TERMS)           \
  DORY_I("lw a0, " DORY_AT_INPUT_0)         \
  DORY_I("addi t4, t4, 16")                 \
  DORY_I("sw t4, " DORY_AT_TERMS)
#else
#define DORY_FIRST_TERMS
#define DORY_KEEP_TERMS
#define DORY_ADD_ROW_TERMS
#define DORY_LOAD_TERMS
#define DORY_MOVE_TERMS
#endif

#define DORY_KEEP_STEPS
/* The pointers of the first pixels, from the table. */
#define DORY_LOAD_INPUTS DORY_I("lw a5, 0(a0)") DORY_FIRST_TERMS
#define DORY_KEEP_INPUTS                                      \
  DORY_KEEP_TERMS                                             \
  DORY_I("lw a0, 0(a5)")                                      \
  DORY_I("lw a1, 4(a5)")                                      \
  DORY_I("lw a2, 8(a5)")                                      \
  DORY_FOURTH(DORY_I("lw a3, 12(a5)"))                        \
  DORY_I("sw a0, " DORY_AT_INPUT_0)                           \
  DORY_I("sw a1, " DORY_AT_INPUT_1)                           \
  DORY_I("sw a2, " DORY_AT_INPUT_2)                           \
  DORY_FOURTH(DORY_I("sw a3, " DORY_AT_INPUT_3))
#define DORY_GROUPS                                           \
  DORY_I("lw ra, " DORY_AT_FIRST_STEPS)                       \
  DORY_I("lw a0, " DORY_AT_INPUT_0)                           \
  DORY_I("lw a1, " DORY_AT_INPUT_1)                           \
  DORY_I("lw a2, " DORY_AT_INPUT_2)                           \
  DORY_FOURTH(DORY_I("lw a3, " DORY_AT_INPUT_3))              \
  DORY_STEP(DORY_START, "")                                   \
  DORY_ALIGN DORY_I("lp.setup x0, ra, 3f")                    \
  DORY_STEP(DORY_ADD, "3: ")                                  \
  DORY_LOAD_TERMS                                             \
  DORY_ADD_COLUMN_TERMS                                       \
  DORY_I("lw t1, " DORY_AT_PARAMETERS)                        \
  DORY_ADD_ROW_TERMS                                          \
  DORY_OUTPUT
#define DORY_MOVE_INPUTS                                      \
  DORY_MOVE_TERMS                                             \
  DORY_I("lw t2, " DORY_AT_X_STEP)                            \
  DORY_I("lw a0, " DORY_AT_INPUT_0)                           \
  DORY_I("lw a1, " DORY_AT_INPUT_1)                           \
  DORY_I("lw a2, " DORY_AT_INPUT_2)                           \
  DORY_FOURTH(DORY_I("lw a3, " DORY_AT_INPUT_3))              \
  DORY_I("add a0, a0, t2")                                    \
  DORY_I("add a1, a1, t2")                                    \
  DORY_I("add a2, a2, t2")                                    \
  DORY_FOURTH(DORY_I("add a3, a3, t2"))                       \
  DORY_I("sw a0, " DORY_AT_INPUT_0)                           \
  DORY_I("sw a1, " DORY_AT_INPUT_1)                           \
  DORY_I("sw a2, " DORY_AT_INPUT_2)                           \
  DORY_FOURTH(DORY_I("sw a3, " DORY_AT_INPUT_3))

#else

#define DORY_KEEP_STEPS DORY_I("sw a1, " DORY_AT_STEPS)
/* The table, and the bytes that are skipped before each group. */
#define DORY_LOAD_INPUTS                                      \
  DORY_I("lw a5, 44(a0)")                                     \
  DORY_I("lw s0, 0(a0)")                                      \
  DORY_I("lw s1, 4(a0)")
#define DORY_KEEP_INPUTS                                      \
  DORY_I("sw a5, " DORY_AT_SKIP)                              \
  DORY_I("sw s0, " DORY_AT_TABLE)                             \
  DORY_I("sw s1, " DORY_AT_TABLE_END)                         \
  DORY_I("sub t6, t6, a5")
#define DORY_GROUPS                                           \
  DORY_I("lw ra, " DORY_AT_TABLE)                             \
  DORY_I("lw t0, " DORY_AT_SKIP)                              \
  DORY_POINTERS                                               \
  DORY_I("add t6, t6, t0")                                    \
  DORY_STEP(DORY_START, "")                                   \
  DORY_I("lw t0, " DORY_AT_FIRST_STEPS)                       \
  DORY_I("j 2f")                                              \
  "1: " DORY_I("lw t0, " DORY_AT_STEPS)                       \
  DORY_POINTERS                                               \
  DORY_ALIGN "2: " DORY_I("lp.setup x0, t0, 3f")              \
  DORY_STEP(DORY_ADD, "3: ")                                  \
  DORY_I("lw t0, " DORY_AT_TABLE_END)                         \
  DORY_I("lw t1, " DORY_AT_PARAMETERS)                        \
  DORY_I("bne ra, t0, 1b")                                    \
  DORY_OUTPUT
#define DORY_MOVE_INPUTS                                      \
  DORY_I("lw ra, " DORY_AT_TABLE)                             \
  DORY_I("lw t0, " DORY_AT_TABLE_END)                         \
  DORY_I("lw t2, " DORY_AT_X_STEP)                            \
  "6: " DORY_I("lw a0, 0(ra)")                                \
  DORY_I("lw a1, 4(ra)")                                      \
  DORY_I("lw a2, 8(ra)")                                      \
  DORY_FOURTH(DORY_I("lw a3, 12(ra)"))                        \
  DORY_I("add a0, a0, t2")                                    \
  DORY_I("add a1, a1, t2")                                    \
  DORY_I("add a2, a2, t2")                                    \
  DORY_FOURTH(DORY_I("add a3, a3, t2"))                       \
  DORY_I("p.sw a0, 4(ra!)")                                   \
  DORY_I("p.sw a1, 4(ra!)")                                   \
  DORY_I("p.sw a2, 4(ra!)")                                   \
  DORY_FOURTH(DORY_I("p.sw a3, 4(ra!)"))                      \
  DORY_I("bne ra, t0, 6b")

#endif

#if DORY_BLOCK_FORM == DORY_BLOCK_LIMBS || DORY_BLOCK_FORM == DORY_BLOCK_HIGH || \
    DORY_BLOCK_FORM == DORY_BLOCK_EVEN
#define DORY_LOAD_LOW_BITS DORY_I("lw a2, 36(a0)")
#define DORY_KEEP_LOW_BITS DORY_I("sw a2, " DORY_AT_LOW_BITS)
#else
#define DORY_LOAD_LOW_BITS
#define DORY_KEEP_LOW_BITS
#endif

/* t1: the bytes of a pixel, then those of a block's pixels. */
#if DORY_BLOCK_PIXELS == 4
#define DORY_NEXT_Y DORY_I("slli t1, t1, 2")
#else
#define DORY_NEXT_Y DORY_I("slli t0, t1, 1") DORY_I("add t1, t1, t0")
#endif

__asm__(DORY_FUNCTION(DORY_BLOCK_NAME)
        DORY_I("addi sp, sp, -144")
        DORY_SAVED("sw")
        DORY_I("lw a1, 8(a0)")  /* steps */
        DORY_I("lw s0, 20(a0)") /* parameters */
        DORY_I("lw s1, 24(a0)") /* y */
        DORY_I("lw a2, 28(a0)") /* y_bytes */
        DORY_KEEP_STEPS
        DORY_I("addi a1, a1, -1")
        DORY_I("sw s0, " DORY_AT_PARAMETERS)
        DORY_I("sw s0, " DORY_AT_FIRST_PARAMETERS)
        DORY_I("sw s1, " DORY_AT_Y)
        DORY_I("sw s1, " DORY_AT_FIRST_Y)
        DORY_I("sw a2, " DORY_AT_Y_BYTES)
        DORY_I("sw a1, " DORY_AT_FIRST_STEPS)
        DORY_I("lw s0, 32(a0)") /* shift */
        DORY_I("lw s1, 40(a0)") /* hi */
        DORY_I("lw a1, 52(a0)") /* fours */
        DORY_I("lw a2, 56(a0)") /* x_step */
        DORY_I("sw s0, " DORY_AT_SHIFT)
        DORY_I("sw s1, " DORY_AT_HI)
        DORY_I("sw a1, " DORY_AT_FOURS)
        DORY_I("sw a2, " DORY_AT_X_STEP)
        DORY_I("lw t6, 16(a0)") /* weights */
        DORY_I("lw a4, 12(a0)") /* groups */
        DORY_LOAD_INPUTS
        DORY_LOAD_LOW_BITS
        DORY_I("sw a4, " DORY_AT_GROUPS)
        DORY_KEEP_LOW_BITS
        DORY_KEEP_INPUTS
        DORY_I("sw t6, " DORY_AT_WEIGHTS)
        "5: " DORY_I("lp.setup x1, a4, 4f")
        DORY_GROUPS
        DORY_I("lw t0, " DORY_AT_FOURS)
        DORY_I("lw t1, " DORY_AT_Y_BYTES)
        DORY_I("addi t0, t0, -1")
        DORY_I("beqz t0, 7f")
        DORY_I("sw t0, " DORY_AT_FOURS)
        DORY_MOVE_INPUTS
        DORY_I("lw t4, " DORY_AT_FIRST_Y)
        DORY_I("lw t3, " DORY_AT_FIRST_PARAMETERS)
        DORY_NEXT_Y
        DORY_I("lw t6, " DORY_AT_WEIGHTS)
        DORY_I("add t4, t4, t1")
        DORY_I("lw a4, " DORY_AT_GROUPS)
        DORY_I("sw t4, " DORY_AT_FIRST_Y)
        DORY_I("sw t4, " DORY_AT_Y)
        DORY_I("sw t3, " DORY_AT_PARAMETERS)
        DORY_I("j 5b")
        "7: " DORY_SAVED("lw")
        DORY_I("addi sp, sp, 144")
        DORY_I("ret")
        DORY_COLD
        DORY_FUNCTION_END(DORY_BLOCK_NAME));

#endif
