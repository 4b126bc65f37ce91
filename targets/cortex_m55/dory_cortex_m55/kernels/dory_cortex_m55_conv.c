#include "dory_cortex_m55_conv.h"

#include <stddef.h>

#include "dory_cortex_m55_dot.h"
#include "dory_cortex_m55_finish.h"
#include "dory_cortex_m55_runs.h"

#define ROWS DORY_CORTEX_M55_ROWS

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Numbers first .. end - 1 of some places, ``apart`` from each other from ``start`` on: those that are
 * inside of 0 .. size - 1. */
typedef struct {
  uint32_t first, end;
} inside_t;

static inside_t inside_of(int32_t start, uint32_t count, uint32_t apart, uint32_t size)
{
  inside_t inside = {0, 0};
  if (start < 0) {
    inside.first = least(((uint32_t)-start + apart - 1u) / apart, count);
  }
  if (start < (int32_t)size) {
    inside.end = least((uint32_t)((int32_t)size - start + (int32_t)apart - 1) / apart, count);
  }
  if (inside.end < inside.first) {
    inside.end = inside.first;
  }
  return inside;
}

/* Columns of outputs that follow each other in a line, step bytes apart. */
typedef struct {
  const int8_t *x;
  uint32_t step, count;
} columns_t;

/* Lays what windows have in some rows of x; ``taps`` of each row are inside. */
static void lay_rows(const dory_cortex_m55_conv_t *a, uint8_t *to, const uint8_t *x, uint32_t rows,
                     uint32_t on, inside_t taps)
{
  const uint32_t c = a->x_c, run = a->kernel_w * c, tap = a->dilation_w * a->x_column;
  const uint32_t count = taps.end - taps.first;
  const int is_one = count == 1u || tap == c;
  if (count < a->kernel_w) {
    dory_m55_fill(to, a->padding, rows * run);
    to += taps.first * c;
    for (; count > 0 && rows > 0; rows--, to += run, x += on) {
      for (uint32_t i = 0; i < (is_one ? 1u : count); i++) {
        dory_m55_copy(to + i * c, x + i * tap, is_one ? count * c : c, a->flip);
      }
    }
  } else if (is_one) {
    dory_m55_copy_rows(to, x, rows, run, on, a->flip);
  } else {
    for (; rows > 0; rows--, to += run, x += on) {
      dory_m55_copy_rows(to, x, count, c, tap, a->flip);
    }
  }
}

/* Lays rows of windows from (row, column) of x on, ``apart`` rows from each other; returns where the
 * next ones begin. */
static uint8_t *lay(const dory_cortex_m55_conv_t *a, uint8_t *to, int32_t row, int32_t column,
                    uint32_t count, uint32_t apart)
{
  const uint32_t run = a->kernel_w * a->x_c;
  const inside_t rows = inside_of(row, count, apart, a->x_h);
  const inside_t taps = inside_of(column, a->kernel_w, a->dilation_w, a->x_w);
  dory_m55_fill(to, a->padding, rows.first * run);
  if (rows.end > rows.first) {
    const int32_t first_row = row + (int32_t)(rows.first * apart);
    const int32_t first = column + (int32_t)(taps.first * a->dilation_w);
    const uint8_t *const x =
      taps.end > taps.first ? a->x + (uint32_t)first_row * a->x_row + (uint32_t)first * a->x_column : a->x;
    lay_rows(a, to + rows.first * run, x, rows.end - rows.first, apart * a->x_row, taps);
  }
  dory_m55_fill(to + rows.end * run, a->padding, (count - rows.end) * run);
  return to + count * run;
}

/* Inputs of some outputs of a line, from ``row`` on. Windows that overlap share what is laid. */
static columns_t columns_of(const dory_cortex_m55_conv_t *a, uint32_t row, uint32_t column)
{
  const uint32_t count = least(a->y_h - row, a->pixels), run = a->kernel_w * a->x_c;
  const uint32_t y = row * a->stride_h, x = column * a->stride_w;
  if (a->columns == NULL) {
    const int8_t *const first = (const int8_t *)a->x + y * a->x_row + x * a->x_column;
    const columns_t columns = {first, a->stride_h * a->x_row, count};
    return columns;
  }
  const int32_t top = (int32_t)y - a->pad_top, left = (int32_t)x - a->pad_left;
  columns_t columns = {(const int8_t *)a->columns, a->stride_h * run, count};
  if (a->dilation_h == 1u) {
    lay(a, a->columns, top, left, (count - 1u) * a->stride_h + a->kernel_h, 1);
    return columns;
  }
  columns.step = a->kernel_h * run;
  uint8_t *to = a->columns;
  for (uint32_t i = 0; i < count; i++) {
    to = lay(a, to, top + (int32_t)(i * a->stride_h), left, a->kernel_h, a->dilation_h);
  }
  return columns;
}

/* Sums of columns that are too long for registers, two by two. */
static void long_sums(const dory_m55_column_t *c, const columns_t *columns, const int8_t *w,
                      uint32_t rows, int32_t *sums)
{
  uint32_t i = 0;
  for (; i + 1u < columns->count; i += 2u) {
    const int8_t *const x = columns->x + i * columns->step;
    dory_m55_dot_two(c, x, x + columns->step, w, rows, sums + i * rows, sums + (i + 1u) * rows);
  }
  if (i < columns->count) {
    dory_m55_dot_one(c, columns->x + i * columns->step, w, rows, sums + i * rows);
  }
}

/* Adds to the sums what weights are more than their bytes, so many times the sum of a column, and
 * what is given for each of the channels from ``first`` on. */
static void lift(const dory_cortex_m55_conv_t *a, const columns_t *columns, uint32_t first,
                 uint32_t rows)
{
  int32_t *sums = a->sums;
  for (uint32_t i = 0; i < columns->count; i++) {
    const int8_t *const x = columns->x + i * columns->step;
    int32_t sum = 0;
    for (uint32_t k = 0; a->lift != 0 && k < a->length; k += 16u) {
      sum = vaddvaq_s8(sum, vldrbq_z_s8(x + k, vctp8q(a->length - k)));
    }
    const int32x4_t same = vdupq_n_s32((int32_t)((uint32_t)sum * (uint32_t)a->lift));
    for (uint32_t row = 0; row < rows; row += 4u, sums += 4) {
      const int32x4_t more =
        a->more == NULL ? same : vaddq_s32(same, vldrwq_s32(a->more + first + row));
      vst1q_s32(sums, vaddq_s32(vldrwq_s32(sums), more));
    }
  }
}

/* Some outputs of a line, of all channels. */
static void some_pixels(const dory_cortex_m55_conv_t *a, const columns_t *columns, uint8_t *y)
{
  const uint32_t vectors = a->pitch * a->x_bytes / 16u;
  const dory_m55_column_t column = {vectors, a->length, 8u * a->x_bytes};
  for (uint32_t c = 0; c < a->y_c; c += ROWS) {
    const uint32_t count = least(a->y_c - c, ROWS), rows = (count + 7u) & ~7u;
    const int8_t *const w = a->weights + c * a->pitch;
    if (rows * vectors <= DORY_FEW && vectors <= 3u) {
      dory_m55_dot_few(&column, columns->x, columns->step, columns->count, w, rows, a->sums);
    } else if (vectors <= DORY_HELD) {
      dory_m55_dot_held(&column, columns->x, columns->step, columns->count, w, rows, a->sums);
    } else {
      long_sums(&column, columns, w, rows, a->sums);
    }
    if (a->lift != 0 || a->more != NULL) {
      lift(a, columns, c, rows);
    }
    const dory_cortex_m55_outputs_t outputs = {
      y + c * a->y_bytes, a->sums, c, count, columns->count, rows, a->y_row, a->y_bytes};
    dory_cortex_m55_finish(&a->requant, &outputs);
  }
}

void dory_cortex_m55_conv(const dory_cortex_m55_conv_t *a)
{
  for (uint32_t column = 0; column < a->y_w; column++) {
    for (uint32_t row = 0; row < a->y_h; row += a->pixels) {
      const columns_t columns = columns_of(a, row, column);
      some_pixels(a, &columns, a->y + row * a->y_row + column * a->y_column);
    }
  }
}

void dory_cortex_m55_grouped(const dory_cortex_m55_grouped_t *given)
{
  const dory_cortex_m55_grouped_t a = *given; /* y might lie in *given */
  dory_cortex_m55_conv_t conv = a.conv;
  for (uint32_t i = 0; i < a.groups; i++) {
    dory_cortex_m55_conv(&conv);
    conv.x += a.x_step;
    conv.y += a.y_step;
    conv.weights += a.weights_step;
    conv.requant.channels += a.requant_step;
  }
}
