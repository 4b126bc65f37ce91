/* Depthwise convolution with any window on tiles with channels last: template of the kernel
 * DORY_KERNEL, see dory_gap8_depthwise_strips.h, configured by dory_gap8_requant_impl.h and
 *
 *   DORY_CORES   cores that share a tile
 *   DORY_MULTIPLIER  output channels of an input channel
 *   DORY_WALK    outputs along b whose inputs are in the scratch at a time
 *   DORY_BANK    bytes between the scratches of two cores, which begin in different banks of L1 by it
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_DOT4   an input; four of them and their operations
 *   DORY_LINE        whether images and windows are one column wide along b, without padding there
 *   DORY_STRIP_ASM   whether the assembly for the chip has this requantisation and type of output
 *
 * The scratch of a core holds, channel after channel, the columns that the outputs of a strip read:
 * each is the `words` words that the four outputs reach over, so that a window without dilation along
 * b is one run of words. The weights of a tap column are as many words for each of the four outputs,
 * shifted and spread by stride and dilation: all four are dot products with the same inputs.
 *
 * Where there is one column (DORY_LINE), strips take the place of outputs along b: their words follow
 * one another in the scratch, and those of the next strip are stride_a words further. */
#include "dory_gap8_depthwise_strips.h"
/* Channels of a strip one after another. The assembly knows the order of the fields. */
typedef struct {
  const uint8_t *x; /* of the first output of the first channel */
  const int8_t *weights;
  const int32_t *parameters;
  DORY_Y_T *y;
  int32_t place1, place2, place3;   /* of the outputs of a strip behind the first */
  int32_t y_step;                   /* from output to output along b */
  int32_t count;                    /* outputs along b */
  int32_t x_step;
  int32_t runs, run_words, run_skip; /* of words that are neighbours; bytes from run to run between */
  int32_t x_next;                   /* from behind the inputs of an output to the next but one */
  int32_t lane_bytes, row;          /* from channel to channel: inputs, weights */
  int32_t y_back;                   /* from the end of a channel to the start of the next one */
  int32_t channels;                 /* 1 at least */
  int32_t shift, low_bits, hi;
  /* Of lines: what the places of the last outputs along b are less by; 1, or 0 where by nothing. */
  int32_t back1, back2, back3, back;
  const dory_gap8_requant_t *requant;
  int32_t channel; /* the first one */
} dory_strip_t;

#if DORY_STRIP_ASM && DORY_GAP8_XPULPV2

#include "dory_gap8_depthwise_any_asm.h"

#else

static inline void dory_strip_channel(const dory_strip_t *s, int32_t c, dory_gap8_requant_t r) {
  const dory_channel_t q = dory_channel(s->channel + c, &r);
  const int32_t runs = s->runs, run_words = s->run_words, run_skip = s->run_skip;
  const int32_t x_step = s->x_step, y_step = s->y_step;
  const uint8_t *x = s->x + c * s->lane_bytes;
  DORY_Y_T *y0 = s->y + c, *y1 = y0 + s->place1, *y2 = y0 + s->place2, *y3 = y0 + s->place3;
  for (int32_t i = 0; i < s->count; i++, x += x_step) {
    const uint8_t *run = x;
    const int8_t *w = s->weights + c * s->row;
    int32_t acc0 = 0, acc1 = 0, acc2 = 0, acc3 = 0;
    for (int32_t n = 0; n < runs; n++, run += 4 * run_words + run_skip) {
      const DORY_X_T *p = (const DORY_X_T *)run;
      for (int32_t t = 0; t < run_words; t++, p += 4, w += 16) {
        const DORY_X4_T v = DORY_LOAD4_X(p);
        acc0 = DORY_DOT4(v, dory_gap8_load4_i8(w), acc0);
        acc1 = DORY_DOT4(v, dory_gap8_load4_i8(w + 4), acc1);
        acc2 = DORY_DOT4(v, dory_gap8_load4_i8(w + 8), acc2);
        acc3 = DORY_DOT4(v, dory_gap8_load4_i8(w + 12), acc3);
      }
    }
#if DORY_LINE
    if (s->count - i == s->back) {
      y1 -= s->back1;
      y2 -= s->back2;
      y3 -= s->back3;
    }
#endif
    *y3 = dory_output(acc3, &q, &r);
    *y2 = dory_output(acc2, &q, &r);
    *y1 = dory_output(acc1, &q, &r);
    *y0 = dory_output(acc0, &q, &r);
    y0 += y_step;
    y1 += y_step;
    y2 += y_step;
    y3 += y_step;
  }
}

static inline void dory_strip_run(const dory_strip_t *s) {
  for (int32_t c = 0; c < s->channels; c++) {
    dory_strip_channel(s, c, *s->requant);
  }
}

#endif

/* What is equal for all strips. */
static inline void dory_prepare(const dory_gap8_strips_t *a, dory_strip_t *s, int32_t lane_bytes) {
  s->lane_bytes = lane_bytes;
  s->row = 16 * a->words * a->kernel_b;
  s->requant = &a->requant;
#if DORY_STRIP_ASM
  s->shift = a->requant.shift;
  s->low_bits = a->requant.low_bits;
  s->hi = a->requant.hi;
#endif
}

/* Channels c .. end - 1 of a group, whose inputs are in the scratch from x on. */
static inline void dory_channels(const dory_gap8_strips_t *a, dory_strip_t *s, dory_gap8_group_t g,
                                 int32_t c, int32_t end, const uint8_t *x, DORY_Y_T *y) {
  s->y_back = s->count * s->y_step - 1;
  s->channels = DORY_MULTIPLIER == 1 ? end - c : 1;
  for (; c < end; c += s->channels) {
    s->channel = g.first + c;
    s->x = x + (g.lane + dory_gap8_source(c)) * s->lane_bytes;
    s->weights = (const int8_t *)a->weights + s->channel * s->row;
#if DORY_STRIP_ASM
    s->parameters = a->requant.channels + (DORY_PER_CHANNEL ? s->channel * DORY_Q_WORDS : 0);
#endif
    s->y = y + s->channel;
    dory_strip_run(s);
  }
}

/* What the inputs of a group take to be laid, in channels. */
#define DORY_LAY 2

#if DORY_LINE

/* Lays `blocks` words of four rows from row `row` on of each lane. x: the group's first channel in
 * row 0. */
static inline void dory_lay(const dory_gap8_strips_t *a, const uint8_t *x, int32_t row,
                            int32_t blocks, int32_t lane_bytes, uint8_t *out) {
  const dory_gap8_columns_t one = {0, 1, 0};
  const uint8_t *const end = out + 4 * blocks;
  while (out < end) {
    int32_t count = 1;
    if (row >= 0 && row + 4 <= a->x_a) {
      const int32_t next = a->x_step_a, step[4] = {4 * next, 4 * next, 4 * next, 4 * next};
      const uint8_t *const first = x + row * next;
      const uint8_t *const rows[4] = {first, first + next, first + 2 * next, first + 3 * next};
      count = dory_gap8_min((a->x_a - row) >> 2, (int32_t)(end - out) >> 2);
      dory_gap8_transpose(rows, step, count, a->x_c < 4 ? a->x_c : 0, lane_bytes, 4, out);
    } else if (row <= -4 || row >= a->x_a) {
      for (int32_t lane = 0; lane < 4; lane++) {
        dory_gap8_padding(1, out + lane * lane_bytes);
      }
    } else {
      dory_gap8_stage(a, one, x, row, lane_bytes, 4, out);
    }
    row += 4 * count;
    out += 4 * count;
  }
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_strips_t *a) {
  const int32_t strips = (a->y_a + 3) >> 2;
  const int32_t walks = (strips + DORY_WALK - 1) / DORY_WALK;
  const int32_t walk = walks == 1 ? strips : dory_gap8_ceil_div(strips, walks);
  /* Outputs are computed in pairs: one strip more is read. */
  const int32_t lane_bytes = 4 * (walk * a->stride_a + a->words);
  uint8_t *const scratch =
      (uint8_t *)a->scratch + (int32_t)dory_core_id() * (4 * lane_bytes + DORY_BANK);
  dory_gap8_units_t u = dory_gap8_units(a, walks, DORY_LAY);
  dory_strip_t s;
  s.x_step = 4 * a->stride_a;
  s.y_step = 4 * a->y_step_a;
  int32_t place[4];
  dory_gap8_places(a, 0, place);
  s.place1 = place[1];
  s.place2 = place[2];
  s.place3 = place[3];
  s.back1 = s.back2 = s.back3 = 0;
  s.runs = 1;
  s.run_words = a->words;
  s.run_skip = 0;
  s.x_next = 2 * s.x_step - 4 * a->words;
  dory_prepare(a, &s, lane_bytes);
  while (u.left > 0) {
    const dory_gap8_group_t g = dory_gap8_group(a, u.group);
    const int32_t end = dory_gap8_min(u.channel + u.left, g.count);
    const int32_t strip = u.position * walk;
    s.count = dory_gap8_min(walk, strips - strip);
    dory_lay(a, (const uint8_t *)a->x + g.base, 4 * strip * a->stride_a - a->pad_a,
             (s.count - 1) * a->stride_a + a->words, lane_bytes, scratch);
    s.back = strips > 1 && a->y_a < 4 * (strip + s.count);
    if (s.back) {
      dory_gap8_places(a, 4 * (strips - 1), place);
      s.back1 = s.place1 - place[1];
      s.back2 = s.place2 - place[2];
      s.back3 = s.place3 - place[3];
    }
    dory_channels(a, &s, g, u.channel, end, scratch,
                  (DORY_Y_T *)a->y + 4 * strip * a->y_step_a);
    u.left -= end - u.channel;
    u.channel = 0;
    u.position++;
    if (u.position == walks) {
      u.position = 0;
      u.group += u.step;
    }
  }
}

#else

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_strips_t *a) {
  const int32_t strips = (a->y_a + 3) >> 2;
  const int32_t walks = (a->y_b + DORY_WALK - 1) / DORY_WALK;
  const int32_t walk = walks == 1 ? a->y_b : dory_gap8_ceil_div(a->y_b, walks);
  const int32_t words = a->words;
  /* The windows of a walk are strides apart and reach over more columns. */
  const int32_t columns = (walk - 1) * a->stride_b + (a->kernel_b - 1) * a->dilation_b + 1;
#if DORY_STRIP_ASM
  const int32_t pitch = columns + a->stride_b; /* outputs are computed in pairs */
#else
  const int32_t pitch = columns;
#endif
  const int32_t lane_bytes = pitch * 4 * words;
  uint8_t *const scratch =
      (uint8_t *)a->scratch + (int32_t)dory_core_id() * (4 * lane_bytes + DORY_BANK);
  dory_gap8_units_t u = dory_gap8_units(a, strips * walks, DORY_LAY);
  dory_strip_t s;
  s.x_step = a->stride_b * 4 * words;
  s.y_step = a->y_step_b;
  s.runs = a->dilation_b == 1 ? 1 : a->kernel_b;
  s.run_words = a->dilation_b == 1 ? a->kernel_b * words : words;
  s.run_skip = a->dilation_b * 4 * words - 4 * s.run_words;
  if (s.runs == 1) {
    s.run_skip = 0;
  }
  s.x_next = 2 * s.x_step - s.runs * (4 * s.run_words + s.run_skip);
  dory_prepare(a, &s, lane_bytes);
  while (u.left > 0) {
    const dory_gap8_group_t g = dory_gap8_group(a, u.group);
    const int32_t end = dory_gap8_min(u.channel + u.left, g.count);
    const int32_t strip = walks == 1 ? u.position : u.position / walks;
    const int32_t b = (u.position - strip * walks) * walk;
    const int32_t x_b = b * a->stride_b - a->pad_b;
    int32_t place[4];
    const dory_gap8_columns_t inside = dory_gap8_columns(a, x_b, columns);
    const uint8_t *const x =
        (const uint8_t *)a->x + g.base + (x_b + inside.before) * a->x_step_b;
    s.count = dory_gap8_min(walk, a->y_b - b);
    for (int32_t lane = 0; lane < 4; lane++) {
      uint8_t *const out = scratch + lane * lane_bytes;
      dory_gap8_padding(inside.before * words, out);
      dory_gap8_padding(inside.after * words, out + (columns - inside.after) * 4 * words);
    }
    for (int32_t i = 0; i < words; i++) {
      dory_gap8_stage(a, inside, x, 4 * (strip * a->stride_a + i) - a->pad_a, lane_bytes,
                      4 * words, scratch + 4 * i);
    }
    dory_gap8_places(a, 4 * strip, place);
    s.place1 = place[1];
    s.place2 = place[2];
    s.place3 = place[3];
    dory_channels(a, &s, g, u.channel, end, scratch,
                  (DORY_Y_T *)a->y + 4 * strip * a->y_step_a + b * a->y_step_b);
    u.left -= end - u.channel;
    u.channel = 0;
    u.position++;
    if (u.position == strips * walks) {
      u.position = 0;
      u.group += u.step;
    }
  }
}

#endif
