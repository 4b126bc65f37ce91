/* Convolution, dense or in groups: template of the kernel DORY_KERNEL, see dory_gap8_matmul_impl.h.
 *
 *   DORY_GATHERS              0: 1x1 without padding, on inputs of whole bytes. Columns lie in the
 *                             tile, and there is no scratch.
 *   DORY_GAP8_IM2COL_CHANNELS cost of gathering a pixel, in output channels
 *
 * Each core takes pairs of output pixels. The inputs of a pixel are gathered into the core's part of
 * the scratch (im2col), as they are packed, and then taken apart into bytes in place: packed bytes
 * come to lie at the end of the column, and taking them apart never overtakes them. Where the
 * inputs of a pixel are neighbours in memory (1x1; one row, as in 1-D, without dilation), nothing is
 * copied: bytes are multiplied where they lie, packed elements are taken apart from there.
 *
 * Groups are those of whole bytes: smaller ones were merged, with zero weights between them.
 */
#define DORY_PACKED_COLUMNS 0
#include "dory_gap8_matmul_impl.h"
#include "dory_gap8_share.h"

#define DORY_COLUMN_BYTES (DORY_COLUMN_BITS / 8)

/* What is the same for all pixels of a tile. All but `words` in bytes. */
typedef struct {
  const uint8_t *x; /* first channel of the group in the first pixel */
  int32_t pixel;    /* from pixel to pixel of the tile */
  int32_t slice;    /* the group's part of a pixel */
  int32_t column;   /* inputs of an output pixel, as they are packed */
  int32_t pitch;    /* of a column in the scratch */
  int together;     /* whether inputs of a pixel may be neighbours */
} dory_window_t;

#if DORY_GATHERS
/* Inputs of one row of taps from column ix of input row `row`; zeros for the padding. */
static inline uint8_t *dory_gather_row(const dory_gap8_conv_t *a, const dory_window_t *w,
                                       const uint8_t *row, int32_t ix, uint8_t *to) {
  if (a->dilation_w == 1 && w->slice == w->pixel) {
    const int32_t first = dory_gap8_min(dory_gap8_max(-ix, 0), a->kernel_w);
    const int32_t end = dory_gap8_max(dory_gap8_min(a->x_w - ix, a->kernel_w), first);
    to = dory_gap8_clear(to, first * w->pixel);
    if (first < end) {
      to = dory_gap8_copy(to, row + (ix + first) * w->pixel, (end - first) * w->pixel);
    }
    return dory_gap8_clear(to, (a->kernel_w - end) * w->pixel);
  }
  for (int32_t kx = 0; kx < a->kernel_w; kx++, ix += a->dilation_w) {
    if (ix >= 0 && ix < a->x_w) {
      to = dory_gap8_copy(to, row + ix * w->pixel, w->slice);
    } else {
      to = dory_gap8_clear(to, w->slice);
    }
  }
  return to;
}

/* Inputs of the pixel whose window starts at (iy, ix), as they are packed. Returns their end. */
static inline uint8_t *dory_gather(const dory_gap8_conv_t *a, const dory_window_t *w, int32_t iy,
                                   int32_t ix, uint8_t *to) {
  for (int32_t ky = 0; ky < a->kernel_h; ky++, iy += a->dilation_h) {
    if (iy >= 0 && iy < a->x_h) {
      to = dory_gather_row(a, w, w->x + iy * a->x_w * w->pixel, ix, to);
    } else {
      to = dory_gap8_clear(to, a->kernel_w * w->slice);
    }
  }
  return to;
}
#endif

/* The column of output pixel (oy, ox): where it lies, or in `scratch`. */
static inline const uint8_t *dory_column(const dory_gap8_conv_t *a, const dory_window_t *w,
                                         int32_t oy, int32_t ox, uint8_t *scratch) {
#if DORY_GATHERS
  const int32_t iy = oy * a->stride_h - a->pad_top;
  const int32_t ix = ox * a->stride_w - a->pad_left;
  const int inside = w->together && iy >= 0 && iy < a->x_h && ix >= 0 && ix + a->kernel_w <= a->x_w;
#if DORY_X_BITS >= 8
  uint8_t *end;
  if (inside) {
    return w->x + (iy * a->x_w + ix) * w->pixel;
  }
  end = dory_gather(a, w, iy, ix, scratch);
  dory_gap8_clear(end, (int32_t)(scratch + w->pitch - end));
#else
  const int32_t words = (w->column + 3) >> 2;
  const int32_t bytes = words * (4 * 8 / DORY_X_BITS);
  if (inside) {
    const uint8_t *const packed = w->x + (iy * a->x_w + ix) * w->pixel;
    dory_gap8_unpack(scratch, packed, w->column, DORY_X_BITS, DORY_X_SIGNED);
  } else {
    uint8_t *const packed = scratch + w->pitch - 4 * words;
    dory_gather(a, w, iy, ix, packed);
    dory_gap8_unpack(scratch, packed, w->column, DORY_X_BITS, DORY_X_SIGNED);
  }
  dory_gap8_clear(scratch + bytes, w->pitch - bytes);
#endif
  return scratch;
#else
  (void)scratch;
  return w->x + (oy * a->stride_h * a->x_w + ox * a->stride_w) * w->pixel;
#endif
}

/* The pixels of this core, output channels c .. end - 1, which read the inputs of `w`. */
static inline void dory_convolve(const dory_gap8_conv_t *a, const dory_window_t *w,
                                 const dory_matmul_t *m, dory_gap8_range_t pixels, int32_t c,
                                 int32_t end) {
  const int32_t y_pixel = dory_gap8_bytes(a->y_c, DORY_Y_BITS);
  uint8_t *const scratch = (uint8_t *)a->scratch + (int32_t)dory_core_id() * 2 * w->pitch;
  uint8_t *y = (uint8_t *)a->y + pixels.first * y_pixel;
  int32_t *psum = DORY_ACCUMULATE ? a->psum + pixels.first * a->y_c : a->psum;
  const int32_t psum_step = DORY_ACCUMULATE ? a->y_c : 0;
  int32_t oy = pixels.first / a->y_w;
  int32_t ox = pixels.first - oy * a->y_w;
  for (int32_t pixel = pixels.first; pixel < pixels.end; pixel += 2) {
    const int32_t pair = pixel + 1 < pixels.end;
    const uint8_t *column[2] = {scratch, scratch};
    for (int32_t j = 0; j <= pair; j++) {
      column[j] = dory_column(a, w, oy, ox, scratch + j * w->pitch);
      if (++ox == a->y_w) {
        ox = 0;
        oy++;
      }
    }
    if (pair) {
      dory_matmul_2(m, column[0], column[1], y, y + y_pixel, psum, psum + psum_step, c, end);
    } else {
      dory_matmul_1(m, column[0], y, psum, c, end);
    }
    y += 2 * y_pixel;
    psum += 2 * psum_step;
  }
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_conv_t *a) {
  const int32_t slice = dory_gap8_bytes(a->group_in, DORY_X_BITS);
  const int32_t packed = a->kernel_h * a->kernel_w * slice;
  const int grouped = a->group_in < a->x_c;
  const int32_t unit = grouped ? a->group_out : dory_gap8_per_byte(DORY_Y_BITS);
  const dory_gap8_work_t work =
      dory_gap8_share_units(a->y_h * a->y_w, 2, a->y_c, unit, DORY_GAP8_IM2COL_CHANNELS);
  dory_window_t w = {a->x, dory_gap8_bytes(a->x_c, DORY_X_BITS), slice, packed, 0, 0};
  dory_matmul_t m;
  int32_t step;
  /* Of a column that may be used where it lies no group is completed with zeros in the scratch. */
  w.together = a->kernel_h == 1 && (a->kernel_w == 1 || (a->dilation_w == 1 && slice == w.pixel));
#if DORY_X_BITS >= 8
  m = dory_matmul(a->weights, packed, a->first, a->last, &a->requant);
#else
  m = dory_matmul(a->weights, ((packed + 3) >> 2) * (4 * 8 / DORY_X_BITS), a->first, a->last,
                  &a->requant);
#endif
  w.pitch = (m.groups + (m.rest != 0)) * DORY_GROUP_BYTES;
  if (!w.together || DORY_X_BITS < 8) {
    m.groups += m.rest != 0;
    m.rest = 0;
  }
  if (work.channels.first == work.channels.end || work.pixels.first == work.pixels.end) {
    return;
  }
  /* A core's share of a convolution in groups is whole groups. */
  step = grouped ? a->group_out : work.channels.end - work.channels.first;
  w.x += grouped ? work.channels.first / a->group_out * slice : 0;
  for (int32_t c = work.channels.first; c < work.channels.end; c += step, w.x += slice) {
    dory_convolve(a, &w, &m, work.pixels, c, c + step);
  }
}
