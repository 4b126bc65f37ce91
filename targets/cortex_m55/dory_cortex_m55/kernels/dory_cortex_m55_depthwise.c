#include "dory_cortex_m55_depthwise.h"

#include "dory_cortex_m55_dot.h"

/* Outputs of a row: where the window of the first begins and how many bytes on that of the next,
 * where taps lie from there, and their sums. */
typedef struct {
  const uint8_t *x;
  uint32_t step, count;
  const uint32_t *offsets;
  int32_t *sums; /* [c in eights][8]: first the even channels of each eight */
} window_t;

DORY_M55_INLINE int16x8_t loaded(const uint8_t *x, mve_pred16_t lanes, uint32_t is_signed)
{
  return is_signed ? vldrbq_z_s16((const int8_t *)x, lanes) : bytes_as_s16(x, lanes);
}

/* Sums of all channels of an output of any window. Products are summed up in 16 bits as far as they fit. */
DORY_M55_INLINE void sums_of(const dory_cortex_m55_depthwise_t *a, const window_t *window,
                             uint32_t number, uint32_t is_signed)
{
  int32_t *const own = window->sums + number * ((a->c + 7u) & ~7u);
  const uint32_t taps = a->kernel_h * a->kernel_w;
  const int8_t *w = a->weights;
  for (uint32_t channel = 0; channel < a->c; channel += 8u) {
    const mve_pred16_t lanes = vctp16q(a->c - channel);
    const uint8_t *const x = window->x + number * window->step + channel;
    int32x4_t even = vdupq_n_s32(0), odd = even;
    for (uint32_t tap = 0; tap < taps;) {
      const uint32_t end = taps - tap < a->together ? taps : tap + a->together;
      int16x8_t sums =
        vmulq_s16(loaded(x + window->offsets[tap], lanes, is_signed), vldrbq_s16(w));
      for (tap++, w += 8; tap < end; tap++, w += 8) {
        sums = vaddq_s16(sums, vmulq_s16(loaded(x + window->offsets[tap], lanes, is_signed),
                                         vldrbq_s16(w)));
      }
      even = vaddq_s32(even, vmovlbq_s16(sums));
      odd = vaddq_s32(odd, vmovltq_s16(sums));
    }
    vst1q_s32(own + channel, even);
    vst1q_s32(own + channel + 4u, odd);
  }
}

#if defined(__ARM_FEATURE_MVE)

/* Two taps of eight channels, of which the sum of products has 16 bits (q2), while that of the two
 * before it becomes part of sums of 32 bits: even channels in q4, odd ones in q5. Loads, products and
 * the rest alternate, so that each begins behind the first half of the one before. */
#define TWO_TAPS(load_, a_, after_a_, b_, after_b_, first_, second_, third_, fourth_)          \
  load_ " q0, " a_ "\n\t" first_ "vldrb.s16 q1, [%[w]], #8\n\t" after_a_ second_               \
        "vmul.i16 q3, q0, q1\n\t" load_ " q0, " b_ "\n\t" third_                              \
        "vldrb.s16 q1, [%[w]], #8\n\t" after_b_ fourth_                                       \
        "vmul.i16 q0, q0, q1\n\tvadd.i16 q2, q3, q0\n\t"
#define ALONE(load_, a_, after_a_, b_, after_b_)                                               \
  TWO_TAPS(load_, a_, after_a_, b_, after_b_, "", "", "", "")
#define BEHIND_FIRST(load_, a_, after_a_, b_, after_b_)                                        \
  TWO_TAPS(load_, a_, after_a_, b_, after_b_, "vmovlb.s16 q4, q2\n\t",                         \
           "vmovlt.s16 q5, q2\n\t", "", "")
#define BEHIND(load_, a_, after_a_, b_, after_b_)                                              \
  TWO_TAPS(load_, a_, after_a_, b_, after_b_, "vmovlb.s16 q6, q2\n\t",                         \
           "vmovlt.s16 q7, q2\n\t", "vadd.i32 q4, q4, q6\n\t", "vadd.i32 q5, q5, q7\n\t")
#define LAST(load_, a_)                                                                        \
  load_ " q0, " a_ "\n\tvmovlb.s16 q6, q2\n\tvldrb.s16 q1, [%[w]], #8\n\t"                     \
        "vmovlt.s16 q7, q2\n\tvmul.i16 q3, q0, q1\n\tvadd.i32 q4, q4, q6\n\t"                  \
        "vadd.i32 q5, q5, q7\n\tvmovlb.s16 q6, q3\n\tvmovlt.s16 q7, q3\n\t"                    \
        "vadd.i32 q4, q4, q6\n\tvadd.i32 q5, q5, q7\n\t"
#define ROW(i_) "[%[x" i_ "]]"
#define FROM_ROW(i_) "add %[x], %[x" i_ "], %[right]\n\tadds %[x" i_ "], #8\n\t"
#define AT "[%[x]]"
#define ON "add %[x], %[right]\n\t"
#define SUMS_3X3(load_)                                                                        \
  __asm__ volatile("dls lr, %[eights]\n"                                                       \
                   "1:\n\t" ALONE(load_, ROW("0"), FROM_ROW("0"), AT, ON)                       \
                     BEHIND_FIRST(load_, AT, "", ROW("1"), FROM_ROW("1"))                      \
                       BEHIND(load_, AT, ON, AT, "")                                           \
                         BEHIND(load_, ROW("2"), FROM_ROW("2"), AT, ON) LAST(load_, AT)        \
                   "vstrw.32 q4, [%[sums]], #16\n\t"                                           \
                   "vstrw.32 q5, [%[sums]], #16\n\t"                                           \
                   "le lr, 1b"                                                                 \
                   : [x0] "+l"(x0), [x1] "+l"(x1), [x2] "+l"(x2), [x] "=&l"(x), [w] "+l"(w),   \
                     [sums] "+r"(sums)                                                         \
                   : [right] "r"(right), [eights] "r"(eights)                                  \
                   : "lr", "cc", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "memory")

/* Sums of all channels of 3x3 windows of which two products have 16 bits. Loads go on to the end of
 * the last eight. */
static void sums_of_3x3(const dory_cortex_m55_depthwise_t *a, const window_t *window)
{
  const uint32_t right = window->offsets[1], down = window->offsets[3], eights = (a->c + 7u) / 8u;
  const uint32_t is_signed = a->x_signed;
  int32_t *sums = window->sums;
  for (uint32_t i = 0; i < window->count; i++) {
    const uint8_t *x0 = window->x + i * window->step, *x1 = x0 + down, *x2 = x1 + down, *x;
    const int8_t *w = a->weights;
    if (is_signed) {
      SUMS_3X3("vldrb.s16");
    } else {
      SUMS_3X3("vldrb.u16");
    }
  }
}

#else

static void sums_of_3x3(const dory_cortex_m55_depthwise_t *a, const window_t *window)
{
  for (uint32_t i = 0; i < window->count; i++) {
    sums_of(a, window, i, a->x_signed);
  }
}

#endif

/* All outputs of a row. */
DORY_M55_INLINE void outputs_of(const dory_cortex_m55_depthwise_t *a, const int32_t *sums,
                                uint8_t *row, uint32_t form)
{
  const dory_cortex_m55_requant_t requant = a->requant; /* the row might lie in *a */
  const int32_t *const bias = a->bias;
  int8_t *y = (int8_t *)row;
  const uint32_t count = a->c;
  for (uint32_t pixels = a->y_w; pixels > 0; pixels--, y += count) {
    for (uint32_t c = 0; c < count; c += 8u, sums += 8) {
      const int32x4_t even = vaddq_s32(vldrwq_s32(sums), vldrwq_s32(bias + c));
      const int32x4_t odd = vaddq_s32(vldrwq_s32(sums + 4), vldrwq_s32(bias + c + 4u));
      vstrbq_p_s16(y + c,
                   joined(dory_m55_outputs(&requant, form, even, c),
                          dory_m55_outputs(&requant, form, odd, c + 4u)),
                   vctp16q(count - c));
    }
  }
}

static void finish_row(const dory_cortex_m55_depthwise_t *a, const int32_t *sums, uint8_t *y)
{
  switch (a->requant.form) {
    case DORY_REQUANT_VECTOR: outputs_of(a, sums, y, DORY_REQUANT_VECTOR); break;
    case DORY_REQUANT_TURNED: outputs_of(a, sums, y, DORY_REQUANT_TURNED); break;
    case DORY_REQUANT_SHIFTED: outputs_of(a, sums, y, DORY_REQUANT_SHIFTED); break;
    default: outputs_of(a, sums, y, DORY_REQUANT_SCALAR); break;
  }
}

static void sums_of_windows(const dory_cortex_m55_depthwise_t *a, const window_t *window)
{
  if (a->together > 1u && a->kernel_h == 3u && a->kernel_w == 3u) {
    sums_of_3x3(a, window);
    return;
  }
  for (uint32_t i = 0; i < window->count; i++) {
    if (a->x_signed) {
      sums_of(a, window, i, 1);
    } else {
      sums_of(a, window, i, 0);
    }
  }
}

/* Copies a window of which a part lies outside of x. */
static void lay_window(const dory_cortex_m55_depthwise_t *a, uint8_t *to, int32_t top, int32_t left)
{
  for (uint32_t i = 0; i < a->kernel_h; i++) {
    const int32_t row = top + (int32_t)(i * a->dilation_h);
    for (uint32_t j = 0; j < a->kernel_w; j++, to += a->c) {
      const int32_t column = left + (int32_t)(j * a->dilation_w);
      if (row < 0 || row >= (int32_t)a->x_h || column < 0 || column >= (int32_t)a->x_w) {
        dory_m55_fill(to, a->padding, a->c);
      } else {
        dory_m55_copy(to, a->x + ((uint32_t)row * a->x_w + (uint32_t)column) * a->c, a->c, 0);
      }
    }
  }
}

void dory_cortex_m55_depthwise(const dory_cortex_m55_depthwise_t *a)
{
  const uint32_t taps = a->kernel_h * a->kernel_w, eights = (a->c + 7u) & ~7u;
  uint32_t *const inside = (uint32_t *)(void *)a->scratch, *const copied = inside + taps;
  int32_t *const sums = (int32_t *)(void *)(copied + taps);
  uint8_t *const copy = (uint8_t *)(sums + a->y_w * eights);
  for (uint32_t tap = 0; tap < taps; tap++) {
    const uint32_t row = tap / a->kernel_w * a->dilation_h;
    const uint32_t column = tap % a->kernel_w * a->dilation_w;
    inside[tap] = (row * a->x_w + column) * a->c;
    copied[tap] = tap * a->c;
  }
  const int32_t reach_h = (int32_t)((a->kernel_h - 1u) * a->dilation_h);
  const int32_t reach_w = (int32_t)((a->kernel_w - 1u) * a->dilation_w);
  for (uint32_t i = 0; i < a->y_h; i++) {
    const int32_t top = (int32_t)(i * a->stride_h) - a->pad_top;
    const int rows_inside = top >= 0 && top + reach_h < (int32_t)a->x_h;
    for (uint32_t j = 0; j < a->y_w;) {
      const int32_t left = (int32_t)(j * a->stride_w) - a->pad_left;
      const int32_t room = (int32_t)a->x_w - reach_w - left; /* more than 0: it lies inside */
      window_t window = {copy, 0, 1, copied, sums + j * eights};
      if (rows_inside && left >= 0 && room > 0) {
        const uint32_t most = ((uint32_t)room + a->stride_w - 1u) / a->stride_w;
        window.count = most < a->y_w - j ? most : a->y_w - j;
        window.step = a->stride_w * a->c;
        window.x = a->x + ((uint32_t)top * a->x_w + (uint32_t)left) * a->c;
        window.offsets = inside;
      } else {
        lay_window(a, copy, top, left);
      }
      sums_of_windows(a, &window);
      j += window.count;
    }
    finish_row(a, sums, a->y + i * a->y_w * a->c);
  }
}
