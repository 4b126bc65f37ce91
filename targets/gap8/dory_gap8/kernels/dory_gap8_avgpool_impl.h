/* Sum over a window, requantised: template of the kernel DORY_KERNEL for elements of DORY_X_BITS
 * bits, DORY_X_SIGNED, and outputs of DORY_Y_BITS, configured as dory_gap8_requant_impl.h;
 * DORY_GAP8_PIXEL_CHANNELS: what a pixel costs beside its channels, in channels. */
#include "dory_gap8_packed.h"
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

/* Channels whose inputs or outputs share a byte belong to one core. */
#define DORY_UNIT_BITS (DORY_X_BITS < DORY_Y_BITS ? DORY_X_BITS : DORY_Y_BITS)

/* The taps of a window that lie inside the tile, in bytes from tap to tap. */
typedef struct {
  const uint8_t *x;
  int32_t rows, columns;
  int32_t row_step, column_step;
} dory_taps_t;

/* Channels c .. c + n - 1 of a pixel, n up to 4. */
static inline void dory_average(const dory_gap8_pool_t *a, const dory_taps_t *t, uint8_t *y,
                                int32_t c, int32_t n) {
  int32_t sum[4] = {0, 0, 0, 0};
  const uint8_t *row = t->x;
  for (int32_t ky = 0; ky < t->rows; ky++, row += t->row_step) {
    const uint8_t *x = row;
    for (int32_t kx = 0; kx < t->columns; kx++, x += t->column_step) {
      int32_t v[4] = {0, 0, 0, 0};
      dory_gap8_get4(x, c, n, DORY_X_BITS, DORY_X_SIGNED, v);
      sum[0] += v[0];
      sum[1] += v[1];
      sum[2] += v[2];
      sum[3] += v[3];
    }
  }
  for (int32_t j = 0; j < n; j++) {
    sum[j] = dory_requantise(sum[j], 0, &a->requant);
  }
  dory_gap8_put4(y, c, n, DORY_Y_BITS, sum);
}

/* Computes one tile. Every core calls it and takes its part of pixels and channels. */
void DORY_KERNEL(const dory_gap8_pool_t *a) {
  const int32_t x_pixel = dory_gap8_bytes(a->y_c, DORY_X_BITS);
  const int32_t y_pixel = dory_gap8_bytes(a->y_c, DORY_Y_BITS);
  const dory_gap8_work_t work =
      dory_gap8_share_units(a->y_h * a->y_w, 1, a->y_c, dory_gap8_per_byte(DORY_UNIT_BITS),
                            DORY_GAP8_PIXEL_CHANNELS);
  if (work.channels.first == work.channels.end || work.pixels.first == work.pixels.end) {
    return;
  }
  int32_t oy = work.pixels.first / a->y_w;
  int32_t ox = work.pixels.first - oy * a->y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel++) {
    uint8_t *const y = (uint8_t *)a->y + pixel * y_pixel;
    const int32_t iy = oy * a->stride_h - a->pad_top;
    const int32_t ix = ox * a->stride_w - a->pad_left;
    const dory_gap8_range_t rows = dory_gap8_inside(iy, a->dilation_h, a->kernel_h, a->x_h);
    const dory_gap8_range_t columns = dory_gap8_inside(ix, a->dilation_w, a->kernel_w, a->x_w);
    const int32_t first = (iy + rows.first * a->dilation_h) * a->x_w + ix +
                          columns.first * a->dilation_w;
    const dory_taps_t t = {(const uint8_t *)a->x + first * x_pixel, rows.end - rows.first,
                           columns.end - columns.first, a->dilation_h * a->x_w * x_pixel,
                           a->dilation_w * x_pixel};
    int32_t c = work.channels.first;
    for (; c + 4 <= work.channels.end; c += 4) {
      dory_average(a, &t, y, c, 4);
    }
    if (c < work.channels.end) {
      dory_average(a, &t, y, c, work.channels.end - c);
    }
    if (++ox == a->y_w) {
      ox = 0;
      oy++;
    }
  }
}
