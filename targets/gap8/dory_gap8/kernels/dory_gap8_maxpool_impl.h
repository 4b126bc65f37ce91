/* Maximum over a window; padding never wins: template of the kernel DORY_KERNEL for elements of
 * DORY_X_BITS bits, DORY_X_SIGNED.
 *
 * Elements of a byte or less are compared four at a time: DORY_MAX4, DORY_FROM_WORD_X and
 * DORY_TO_WORD_X work on a word as bytes. A field of packed elements compares like its values when it
 * lies in the high bits of its byte. */
#include "dory_gap8_packed.h"
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* The taps of a window that lie inside the tile. Steps in bytes. */
typedef struct {
  const uint8_t *x;
  int32_t rows, columns;
  int32_t row_step, column_step;
} dory_taps_t;

#if DORY_X_BITS == 16
#define DORY_STEP_BYTES 2

/* The maximum of the elements at byte offset `at` of all taps. */
static inline void dory_take_maximum(const dory_taps_t *t, int32_t at, int32_t n, uint8_t *y) {
  int32_t most = dory_gap8_get(t->x + at, 0, 16, DORY_X_SIGNED);
  (void)n;
  for (int32_t row = 0; row < t->rows; row++) {
    const uint8_t *x = t->x + at + row * t->row_step;
    for (int32_t column = 0; column < t->columns; column++, x += t->column_step) {
      most = dory_gap8_max(most, dory_gap8_get(x, 0, 16, DORY_X_SIGNED));
    }
  }
  dory_gap8_put(y, 0, 16, most);
}
#else
#define DORY_STEP_BYTES 4
#define DORY_FIELDS (8 / DORY_X_BITS)

/* The maximum of the n bytes of elements at byte offset `at` of all taps, n up to 4. */
static inline void dory_take_maximum(const dory_taps_t *t, int32_t at, int32_t n, uint8_t *y) {
  DORY_X4_T most[DORY_FIELDS];
  uint32_t w = n == 4 ? dory_gap8_load_word(t->x + at) : dory_gap8_load_part(t->x + at, n);
  for (int v = 0; v < DORY_FIELDS; v++) {
    most[v] = DORY_FROM_WORD_X(dory_gap8_field_high(w, DORY_X_BITS, v));
  }
  for (int32_t row = 0; row < t->rows; row++) {
    const uint8_t *x = t->x + at + row * t->row_step;
    for (int32_t column = 0; column < t->columns; column++, x += t->column_step) {
      w = n == 4 ? dory_gap8_load_word(x) : dory_gap8_load_part(x, n);
      for (int v = 0; v < DORY_FIELDS; v++) {
        most[v] = DORY_MAX4(most[v], DORY_FROM_WORD_X(dory_gap8_field_high(w, DORY_X_BITS, v)));
      }
    }
  }
  w = 0;
  for (int v = 0; v < DORY_FIELDS; v++) {
    w |= DORY_TO_WORD_X(most[v]) >> (8 - DORY_X_BITS * (v + 1));
  }
  if (n == 4) {
    dory_gap8_store_word(y, w);
  } else {
    dory_gap8_store_part(y, n, w);
  }
}
#endif

/* Computes one tile. Every core calls it and takes its part of pixels and channels. */
void DORY_KERNEL(const dory_gap8_pool_t *a) {
  const int32_t pixel_bytes = dory_gap8_bytes(a->y_c, DORY_X_BITS);
  const dory_gap8_work_t work =
      dory_gap8_share_units(a->y_h * a->y_w, 1, a->y_c, dory_gap8_per_byte(DORY_X_BITS), 0);
  const int32_t first = dory_gap8_bytes(work.channels.first, DORY_X_BITS);
  const int32_t end = dory_gap8_bytes(work.channels.end, DORY_X_BITS);
  if (first == end || work.pixels.first == work.pixels.end) {
    return;
  }
  int32_t oy = work.pixels.first / a->y_w;
  int32_t ox = work.pixels.first - oy * a->y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel++) {
    uint8_t *const y = (uint8_t *)a->y + pixel * pixel_bytes;
    const dory_gap8_range_t rows = dory_gap8_inside(oy * a->stride_h - a->pad_top, a->dilation_h,
                                                    a->kernel_h, a->x_h);
    const dory_gap8_range_t columns = dory_gap8_inside(ox * a->stride_w - a->pad_left,
                                                       a->dilation_w, a->kernel_w, a->x_w);
    const int32_t iy = oy * a->stride_h - a->pad_top + rows.first * a->dilation_h;
    const int32_t ix = ox * a->stride_w - a->pad_left + columns.first * a->dilation_w;
    const dory_taps_t t = {(const uint8_t *)a->x + (iy * a->x_w + ix) * pixel_bytes,
                           rows.end - rows.first, columns.end - columns.first,
                           a->dilation_h * a->x_w * pixel_bytes, a->dilation_w * pixel_bytes};
    int32_t at = first;
    for (; at + DORY_STEP_BYTES <= end; at += DORY_STEP_BYTES) {
      dory_take_maximum(&t, at, DORY_STEP_BYTES, y + at);
    }
    if (at < end) {
      dory_take_maximum(&t, at, end - at, y + at);
    }
    if (++ox == a->y_w) {
      ox = 0;
      oy++;
    }
  }
}
