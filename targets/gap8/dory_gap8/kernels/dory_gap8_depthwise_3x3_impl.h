/* Depthwise convolution with filters up to 3x3 on tiles with channels last: template of the kernel
 * DORY_KERNEL, see dory_gap8_depthwise_blocks.h, configured by dory_gap8_requant_impl.h and
 *
 *   DORY_STRIDE     1 or 2, along both axes
 *   DORY_PASSES     2 where weights of 9 bits are sums of two of 8 bits, which follow one another
 *
 * The scratch of a core holds the DORY_STRIDE + 1 blocks of four rows that a strip reads. A word of
 * weights is a tap column (w0 w1 w2 0). */
#define DORY_BLOCKS (DORY_STRIDE + 1)
#define DORY_STEP DORY_STRIDE
#define DORY_ROWS 4
#define DORY_UNIT 1
#define DORY_HALVES DORY_STRIP_ASM
#define DORY_FILTER (12 * DORY_PASSES)
#define DORY_CLASSES 0
#include "dory_gap8_depthwise_blocks.h"

/* Lays the first blocks of a strip from `fresh` on. */
static DORY_GAP8_NOINLINE void dory_lay_blocks(dory_strip_t *s, int32_t blocks) {
  const dory_gap8_columns_t c = {0, s->inside, 0};
  for (int32_t i = s->fresh / 4; i < blocks; i++, s->row += 4) {
    dory_gap8_stage(s->tile, c, s->x, s->row, 4, DORY_COLUMN_BYTES, s->block[i] + s->before);
  }
  s->fresh = 4 * DORY_BLOCKS;
}

static inline void dory_lay(dory_strip_t *s) {
  dory_lay_blocks(s, DORY_BLOCKS);
}

#if DORY_STRIP_ASM && DORY_GAP8_XPULPV2

#include "dory_gap8_depthwise_3x3_half_asm.h"

#else

/* The last two elements of a, the first two of b: in this order of operands b is not needed again. */
static inline DORY_X4_T dory_middle(DORY_X4_T a, DORY_X4_T b) {
  return DORY_SHUFFLE_X(b, a, dory_gap8_order4(6, 7, 0, 1));
}

/* The products with the second part of the weights. */
#if DORY_PASSES == 2
#define DORY_SECOND(acc, x, w) dory_add_column(acc, x, w);
#else
#define DORY_SECOND(acc, x, w)
#endif

/* Stores the outputs of a strip at one place along b. */
#define DORY_STORE(acc)                      \
  {                                          \
    *y3 = dory_output((acc)[3], &q, &r);     \
    *y2 = dory_output((acc)[2], &q, &r);     \
    *y1 = dory_output((acc)[1], &q, &r);     \
    *y0 = dory_output((acc)[0], &q, &r);     \
    y0 += step;                              \
    y1 += step;                              \
    y2 += step;                              \
    y3 += step;                              \
  }

#if DORY_STRIDE == 1

/* Rows 0..3 and 2..5 of a column: two outputs each, the second one with the weights one row later. */
typedef struct {
  DORY_X4_T upper, lower;
} dory_column_t;

typedef struct {
  dory_gap8_i8x4_t even, odd;
} dory_taps_t;

static inline dory_taps_t dory_taps(const int8_t *w) {
  const dory_gap8_i8x4_t even = dory_gap8_load4_i8(w);
  const dory_taps_t taps = {even, dory_gap8_shuffle4_i8(even, dory_gap8_set4_i8(0, 0, 0, 0),
                                                        dory_gap8_order4(4, 0, 1, 2))};
  return taps;
}

static inline dory_column_t dory_column(const uint8_t *first, const uint8_t *second) {
  const DORY_X4_T upper = dory_word(first);
  const dory_column_t column = {upper, dory_middle(upper, dory_word(second))};
  return column;
}

static inline void dory_start_column(int32_t *acc, dory_column_t x, dory_taps_t w) {
  acc[0] = DORY_DOT4Z(x.upper, w.even);
  acc[1] = DORY_DOT4Z(x.upper, w.odd);
  acc[2] = DORY_DOT4Z(x.lower, w.even);
  acc[3] = DORY_DOT4Z(x.lower, w.odd);
}

static inline void dory_add_column(int32_t *acc, dory_column_t x, dory_taps_t w) {
  acc[0] = DORY_DOT4(x.upper, w.even, acc[0]);
  acc[1] = DORY_DOT4(x.upper, w.odd, acc[1]);
  acc[2] = DORY_DOT4(x.lower, w.even, acc[2]);
  acc[3] = DORY_DOT4(x.lower, w.odd, acc[3]);
}

/* Channel i. A column serves three outputs along b: the two that are in registers change places from
 * one output to the next. */
static inline void dory_strip_channel(const dory_strip_t *s, const int32_t *place, int32_t i,
                                      dory_gap8_requant_t r) {
  const int8_t *const weights = s->weights + DORY_FILTER * i;
  const dory_taps_t w0 = dory_taps(weights), w1 = dory_taps(weights + 4);
  const dory_taps_t w2 = dory_taps(weights + 8);
#if DORY_PASSES == 2
  const dory_taps_t v0 = dory_taps(weights + 12), v1 = dory_taps(weights + 16);
  const dory_taps_t v2 = dory_taps(weights + 20);
#endif
  const dory_channel_t q = dory_channel(s->channel + i, &r);
  const int32_t step = s->step;
  const int32_t lane = s->lane + 4 * i;
  const uint8_t *first = s->block[0] + lane, *second = s->block[1] + lane;
  DORY_Y_T *y0 = s->y + i, *y1 = y0 + place[1];
  DORY_Y_T *y2 = y0 + place[2], *y3 = y0 + place[3];
  dory_column_t even = dory_column(first, second);
  dory_column_t odd = dory_column(first + DORY_COLUMN_BYTES, second + DORY_COLUMN_BYTES);
  first += 2 * DORY_COLUMN_BYTES;
  second += 2 * DORY_COLUMN_BYTES;
#define DORY_OUTPUTS(oldest, middle)         \
  {                                          \
    int32_t acc[4];                          \
    dory_start_column(acc, oldest, w0);      \
    DORY_SECOND(acc, oldest, v0)             \
    oldest = dory_column(first, second);     \
    first += DORY_COLUMN_BYTES;              \
    second += DORY_COLUMN_BYTES;             \
    dory_add_column(acc, middle, w1);        \
    DORY_SECOND(acc, middle, v1)             \
    dory_add_column(acc, oldest, w2);        \
    DORY_SECOND(acc, oldest, v2)             \
    DORY_STORE(acc)                          \
  }
  for (int32_t n = 0; n < s->loops; n++) {
    DORY_OUTPUTS(even, odd)
    DORY_OUTPUTS(odd, even)
  }
  if (s->rest) {
    DORY_OUTPUTS(even, odd)
  }
#undef DORY_OUTPUTS
}

#else

/* Rows 0..3, 2..5, 4..7 and 6..9 of a column: an output each. */
typedef struct {
  DORY_X4_T row[4];
} dory_column_t;

static inline dory_column_t dory_column(const uint8_t *first, const uint8_t *second,
                                        const uint8_t *third) {
  const DORY_X4_T a = dory_word(first), b = dory_word(second), c = dory_word(third);
  const dory_column_t column = {{a, dory_middle(a, b), b, dory_middle(b, c)}};
  return column;
}

static inline void dory_start_column(int32_t *acc, dory_column_t x, dory_gap8_i8x4_t w) {
  acc[0] = DORY_DOT4Z(x.row[0], w);
  acc[1] = DORY_DOT4Z(x.row[1], w);
  acc[2] = DORY_DOT4Z(x.row[2], w);
  acc[3] = DORY_DOT4Z(x.row[3], w);
}

static inline void dory_add_column(int32_t *acc, dory_column_t x, dory_gap8_i8x4_t w) {
  acc[0] = DORY_DOT4(x.row[0], w, acc[0]);
  acc[1] = DORY_DOT4(x.row[1], w, acc[1]);
  acc[2] = DORY_DOT4(x.row[2], w, acc[2]);
  acc[3] = DORY_DOT4(x.row[3], w, acc[3]);
}

/* Channel i. The last column of an output along b is the first one of the next. */
static inline void dory_strip_channel(const dory_strip_t *s, const int32_t *place, int32_t i,
                                      dory_gap8_requant_t r) {
  const int8_t *const weights = s->weights + DORY_FILTER * i;
  const dory_gap8_i8x4_t w0 = dory_gap8_load4_i8(weights);
  const dory_gap8_i8x4_t w1 = dory_gap8_load4_i8(weights + 4);
  const dory_gap8_i8x4_t w2 = dory_gap8_load4_i8(weights + 8);
#if DORY_PASSES == 2
  const dory_gap8_i8x4_t v0 = dory_gap8_load4_i8(weights + 12);
  const dory_gap8_i8x4_t v1 = dory_gap8_load4_i8(weights + 16);
  const dory_gap8_i8x4_t v2 = dory_gap8_load4_i8(weights + 20);
#endif
  const dory_channel_t q = dory_channel(s->channel + i, &r);
  const int32_t step = s->step;
  const int32_t lane = s->lane + 4 * i;
  const uint8_t *first = s->block[0] + lane, *second = s->block[1] + lane;
  const uint8_t *third = s->block[2] + lane;
  DORY_Y_T *y0 = s->y + i, *y1 = y0 + place[1];
  DORY_Y_T *y2 = y0 + place[2], *y3 = y0 + place[3];
  dory_column_t kept = dory_column(first, second, third);
  for (int32_t n = 0; n < s->loops; n++) {
    int32_t acc[4];
    dory_column_t middle;
    dory_start_column(acc, kept, w0);
    DORY_SECOND(acc, kept, v0)
    first += DORY_COLUMN_BYTES;
    second += DORY_COLUMN_BYTES;
    third += DORY_COLUMN_BYTES;
    middle = dory_column(first, second, third);
    dory_add_column(acc, middle, w1);
    DORY_SECOND(acc, middle, v1)
    first += DORY_COLUMN_BYTES;
    second += DORY_COLUMN_BYTES;
    third += DORY_COLUMN_BYTES;
    kept = dory_column(first, second, third);
    dory_add_column(acc, kept, w2);
    DORY_SECOND(acc, kept, v2)
    DORY_STORE(acc)
  }
}

#endif

/* The channels of a strip whose blocks are laid; outputs along a from number `outputs` on are none. */
static inline void dory_strip_channels(const dory_strip_t *s, int32_t outputs) {
  int32_t place[4] = {0, 0, 0, 0};
  for (int32_t i = 1; i < 4; i++) {
    place[i] = place[i - 1] + (i < outputs ? s->y_row : 0);
  }
  for (int32_t i = 0; i < s->channels; i++) {
    dory_strip_channel(s, place, i, s->tile->requant);
  }
}

static inline void dory_strip_run(dory_strip_t *s) {
  for (; s->strips > 0; s->strips--) {
    dory_lay(s);
    dory_strip_channels(s, s->left);
    dory_next_strip(s);
  }
}

#if DORY_HALVES
/* Outputs that are none read a block that is not laid: those that are there overwrite them. */
static inline void dory_half_run(dory_strip_t *s) {
  dory_lay_blocks(s, DORY_BLOCKS - 1);
  dory_strip_channels(s, dory_gap8_min(s->left, 2));
}
#endif

#endif

/* Columns that a number of outputs along b reads. */
static inline int32_t dory_columns(int32_t outputs) {
  return (outputs - 1) * DORY_STRIDE + 3;
}

/* A walk of `count` outputs along b. */
static inline void dory_set_walk(dory_strip_t *s, int32_t count, dory_gap8_columns_t columns) {
  s->inside = columns.inside;
  s->step = s->tile->y_step_b;
  s->loops = dory_gap8_div(count, 3 - DORY_STRIDE);
  s->rest = count - s->loops * (3 - DORY_STRIDE);
  s->y_back = count * s->step - 1;
  s->x_back = dory_columns(count) * DORY_COLUMN_BYTES - 4;
}

#include "dory_gap8_depthwise_blocks_tile.h"
