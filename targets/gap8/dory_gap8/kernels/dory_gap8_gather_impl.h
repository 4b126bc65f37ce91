/* Dense convolution that first gathers its inputs, for pixels that are no words: template of the kernel DORY_KERNEL, configured as dory_gap8_window_impl.h and
 *
 *   DORY_CHANNELS   input channels
 *
 * Each core lays the inputs of four pixels, taps after taps, into its part of the scratch, with zeros
 * for padding and up to the next word. */
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

#define DORY_ROW (DORY_KERNEL_W * DORY_CHANNELS)
#define DORY_COLUMN (DORY_KERNEL_H * DORY_ROW)
/* Steps of the block, two at least, and inputs of a column with padding. */
#define DORY_GATHERED \
  (DORY_COLUMN <= 2 * DORY_LANES ? 2 : (DORY_COLUMN + DORY_LANES - 1) / DORY_LANES)
#define DORY_PITCH (DORY_LANES * DORY_GATHERED)

/* Gathers the window whose first tap is at (row, column), which padding makes negative. */
static inline void dory_gather(const dory_gap8_window_t *a, int32_t row, int32_t column,
                               DORY_X_T *to) {
  const int32_t x_row = a->x_w * DORY_CHANNELS;
  const DORY_X_T *const x = a->x;
  const int inside = !DORY_PADDED ||
                     ((column >= 0) & (column + (DORY_KERNEL_W - 1) * DORY_DILATION_W < a->x_w));
  for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++, row += DORY_DILATION_H, to += DORY_ROW) {
    if (DORY_PADDED && (uint32_t)row >= (uint32_t)a->x_h) {
      dory_clear(to, DORY_ROW);
    } else if (DORY_DILATION_W == 1 && inside) {
      dory_copy(to, x + row * x_row + column * DORY_CHANNELS, DORY_ROW);
    } else {
      for (int32_t kx = 0; kx < DORY_KERNEL_W; kx++) {
        const int32_t place = column + kx * DORY_DILATION_W;
        DORY_X_T *const tap = to + kx * DORY_CHANNELS;
        if (DORY_PADDED && (uint32_t)place >= (uint32_t)a->x_w) {
          dory_clear(tap, DORY_CHANNELS);
        } else {
          dory_copy(tap, x + row * x_row + place * DORY_CHANNELS, DORY_CHANNELS);
        }
      }
    }
  }
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const dory_gap8_work_t work = dory_block_share(a->y_h * a->y_w, a->y_c);
  const dory_block_tile_t tile = {a->weights, a->parameters, 16 * DORY_GATHERED,
                                  a->y_c,     work.channels, a->requant};
  DORY_X_T *const columns =
      (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * (4 * DORY_PITCH);
  const DORY_X_T *const table[4] = {columns, columns + DORY_PITCH, columns + 2 * DORY_PITCH,
                                    columns + 3 * DORY_PITCH};
  int32_t oy, ox;
  dory_block_t b;
  if (work.channels.first == work.channels.end || work.pixels.first == work.pixels.end) {
    return;
  }
  dory_clear(columns, 4 * DORY_PITCH);
  b.table = table;
  b.table_end = table + 4;
  b.steps = DORY_GATHERED;
  b.inputs = DORY_PITCH;
  b.shift = a->shift;
  b.low_bits = a->low_bits;
  b.hi = a->hi;
  oy = work.pixels.first / a->y_w;
  ox = work.pixels.first - oy * a->y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel += 4) {
    const int32_t pixels = dory_gap8_min(4, work.pixels.end - pixel);
    for (int32_t j = 0; j < pixels; j++) {
      dory_gather(a, oy * DORY_STRIDE_H - (DORY_PADDED ? a->pad_top : 0),
                  ox * DORY_STRIDE_W - (DORY_PADDED ? a->pad_left : 0),
                  columns + j * DORY_PITCH);
      if (++ox == a->y_w) {
        ox = 0;
        oy++;
      }
    }
    dory_block_pixels(&b, &tile, pixels, (DORY_Y_T *)a->y + pixel * a->y_c);
  }
}
