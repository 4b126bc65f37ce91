/* The block on four neighbours in a row, whose windows are three columns wide: included by
 * dory_gap8_block_asm.h, from where it has the frame, the products and the way to the outputs.
 *
 * A column of inputs is read once for all windows that it is in: for each word of inputs 18 loads and
 * 48 products instead of 24 and 48, with stride 2 21 loads. Inputs of four columns lie in t4, t5, a3
 * and ra; pointers to the inputs in a0 (column 1), a1 (column 0) and a2 (the last column), the latter
 * two of their own because at a border they point to zeros. The other columns are so many bytes
 * behind column 1, which is why the inputs of a pixel are a constant.
 *
 * With stride 2, the third column of the windows comes before the second, and weights lie so.
 * Hardware loop 0 runs over the words of a row, loop 1 over rows.
 *
 * With DORY_APART a block may have four pixels anywhere (`table`): each row of each of their windows
 * has a pointer, in a0 .. a3, to the column that is read last; ra points into the table. */

#define DORY_AT_X DORY_AT_TABLE
#define DORY_AT_LEFT DORY_AT_TABLE_END
#define DORY_AT_RIGHT DORY_AT_STEPS
#define DORY_AT_ROWS DORY_AT_FIRST_STEPS
#define DORY_AT_GROUPS_LEFT DORY_AT_X_STEP
#define DORY_AT_ROW DORY_AT_INPUT_0
#define DORY_AT_LEFT_ROW DORY_AT_INPUT_1
#define DORY_AT_RIGHT_ROW DORY_AT_INPUT_2
#define DORY_AT_LAST DORY_AT_INPUT_3
#define DORY_AT_LAST_ROW "136(sp)"
#define DORY_AT_PLACES "140(sp)"

/* Column n + 1 of the windows, or the same once a0 has moved on by a word. */
#define DORY_PIXELS(n) #n "*" DORY_TEXT(DORY_PIXEL)
#define DORY_COLUMN(r, n) DORY_I("lw " #r ", " DORY_PIXELS(n) "(a0)")
#define DORY_COLUMN_BACK(r, n) DORY_I("lw " #r ", " DORY_PIXELS(n) "-4(a0)")
#define DORY_WEIGHTS             \
  DORY_I("p.lw t0, 4(t6!)")      \
  DORY_I("p.lw t1, 4(t6!)")      \
  DORY_I("p.lw t2, 4(t6!)")      \
  DORY_I("p.lw t3, 4(t6!)")
/* The inputs of four pixels times the weights of four channels. */
#define DORY_TAP(dot, x0, x1, x2, x3, label)     \
  DORY_DOTS(dot, s0, s1, s2, s3, x0, "")         \
  DORY_DOTS(dot, s4, s5, s6, s7, x1, "")         \
  DORY_DOTS(dot, s8, s9, s10, s11, x2, "")       \
  DORY_DOTS(dot, a4, a5, a6, a7, x3, label)

#if DORY_APART

/* A column of four separate windows, behind the one that is read last. */
#define DORY_COLUMN_APART(dot, n)                \
  DORY_WEIGHTS                                   \
  DORY_I("lw t4, " DORY_PIXELS(n) "(a0)")        \
  DORY_I("lw t5, " DORY_PIXELS(n) "(a1)")        \
  DORY_DOTS(dot, s0, s1, s2, s3, t4, "")         \
  DORY_I("lw t4, " DORY_PIXELS(n) "(a2)")        \
  DORY_DOTS(dot, s4, s5, s6, s7, t5, "")         \
  DORY_I("lw t5, " DORY_PIXELS(n) "(a3)")        \
  DORY_DOTS(dot, s8, s9, s10, s11, t4, "")       \
  DORY_DOTS(dot, a4, a5, a6, a7, t5, "")
#if DORY_STRIDE_W == 1
#define DORY_TWO_APART(dot) DORY_COLUMN_APART(dot, -2) DORY_COLUMN_APART(DORY_ADD, -1)
#else
#define DORY_TWO_APART(dot) DORY_COLUMN_APART(dot, -1) DORY_COLUMN_APART(DORY_ADD, 1)
#endif
#define DORY_THREE_APART(dot, label) DORY_TWO_APART(dot) DORY_STEP(DORY_ADD, label)

#define DORY_LOAD_PLACES DORY_I("lw t0, 76(a0)")
#define DORY_KEEP_PLACES DORY_I("sw t0, " DORY_AT_PLACES)
#define DORY_IF_APART DORY_I("lw t1, " DORY_AT_PLACES)
#define DORY_GO_APART DORY_I("bnez t1, 10f")
#define DORY_GROUP_APART                                      \
  "10: " DORY_I("mv ra, t1")                                  \
  DORY_POINTERS                                               \
  DORY_THREE_APART(DORY_START, "")                            \
  DORY_I("lw t0, " DORY_AT_ROWS)                              \
  DORY_I("li t1, " DORY_TEXT(DORY_PIXEL_WORDS) "-1")          \
  DORY_I("lp.setup x1, t0, 12f")                              \
  DORY_ALIGN DORY_I("lp.setup x0, t1, 3f")                    \
  DORY_THREE_APART(DORY_ADD, "3: ")                           \
  DORY_POINTERS                                               \
  "12: " DORY_I("li t1, " DORY_TEXT(DORY_PIXEL_WORDS))        \
  DORY_I("j 11b")

#else
#define DORY_LOAD_PLACES
#define DORY_KEEP_PLACES
#define DORY_IF_APART
#define DORY_GO_APART
#define DORY_GROUP_APART
#endif

#if DORY_STRIDE_W == 1
#define DORY_LAST_BEHIND DORY_PIXELS(4)
#define DORY_THREE_TAPS(dot, label)              \
  DORY_I("p.lw t4, 4(a1!)")                      \
  DORY_WEIGHTS                                   \
  DORY_COLUMN(a3, 1)                             \
  DORY_COLUMN(ra, 2)                             \
  DORY_I("p.lw t5, 4(a0!)")                      \
  DORY_TAP(dot, t4, t5, a3, ra, "")              \
  DORY_COLUMN_BACK(t4, 3)                        \
  DORY_WEIGHTS                                   \
  DORY_TAP(DORY_ADD, t5, a3, ra, t4, "")         \
  DORY_I("p.lw t5, 4(a2!)")                      \
  DORY_WEIGHTS                                   \
  DORY_TAP(DORY_ADD, a3, ra, t4, t5, label)
#else
#define DORY_LAST_BEHIND DORY_PIXELS(7)
#define DORY_THREE_TAPS(dot, label)              \
  DORY_I("p.lw t4, 4(a1!)")                      \
  DORY_WEIGHTS                                   \
  DORY_COLUMN(t5, 1)                             \
  DORY_COLUMN(a3, 3)                             \
  DORY_COLUMN(ra, 5)                             \
  DORY_TAP(dot, t4, t5, a3, ra, "")              \
  DORY_I("p.lw t4, 4(a2!)")                      \
  DORY_WEIGHTS                                   \
  DORY_TAP(DORY_ADD, t5, a3, ra, t4, "")         \
  DORY_WEIGHTS                                   \
  DORY_COLUMN(t5, 2)                             \
  DORY_COLUMN(a3, 4)                             \
  DORY_I("p.lw t4, 4(a0!)")                      \
  DORY_COLUMN_BACK(ra, 6)                        \
  DORY_TAP(DORY_ADD, t4, t5, a3, ra, label)
#endif

__asm__(DORY_FUNCTION(DORY_BLOCK_NAME)
        DORY_I("addi sp, sp, -144")
        DORY_SAVED("sw")
        DORY_I("lw t0, 0(a0)")  /* x */
        DORY_I("lw t1, 4(a0)")  /* left */
        DORY_I("lw t2, 8(a0)")  /* right */
        DORY_I("lw t3, 12(a0)") /* last */
        DORY_I("lw t4, 16(a0)") /* row */
        DORY_I("lw t5, 20(a0)") /* left_row */
        DORY_I("lw a1, 24(a0)") /* right_row */
        DORY_I("lw a2, 28(a0)") /* last_row */
        DORY_I("lw a3, 32(a0)") /* rows */
        DORY_I("lw a4, 36(a0)") /* groups */
        DORY_I("lw t6, 40(a0)") /* weights */
        DORY_I("lw a5, 44(a0)") /* parameters */
        DORY_I("lw a6, 48(a0)") /* y */
        DORY_I("lw a7, 52(a0)") /* y_bytes */
        DORY_I("lw s0, 56(a0)") /* shift */
        DORY_I("lw s1, 60(a0)") /* low_bits */
        DORY_I("lw s2, 64(a0)") /* hi */
        DORY_I("lw s3, 68(a0)") /* skip */
        DORY_I("lw s4, 72(a0)") /* fours */
        DORY_I("sw t0, " DORY_AT_X)
        DORY_I("sw t1, " DORY_AT_LEFT)
        DORY_I("sw t2, " DORY_AT_RIGHT)
        DORY_I("sw t3, " DORY_AT_LAST)
        DORY_I("sw t4, " DORY_AT_ROW)
        DORY_I("sw t5, " DORY_AT_LEFT_ROW)
        DORY_I("sw a1, " DORY_AT_RIGHT_ROW)
        DORY_I("sw a2, " DORY_AT_LAST_ROW)
        DORY_I("sw a3, " DORY_AT_ROWS)
        DORY_I("sw a4, " DORY_AT_GROUPS)
        DORY_I("sub t6, t6, s3")
        DORY_I("sw a5, " DORY_AT_FIRST_PARAMETERS)
        DORY_I("sw a6, " DORY_AT_FIRST_Y)
        DORY_I("sw a7, " DORY_AT_Y_BYTES)
        DORY_I("sw s0, " DORY_AT_SHIFT)
        DORY_I("sw s1, " DORY_AT_LOW_BITS)
        DORY_I("sw s2, " DORY_AT_HI)
        DORY_I("sw s3, " DORY_AT_SKIP)
        DORY_I("sw s4, " DORY_AT_FOURS)
        DORY_LOAD_PLACES
        DORY_I("sw t6, " DORY_AT_WEIGHTS)
        DORY_KEEP_PLACES
        /* Four pixels. */
        "5: " DORY_I("sw a6, " DORY_AT_Y)
        DORY_I("sw a5, " DORY_AT_PARAMETERS)
        /* Four channels; a4: how many times they are left. */
        "6: " DORY_I("lw t0, " DORY_AT_SKIP)
        DORY_IF_APART
        DORY_I("lw a0, " DORY_AT_X)
        DORY_I("add t6, t6, t0")
        DORY_I("sw a4, " DORY_AT_GROUPS_LEFT)
        DORY_GO_APART
        DORY_I("lw a1, " DORY_AT_LEFT)
        DORY_I("lw a2, " DORY_AT_RIGHT)
        DORY_THREE_TAPS(DORY_START, "")
        DORY_I("lw t1, " DORY_AT_ROWS)
        DORY_I("li t3, " DORY_TEXT(DORY_PIXEL_WORDS) "-1")
        DORY_I("lp.setup x1, t1, 8f")
        DORY_ALIGN DORY_I("lp.setup x0, t3, 3f")
        DORY_THREE_TAPS(DORY_ADD, "3: ")
        DORY_I("lw t0, " DORY_AT_ROW)
        DORY_I("lw t1, " DORY_AT_LEFT_ROW)
        DORY_I("lw t2, " DORY_AT_RIGHT_ROW)
        DORY_I("li t3, " DORY_TEXT(DORY_PIXEL_WORDS))
        DORY_I("add a0, a0, t0")
        DORY_I("add a1, a1, t1")
        "8: " DORY_I("add a2, a2, t2")
        "11: " DORY_I("lw t1, " DORY_AT_PARAMETERS)
        DORY_OUTPUT
        DORY_I("lw a4, " DORY_AT_GROUPS_LEFT)
        DORY_I("lw t0, " DORY_AT_FOURS)
        DORY_I("addi a4, a4, -1")
        DORY_I("bnez a4, 6b")
        /* The next four pixels: of the last ones, the last column may be padding. */
        DORY_I("addi t0, t0, -1")
        DORY_I("beqz t0, 7f")
        DORY_I("sw t0, " DORY_AT_FOURS)
        DORY_I("lw a0, " DORY_AT_X)
        DORY_I("lw t2, " DORY_AT_ROW)
        DORY_I("addi a0, a0, " DORY_PIXELS(4) "*" DORY_TEXT(DORY_STRIDE_W))
        DORY_I("addi a1, a0, " DORY_PIXELS(-1))
        DORY_I("addi a2, a0, " DORY_LAST_BEHIND)
        DORY_I("addi t1, t0, -1")
        DORY_I("sw t2, " DORY_AT_LEFT_ROW)
        DORY_I("bnez t1, 9f")
        DORY_I("lw a2, " DORY_AT_LAST)
        DORY_I("lw t2, " DORY_AT_LAST_ROW)
        "9: " DORY_I("lw t1, " DORY_AT_Y_BYTES)
        DORY_I("sw a0, " DORY_AT_X)
        DORY_I("sw a1, " DORY_AT_LEFT)
        DORY_I("sw a2, " DORY_AT_RIGHT)
        DORY_I("sw t2, " DORY_AT_RIGHT_ROW)
        DORY_I("lw a6, " DORY_AT_FIRST_Y)
        DORY_I("lw a5, " DORY_AT_FIRST_PARAMETERS)
        DORY_I("slli t1, t1, 2")
        DORY_I("lw t6, " DORY_AT_WEIGHTS)
        DORY_I("add a6, a6, t1")
        DORY_I("lw a4, " DORY_AT_GROUPS)
        DORY_I("sw a6, " DORY_AT_FIRST_Y)
        DORY_I("j 5b")
        "7: " DORY_SAVED("lw")
        DORY_I("addi sp, sp, 144")
        DORY_I("ret")
        DORY_COLD
        DORY_GROUP_APART
        DORY_FUNCTION_END(DORY_BLOCK_NAME));
