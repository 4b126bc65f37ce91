#include "dory_cortex_m55_conv.h"

#include <stddef.h>

#include "dory_cortex_m55_dot.h"

/* Where the window of an output begins in x. */
typedef struct {
  int32_t row, column;
} corner_t;

/* Copies a row of taps of which some may lie outside of x. Returns the end of the copy. */
static uint8_t *copy_taps(const dory_cortex_m55_conv_t *a, uint8_t *to, const uint8_t *row,
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
    return to + (uint32_t)taps * c;
  }
  for (uint32_t tap = 0; tap < a->kernel_w; tap++, to += a->x_c) {
    const int32_t at = column + (int32_t)(tap * a->dilation_w);
    if (at < 0 || at >= width) {
      dory_m55_fill(to, a->padding, a->x_c);
    } else {
      dory_m55_copy(to, row + at * (int32_t)a->x_c, a->x_c, a->flip);
    }
  }
  return to;
}

/* Lays the inputs of an output one after the other. */
static void lay_column(const dory_cortex_m55_conv_t *a, uint8_t *to, corner_t corner)
{
  for (uint32_t tap = 0; tap < a->kernel_h; tap++) {
    const int32_t row = corner.row + (int32_t)(tap * a->dilation_h);
    if (row < 0 || row >= (int32_t)a->x_h) {
      dory_m55_fill(to, a->padding, a->kernel_w * a->x_c);
      to += a->kernel_w * a->x_c;
    } else {
      to = copy_taps(a, to, a->x + (uint32_t)row * a->x_w * a->x_c, corner.column);
    }
  }
}

/* Returns the column of an output, in one of two places or where it lies. */
static const int8_t *column_of(const dory_cortex_m55_conv_t *a, uint32_t pixel, uint32_t place)
{
  const uint32_t row = pixel / a->y_w * a->stride_h, column = pixel % a->y_w * a->stride_w;
  if (a->columns == NULL) {
    return (const int8_t *)a->x + (row * a->x_w + column) * a->x_c;
  }
  uint8_t *const to = a->columns + place * a->pitch;
  lay_column(a, to, (corner_t){(int32_t)row - a->pad_top, (int32_t)column - a->pad_left});
  return (const int8_t *)to;
}

/* Two outputs of all channels. */
static void two_pixels(const dory_cortex_m55_conv_t *a, uint32_t pixel)
{
  const int8_t *const x0 = column_of(a, pixel, 0), *const x1 = column_of(a, pixel + 1u, 1);
  uint8_t *const y = a->y + pixel * a->y_c;
  const int8_t *w = a->weights;
  for (uint32_t c = 0; c < a->y_c; c += 4, w += 4u * a->pitch) {
    int32_t sums[2][4];
    for (uint32_t k = 0; k < 4u; k += 2u) {
      int32_t block[2][2] = {
        {a->bias[c + k], a->bias[c + k + 1u]}, {a->bias[c + k], a->bias[c + k + 1u]}};
      const int8_t *const row = w + k * a->pitch;
      dory_m55_dot_2x2(x0, x1, row, row + a->pitch, a->length, block);
      sums[0][k] = block[0][0], sums[0][k + 1u] = block[0][1];
      sums[1][k] = block[1][0], sums[1][k + 1u] = block[1][1];
    }
    dory_m55_finish(&a->requant, y, vldrwq_s32(sums[0]), c, a->y_c);
    dory_m55_finish(&a->requant, y + a->y_c, vldrwq_s32(sums[1]), c, a->y_c);
  }
}

/* One output of all channels. */
static void one_pixel(const dory_cortex_m55_conv_t *a, uint32_t pixel)
{
  const int8_t *const x = column_of(a, pixel, 0);
  const int8_t *w = a->weights;
  for (uint32_t c = 0; c < a->y_c; c += 4, w += 4u * a->pitch) {
    int32_t sums[4] = {a->bias[c], a->bias[c + 1u], a->bias[c + 2u], a->bias[c + 3u]};
    dory_m55_dot_1x4(x, w, a->pitch, a->length, sums);
    dory_m55_finish(&a->requant, a->y + pixel * a->y_c, vldrwq_s32(sums), c, a->y_c);
  }
}

void dory_cortex_m55_conv(const dory_cortex_m55_conv_t *a)
{
  const uint32_t pixels = a->y_h * a->y_w;
  uint32_t pixel = 0;
  for (; pixel + 1u < pixels; pixel += 2u) {
    two_pixels(a, pixel);
  }
  if (pixel < pixels) {
    one_pixel(a, pixel);
  }
}
