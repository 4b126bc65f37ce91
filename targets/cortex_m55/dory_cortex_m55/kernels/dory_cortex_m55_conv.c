#include "dory_cortex_m55_conv.h"

#include <stddef.h>

#include "dory_cortex_m55_dot.h"
#include "dory_cortex_m55_finish.h"

/* Where the window of an output begins in x. */
typedef struct {
  int32_t row, column;
} corner_t;

/* Copies a row of taps of which some may lie outside of x. */
static void copy_taps(const dory_cortex_m55_conv_t *a, uint8_t *to, const uint8_t *row,
                      int32_t column)
{
  const int32_t width = (int32_t)a->x_w;
  if (a->dilation_w == 1u) {
    const int32_t taps = (int32_t)a->kernel_w;
    const int32_t first = column < 0 ? (-column < taps ? -column : taps) : 0;
    const int32_t left = width - column < taps ? width - column : taps;
    const int32_t last = left > first ? left : first;
    const uint32_t c = a->x_c;
    dory_m55_fill(to, a->padding, (uint32_t)first * c);
    dory_m55_copy(to + (uint32_t)first * c, row + (column + first) * (int32_t)c,
                  (uint32_t)(last - first) * c, a->flip);
    dory_m55_fill(to + (uint32_t)last * c, a->padding, (uint32_t)(taps - last) * c);
    return;
  }
  for (uint32_t tap = 0; tap < a->kernel_w; tap++, to += a->x_c) {
    const int32_t at = column + (int32_t)(tap * a->dilation_w);
    if (at < 0 || at >= width) {
      dory_m55_fill(to, a->padding, a->x_c);
    } else {
      dory_m55_copy(to, row + at * (int32_t)a->x_c, a->x_c, a->flip);
    }
  }
}

/* Lays the inputs of an output one after the other, where some may lie outside of x. */
static void lay_border(const dory_cortex_m55_conv_t *a, uint8_t *to, corner_t corner)
{
  const uint32_t run = a->kernel_w * a->x_c, pitch = a->x_w * a->x_c;
  const int inside = a->dilation_w == 1u && corner.column >= 0 &&
                     corner.column + (int32_t)a->kernel_w <= (int32_t)a->x_w;
  const int32_t end = corner.row + (int32_t)(a->kernel_h * a->dilation_h);
  for (int32_t row = corner.row; row < end; row += (int32_t)a->dilation_h, to += run) {
    if (row < 0 || row >= (int32_t)a->x_h) {
      dory_m55_fill(to, a->padding, run);
    } else if (inside) {
      dory_m55_copy(to, a->x + (uint32_t)row * pitch + (uint32_t)corner.column * a->x_c, run,
                    a->flip);
    } else {
      copy_taps(a, to, a->x + (uint32_t)row * pitch, corner.column);
    }
  }
}

#define ROWS DORY_CORTEX_M55_ROWS

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Columns of outputs that follow each other in a row, step bytes apart. */
typedef struct {
  const int8_t *x;
  uint32_t step, count;
} columns_t;

/* Lays the columns of some outputs. */
static void lay_columns(const dory_cortex_m55_conv_t *a, corner_t corner, uint32_t count)
{
  const uint32_t run = a->kernel_w * a->x_c, pitch = a->x_w * a->x_c;
  const int32_t last_row = corner.row + (int32_t)((a->kernel_h - 1u) * a->dilation_h);
  const int32_t last = (int32_t)a->x_w - (int32_t)a->kernel_w; /* the window lies inside of x */
  const int rows_inside = corner.row >= 0 && last_row < (int32_t)a->x_h && a->dilation_w == 1u;
  uint8_t *to = a->columns;
  for (uint32_t i = 0; i < count; i++, corner.column += (int32_t)a->stride_w, to += a->pitch) {
    if (rows_inside && corner.column >= 0 && corner.column <= last) {
      const uint8_t *const x =
        a->x + (uint32_t)corner.row * pitch + (uint32_t)corner.column * a->x_c;
      dory_m55_copy_rows(to, x, a->kernel_h, run, a->dilation_h * pitch, a->flip);
    } else {
      lay_border(a, to, corner);
    }
  }
}

static columns_t columns_of(const dory_cortex_m55_conv_t *a, uint32_t row, uint32_t column)
{
  columns_t columns = {(const int8_t *)a->columns, a->pitch, least(a->y_w - column, a->pixels)};
  const uint32_t y = row * a->stride_h, x = column * a->stride_w;
  if (a->columns == NULL) {
    columns.x = (const int8_t *)a->x + (y * a->x_w + x) * a->x_c;
    columns.step = a->stride_w * a->x_c;
    return columns;
  }
  const corner_t corner = {(int32_t)y - a->pad_top, (int32_t)x - a->pad_left};
  lay_columns(a, corner, columns.count);
  return columns;
}

/* Sums of columns that are too long for registers, two by two. */
static void long_sums(const dory_cortex_m55_conv_t *a, const columns_t *columns, const int8_t *w,
                      uint32_t rows)
{
  uint32_t i = 0;
  for (; i + 1u < columns->count; i += 2u) {
    const int8_t *const x = columns->x + i * columns->step;
    dory_m55_dot_two(x, x + columns->step, w, a->length, rows, a->sums + i * rows,
                     a->sums + (i + 1u) * rows);
  }
  if (i < columns->count) {
    dory_m55_dot_one(columns->x + i * columns->step, w, a->length, rows, a->sums + i * rows);
  }
}

/* Some outputs of a row, of all channels. */
static void some_pixels(const dory_cortex_m55_conv_t *a, const columns_t *columns, uint8_t *y)
{
  for (uint32_t c = 0; c < a->y_c; c += ROWS) {
    const uint32_t count = least(a->y_c - c, ROWS), rows = (count + 7u) & ~7u;
    const int8_t *const w = a->weights + c * a->pitch;
    if (a->pitch <= 16u * DORY_HELD) {
      dory_m55_dot_held(columns->x, columns->step, columns->count, w, a->length, rows, a->sums);
    } else {
      long_sums(a, columns, w, rows);
    }
    const dory_cortex_m55_outputs_t outputs = {
      y + c, a->sums, c, count, columns->count, rows, a->y_c};
    dory_cortex_m55_finish(&a->requant, &outputs);
  }
}

void dory_cortex_m55_conv(const dory_cortex_m55_conv_t *a)
{
  uint8_t *y = a->y;
  for (uint32_t row = 0; row < a->y_h; row++) {
    for (uint32_t column = 0; column < a->y_w; column += a->pixels) {
      const columns_t columns = columns_of(a, row, column);
      some_pixels(a, &columns, y);
      y += columns.count * a->y_c;
    }
  }
}
