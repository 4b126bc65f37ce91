#include "dory_cortex_m55_depthwise.h"

#include "dory_cortex_m55_dot.h"

/* An output: where its window begins, and where its taps lie from there. */
typedef struct {
  const uint8_t *x;
  const uint32_t *offsets;
  uint8_t *y;
} window_t;

static inline int16x8_t loaded(const uint8_t *x, mve_pred16_t lanes, uint32_t is_signed)
{
  return is_signed ? vldrbq_z_s16((const int8_t *)x, lanes) : bytes_as_s16(x, lanes);
}

/* Eight channels of an output. Products are summed up in 16 bits as far as they fit. */
static inline void eight_channels(const dory_cortex_m55_depthwise_t *a, const window_t *window,
                                  uint32_t channel, uint32_t is_signed)
{
  const mve_pred16_t lanes = vctp16q(a->c - channel), all = vctp16q(8);
  const uint32_t taps = a->kernel_h * a->kernel_w;
  const int8_t *w = a->weights + channel * taps;
  const uint8_t *const x = window->x + channel;
  int32x4_t even = vldrwq_s32(a->bias + channel), odd = vldrwq_s32(a->bias + channel + 4u);
  for (uint32_t tap = 0; tap < taps;) {
    const uint32_t end = taps - tap < a->together ? taps : tap + a->together;
    int16x8_t sums =
      vmulq_s16(loaded(x + window->offsets[tap], lanes, is_signed), vldrbq_z_s16(w, all));
    for (tap++, w += 8; tap < end; tap++, w += 8) {
      sums = vaddq_s16(sums, vmulq_s16(loaded(x + window->offsets[tap], lanes, is_signed),
                                       vldrbq_z_s16(w, all)));
    }
    even = vaddq_s32(even, vmovlbq_s16(sums));
    odd = vaddq_s32(odd, vmovltq_s16(sums));
  }
  even = dory_m55_requant(&a->requant, even, channel);
  odd = dory_m55_requant(&a->requant, odd, channel + 4u);
  vstrbq_p_s16((int8_t *)window->y + channel, joined(even, odd), lanes);
}

static void all_channels(const dory_cortex_m55_depthwise_t *a, const window_t *window)
{
  if (a->x_signed) {
    for (uint32_t channel = 0; channel < a->c; channel += 8u) {
      eight_channels(a, window, channel, 1);
    }
  } else {
    for (uint32_t channel = 0; channel < a->c; channel += 8u) {
      eight_channels(a, window, channel, 0);
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
  const uint32_t taps = a->kernel_h * a->kernel_w;
  uint32_t *const inside = (uint32_t *)(void *)a->scratch, *const copied = inside + taps;
  uint8_t *const copy = (uint8_t *)(copied + taps);
  for (uint32_t tap = 0; tap < taps; tap++) {
    const uint32_t row = tap / a->kernel_w * a->dilation_h;
    const uint32_t column = tap % a->kernel_w * a->dilation_w;
    inside[tap] = (row * a->x_w + column) * a->c;
    copied[tap] = tap * a->c;
  }
  const int32_t reach_h = (int32_t)((a->kernel_h - 1u) * a->dilation_h);
  const int32_t reach_w = (int32_t)((a->kernel_w - 1u) * a->dilation_w);
  uint8_t *y = a->y;
  for (uint32_t i = 0; i < a->y_h; i++) {
    const int32_t top = (int32_t)(i * a->stride_h) - a->pad_top;
    const int rows_inside = top >= 0 && top + reach_h < (int32_t)a->x_h;
    for (uint32_t j = 0; j < a->y_w; j++, y += a->c) {
      const int32_t left = (int32_t)(j * a->stride_w) - a->pad_left;
      window_t window = {copy, copied, y};
      if (rows_inside && left >= 0 && left + reach_w < (int32_t)a->x_w) {
        window.x = a->x + ((uint32_t)top * a->x_w + (uint32_t)left) * a->c;
        window.offsets = inside;
      } else {
        lay_window(a, copy, top, left);
      }
      all_channels(a, &window);
    }
  }
}
