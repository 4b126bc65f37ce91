/* Depthwise convolution with filters up to 3x3 on tiles with channels last: template of the kernel
 * DORY_KERNEL, see dory_gap8_depthwise_strips.h, configured by dory_gap8_requant_impl.h and
 *
 *   DORY_CORES      cores that share a tile
 *   DORY_STRIDE     1 or 2, along both axes
 *   DORY_WALK       outputs along b whose inputs are in the scratch at a time
 *   DORY_STRIP_ASM  whether the assembly for the chip has this requantisation and type of output
 *   DORY_PASSES     2 where weights of 9 bits are sums of two of 8 bits, which follow one another
 *   DORY_X_SIGNED   whether inputs are signed
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_DOT4, DORY_DOT4Z, DORY_SHUFFLE_X   an input; four of them
 *
 * The scratch of a core holds the DORY_STRIDE + 1 blocks of four rows that a strip reads; the last
 * one is the first one of the next strip. A word of weights is a tap column (w0 w1 w2 0). */
#include "dory_gap8_depthwise_strips.h"

#define DORY_BLOCKS (DORY_STRIDE + 1)
/* Bytes of the weights of a channel. */
#define DORY_FILTER (12 * DORY_PASSES)
/* Bytes of a column: four words. */
#define DORY_COLUMN_BYTES 16

/* Strips one after another, of some channels of a group. The assembly knows the order of the fields;
 * what a call changes is meant for the next one: the strips that follow. */
typedef struct {
  uint8_t *block[3];         /* blocks of four transposed rows, rotated by a call */
  const int8_t *weights;     /* of the first channel */
  const int32_t *parameters;
  DORY_Y_T *y;               /* of the first channel and strip */
  int32_t left, y_row;       /* outputs along a from the strip on; from one to the next */
  int32_t step;              /* from output to output along b */
  int32_t loops, rest;       /* outputs along b, two at a time (stride 1), and whether there is one more */
  int32_t x_back, y_back;    /* from the end of a channel to the start of the next one */
  int32_t channels;          /* 1 at least */
  int32_t shift, low_bits, hi;
  int32_t strips;            /* 1 at least */
  int32_t fresh;             /* bytes of block[] before the first block that is not laid yet */
  const uint8_t *x;          /* in row 0, the first column inside the tile, at the group's first channel */
  int32_t row, rows;         /* the first one to lay, those of the tile */
  int32_t x_row, x_step;     /* from row to row, from column to column */
  int32_t inside, before;    /* columns of the tile; bytes of a block before them */
  const dory_gap8_u8x4_t *padding;
  int32_t lane;              /* bytes from the group's first input channel to that of the first one */
  const dory_gap8_strips_t *tile;
  int32_t channel; /* the first one */
} dory_strip_t;

/* Lays the blocks of a strip from `fresh` on. */
static DORY_GAP8_NOINLINE void dory_lay(dory_strip_t *s) {
  const dory_gap8_columns_t c = {0, s->inside, 0};
  for (int32_t i = s->fresh / 4; i < DORY_BLOCKS; i++, s->row += 4) {
    dory_gap8_stage(s->tile, c, s->x, s->row, 4, DORY_COLUMN_BYTES, s->block[i] + s->before);
  }
  s->fresh = 4 * DORY_BLOCKS;
}

#if DORY_STRIP_ASM && DORY_GAP8_XPULPV2

#include "dory_gap8_depthwise_3x3_asm.h"

#else

static inline DORY_X4_T dory_word(const uint8_t *p) {
  return DORY_LOAD4_X((const DORY_X_T *)p);
}

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

/* The last block becomes the first one. */
static inline void dory_last_first(uint8_t **block) {
  uint8_t *const last = block[DORY_BLOCKS - 1];
  for (int32_t i = DORY_BLOCKS - 1; i > 0; i--) {
    block[i] = block[i - 1];
  }
  block[0] = last;
}

static inline void dory_strip_run(dory_strip_t *s) {
  for (; s->strips > 0; s->strips--) {
    int32_t place[4] = {0, 0, 0, 0};
    dory_lay(s);
    for (int32_t i = 1; i < 4; i++) {
      place[i] = place[i - 1] + (i < s->left ? s->y_row : 0);
    }
    for (int32_t i = 0; i < s->channels; i++) {
      dory_strip_channel(s, place, i, s->tile->requant);
    }
    dory_last_first(s->block);
    s->fresh = 4;
    s->left -= 4;
    s->y += 4 * s->y_row;
  }
}

#endif

/* What stands for a channel of the group: its weights and parameters, and where it is. */
static inline void dory_select(dory_strip_t *s, int32_t channel) {
  s->channel = channel;
  s->weights = (const int8_t *)s->tile->weights + DORY_FILTER * channel;
#if DORY_STRIP_ASM
  s->parameters = s->tile->requant.channels + (DORY_PER_CHANNEL ? channel * DORY_Q_WORDS : 0);
#endif
}

/* One strip of the output channels from k to end of a group, several of which have one input. */
static DORY_GAP8_NOINLINE void dory_multiplied(dory_strip_t *s, dory_gap8_group_t g, int32_t k,
                                               int32_t end) {
  DORY_Y_T *const y = s->y - k;
  dory_strip_t next = *s;
  for (; k < end; k++) {
    next = *s;
    next.channels = 1;
    next.lane = 4 * (g.lane + dory_gap8_source(s->tile, k));
    next.y = y + k;
    dory_select(&next, g.first + k);
    dory_strip_run(&next);
  }
  *s = next;
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_strips_t *a) {
  const dory_gap8_u8x4_t padding = dory_gap8_from_word_u8(DORY_PAD_WORD);
  const int32_t strips = (a->y_a + 3) >> 2;
  const int32_t walks = (a->y_b + DORY_WALK - 1) / DORY_WALK;
  const int32_t walk = walks == 1 ? a->y_b : dory_gap8_ceil_div(a->y_b, walks);
  /* The windows of a walk are strides apart and reach over three columns. */
  const int32_t columns = (walk - 1) * DORY_STRIDE + 3;
  dory_gap8_units_t u = dory_gap8_units(a, strips * walks);
  int32_t w = walks == 1 ? 0 : u.position / strips;
  int32_t strip = u.position - w * strips;
  int32_t staged = 0, blanked = -1;
  const uint8_t *x = (const uint8_t *)a->x;
  DORY_Y_T *y = (DORY_Y_T *)a->y;
  dory_strip_t s;
  for (int32_t i = 0; i < 3; i++) {
    s.block[i] = (uint8_t *)a->scratch +
                 ((int32_t)dory_core_id() * DORY_BLOCKS + i) * columns * DORY_COLUMN_BYTES;
  }
  s.tile = a;
  s.padding = &padding;
  s.step = a->y_step_b;
  s.y_row = a->y_step_a;
  s.rows = a->x_a;
  s.x_row = a->x_step_a;
  s.x_step = a->x_step_b;
#if DORY_STRIP_ASM
  s.shift = a->requant.shift;
  s.low_bits = a->requant.low_bits;
  s.hi = a->requant.hi;
#endif
  while (u.left > 0) {
    const dory_gap8_group_t g = dory_gap8_group(a, u.group);
    const int32_t end = dory_gap8_min(u.channel + u.left, g.count);
    if (blanked != w) {
      const int32_t b = w * walk, x_b = b * DORY_STRIDE - a->pad_b;
      const int32_t count = dory_gap8_min(walk, a->y_b - b);
      const dory_gap8_columns_t c = dory_gap8_columns(a, x_b, columns);
      for (int32_t i = 0; i < DORY_BLOCKS; i++) {
        dory_gap8_padding(4 * c.before, s.block[i]);
        dory_gap8_padding(4 * c.after, s.block[i] + (columns - c.after) * DORY_COLUMN_BYTES);
      }
      x = (const uint8_t *)a->x + (x_b + c.before) * a->x_step_b;
      y = (DORY_Y_T *)a->y + b * a->y_step_b;
      s.inside = c.inside;
      s.before = c.before * DORY_COLUMN_BYTES;
      s.loops = count / (3 - DORY_STRIDE);
      s.rest = count - s.loops * (3 - DORY_STRIDE);
      s.y_back = count * s.step - 1;
      s.x_back = ((count - 1) * DORY_STRIDE + 3) * DORY_COLUMN_BYTES - 4;
      blanked = w;
    }
    s.x = x + g.base;
    s.y = y + 4 * strip * a->y_step_a + g.first + u.channel;
    s.left = a->y_a - 4 * strip;
    s.fresh = 4 * staged;
    s.row = 4 * (strip * DORY_STRIDE + staged) - a->pad_a;
    s.lane = 4 * (g.lane + u.channel);
    s.channels = end - u.channel;
    s.strips = 1;
    dory_select(&s, g.first + u.channel);
    if (a->multiplier > 1) {
      dory_lay(&s);
      dory_multiplied(&s, g, u.channel, end);
    } else {
#if DORY_STRIP_ASM && DORY_GAP8_XPULPV2
      const int32_t wide = a->x_c >= 4; /* narrow pixels have no words to load */
      if (!wide) {
        dory_lay(&s);
      }
#else
      const int32_t wide = 1;
#endif
      if (wide && u.left >= 2 * g.count && s.channels == g.count) {
        s.strips = dory_gap8_min(strips - strip, u.left / g.count);
      }
      strip += s.strips - 1;
      u.left -= (s.strips - 1) * g.count;
      dory_strip_run(&s);
    }
    u.left -= end - u.channel;
    u.channel = 0;
    strip++;
    staged = 1;
    if (strip == strips) {
      strip = 0;
      staged = 0;
      w++;
    }
    if (w == walks) {
      w = 0;
      u.group += u.step;
    }
  }
}
