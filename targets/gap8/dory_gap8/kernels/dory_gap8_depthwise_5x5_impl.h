/* Depthwise convolution with filters up to 5x5 on tiles with channels last: template of the kernel
 * DORY_KERNEL, see dory_gap8_depthwise_blocks.h, configured by dory_gap8_requant_impl.h and
 *
 *   DORY_CLASSES    1 for windows that go on by two along both axes (up to 6x6 then), 4 for those that go
 *                   on by one
 *
 * A word of the scratch is a square of 2 x 2 neighbours. Windows that go on by two begin with a square
 * and meet three times three of them, each of which is one product with a word of weights. Of those
 * that go on by one every other output along each axis is such a window: outputs fall into four
 * classes, and the weights of a class stand where its windows begin within their first square (6 x 6
 * places, square after square along a, then along b).
 *
 * A block of the scratch is two rows of squares. A strip is two outputs of each class, which meet four
 * rows of squares. */
#define DORY_BLOCKS 2
#define DORY_UNIT 2
#define DORY_HALVES 0
#define DORY_FILTER (36 * DORY_CLASSES)
#if DORY_CLASSES == 1
#define DORY_STEP 2
#else
#define DORY_STEP 1
#endif
/* Outputs from one of a class to the next, along both axes. */
#define DORY_SPREAD (3 - DORY_STEP)
#define DORY_ROWS (2 * DORY_SPREAD)
#include "dory_gap8_depthwise_blocks.h"

/* Bytes of a row of squares that lie at one place along b, and of both rows of a block. */
#define DORY_SQUARES 16
#define DORY_UNIT_BYTES (DORY_UNIT * DORY_COLUMN_BYTES)

/* Lays `count` squares of rows row and row + 1 from column `column` on, counted from the first one
 * inside the tile, one after another into out. */
static inline void dory_lay_squares(const dory_strip_t *s, int32_t row, int32_t column,
                                    int32_t count, uint8_t *out) {
  const uint32_t columns = (uint32_t)(s->first + DORY_UNIT * s->inside + s->last);
  const uint8_t *first[4];
  int32_t step[4];
  for (int32_t i = 0; i < 4; i++) {
    const int32_t r = row + (i >> 1), c = column + (i & 1);
    first[i] = (const uint8_t *)s->padding;
    step[i] = 0;
    if ((uint32_t)r < (uint32_t)s->rows && (uint32_t)c < columns) {
      first[i] = s->x + r * s->x_row + c * s->x_step;
      step[i] = DORY_UNIT * s->x_step;
    }
  }
  dory_gap8_transpose(first, step, count, s->tile->x_c < 4 ? s->tile->x_c : 0, 4, DORY_UNIT_BYTES,
                      out);
}

/* Lays the blocks of a strip from `fresh` on. */
static DORY_GAP8_NOINLINE void dory_lay(dory_strip_t *s) {
  for (int32_t i = s->fresh / 4; i < DORY_BLOCKS; i++) {
    for (int32_t half = 0; half < 2; half++, s->row += 2) {
      uint8_t *out = s->block[i] + s->before + half * DORY_SQUARES;
      dory_lay_squares(s, s->row, -1, s->first, out);
      out += s->first * DORY_UNIT_BYTES;
      dory_lay_squares(s, s->row, s->first, s->inside, out);
      out += s->inside * DORY_UNIT_BYTES;
      dory_lay_squares(s, s->row, s->first + DORY_UNIT * s->inside, s->last, out);
    }
  }
  s->fresh = 4 * DORY_BLOCKS;
}

#if DORY_STRIP_ASM && DORY_GAP8_XPULPV2

#include "dory_gap8_depthwise_5x5_asm.h"

#else

/* The outputs of channel i that are of class k. */
static inline void dory_strip_channel(const dory_strip_t *s, const dory_class_t *k, int32_t i,
                                      dory_gap8_requant_t r) {
  const dory_channel_t q = dory_channel(s->channel + i, &r);
  const int32_t count = 3 * k->loops + k->rest, lane = s->lane + 4 * i;
  const uint8_t *first = s->block[0] + lane, *second = s->block[1] + lane;
  DORY_Y_T *y0 = s->y + k->y + i;
  DORY_Y_T *y1 = y0 + (k->skipped + DORY_SPREAD < s->left ? DORY_SPREAD * s->y_row : 0);
  for (int32_t n = 0; n < count; n++) {
    const int8_t *w = s->weights + DORY_FILTER * i + k->weights;
    int32_t acc0 = 0, acc1 = 0;
    for (int32_t b = 0; b < 3 * DORY_UNIT_BYTES; b += DORY_UNIT_BYTES) {
      const DORY_X4_T x[4] = {dory_word(first + b), dory_word(first + b + DORY_SQUARES),
                              dory_word(second + b), dory_word(second + b + DORY_SQUARES)};
      for (int32_t j = 0; j < 3; j++, w += 4) {
        acc0 = DORY_DOT4(x[j], dory_gap8_load4_i8(w), acc0);
        acc1 = DORY_DOT4(x[j + 1], dory_gap8_load4_i8(w), acc1);
      }
    }
    *y1 = dory_output(acc1, &q, &r);
    *y0 = dory_output(acc0, &q, &r);
    first += DORY_UNIT_BYTES;
    second += DORY_UNIT_BYTES;
    y0 += s->step;
    y1 += s->step;
  }
}

static inline void dory_strip_run(dory_strip_t *s) {
  for (; s->strips > 0; s->strips--) {
    dory_lay(s);
    for (int32_t k = 0; k < s->class_count; k++) {
      for (int32_t i = 0; i < s->channels && s->classes[k].skipped < s->left; i++) {
        dory_strip_channel(s, &s->classes[k], i, s->tile->requant);
      }
    }
    dory_next_strip(s);
  }
}

#endif

/* Columns that a number of outputs along b reads. */
static inline int32_t dory_columns(int32_t outputs) {
  return DORY_UNIT * ((outputs + DORY_SPREAD - 1) / DORY_SPREAD + 2);
}

/* A walk of `count` outputs along b. */
static inline void dory_set_walk(dory_strip_t *s, int32_t count, dory_gap8_columns_t columns) {
  dory_class_t *k = s->classes;
  s->first = columns.inside > 0 ? columns.before & 1 : 0;
  s->inside = (columns.inside - s->first) >> 1;
  s->last = (columns.inside - s->first) & 1;
  s->step = DORY_SPREAD * s->tile->y_step_b;
  for (int32_t a = 0; a < DORY_SPREAD; a++) {
    for (int32_t b = 0; b < dory_gap8_min(DORY_SPREAD, count); b++, k++) {
      const int32_t outputs = (count - b + DORY_SPREAD - 1) / DORY_SPREAD;
      k->skipped = a;
      k->y = a * s->y_row + b * s->tile->y_step_b;
      k->weights = 36 * (2 * a + b);
      k->loops = outputs / 3;
      k->rest = outputs - 3 * k->loops;
      k->x_back = (outputs + 2) * DORY_UNIT_BYTES - 4;
      k->y_back = outputs * s->step - 1;
    }
  }
  s->class_count = (int32_t)(k - s->classes);
}

#include "dory_gap8_depthwise_blocks_tile.h"
