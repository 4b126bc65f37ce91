/* What the depthwise kernels share that read their tile as it lies in memory, channels last: template,
 * configured by dory_gap8_requant_impl.h.
 *
 * Outputs are computed in strips: four neighbours along the axis a, one by one along the axis b (a is
 * vertical and b horizontal, or the other way round, as the call says). For that a core takes four
 * channels at a time, transposes 4 x 4 bytes in registers, and lays them into its part of the
 * scratch, so that a word is four neighbours along a of one channel, padding included: four times
 * its value is DORY_PAD_WORD.
 *
 * The channels of all strips in a row are the units of work that the cores share; DORY_CORES is their
 * number. An input channel has DORY_MULTIPLIER output channels. */
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

/* The parameters of a channel, and its output for an accumulator. */
#if DORY_STEPS == 0
typedef int32_t dory_channel_t;
static inline dory_channel_t dory_channel(int32_t c, const dory_gap8_requant_t *r) {
  return r->bias[c];
}
static inline DORY_Y_T dory_output(int32_t acc, const dory_channel_t *q,
                                   const dory_gap8_requant_t *r) {
  (void)r;
  return (DORY_Y_T)(acc + *q);
}
#else
typedef dory_parameters_t dory_channel_t;
#define dory_channel dory_parameters
#define dory_output dory_apply
#endif

/* The work of a core: `left` units from output channel `channel` in block `position` of the group of
 * four input channels number `group`; the next group is number group + step. */
typedef struct {
  int32_t left, group, step, position, channel;
} dory_gap8_units_t;

/* The part of the calling core; each of the groups has `positions` blocks of outputs, and their inputs
 * take as long to lay as `lay` output channels to compute. Where that is faster, cores have whole groups,
 * and take them in turn: at one time they read neighbours, which lie in different banks of the memory,
 * and not channels that are a power of two apart, which may lie in one. */
static inline dory_gap8_units_t dory_gap8_units(const dory_gap8_strips_t *s, int32_t positions,
                                                int32_t lay) {
  const int32_t core = (int32_t)dory_core_id();
  const int32_t channels = 4 * DORY_MULTIPLIER;
  const int32_t rounds = dory_gap8_ceil_div(s->x_c, 4 * DORY_CORES);
  const int32_t total = s->y_c * positions;
  const int32_t per_core = dory_gap8_ceil_div(total, DORY_CORES);
  const int32_t whole = dory_gap8_div(per_core, channels);
  const int32_t parts = whole + (whole * channels == per_core ? 0 : whole == 0 ? 1 : 2);
  dory_gap8_units_t u = {0, core, DORY_CORES, 0, 0};
  if (rounds * positions * (lay + channels) <= parts * lay + per_core) {
    const int32_t last = s->y_c - (core + (rounds - 1) * DORY_CORES) * channels;
    u.left = ((rounds - 1) * channels + dory_gap8_clip(last, 0, channels)) * positions;
  } else {
    const int32_t first = dory_gap8_min(core * per_core, total);
    int32_t count;
    u.left = dory_gap8_min(per_core, total - first);
    u.step = 1;
    u.group = dory_gap8_div(first, channels * positions);
    u.channel = first - u.group * channels * positions;
    count = dory_gap8_min(channels, s->y_c - u.group * channels);
    for (; u.left > 0 && u.channel >= count; u.channel -= count) {
      u.position++;
    }
  }
  return u;
}

/* A group: its first input channel in a word of the tile, which is nearer to the start where the
 * tile ends before four channels do; output channels first .. first + count - 1. */
typedef struct {
  int32_t base, lane, first, count;
} dory_gap8_group_t;

static inline dory_gap8_group_t dory_gap8_group(const dory_gap8_strips_t *s, int32_t number) {
  const int32_t x_c = 4 * number, y_c = x_c * DORY_MULTIPLIER;
  const int32_t last = s->x_c < 4 ? 0 : s->x_c - 4;
  const int32_t base = dory_gap8_min(x_c, last);
  const dory_gap8_group_t g = {base, x_c - base, y_c,
                               dory_gap8_min(4 * DORY_MULTIPLIER, s->y_c - y_c)};
  return g;
}

/* The input channel, counted from that of the group, of its output channel c. */
static inline int32_t dory_gap8_source(int32_t c) {
  return DORY_MULTIPLIER == 1 ? c : dory_gap8_div(c, DORY_MULTIPLIER);
}

/* Orders of shuffles that transpose: elements 0 and 1, 2 and 3 of two words in turn; the upper halves
 * of two words. */
typedef struct {
  dory_gap8_i8x4_t first, second, high;
} dory_gap8_orders_t;

static inline dory_gap8_orders_t dory_gap8_orders(void) {
  const dory_gap8_orders_t orders = {dory_gap8_order4(0, 4, 1, 5), dory_gap8_order4(2, 6, 3, 7),
                                     dory_gap8_order4(2, 3, 6, 7)};
  return orders;
}

/* Four words of four elements: element j of word i becomes element i of word j. */
static inline void dory_gap8_transpose4(dory_gap8_u8x4_t *v, dory_gap8_orders_t order) {
  const dory_gap8_u8x4_t a = dory_gap8_shuffle4_u8(v[0], v[1], order.first);
  const dory_gap8_u8x4_t b = dory_gap8_shuffle4_u8(v[0], v[1], order.second);
  const dory_gap8_u8x4_t c = dory_gap8_shuffle4_u8(v[2], v[3], order.first);
  const dory_gap8_u8x4_t d = dory_gap8_shuffle4_u8(v[2], v[3], order.second);
  v[0] = dory_gap8_low4_u8(a, c);
  v[1] = dory_gap8_shuffle4_u8(a, c, order.high);
  v[2] = dory_gap8_low4_u8(b, d);
  v[3] = dory_gap8_shuffle4_u8(b, d, order.high);
}

/* The n < 4 bytes at p, then zeros. */
static inline dory_gap8_u8x4_t dory_gap8_first4(const uint8_t *p, int32_t n) {
  return dory_gap8_set4_u8(p[0], n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, 0);
}

/* Lays `count` columns (places along b) of rows (along a) r[0] .. r[3] into out: the word of lane l
 * of a column at l * lane_bytes, the next column column_bytes later. `narrow`: pixels have fewer than
 * the four channels of a word. */
static inline void dory_gap8_transpose(const uint8_t *const *row, const int32_t *step,
                                       int32_t count, int32_t narrow, int32_t lane_bytes,
                                       int32_t column_bytes, uint8_t *out) {
  const uint8_t *r0 = row[0], *r1 = row[1], *r2 = row[2], *r3 = row[3];
  const dory_gap8_orders_t order = dory_gap8_orders();
  const int32_t s0 = step[0], s1 = step[1], s2 = step[2], s3 = step[3];
  uint8_t *out0 = out, *out1 = out0 + lane_bytes, *out2 = out1 + lane_bytes;
  uint8_t *out3 = out2 + lane_bytes;
  for (int32_t i = 0; i < count; i++) {
    dory_gap8_u8x4_t v[4];
    if (narrow) {
      v[0] = dory_gap8_first4(r0, narrow);
      v[1] = dory_gap8_first4(r1, narrow);
      v[2] = dory_gap8_first4(r2, narrow);
      v[3] = dory_gap8_first4(r3, narrow);
    } else {
      v[0] = dory_gap8_load4_u8(r0);
      v[1] = dory_gap8_load4_u8(r1);
      v[2] = dory_gap8_load4_u8(r2);
      v[3] = dory_gap8_load4_u8(r3);
    }
    r0 += s0;
    r1 += s1;
    r2 += s2;
    r3 += s3;
    dory_gap8_transpose4(v, order);
    dory_gap8_store4_u8(out0, v[0]);
    dory_gap8_store4_u8(out1, v[1]);
    dory_gap8_store4_u8(out2, v[2]);
    dory_gap8_store4_u8(out3, v[3]);
    out0 += column_bytes;
    out1 += column_bytes;
    out2 += column_bytes;
    out3 += column_bytes;
  }
}

/* Of the columns that a core lays into the scratch, those left of the tile, inside and beyond. */
typedef struct {
  int32_t before, inside, after;
} dory_gap8_columns_t;

/* `count` columns from place b. */
static inline dory_gap8_columns_t dory_gap8_columns(const dory_gap8_strips_t *s, int32_t b,
                                                    int32_t count) {
  const int32_t before = dory_gap8_clip(-b, 0, count);
  const int32_t inside = dory_gap8_clip(s->x_b - b - before, 0, count - before);
  const dory_gap8_columns_t columns = {before, inside, count - before - inside};
  return columns;
}

static inline void dory_gap8_padding(int32_t words, uint8_t *out) {
  const dory_gap8_u8x4_t padding = dory_gap8_from_word_u8(dory_gap8_keep(DORY_PAD_WORD));
  for (int32_t i = 0; i < words; i++, out += 4) {
    dory_gap8_store4_u8(out, padding);
  }
}

/* Lays rows a .. a + 3 of the columns inside the tile into out, as above. x: the first of these
 * columns in row 0, at the first channel. */
static inline void dory_gap8_stage(const dory_gap8_strips_t *s, dory_gap8_columns_t c,
                                   const uint8_t *x, int32_t a, int32_t lane_bytes,
                                   int32_t column_bytes, uint8_t *out) {
  const dory_gap8_u8x4_t padding = dory_gap8_from_word_u8(dory_gap8_keep(DORY_PAD_WORD));
  const uint32_t rows = (uint32_t)s->x_a;
  int32_t offset = a * s->x_step_a;
  const uint8_t *row[4];
  int32_t step[4];
  for (int32_t i = 0; i < 4; i++, offset += s->x_step_a) {
    row[i] = (const uint8_t *)&padding;
    step[i] = 0;
    if ((uint32_t)(a + i) < rows) {
      row[i] = x + offset;
      step[i] = s->x_step_b;
    }
  }
  out += column_bytes * c.before;
  if (s->x_c >= 4) {
    dory_gap8_transpose(row, step, c.inside, 0, lane_bytes, column_bytes, out);
  } else {
    dory_gap8_transpose(row, step, c.inside, s->x_c, lane_bytes, column_bytes, out);
  }
}

/* The places of the four outputs of the strip from a. Those beyond the tile fall on its last one:
 * written in the order 3, 2, 1, 0, what belongs there comes last. */
static inline void dory_gap8_places(const dory_gap8_strips_t *s, int32_t a, int32_t *place) {
  const int32_t last = s->y_a - 1 - a;
  for (int32_t i = 0; i < 4; i++) {
    place[i] = dory_gap8_min(i, last) * s->y_step_a;
  }
}
