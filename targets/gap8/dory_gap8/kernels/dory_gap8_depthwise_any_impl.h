/* Depthwise convolution with any window on tiles with channels last: template of the kernel
 * DORY_KERNEL, see dory_gap8_depthwise_strips.h, configured by dory_gap8_requant_impl.h and
 *
 *   DORY_CORES   cores that share a tile
 *   DORY_WALK    outputs along b whose inputs are in the scratch at a time
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_DOT4   an input; four of them and their operations
 *   DORY_STRIP_BLOCK   whether the 4x4 block has this requantisation and type of output; it is
 *                      configured by DORY_BLOCK_FORM and others of dory_gap8_block_impl.h
 *
 * The scratch of a core holds, channel after channel, the columns that the outputs of a strip read:
 * each is the `words` words that the four outputs reach over, so that a window without dilation along
 * b is one run of words. The weights of a tap column are as many words for each of the four outputs,
 * shifted and spread by stride and dilation: all four are dot products with the same inputs.
 *
 * Four outputs along b times the four of the strip are a block of four pixels by four channels, with
 * the same weights in the same order: where b is long enough, the 4x4 block computes them, and what it
 * stores as words goes to the places of the four outputs. */
#include "dory_gap8_depthwise_strips.h"
#if DORY_STRIP_BLOCK
#include "dory_gap8_block_impl.h"
#endif

/* Outputs along b from which on the block is cheaper, and runs that its table holds. */
#define DORY_BLOCK_LEAST 6
#define DORY_BLOCK_RUNS 16

/* One channel of a strip. */
typedef struct {
  const uint8_t *x; /* of the first output */
  const int8_t *weights;
  DORY_Y_T *y;
  int32_t place[4];                /* of the four outputs */
  int32_t count;                   /* outputs along b */
  int32_t x_step, y_step;          /* from output to output */
  int32_t runs, run_words, run_step; /* of words that are neighbours; bytes from run to run */
} dory_strip_t;

static inline void dory_strip(const dory_strip_t *s, dory_channel_t q, dory_gap8_requant_t r) {
  const int32_t runs = s->runs, run_words = s->run_words, run_step = s->run_step;
  const int32_t x_step = s->x_step, y_step = s->y_step;
  const uint8_t *x = s->x;
  DORY_Y_T *y0 = s->y, *y1 = y0 + s->place[1], *y2 = y0 + s->place[2], *y3 = y0 + s->place[3];
  for (int32_t i = 0; i < s->count; i++, x += x_step) {
    const uint8_t *run = x;
    const int8_t *w = s->weights;
    int32_t acc0 = 0, acc1 = 0, acc2 = 0, acc3 = 0;
    for (int32_t n = 0; n < runs; n++, run += run_step) {
      const DORY_X_T *p = (const DORY_X_T *)run;
      for (int32_t t = 0; t < run_words; t++, p += 4, w += 16) {
        const DORY_X4_T v = DORY_LOAD4_X(p);
        acc0 = DORY_DOT4(v, dory_gap8_load4_i8(w), acc0);
        acc1 = DORY_DOT4(v, dory_gap8_load4_i8(w + 4), acc1);
        acc2 = DORY_DOT4(v, dory_gap8_load4_i8(w + 8), acc2);
        acc3 = DORY_DOT4(v, dory_gap8_load4_i8(w + 12), acc3);
      }
    }
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

#if DORY_STRIP_BLOCK

/* One channel of a strip in blocks; q: its parameters. The last block may go beyond the outputs: the
 * scratch has room for what it reads then, and nobody asks for what it computes. */
static DORY_GAP8_NOINLINE void dory_strip_blocks(const dory_strip_t *s, const dory_channel_t *q,
                                                 const dory_gap8_requant_t *r) {
  const DORY_X_T *table[4 * DORY_BLOCK_RUNS];
  dory_parameters_t parameters[4] = {*q, *q, *q, *q};
  uint32_t words[DORY_WALK];
  const int32_t step = s->y_step;
  DORY_Y_T *y0 = s->y, *y1 = y0 + s->place[1], *y2 = y0 + s->place[2], *y3 = y0 + s->place[3];
  const DORY_Y_T *from = (const DORY_Y_T *)(const void *)words;
  dory_block_t b;
  b.table = table;
  b.table_end = table + 4 * s->runs;
  b.steps = s->run_words;
  b.groups = 1;
  b.weights = s->weights;
  b.parameters = parameters[0].word;
  b.y = (DORY_Y_T *)(void *)words;
  b.y_bytes = 4;
  b.shift = r->shift;
  b.low_bits = r->low_bits;
  b.hi = r->hi;
  b.skip = 0;
  b.inputs = DORY_LANES * s->run_words;
  b.fours = (s->count + 3) >> 2;
  b.x_step = 4 * s->x_step;
  for (int32_t run = 0; run < s->runs; run++) {
    for (int32_t j = 0; j < 4; j++) {
      table[4 * run + j] = (const DORY_X_T *)(s->x + run * s->run_step + j * s->x_step);
    }
  }
  dory_block_run(&b);
  for (int32_t i = 0; i < s->count; i++, from += 4) {
    const DORY_Y_T v0 = from[0], v1 = from[1], v2 = from[2], v3 = from[3];
    *y3 = v3;
    *y2 = v2;
    *y1 = v1;
    *y0 = v0;
    y0 += step;
    y1 += step;
    y2 += step;
    y3 += step;
  }
}

#endif

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_strips_t *a) {
  const int32_t strips = (a->y_a + 3) >> 2;
  const int32_t walks = (a->y_b + DORY_WALK - 1) / DORY_WALK;
  const int32_t walk = walks == 1 ? a->y_b : dory_gap8_ceil_div(a->y_b, walks);
  const int32_t words = a->words;
  /* The windows of a walk are strides apart and reach over more columns. */
  const int32_t columns = (walk - 1) * a->stride_b + (a->kernel_b - 1) * a->dilation_b + 1;
#if DORY_STRIP_BLOCK
  const int32_t pitch = columns + (walk < DORY_BLOCK_LEAST ? 0 : -walk & 3) * a->stride_b;
#else
  const int32_t pitch = columns;
#endif
  const int32_t lane_bytes = pitch * 4 * words;
  const int32_t row = 16 * words * a->kernel_b;
  uint8_t *const scratch = (uint8_t *)a->scratch + (int32_t)dory_core_id() * 4 * lane_bytes;
  dory_gap8_units_t u = dory_gap8_units(a, strips * walks);
  dory_strip_t s;
  s.x_step = a->stride_b * 4 * words;
  s.y_step = a->y_step_b;
  s.runs = a->dilation_b == 1 ? 1 : a->kernel_b;
  s.run_words = a->dilation_b == 1 ? a->kernel_b * words : words;
  s.run_step = a->dilation_b * 4 * words;
  while (u.left > 0) {
    const dory_gap8_group_t g = dory_gap8_group(a, u.group);
    const int32_t end = dory_gap8_min(u.channel + u.left, g.count);
    const int32_t strip = walks == 1 ? u.position : u.position / walks;
    const int32_t b = (u.position - strip * walks) * walk;
    const int32_t x_b = b * a->stride_b - a->pad_b;
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
    dory_gap8_places(a, 4 * strip, s.place);
    for (int32_t c = u.channel; c < end; c++) {
      const int32_t number = g.first + c;
      s.x = scratch + (g.lane + dory_gap8_source(a, c)) * lane_bytes;
      s.weights = (const int8_t *)a->weights + number * row;
      s.y = (DORY_Y_T *)a->y + 4 * strip * a->y_step_a + b * a->y_step_b + number;
#if DORY_STRIP_BLOCK
      if (s.count >= DORY_BLOCK_LEAST && s.run_words >= 2 && s.runs <= DORY_BLOCK_RUNS) {
        const dory_channel_t q = dory_channel(number, &a->requant);
        dory_strip_blocks(&s, &q, &a->requant);
        continue;
      }
#endif
      dory_strip(&s, dory_channel(number, &a->requant), a->requant);
    }
    u.left -= end - u.channel;
    u.channel = 0;
    u.position++;
    if (u.position == strips * walks) {
      u.position = 0;
      u.group += u.step;
    }
  }
}
