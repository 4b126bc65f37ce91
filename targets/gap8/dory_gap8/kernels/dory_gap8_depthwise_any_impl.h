/* Depthwise convolution with any window on tiles with channels last: template of the kernel
 * DORY_KERNEL, see dory_gap8_depthwise_strips.h, configured by dory_gap8_requant_impl.h and
 *
 *   DORY_STRIPS   strips whose inputs are in the scratch at a time
 *   DORY_WALK     outputs along b of these strips
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_DOT4   an input; four of them and their operations
 *
 * The weights of a tap column are `words` words for each of the four outputs, shifted and spread
 * by stride and dilation, so that all four are dot products with the same words of the column. */
#include "dory_gap8_depthwise_strips.h"

/* One channel of a strip. */
typedef struct {
  const uint8_t *x; /* of the first output */
  int32_t pitch;    /* from column to column */
  const int8_t *weights;
  DORY_Y_T *y;
  int32_t place[4]; /* of the four outputs */
  int32_t count;    /* outputs along b */
} dory_strip_t;

static inline void dory_strip(const dory_gap8_strips_t *a, const dory_strip_t *s,
                              dory_channel_t q, dory_gap8_requant_t r) {
  const int32_t words = a->words, taps = a->kernel_b, y_step = a->y_step_b;
  const int32_t tap_step = a->dilation_b * s->pitch, x_step = a->stride_b * s->pitch;
  const uint8_t *x = s->x;
  DORY_Y_T *y0 = s->y, *y1 = y0 + s->place[1], *y2 = y0 + s->place[2], *y3 = y0 + s->place[3];
  for (int32_t i = 0; i < s->count; i++, x += x_step) {
    const uint8_t *column = x;
    const int8_t *w = s->weights;
    int32_t acc0 = 0, acc1 = 0, acc2 = 0, acc3 = 0;
    for (int32_t kx = 0; kx < taps; kx++, column += tap_step) {
      const DORY_X_T *p = (const DORY_X_T *)column;
      for (int32_t t = 0; t < words; t++, p += 4, w += 16) {
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

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_strips_t *a) {
  const int32_t strips = (a->y_a + 3) >> 2;
  const int32_t blocks_a = dory_gap8_ceil_div(strips, DORY_STRIPS);
  const int32_t blocks_b = dory_gap8_ceil_div(a->y_b, DORY_WALK);
  /* Words of a column and columns that the windows of a whole block reach over. */
  const int32_t words = (dory_gap8_min(strips, DORY_STRIPS) - 1) * a->stride_a + a->words;
  const int32_t columns = (dory_gap8_min(a->y_b, DORY_WALK) - 1) * a->stride_b +
                          (a->kernel_b - 1) * a->dilation_b + 1;
  uint8_t *const scratch = (uint8_t *)a->scratch + (int32_t)dory_core_id() * columns * 16 * words;
  const int32_t row = 16 * a->words * a->kernel_b;
  dory_gap8_units_t u = dory_gap8_units(a, blocks_a * blocks_b);
  while (u.left > 0) {
    const dory_gap8_group_t g = dory_gap8_group(a, u.group);
    const int32_t end = dory_gap8_min(u.channel + u.left, g.count);
    const int32_t block = u.position / blocks_b;
    const int32_t b = (u.position - block * blocks_b) * DORY_WALK;
    const int32_t count = dory_gap8_min(DORY_WALK, a->y_b - b);
    const int32_t last = dory_gap8_min((block + 1) * DORY_STRIPS, strips);
    for (int32_t i = 0; i < words; i++) {
      dory_gap8_stage(a, (const uint8_t *)a->x + g.base,
                      4 * (block * DORY_STRIPS * a->stride_a + i) - a->pad_a,
                      b * a->stride_b - a->pad_b, columns, 4 * words, scratch + 4 * i);
    }
    for (int32_t strip = block * DORY_STRIPS; strip < last; strip++) {
      dory_strip_t s;
      dory_gap8_places(a, 4 * strip, s.place);
      s.pitch = 16 * words;
      s.count = count;
      for (int32_t c = u.channel; c < end; c++) {
        const int32_t number = g.first + c;
        s.x = scratch + (g.lane + dory_gap8_source(a, c)) * 4 * words +
              4 * a->stride_a * (strip - block * DORY_STRIPS);
        s.weights = (const int8_t *)a->weights + number * row;
        s.y = (DORY_Y_T *)a->y + 4 * strip * a->y_step_a + b * a->y_step_b + number;
        dory_strip(a, &s, dory_channel(number, &a->requant), a->requant);
      }
    }
    u.left -= end - u.channel;
    u.channel = 0;
    u.position++;
    if (u.position == blocks_a * blocks_b) {
      u.position = 0;
      u.group++;
    }
  }
}
