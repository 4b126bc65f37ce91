/* Depthwise convolution from HWC, four channels at a time: a tap of four channels is one word of
 * inputs, or two of 16 bits, and one of weights. Two pixels at a time would share the words of weights, but their sums
 * and addresses exceed the registers, and what is spilled costs more than is shared. An instance
 * defines DORY_KERNEL, DORY_X_T, DORY_X_BITS, DORY_X_SIGNED, DORY_Y_T, DORY_KERNEL_H, DORY_KERNEL_W and the macros of
 * dory_stm32h7_weights_impl.h and dory_stm32h7_requant_impl.h.
 *
 * Weights: blocks of four channels, per tap four weights. When channels are no multiple of four, the
 * last block has the last four channels and shares some with the block before; fewer than four
 * channels have one block with zeros behind them.
 *
 * DORY_PAD_WORD: what stands around the image, so often that it fills a word.
 * DORY_LIFTED: 1: weights of 8 bits are what is stored plus the number `lift`.
 * DORY_PLANAR: 0, or dory_stm32h7_planar_impl.h computes it instead. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

#include "dory_stm32h7_weights_impl.h"

/* Four weights; lift: what they are more than what is stored, twice. */
static inline dory_weights_t dory_lifted_at(const uint32_t *w, uint32_t lift)
{
#if DORY_LIFTED
  const uint32_t word = w[0];
  const dory_weights_t four = {dory_sxtab16(lift, word), dory_sxtab16_odd(lift, word)};
#else
  (void)lift;
  const dory_weights_t four = dory_weights_at(w);
#endif
  return four;
}

/* Bytes of an element. Inputs are addressed by bytes. */
enum { DORY_X_BYTES = DORY_X_BITS / 8 };

/* Four channels of a pixel. */
typedef struct {
  uint32_t low; /* all of them, or the first two */
#if DORY_X_BITS == 16
  uint32_t high;
#endif
} dory_four_t;

#if DORY_X_BITS == 16
#define DORY_CHANNELS_OF(a, b) {a, b}
#else
#define DORY_CHANNELS_OF(a, b) {a}
#endif

static inline dory_four_t dory_padding(void)
{
  const dory_four_t four = DORY_CHANNELS_OF(DORY_PAD_WORD, DORY_PAD_WORD);
  return four;
}

static inline dory_four_t dory_four_at(const uint8_t *x)
{
  const dory_four_t four = DORY_CHANNELS_OF(dory_load4(x), dory_load4(x + 4));
  return four;
}

#if DORY_PLANAR
#include "dory_stm32h7_planar_impl.h"
#else

/* The sums of channels 0 to 3. No array: compilers keep what they need not index in registers. */
typedef struct {
  int32_t c0, c1, c2, c3;
} dory_sums_t;

/* w: weights of a tap; x: its inputs. */
static inline dory_sums_t dory_tap(dory_sums_t sums, dory_weights_t w, dory_four_t x)
{
#if DORY_X_BITS == 16
  sums.c0 = dory_smlabb(x.low, w.even, sums.c0);
  sums.c2 = dory_smlabt(x.high, w.even, sums.c2);
  sums.c1 = dory_smlatb(x.low, w.odd, sums.c1);
  sums.c3 = dory_smlatt(x.high, w.odd, sums.c3);
#else
  const uint32_t x_even = DORY_EVEN(DORY_X_SIGNED, x.low), x_odd = DORY_ODD(DORY_X_SIGNED, x.low);
  sums.c0 = dory_smlabb(x_even, w.even, sums.c0);
  sums.c2 = dory_smlatt(x_even, w.even, sums.c2);
  sums.c1 = dory_smlabb(x_odd, w.odd, sums.c1);
  sums.c3 = dory_smlatt(x_odd, w.odd, sums.c3);
#endif
  return sums;
}

/* The part of a window that lies inside the image: taps first .. end - 1 along an axis. */
typedef struct {
  int32_t first, end;
} dory_taps_t;

static inline dory_taps_t dory_inside(int32_t start, int32_t step, int32_t taps, int32_t size)
{
  dory_taps_t inside = {0, taps};
  while (inside.first < taps && start + inside.first * step < 0) {
    inside.first++;
  }
  while (inside.end > inside.first && start + (inside.end - 1) * step >= size) {
    inside.end--;
  }
  return inside;
}

/* Where the channels of a block lie and what becomes of them. */
typedef struct {
  const dory_stm32h7_conv_t *a;
  const uint8_t *x;
  const uint32_t *w;
  int32_t first, count;
  int32_t row, column; /* bytes from tap to tap */
} dory_block_t;

/* Requantise and store four outputs; q: parameters from the first of them on. */
static inline void dory_outputs(const dory_stm32h7_requant_t *q, dory_sums_t sums, DORY_Y_T *y)
{
  y[0] = (DORY_Y_T)dory_requant(q, dory_channel(q, 0), sums.c0);
  y[1] = (DORY_Y_T)dory_requant(q, dory_channel(q, 1), sums.c1);
  y[2] = (DORY_Y_T)dory_requant(q, dory_channel(q, 2), sums.c2);
  y[3] = (DORY_Y_T)dory_requant(q, dory_channel(q, 3), sums.c3);
}

#if DORY_PAD_WORD != 0

/* One pixel with part of its window, the rest of which lies on padding. */
DORY_SEPARATE void dory_border(const dory_block_t *b, int32_t x, dory_taps_t rows, dory_taps_t columns,
                        DORY_Y_T *y)
{
  const dory_stm32h7_requant_t q = dory_requant_from(&b->a->requant, b->first);
  const uint32_t *w = b->w;
  const uint32_t lift = b->a->lift;
  dory_sums_t sums = {0, 0, 0, 0};
  for (int32_t i = 0; i < DORY_KERNEL_H; i++) {
    const int row = i >= rows.first && i < rows.end;
    DORY_ROLLED
    for (int32_t j = 0; j < DORY_KERNEL_W; j++) {
      const int inside = row && j >= columns.first && j < columns.end;
      const dory_four_t four =
        inside ? dory_four_at(b->x + (x + i * b->row + j * b->column)) : dory_padding();
      sums = dory_tap(sums, dory_lifted_at(w, lift), four);
      w += DORY_W_WORDS;
    }
  }
  dory_outputs(&q, sums, y);
}

#else

/* One pixel with part of its window; x: where the first tap would lie. */
DORY_SEPARATE void dory_border(const dory_block_t *b, int32_t x, dory_taps_t rows, dory_taps_t columns,
                        DORY_Y_T *y)
{
  const dory_stm32h7_requant_t q = dory_requant_from(&b->a->requant, b->first);
  const uint32_t lift = b->a->lift;
  const int32_t column = b->column;
  const int32_t taps = columns.end - columns.first;
  const int32_t next = b->row - taps * column;
  const uint32_t *w = b->w + (rows.first * DORY_KERNEL_W + columns.first) * DORY_W_WORDS;
  const uint8_t *from = b->x + (x + rows.first * b->row + columns.first * column);
  dory_sums_t sums = {0, 0, 0, 0};
  for (int32_t i = rows.first; i < rows.end; i++) {
    DORY_ROLLED
    for (int32_t j = taps; j > 0; j--) {
      sums = dory_tap(sums, dory_lifted_at(w, lift), dory_four_at(from));
      w += DORY_W_WORDS;
      from += column;
    }
    w += (DORY_KERNEL_W - taps) * DORY_W_WORDS;
    from += next;
  }
  dory_outputs(&q, sums, y);
}

#endif

/* Pixels of a row whose columns all lie inside. */
DORY_SEPARATE void dory_pixels(const dory_block_t *b, int32_t x, dory_taps_t rows, int32_t count,
                               DORY_Y_T *y)
{
  const dory_stm32h7_requant_t q = dory_requant_from(&b->a->requant, b->first);
  const uint32_t lift = b->a->lift;
  const int32_t step = b->a->stride_w * b->a->x_c * DORY_X_BYTES, pitch = b->a->y_c;
  const int32_t column = b->column, next = b->row - DORY_KERNEL_W * column;
  const uint32_t *const weights = b->w + rows.first * DORY_KERNEL_W * DORY_W_WORDS;
  const uint32_t *const end = b->w + rows.end * DORY_KERNEL_W * DORY_W_WORDS;
  const uint8_t *start = b->x + (x + rows.first * b->row);
  for (; count > 0; count--) {
    dory_sums_t sums = {0, 0, 0, 0};
    const uint8_t *from = start;
    for (const uint32_t *w = weights; w < end; from += next) {
      DORY_UNROLLED
      for (int32_t j = 0; j < DORY_KERNEL_W; j++) {
        sums = dory_tap(sums, dory_lifted_at(w, lift), dory_four_at(from));
        w += DORY_W_WORDS;
        from += column;
      }
    }
    dory_outputs(&q, sums, y);
    start += step;
    y += pitch;
  }
}

/* One pixel of fewer than four channels. */
DORY_SEPARATE void dory_narrow(const dory_block_t *b, int32_t x, dory_taps_t rows, dory_taps_t columns,
                        DORY_Y_T *y)
{
  const dory_stm32h7_requant_t *const q = &b->a->requant;
  const int all = DORY_PAD_WORD != 0; /* Taps on padding count. */
  for (int32_t k = 0; k < b->count; k++) {
    int32_t sum = 0;
    for (int32_t i = all ? 0 : rows.first; i < (all ? DORY_KERNEL_H : rows.end); i++) {
      for (int32_t j = all ? 0 : columns.first; j < (all ? DORY_KERNEL_W : columns.end); j++) {
        const int inside = !all || (i >= rows.first && i < rows.end && j >= columns.first && j < columns.end);
        const uint8_t *const pixel = b->x + (x + i * b->row + j * b->column);
        const DORY_X_T value = inside ? ((const DORY_X_T *)(const void *)pixel)[k] : (DORY_X_T)DORY_PAD_WORD;
        const uint32_t *const w = b->w + (i * DORY_KERNEL_W + j) * DORY_W_WORDS;
        const dory_weights_t four = dory_lifted_at(w, b->a->lift);
        const int16_t weight = (int16_t)((k & 1 ? four.odd : four.even) >> (k & 2 ? 16 : 0));
        sum += (int32_t)value * weight;
      }
    }
    y[k] = (DORY_Y_T)dory_requant(q, dory_channel(q, b->first + k), sum);
  }
}

static void dory_channels(const dory_block_t *b)
{
  const dory_stm32h7_conv_t *const a = b->a;
  const int32_t pixel = a->x_c * DORY_X_BYTES, step = a->stride_w * pixel;
  DORY_Y_T *y = (DORY_Y_T *)a->y + b->first;
  /* Outputs from `left` to before `end` have all columns of their windows inside. */
  const int32_t reach = (DORY_KERNEL_W - 1) * a->dilation_w + 1;
  const int32_t left = (a->pad_left + a->stride_w - 1) / a->stride_w;
  const int32_t last = a->x_w - reach + a->pad_left;
  const int32_t right = last < 0 ? 0 : last / a->stride_w + 1;
  const int32_t end = right < a->y_w ? right : a->y_w;
  for (int32_t i = 0; i < a->y_h; i++) {
    const int32_t top = i * a->stride_h - a->pad_top;
    const dory_taps_t rows = dory_inside(top, a->dilation_h, DORY_KERNEL_H, a->x_h);
    const int cut = DORY_PAD_WORD != 0 && rows.end - rows.first < DORY_KERNEL_H;
    int32_t x = (top * a->x_w - a->pad_left) * pixel;
    for (int32_t j = 0; j < a->y_w;) {
      const int32_t inside = cut || j < left || b->count < 4 ? 0 : end - j;
      if (inside > 0) {
        dory_pixels(b, x, rows, inside, y);
        y += inside * a->y_c;
        x += inside * step;
        j += inside;
        continue;
      }
      const int32_t start = j * a->stride_w - a->pad_left;
      const dory_taps_t columns = dory_inside(start, a->dilation_w, DORY_KERNEL_W, a->x_w);
      if (b->count == 4) {
        dory_border(b, x, rows, columns, y);
      } else {
        dory_narrow(b, x, rows, columns, y);
      }
      y += a->y_c;
      x += step;
      j++;
    }
  }
}

void DORY_KERNEL(const dory_stm32h7_conv_t *a)
{
  dory_block_t block = {.a = a, .w = a->weights};
  block.column = a->dilation_w * a->x_c * DORY_X_BYTES;
  block.row = a->dilation_h * a->x_w * a->x_c * DORY_X_BYTES;
  for (int32_t c = 0; c < a->y_c; c += 4) {
    block.count = a->y_c < 4 ? a->y_c : 4;
    block.first = c + block.count > a->y_c ? a->y_c - block.count : c;
    block.x = (const uint8_t *)a->x + block.first * DORY_X_BYTES;
    dory_channels(&block);
    block.w += DORY_KERNEL_H * DORY_KERNEL_W * DORY_W_WORDS;
  }
}

#endif
