/* Depthwise convolution to HWC: template of the kernel DORY_KERNEL, configured by
 * dory_gap8_requant_impl.h and
 *
 *   DORY_X_BITS, DORY_X_SIGNED    an input; DORY_X_T, DORY_LOAD4_X, DORY_DOT4: it, or the byte that
 *                                 it becomes, and the operations on four of them
 *   DORY_W_BITS, DORY_Y_BITS      a weight, an output
 *
 * Inputs of whole bytes come in CHW. Smaller ones come in HWC, since no DMA splits bytes.
 *
 * Cores share the channels, and rows where there are fewer channels. For each output row a core
 * lays the kernel_h input rows that it needs, as bytes and with their padding, into its part of the
 * scratch: then a tap row is kernel_w neighbours for every pixel, without a test for borders.
 * Weights are padded to 4 taps per row with zeros, which the slack at the end of a scratch row
 * meets; packed ones become bytes once per channel and tile. Channels whose outputs share a byte are
 * computed together. */
#include <string.h>

#include "dory_gap8_packed.h"
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

#define DORY_TOGETHER (DORY_Y_BITS < 8 ? 8 / DORY_Y_BITS : 1)

/* Scratch of a core. */
typedef struct {
  DORY_X_T *band;   /* rows[DORY_TOGETHER][kernel_h][pitch] */
  uint8_t *weights; /* [DORY_TOGETHER][filter], unused for weights of 8 bits */
  int32_t pitch;
  int32_t w_row;    /* weights of a tap row */
  int32_t filter;   /* weights of a channel */
} dory_band_t;

/* Copies `n` elements of channel c from column 0 of input row iy. */
static inline void dory_copy_row(const dory_gap8_conv_t *a, int32_t c, int32_t iy, int32_t n,
                                 DORY_X_T *out) {
#if DORY_X_BITS >= 8
  memcpy(out, (const DORY_X_T *)a->x + (c * a->x_h + iy) * a->x_w, (size_t)n * sizeof(DORY_X_T));
#else
  const int32_t pixel = dory_gap8_bytes(a->x_c, DORY_X_BITS);
  const uint8_t *x = (const uint8_t *)a->x + iy * a->x_w * pixel + ((c * DORY_X_BITS) >> 3);
  const int32_t above = 32 - DORY_X_BITS - ((c * DORY_X_BITS) & 7);
  for (int32_t i = 0; i < n; i++, x += pixel) {
    const uint32_t top = (uint32_t)*x << above;
    out[i] = (DORY_X_T)(DORY_X_SIGNED ? (int32_t)top >> (32 - DORY_X_BITS)
                                      : (int32_t)(top >> (32 - DORY_X_BITS)));
  }
#endif
}

/* Lays input row iy of channel c with zeros for the padding; `width` elements are written. Padding
 * is negative where all windows of the tile lie behind the image: its one column is not seen. */
static inline void dory_pad_row(const dory_gap8_conv_t *a, int32_t c, int32_t iy, int32_t width,
                                DORY_X_T *out) {
  const int32_t inside = iy >= 0 && iy < a->x_h && a->pad_left >= 0;
  const int32_t left = inside ? dory_gap8_min(a->pad_left, width) : width;
  const int32_t copied = inside ? dory_gap8_min(a->x_w, width - left) : 0;
  memset(out, 0, (size_t)left * sizeof(DORY_X_T));
  if (copied > 0) {
    dory_copy_row(a, c, iy, copied, out + left);
  }
  memset(out + left + copied, 0, (size_t)(width - left - copied) * sizeof(DORY_X_T));
}

/* Lays the input rows of output row oy; where the band holds those of the row before, what both need
 * is moved. */
static inline void dory_lay_rows(const dory_gap8_conv_t *a, const dory_band_t *b, DORY_X_T *band,
                                 int32_t c, int32_t oy, int follows) {
  const int32_t iy = oy * a->stride_h - a->pad_top;
  int32_t ky = 0;
#if DORY_X_BITS < 8
  if (follows && a->dilation_h == 1 && a->stride_h < a->kernel_h) {
    ky = a->kernel_h - a->stride_h;
    memmove(band, band + a->stride_h * b->pitch, (size_t)ky * (size_t)b->pitch);
  }
#else
  (void)follows;
#endif
  for (; ky < a->kernel_h; ky++) {
    dory_pad_row(a, c, iy + ky * a->dilation_h, b->pitch, band + ky * b->pitch);
  }
}

/* The weights of channel c as bytes. */
static inline const int8_t *dory_filter(const dory_gap8_conv_t *a, const dory_band_t *b, int32_t c,
                                        int32_t j) {
#if DORY_W_BITS == 8
  (void)j;
  return (const int8_t *)a->weights + c * b->filter;
#else
  const int32_t bytes = b->filter / (8 / DORY_W_BITS);
  uint8_t *const w = b->weights + j * b->filter;
  dory_gap8_unpack(w, (const uint8_t *)a->weights + c * bytes, bytes, DORY_W_BITS, 1);
  return (const int8_t *)w;
#endif
}

/* The accumulator of the pixel whose first tap row starts at x. */
static inline int32_t dory_taps(const dory_gap8_conv_t *a, const DORY_X_T *x, int32_t pitch,
                                const int8_t *w, int32_t w_row) {
  int32_t acc = 0;
  if (a->dilation_w == 1) {
    for (int32_t ky = 0; ky < a->kernel_h; ky++, x += pitch, w += w_row) {
      for (int32_t i = 0; i < w_row; i += 4) {
        acc = DORY_DOT4(DORY_LOAD4_X(x + i), dory_gap8_load4_i8(w + i), acc);
      }
    }
  } else {
    for (int32_t ky = 0; ky < a->kernel_h; ky++, x += pitch, w += w_row) {
      for (int32_t kx = 0; kx < a->kernel_w; kx++) {
        acc += x[kx * a->dilation_w] * w[kx];
      }
    }
  }
  return acc;
}

/* The output of channel c. */
static inline int32_t dory_output(const dory_gap8_conv_t *a, int32_t acc, int32_t c) {
#if DORY_STEPS == 0
  return acc + ((const int32_t *)a->requant.bias)[c];
#else
  return dory_requantise(acc, c, &a->requant);
#endif
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_conv_t *a) {
  const int32_t y_pixel = dory_gap8_bytes(a->y_c, DORY_Y_BITS);
  const dory_gap8_work_t work = dory_gap8_share_units(a->y_h, 1, a->y_c, DORY_TOGETHER, 0);
  dory_band_t b;
  b.w_row = (a->kernel_w + 3) & ~3;
  b.filter = dory_gap8_ceil_div(a->kernel_h * b.w_row, 32 / DORY_W_BITS) * (32 / DORY_W_BITS);
  b.pitch = (a->y_w - 1) * a->stride_w + (a->kernel_w - 1) * a->dilation_w + 4;
  {
    const int32_t rows = DORY_TOGETHER * a->kernel_h * b.pitch * (int32_t)sizeof(DORY_X_T);
    const int32_t filters = DORY_W_BITS < 8 ? DORY_TOGETHER * b.filter : 0;
    uint8_t *const scratch = (uint8_t *)a->scratch + (int32_t)dory_core_id() * (rows + filters);
    b.band = (DORY_X_T *)(void *)scratch;
    b.weights = scratch + rows;
  }
  for (int32_t c = work.channels.first; c < work.channels.end; c += DORY_TOGETHER) {
    const int32_t n = dory_gap8_min(DORY_TOGETHER, work.channels.end - c);
    const int8_t *w[DORY_TOGETHER];
    for (int32_t j = 0; j < n; j++) {
      w[j] = dory_filter(a, &b, c + j, j);
    }
    for (int32_t oy = work.pixels.first; oy < work.pixels.end; oy++) {
      uint8_t *y = (uint8_t *)a->y + oy * a->y_w * y_pixel;
      for (int32_t j = 0; j < n; j++) {
        dory_lay_rows(a, &b, b.band + j * a->kernel_h * b.pitch, (c + j) / a->multiplier, oy,
                      oy > work.pixels.first);
      }
      for (int32_t ox = 0; ox < a->y_w; ox++, y += y_pixel) {
        int32_t q[4] = {0, 0, 0, 0};
        for (int32_t j = 0; j < n; j++) {
          const DORY_X_T *const x = b.band + j * a->kernel_h * b.pitch + ox * a->stride_w;
          q[j] = dory_output(a, dory_taps(a, x, b.pitch, w[j], b.w_row), c + j);
        }
        dory_gap8_put4(y, c, n, DORY_Y_BITS, q);
      }
    }
  }
}
