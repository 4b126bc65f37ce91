/* Interpolation between two rows and two columns of bytes: template of the kernel DORY_KERNEL,
 * configured by dory_gap8_requant_impl.h, with the same parameters for all channels, and
 *
 *   DORY_CORES    cores that share a tile
 *   DORY_COPIES   whether every output is one element of the input: nearest neighbours
 *   DORY_X_T      an input
 *
 * Cores share the pixels of a tile. Places and weights of the four inputs of a pixel are those of all
 * its channels. */
#include "dory_gap8_bytes.h"
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

/* Computes one tile. Every core calls it and takes its part of the pixels. */
void DORY_KERNEL(const dory_gap8_resize_t *a) {
  const dory_gap8_range_t pixels =
      dory_gap8_part(a->y_h * a->y_w, 1, DORY_CORES, (int32_t)dory_core_id());
  const int32_t channels = a->y_c;
  const DORY_X_T *const x = a->x;
#if !DORY_COPIES
  const dory_gap8_requant_t r = a->requant;
  const dory_parameters_t q = dory_parameters(0, &r);
#endif
  DORY_Y_T *y = (DORY_Y_T *)a->y + pixels.first * channels;
  int32_t row = pixels.first / a->y_w;
  int32_t column = pixels.first - row * a->y_w;
  for (int32_t pixel = pixels.first; pixel < pixels.end; pixel++, y += channels) {
    const int32_t *const v = a->taps + 4 * (a->y_row + row);
    const int32_t *const h = a->taps + 4 * (a->height + a->y_column + column);
    const DORY_X_T *const upper = x + (v[0] - a->x_row) * a->x_w * channels;
    const int32_t left = (h[0] - a->x_column) * channels;
#if DORY_COPIES
    dory_gap8_copy_bytes((uint8_t *)y, (const uint8_t *)(upper + left), channels);
#else
    const DORY_X_T *const lower = x + (v[1] - a->x_row) * a->x_w * channels;
    const int32_t right = (h[1] - a->x_column) * channels;
    const DORY_X_T *const x00 = upper + left, *const x01 = upper + right;
    const DORY_X_T *const x10 = lower + left, *const x11 = lower + right;
    const int32_t w00 = v[2] * h[2], w01 = v[2] * h[3], w10 = v[3] * h[2], w11 = v[3] * h[3];
    for (int32_t c = 0; c < channels; c++) {
      y[c] = dory_apply(x00[c] * w00 + x01[c] * w01 + x10[c] * w10 + x11[c] * w11, &q, &r);
    }
#endif
    if (++column == a->y_w) {
      column = 0;
      row++;
    }
  }
}
