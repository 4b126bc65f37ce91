#include "dory_cortex_m55_conv.h"

#include <stddef.h>

#include "dory_cortex_m55_dot.h"
#include "dory_cortex_m55_finish.h"

/* Where the window of an output begins in x. */
typedef struct {
  int32_t row, column;
} corner_t;

/* Lays what rows of a window have at a column of x; returns where the next one begins. */
static uint8_t *lay_rows(const dory_cortex_m55_conv_t *a, uint8_t *to, int32_t top, int32_t column)
{
  const uint32_t c = a->x_c, pitch = a->x_w * c, rows = a->kernel_h;
  const int32_t bottom = top + (int32_t)((rows - 1u) * a->dilation_h);
  if (column < 0 || column >= (int32_t)a->x_w) {
    dory_m55_fill(to, a->padding, rows * c);
  } else if (top >= 0 && bottom < (int32_t)a->x_h) {
    const uint8_t *const x = a->x + (uint32_t)top * pitch + (uint32_t)column * c;
    dory_m55_copy_rows(to, x, rows, c, a->dilation_h * pitch, a->flip);
  } else {
    uint8_t *own = to;
    for (int32_t row = top; row <= bottom; row += (int32_t)a->dilation_h, own += c) {
      if (row < 0 || row >= (int32_t)a->x_h) {
        dory_m55_fill(own, a->padding, c);
      } else {
        const uint8_t *const x = a->x + (uint32_t)row * pitch + (uint32_t)column * c;
        dory_m55_copy(own, x, c, a->flip);
      }
    }
  }
  return to + rows * c;
}

#define ROWS DORY_CORTEX_M55_ROWS

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Columns of outputs that follow each other in a row, step bytes apart. */
typedef struct {
  const int8_t *x;
  uint32_t step, count;
} columns_t;

/* Lays what rows of windows have at columns that follow each other. */
static void lay_strip(const dory_cortex_m55_conv_t *a, uint8_t *to, corner_t corner, uint32_t count)
{
  const uint32_t c = a->x_c, pitch = a->x_w * c;
  const int32_t bottom = corner.row + (int32_t)((a->kernel_h - 1u) * a->dilation_h);
  const int small = c <= 16u && corner.row >= 0 && bottom < (int32_t)a->x_h;
  const int32_t end = corner.column + (int32_t)count;
  for (int32_t column = corner.column; column < end;) {
    if (small && column >= 0 && column < (int32_t)a->x_w) {
      const uint8_t *const x = a->x + (uint32_t)corner.row * pitch + (uint32_t)column * c;
      const uint32_t inside = least((uint32_t)(end - column), a->x_w - (uint32_t)column);
      dory_m55_copy_columns(to, x, inside, a->kernel_h, c, a->dilation_h * pitch, a->flip);
      to += inside * a->kernel_h * c;
      column += (int32_t)inside;
    } else {
      to = lay_rows(a, to, corner.row, column++);
    }
  }
}

/* Lays rows of inputs of some outputs ``apart`` bytes from each other: each is a vector of a window. */
static void lay_vectors(const dory_cortex_m55_conv_t *a, corner_t corner, uint32_t bytes)
{
  const uint32_t c = a->x_c;
  const uint32_t before = corner.column < 0 ? (uint32_t)-corner.column * c : 0u;
  const uint32_t left = least(before, bytes), first = corner.column > 0 ? (uint32_t)corner.column : 0u;
  const uint32_t inside = first < a->x_w ? least(bytes - left, (a->x_w - first) * c) : 0u;
  uint8_t *to = a->columns;
  for (uint32_t i = 0; i < a->kernel_h; i++, to += a->apart) {
    const int32_t row = corner.row + (int32_t)(i * a->dilation_h);
    if (row < 0 || row >= (int32_t)a->x_h) {
      dory_m55_fill(to, a->padding, bytes);
    } else {
      dory_m55_fill(to, a->padding, left);
      dory_m55_copy(to + left, a->x + ((uint32_t)row * a->x_w + first) * c, inside, a->flip);
      dory_m55_fill(to + left + inside, a->padding, bytes - left - inside);
    }
  }
}

/* Lays the inputs of some outputs: windows that overlap share them. */
static columns_t laid_columns(const dory_cortex_m55_conv_t *a, corner_t corner, uint32_t count)
{
  const uint32_t column = a->kernel_h * a->x_c;
  columns_t columns = {(const int8_t *)a->columns, a->stride_w * column, count};
  uint8_t *to = a->columns;
  const uint32_t end = (count - 1u) * a->stride_w + a->kernel_w;
  if (a->apart > 16u) {
    columns.step = a->stride_w * a->x_c;
    lay_vectors(a, corner, end * a->x_c);
    return columns;
  }
  if (a->dilation_w == 1u) {
    lay_strip(a, to, corner, end);
    return columns;
  }
  columns.step = a->kernel_w * column;
  for (uint32_t i = 0; i < count; i++, corner.column += (int32_t)a->stride_w) {
    for (uint32_t tap = 0; tap < a->kernel_w; tap++) {
      to = lay_rows(a, to, corner.row, corner.column + (int32_t)(tap * a->dilation_w));
    }
  }
  return columns;
}

static columns_t columns_of(const dory_cortex_m55_conv_t *a, uint32_t row, uint32_t column)
{
  const uint32_t count = least(a->y_w - column, a->pixels);
  const uint32_t y = row * a->stride_h, x = column * a->stride_w;
  if (a->columns == NULL) {
    const int8_t *const first = (const int8_t *)a->x + (y * a->x_w + x) * a->x_c;
    const columns_t columns = {first, a->stride_w * a->x_c, count};
    return columns;
  }
  const corner_t corner = {(int32_t)y - a->pad_top, (int32_t)x - a->pad_left};
  return laid_columns(a, corner, count);
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
      dory_m55_dot_held(columns->x, columns->step, columns->count, a->apart, w, a->length, rows,
                        a->sums);
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
