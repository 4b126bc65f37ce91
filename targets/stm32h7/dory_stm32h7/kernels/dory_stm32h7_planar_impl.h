/* Depthwise convolution from words of two columns, 3x3, 5x5, 7x7 or one row: strips of rows of four channels are first
 * laid out as pairs of 16-bit neighbours, with zeros around the image, so that no output is at a
 * border and a word has two inputs of a row. The words of the four channels of a pair of columns
 * follow each other. DORY_PLANAR is the step along a row, 1 or 2; dilation 1. Fewer than four
 * channels, as in the last tile of a layer, are read one by one. DORY_TAPS is DORY_KERNEL_W made odd:
 * where that is even the last tap is 0. Included by dory_stm32h7_depthwise_impl.h.
 *
 * Scratch: words of weights, then the rows of a strip. */

/* Outputs that are computed together, and the words of inputs that only the last of them reads. */
enum { DORY_TOGETHER = DORY_PLANAR == 1 ? 4 : 2, DORY_BEHIND_WORDS = DORY_TAPS / 2 };

/* Words of the taps of a row, and of a channel. */
enum { DORY_ROW_TAPS = DORY_TAPS - 1, DORY_CHANNEL_TAPS = DORY_KERNEL_H * DORY_ROW_TAPS };

/* Rows of outputs in a strip. */
enum { DORY_STRIP = 8 };

/* Rows of a strip, and pairs of columns of a row. */
typedef struct {
  int32_t rows, pairs;
} dory_rows_t;

/* Lays out two pixels of four channels; returns where the next ones go. */
static inline uint32_t *dory_put(uint32_t *p, dory_four_t a, dory_four_t b)
{
  const uint32_t low = dory_low_halves(a.low, b.low), high = dory_high_halves(a.low, b.low);
#if DORY_X_BITS == 16
  p[0] = low;
  p[1] = high;
  p[2] = dory_low_halves(a.high, b.high);
  p[3] = dory_high_halves(a.high, b.high);
#else
  p[0] = DORY_EVEN(DORY_X_SIGNED, low);
  p[1] = DORY_ODD(DORY_X_SIGNED, low);
  p[2] = DORY_EVEN(DORY_X_SIGNED, high);
  p[3] = DORY_ODD(DORY_X_SIGNED, high);
#endif
  return p + 4;
}

/* Lays out `count` pairs of pixels, at least one, that are `pitch` bytes apart; returns where the next
 * ones go. */
static inline uint32_t *dory_put_pixels(uint32_t *p, const uint8_t *x, int32_t pitch, int32_t count)
{
#if DORY_X_BITS == 8 && defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_DSP)
#if DORY_X_SIGNED
#define DORY_EXTEND "sxtb16 "
#else
#define DORY_EXTEND "uxtb16 "
#endif
  uint32_t a, b, low, high, second;
  const int32_t both = 2 * pitch;
  /* The next pixels are loaded while these are stored, but for the last ones. */
  __asm__ volatile(
    "ldr %[a], [%[x]]\n ldr %[b], [%[x], %[pitch]]\n subs %[count], %[count], #1\n beq 2f\n"
    ".p2align 3\n"
    "1: pkhbt %[low], %[a], %[b], lsl #16\n add %[x], %[x], %[both]\n"
    "pkhtb %[high], %[b], %[a], asr #16\n subs %[count], %[count], #1\n"
    DORY_EXTEND "%[second], %[low], ror #8\n ldr %[a], [%[x]]\n"
    DORY_EXTEND "%[low], %[low]\n str %[second], [%[p], #4]\n"
    DORY_EXTEND "%[second], %[high], ror #8\n str %[low], [%[p]], #16\n"
    DORY_EXTEND "%[high], %[high]\n ldr %[b], [%[x], %[pitch]]\n"
    "str %[second], [%[p], #-4]\n str %[high], [%[p], #-8]\n bne 1b\n"
    "2: pkhbt %[low], %[a], %[b], lsl #16\n pkhtb %[high], %[b], %[a], asr #16\n"
    DORY_EXTEND "%[second], %[low], ror #8\n" DORY_EXTEND "%[low], %[low]\n"
    "str %[second], [%[p], #4]\n"
    DORY_EXTEND "%[second], %[high], ror #8\n str %[low], [%[p]], #16\n"
    DORY_EXTEND "%[high], %[high]\n str %[second], [%[p], #-4]\n str %[high], [%[p], #-8]\n"
    : [a] "=&r"(a), [b] "=&r"(b), [low] "=&r"(low), [high] "=&r"(high), [second] "=&r"(second),
      [x] "+r"(x), [p] "+r"(p), [count] "+r"(count)
    : [pitch] "r"(pitch), [both] "r"(both)
    : "cc", "memory");
#else
  for (; count > 0; count--, x += 2 * pitch) {
    p = dory_put(p, dory_four_at(x), dory_four_at(x + pitch));
  }
#endif
  return p;
}

/* Lays out `count` pairs of what stands around the image. */
static inline void dory_put_padding(uint32_t *p, int32_t count)
{
  for (; count > 0; count--) {
    p = dory_put(p, dory_padding(), dory_padding());
  }
}

/* The four channels of column `column` of a row, or what stands beside the image; zeros for
 * channels that a tile of fewer than four has not. */
static inline dory_four_t dory_pixel(const dory_stm32h7_conv_t *a, const uint8_t *row, int32_t column)
{
  if (column < 0 || column >= a->x_w) {
    return dory_padding();
  }
  const int32_t bytes = a->x_c * DORY_X_BYTES;
  const uint8_t *const pixel = row + column * bytes;
  uint32_t words[2] = {0, 0};
  for (int32_t n = 0; n < bytes; n++) {
    words[n / 4] |= (uint32_t)pixel[n] << 8 * (n % 4);
  }
  const dory_four_t four = DORY_CHANNELS_OF(words[0], words[1]);
  return four;
}

/* Lays out a row of fewer than four channels: any pair of columns may lie beside the image. */
static void dory_lay_out_few(const dory_stm32h7_conv_t *a, const uint8_t *row, int32_t column,
                                  int32_t count, uint32_t *p)
{
  for (; count > 0; count--, column += 2) {
    p = dory_put(p, dory_pixel(a, row, column), dory_pixel(a, row, column + 1));
  }
}

/* Lays out the rows of a strip; top: the first one in the image. Whole pairs beside the image are
 * there already. */
DORY_SEPARATE void dory_lay_out(const dory_stm32h7_conv_t *a, const uint8_t *x, int32_t top,
                                dory_rows_t size, uint32_t *p)
{
  const int32_t pixel = a->x_c * DORY_X_BYTES, height = a->x_h, row = a->x_w * pixel;
  const int32_t left = a->pad_left, room = 2 * size.pairs - left;
  const int32_t inside = room < 0 ? 0 : a->x_w < room ? a->x_w : room; /* columns of the image */
  const int32_t first = inside > 0 ? left % 2 : 0; /* 1: the first column follows padding */
  const int32_t whole = (inside - first) / 2, last = (inside - first) % 2;
  for (int32_t i = 0; i < size.rows; i++, top++, p += 4 * size.pairs) {
    const uint8_t *from = x + top * row;
    uint32_t *to = p + 4 * (left / 2);
    if (top < 0 || top >= height) {
      dory_put_padding(p, size.pairs);
    } else if (a->x_c < 4) {
      dory_lay_out_few(a, from, -left, size.pairs, p);
    } else {
      if (first) {
        to = dory_put(to, dory_padding(), dory_four_at(from));
        from += pixel;
      }
      if (whole > 0) {
        to = dory_put_pixels(to, from, pixel, whole);
        from += 2 * whole * pixel;
      }
      if (last) {
        dory_put(to, dory_four_at(from), dory_padding());
      }
    }
  }
}

/* The taps of each row and channel as words: the first and the second, the second and the third. */
static inline void dory_pair_taps(const uint32_t *w, uint32_t lift, uint32_t *to)
{
  const dory_weights_t none = {0, 0};
  for (int32_t i = 0; i < DORY_KERNEL_H; i++) {
    dory_weights_t a = dory_lifted_at(w, lift);
    for (int32_t j = 1; j < DORY_TAPS; j++, to++) {
      w += DORY_W_WORDS;
      const dory_weights_t b = j < DORY_KERNEL_W ? dory_lifted_at(w, lift) : none;
      to[0] = dory_low_halves(a.even, b.even);
      to[DORY_CHANNEL_TAPS] = dory_low_halves(a.odd, b.odd);
      to[2 * DORY_CHANNEL_TAPS] = dory_high_halves(a.even, b.even);
      to[3 * DORY_CHANNEL_TAPS] = dory_high_halves(a.odd, b.odd);
      a = b;
    }
    w += (DORY_KERNEL_W - DORY_TAPS + 1) * DORY_W_WORDS;
  }
}

#if defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_DSP) && DORY_STEPS == 1 && \
    DORY_TURNED != DORY_BELOW && !DORY_SHIFTED && !DORY_BINARY32 && DORY_SHIFT >= 32 && \
    (DORY_CLIP == DORY_UNSIGNED || DORY_CLIP == DORY_SIGNED)

#include "dory_stm32h7_strip_impl.h"

/* All outputs of a strip of one channel. q: its parameters. */
static inline void dory_strip(const dory_stm32h7_conv_t *a, const uint32_t *x, int32_t pairs,
                              const uint32_t *w, int32_t rows, const dory_stm32h7_requant_t *q,
                              DORY_Y_T *y)
{
  const dory_channel_t channel = dory_channel(q, 0);
  const dory_strip_t strip = {
    .x = x,
    .w = w,
    .row = 16 * pairs,
    .y = y,
    .mul = channel.mul,
    .add = {(uint32_t)channel.add, (uint32_t)((uint64_t)channel.add >> 32)},
    .fours = a->y_w / 4 * 32 * DORY_PLANAR,
    .rest = a->y_w % 4,
    .step = 16 * a->stride_h * pairs,
    .rows = rows,
    .pitch = a->y_c * (int32_t)sizeof(DORY_Y_T),
#if DORY_TURNED
    .offset = channel.offset,
    .more = channel.more,
#endif
  };
  dory_strip_rows(&strip);
}

#else

/* Sums of outputs beside each other. x: the first row; pairs: of a row; w: taps of the channel. The order of the assembly is that of a core that issues two instructions at a time: a
 * product beside a load, each load two cycles before its use. */
#if defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_DSP) && DORY_TAPS == 3

static inline void dory_block(const uint32_t *x, const uint32_t *w, int32_t pairs,
                              int32_t s[4])
{
  uint32_t a, b, c, u, v;
  int32_t s0, s1;
#if DORY_PLANAR == 1
  int32_t s2, s3;
  __asm__ volatile(
    "ldr %[a], [%[x]]\n ldr %[u], [%[w]]\n ldr %[b], [%[x], #16]\n ldr %[v], [%[w], #4]\n"
    "smuad %[s0], %[a], %[u]\n ldr %[c], [%[x], #32]\n smultb %[s1], %[a], %[u]\n"
    "add %[x], %[x], %[row]\n smuad %[s2], %[b], %[u]\n ldr %[a], [%[x]]\n"
    "smultb %[s3], %[b], %[u]\n ldr %[u], [%[w], #8]\n smlabt %[s0], %[b], %[v], %[s0]\n"
    "smlad %[s1], %[b], %[v], %[s1]\n ldr %[b], [%[x], #16]\n smlabt %[s2], %[c], %[v], %[s2]\n"
    "smlad %[s3], %[c], %[v], %[s3]\n ldr %[v], [%[w], #12]\n"
    "smlad %[s0], %[a], %[u], %[s0]\n ldr %[c], [%[x], #32]\n smlatb %[s1], %[a], %[u], %[s1]\n"
    "add %[x], %[x], %[row]\n smlad %[s2], %[b], %[u], %[s2]\n ldr %[a], [%[x]]\n"
    "smlatb %[s3], %[b], %[u], %[s3]\n ldr %[u], [%[w], #16]\n smlabt %[s0], %[b], %[v], %[s0]\n"
    "smlad %[s1], %[b], %[v], %[s1]\n ldr %[b], [%[x], #16]\n smlabt %[s2], %[c], %[v], %[s2]\n"
    "smlad %[s3], %[c], %[v], %[s3]\n ldr %[v], [%[w], #20]\n"
    "smlad %[s0], %[a], %[u], %[s0]\n ldr %[c], [%[x], #32]\n smlatb %[s1], %[a], %[u], %[s1]\n"
    "smlad %[s2], %[b], %[u], %[s2]\n smlatb %[s3], %[b], %[u], %[s3]\n"
    "smlabt %[s0], %[b], %[v], %[s0]\n smlad %[s1], %[b], %[v], %[s1]\n"
    "smlabt %[s2], %[c], %[v], %[s2]\n smlad %[s3], %[c], %[v], %[s3]\n"
    : [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [a] "=&r"(a), [b] "=&r"(b),
      [c] "=&r"(c), [u] "=&r"(u), [v] "=&r"(v), [x] "+r"(x)
    : [w] "r"(w), [row] "r"(16 * pairs)
    : "memory");
  s[2] = s2;
  s[3] = s3;
#else
  __asm__ volatile(
    "ldr %[a], [%[x]]\n ldr %[u], [%[w]]\n ldr %[b], [%[x], #16]\n ldr %[v], [%[w], #4]\n"
    "smuad %[s0], %[a], %[u]\n ldr %[c], [%[x], #32]\n add %[x], %[x], %[row]\n"
    "smuad %[s1], %[b], %[u]\n ldr %[a], [%[x]]\n ldr %[u], [%[w], #8]\n"
    "smlabt %[s0], %[b], %[v], %[s0]\n ldr %[b], [%[x], #16]\n smlabt %[s1], %[c], %[v], %[s1]\n"
    "ldr %[v], [%[w], #12]\n smlad %[s0], %[a], %[u], %[s0]\n ldr %[c], [%[x], #32]\n"
    "add %[x], %[x], %[row]\n smlad %[s1], %[b], %[u], %[s1]\n ldr %[a], [%[x]]\n"
    "ldr %[u], [%[w], #16]\n smlabt %[s0], %[b], %[v], %[s0]\n ldr %[b], [%[x], #16]\n"
    "smlabt %[s1], %[c], %[v], %[s1]\n ldr %[v], [%[w], #20]\n smlad %[s0], %[a], %[u], %[s0]\n"
    "ldr %[c], [%[x], #32]\n smlad %[s1], %[b], %[u], %[s1]\n smlabt %[s0], %[b], %[v], %[s0]\n"
    "smlabt %[s1], %[c], %[v], %[s1]\n"
    : [s0] "=&r"(s0), [s1] "=&r"(s1), [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [u] "=&r"(u),
      [v] "=&r"(v), [x] "+r"(x)
    : [w] "r"(w), [row] "r"(16 * pairs)
    : "memory");
#endif
  s[0] = s0;
  s[1] = s1;
}

#else

static inline void dory_block(const uint32_t *x, const uint32_t *w, int32_t pairs,
                              int32_t s[4])
{
  for (int32_t k = 0; k < DORY_TOGETHER; k++) {
    s[k] = 0;
  }
  for (int32_t i = 0; i < DORY_KERNEL_H; i++, x += 4 * pairs, w += DORY_ROW_TAPS) {
    DORY_UNROLLED
    for (int32_t k = 0; k < DORY_TOGETHER; k++) {
      /* An odd output of a step of 1 begins with the upper half of a word. */
      const int32_t odd = DORY_PLANAR == 1 ? k % 2 : 0;
      const uint32_t *const at = x + 4 * (DORY_PLANAR == 1 ? k / 2 : k);
      s[k] = odd ? dory_smlatb(at[0], w[0], s[k])
                 : dory_smlabt(at[4 * DORY_BEHIND_WORDS], w[DORY_ROW_TAPS - 1], s[k]);
      DORY_UNROLLED
      for (int32_t j = 0; j < DORY_BEHIND_WORDS; j++) {
        s[k] = dory_smlad(at[4 * (j + odd)], w[2 * j + odd], s[k]);
      }
    }
  }
}

#endif

/* All outputs of a strip of one channel. q: its parameters. */
DORY_SEPARATE void dory_strip(const dory_stm32h7_conv_t *a, const uint32_t *x, int32_t pairs,
                              const uint32_t *w, int32_t rows, const dory_stm32h7_requant_t *q,
                              DORY_Y_T *y)
{
  const dory_channel_t channel = dory_channel(q, 0);
  const int32_t pitch = a->y_c, row = 4 * a->stride_h * pairs, width = a->y_w;
  for (; rows > 0; rows--, x += row) {
    const uint32_t *at = x;
    for (int32_t n = width; n > 0; n -= DORY_TOGETHER, at += 8) {
      int32_t s[4]; /* all instances hand over four, also those that compute two */
      dory_block(at, w, pairs, s);
      y[0] = (DORY_Y_T)dory_requant(q, channel, s[0]);
      y += pitch;
      if (n > 1) {
        y[0] = (DORY_Y_T)dory_requant(q, channel, s[1]);
        y += pitch;
      }
#if DORY_PLANAR == 1
      if (n > 2) {
        y[0] = (DORY_Y_T)dory_requant(q, channel, s[2]);
        y += pitch;
      }
      if (n > 3) {
        y[0] = (DORY_Y_T)dory_requant(q, channel, s[3]);
        y += pitch;
      }
#endif
    }
  }
}

#endif

void DORY_KERNEL(const dory_stm32h7_conv_t *a)
{
  uint32_t *const taps = a->scratch, *const laid = taps + 4 * DORY_CHANNEL_TAPS;
  const uint32_t *w = a->weights;
  const int32_t blocks = (a->y_w + DORY_TOGETHER - 1) / DORY_TOGETHER;
  const int32_t pairs = 2 * blocks + DORY_BEHIND_WORDS;
  const int32_t together = a->y_c < 4 ? a->y_c : 4;
  const int32_t most = a->y_h < DORY_STRIP ? a->y_h : DORY_STRIP;
  dory_put_padding(laid, pairs * ((most - 1) * a->stride_h + DORY_KERNEL_H));
  for (int32_t c = 0; c < a->y_c; c += 4, w += DORY_KERNEL_H * DORY_KERNEL_W * DORY_W_WORDS) {
    const int32_t first = c + together > a->y_c ? a->y_c - together : c;
    dory_pair_taps(w, a->lift, taps);
    for (int32_t i = 0; i < a->y_h; i += DORY_STRIP) {
      const int32_t rows = a->y_h - i < DORY_STRIP ? a->y_h - i : DORY_STRIP;
      const dory_rows_t size = {(rows - 1) * a->stride_h + DORY_KERNEL_H, pairs};
      dory_lay_out(a, (const uint8_t *)a->x + first * DORY_X_BYTES, i * a->stride_h - a->pad_top, size, laid);
      for (int32_t k = 0; k < together; k++) {
        const dory_stm32h7_requant_t q = dory_requant_from(&a->requant, first + k);
        DORY_Y_T *const y = (DORY_Y_T *)a->y + (i * a->y_w * a->y_c + first + k);
        dory_strip(a, laid + k, pairs, taps + DORY_CHANNEL_TAPS * k, rows, &q, y);
      }
    }
  }
}
