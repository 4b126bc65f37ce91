/* Maximum over a window; padding never wins: template of the kernel DORY_KERNEL for elements of
 * DORY_X_BITS bits, DORY_X_SIGNED; DORY_GAP8_PIXEL_CHANNELS: what a pixel costs beside its channels,
 * in channels.
 *
 * Elements of a byte or less are compared by words of them: DORY_MAX4, DORY_FROM_WORD_X and
 * DORY_TO_WORD_X take a word as bytes. A field of packed elements compares like its values when it
 * lies in the high bits of its byte. */
#include "dory_gap8_packed.h"
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

#if DORY_X_BITS < 16
/* The greater elements of two words, field v of them in the high bits. */
static inline uint32_t dory_greater_field(uint32_t a, uint32_t b, int v) {
  return DORY_TO_WORD_X(DORY_MAX4(DORY_FROM_WORD_X(dory_gap8_field_high(a, DORY_X_BITS, v)),
                                  DORY_FROM_WORD_X(dory_gap8_field_high(b, DORY_X_BITS, v))));
}

/* The greater elements of two words. */
static inline uint32_t dory_greater(uint32_t a, uint32_t b) {
#if DORY_X_BITS == 8
  return dory_greater_field(a, b, 0);
#elif DORY_X_BITS == 4
  return dory_gap8_bytes_srl(dory_greater_field(a, b, 0), 4) | dory_greater_field(a, b, 1);
#else
  return dory_gap8_bytes_srl(dory_greater_field(a, b, 0), 6) |
         dory_gap8_bytes_srl(dory_greater_field(a, b, 1), 4) |
         dory_gap8_bytes_srl(dory_greater_field(a, b, 2), 2) | dory_greater_field(a, b, 3);
#endif
}
#endif

/* y = max(y, x) for n bytes of elements. */
static inline void dory_take_greater(uint8_t *y, const uint8_t *x, int32_t n) {
#if DORY_X_BITS == 16
  for (int32_t i = 0; i < n >> 1; i++) {
    const int32_t a = dory_gap8_get(x, i, 16, DORY_X_SIGNED);
    dory_gap8_put(y, i, 16, dory_gap8_max(a, dory_gap8_get(y, i, 16, DORY_X_SIGNED)));
  }
#else
  const int32_t words = n >> 2;
  for (int32_t i = 0; i < words; i++, x += 4, y += 4) {
    dory_gap8_store_word(y, dory_greater(dory_gap8_load_word(x), dory_gap8_load_word(y)));
  }
  if ((n & 3) != 0) {
    const uint32_t a = dory_gap8_load_part(x, n & 3), b = dory_gap8_load_part(y, n & 3);
    dory_gap8_store_part(y, n & 3, dory_greater(a, b));
  }
#endif
}

/* Computes one tile. Every core calls it and takes its part of pixels and channels. */
void DORY_KERNEL(const dory_gap8_pool_t *a) {
  const int32_t pixel_bytes = dory_gap8_bytes(a->y_c, DORY_X_BITS);
  const dory_gap8_work_t work =
      dory_gap8_share_units(a->y_h * a->y_w, 1, a->y_c, dory_gap8_per_byte(DORY_X_BITS),
                            DORY_GAP8_PIXEL_CHANNELS);
  const int32_t first = dory_gap8_bytes(work.channels.first, DORY_X_BITS);
  const int32_t bytes = dory_gap8_bytes(work.channels.end, DORY_X_BITS) - first;
  const int32_t row_step = a->dilation_h * a->x_w * pixel_bytes;
  const int32_t tap_step = a->dilation_w * pixel_bytes;
  if (bytes == 0 || work.pixels.first == work.pixels.end) {
    return;
  }
  int32_t oy = work.pixels.first / a->y_w;
  int32_t ox = work.pixels.first - oy * a->y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel++) {
    uint8_t *const y = (uint8_t *)a->y + pixel * pixel_bytes + first;
    const int32_t iy = oy * a->stride_h - a->pad_top, ix = ox * a->stride_w - a->pad_left;
    const dory_gap8_range_t rows = dory_gap8_inside(iy, a->dilation_h, a->kernel_h, a->x_h);
    const dory_gap8_range_t columns = dory_gap8_inside(ix, a->dilation_w, a->kernel_w, a->x_w);
    const uint8_t *row = (const uint8_t *)a->x + first +
                         ((iy + rows.first * a->dilation_h) * a->x_w + ix +
                          columns.first * a->dilation_w) * pixel_bytes;
    dory_gap8_copy(y, row, bytes);
    for (int32_t ky = rows.first; ky < rows.end; ky++, row += row_step) {
      const uint8_t *x = row;
      for (int32_t kx = columns.first; kx < columns.end; kx++, x += tap_step) {
        if (ky > rows.first || kx > columns.first) {
          dory_take_greater(y, x, bytes);
        }
      }
    }
    if (++ox == a->y_w) {
      ox = 0;
      oy++;
    }
  }
}
