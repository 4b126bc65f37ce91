#include "dory_cortex_m55_pool.h"

/* Taps of a window that lie inside of x: rows first.row .. end.row - 1, columns likewise. */
typedef struct {
  int32_t row, column;
} place_t;

typedef struct {
  place_t corner, first, end;
} window_t;

static int32_t first_inside(int32_t corner, uint32_t dilation)
{
  return corner >= 0 ? 0 : (-corner + (int32_t)dilation - 1) / (int32_t)dilation;
}

static int32_t end_inside(int32_t corner, uint32_t size, uint32_t taps, uint32_t dilation)
{
  const int32_t room = (int32_t)size - corner;
  const int32_t most = room <= 0 ? 0 : (room + (int32_t)dilation - 1) / (int32_t)dilation;
  return most < (int32_t)taps ? most : (int32_t)taps;
}

static window_t window_of(const dory_cortex_m55_pool_t *a, uint32_t row, uint32_t column)
{
  window_t w;
  w.corner.row = (int32_t)(row * a->stride_h) - a->pad_top;
  w.corner.column = (int32_t)(column * a->stride_w) - a->pad_left;
  w.first.row = first_inside(w.corner.row, a->dilation_h);
  w.first.column = first_inside(w.corner.column, a->dilation_w);
  w.end.row = end_inside(w.corner.row, a->x_h, a->kernel_h, a->dilation_h);
  w.end.column = end_inside(w.corner.column, a->x_w, a->kernel_w, a->dilation_w);
  return w;
}

/* Taps inside of x: the first one, how many there are, and the bytes from one to the next. */
typedef struct {
  const uint8_t *x;
  uint32_t rows, columns, down, right;
} taps_t;

static taps_t taps_of(const dory_cortex_m55_pool_t *a, const window_t *w)
{
  const int32_t rows = w->end.row - w->first.row, columns = w->end.column - w->first.column;
  const int inside = rows > 0 && columns > 0;
  const uint32_t pixel = a->c * a->x_bytes;
  taps_t taps = {a->x, 0, 0, a->dilation_h * a->x_w * pixel, a->dilation_w * pixel};
  if (inside) {
    const int32_t y = w->corner.row + w->first.row * (int32_t)a->dilation_h;
    const int32_t x = w->corner.column + w->first.column * (int32_t)a->dilation_w;
    taps.x += (y * (int32_t)a->x_w + x) * (int32_t)pixel;
    taps.rows = (uint32_t)rows;
    taps.columns = (uint32_t)columns;
  }
  return taps;
}

enum { UNSIGNED, SIGNED, HALVES };

DORY_M55_INLINE int32x4_t loaded(const uint8_t *x, mve_pred16_t lanes, uint32_t type)
{
  if (type == HALVES) {
    return vldrhq_z_s32((const int16_t *)(const void *)x, lanes);
  }
  return type == SIGNED ? vldrbq_z_s32((const int8_t *)x, lanes) : bytes_as_s32(x, lanes);
}

DORY_M55_INLINE int32x4_t sums_of(const taps_t *taps, uint32_t byte, int32x4_t sums,
                                  mve_pred16_t lanes, uint32_t type)
{
  const uint8_t *row = taps->x + byte;
  for (uint32_t i = taps->rows; i > 0; i--, row += taps->down) {
    const uint8_t *x = row;
    for (uint32_t j = taps->columns; j > 0; j--, x += taps->right) {
      sums = vaddq_s32(sums, loaded(x, lanes, type));
    }
  }
  return sums;
}

/* Four outputs, from channel ``c`` on. */
static void put(const dory_cortex_m55_pool_t *a, uint8_t *y, uint32_t c, int32x4_t outputs)
{
  const mve_pred16_t lanes = vctp32q(a->c - c);
  if (a->y_bytes == 2u) {
    vstrhq_p_s32((int16_t *)(void *)y + c, outputs, lanes);
  } else {
    vstrbq_p_s32((int8_t *)y + c, outputs, lanes);
  }
}

static void average(const dory_cortex_m55_pool_t *a, const window_t *w, uint8_t *y)
{
  const taps_t taps = taps_of(a, w);
  const int32_t beside = (int32_t)(a->kernel_h * a->kernel_w - taps.rows * taps.columns);
  const int32x4_t first = vdupq_n_s32(beside * a->padding);
  for (uint32_t c = 0; c < a->c; c += 4u) {
    const mve_pred16_t lanes = vctp32q(a->c - c);
    const int32x4_t sums = a->x_bytes == 2u ? sums_of(&taps, 2u * c, first, lanes, HALVES)
                           : a->x_signed    ? sums_of(&taps, c, first, lanes, SIGNED)
                                            : sums_of(&taps, c, first, lanes, UNSIGNED);
    put(a, y, c, dory_m55_requant(&a->requant, sums));
  }
}

/* The nearest integer, ties to even, of a number that is far beyond every output at most. */
static int32_t even(float value)
{
  const float far = 1048576.0f, bounded = value < -far ? -far : value > far ? far : value;
  const volatile float shifted = bounded + 12582912.0f; /* 1.5 * 2^23: units are its last digit */
  return (int32_t)(shifted - 12582912.0f);
}

static void mean(const dory_cortex_m55_mean_t *a, const window_t *w, uint8_t *y)
{
  const dory_cortex_m55_pool_t *const pool = &a->pool;
  const taps_t taps = taps_of(pool, w);
  const uint32_t all = pool->kernel_h * pool->kernel_w;
  const float count = (float)(a->inside ? taps.rows * taps.columns : all);
  for (uint32_t c = 0; c < pool->c; c += 4u) {
    const mve_pred16_t lanes = vctp32q(pool->c - c);
    const uint8_t *row = taps.x + c;
    int32x4_t sums = vdupq_n_s32(0);
    for (uint32_t i = taps.rows; i > 0; i--, row += taps.down) {
      const uint8_t *x = row;
      for (uint32_t j = taps.columns; j > 0; j--, x += taps.right) {
        sums = sums_in_binary32(sums, words_of_table(a->table, x, lanes));
      }
    }
    union {
      int32_t bits[4];
      float values[4];
    } four;
    vst1q_s32(four.bits, sums);
    for (int i = 0; i < 4; i++) {
      four.bits[i] = even(four.values[i] / count / a->out_scale + a->out_zero);
    }
    put(pool, y, c, dory_m55_clipped(&pool->requant, vldrwq_s32(four.bits)));
  }
}

/* Bytes with a sign are compared without one after their highest bit was turned over. */
static void maximum(const dory_cortex_m55_pool_t *a, const window_t *w, uint8_t *y)
{
  const taps_t taps = taps_of(a, w);
  const uint8x16_t flip = vdupq_n_u8(a->x_signed ? 0x80u : 0u);
  for (uint32_t c = 0; c < a->c; c += 16u) {
    const mve_pred16_t lanes = vctp8q(a->c - c);
    const uint8_t *row = taps.x + c;
    uint8x16_t most = vdupq_n_u8(0);
    for (uint32_t i = taps.rows; i > 0; i--, row += taps.down) {
      const uint8_t *x = row;
      for (uint32_t j = taps.columns; j > 0; j--, x += taps.right) {
        most = vmaxq_u8(most, veorq_u8(vldrbq_z_u8(x, lanes), flip));
      }
    }
    vstrbq_p_u8(y + c, veorq_u8(most, flip), lanes);
  }
}

void dory_cortex_m55_avgpool(const dory_cortex_m55_pool_t *a)
{
  for (uint32_t i = 0; i < a->y_h; i++) {
    for (uint32_t j = 0; j < a->y_w; j++) {
      const window_t window = window_of(a, i, j);
      average(a, &window, a->y + (i * a->y_w + j) * a->c * a->y_bytes);
    }
  }
}

void dory_cortex_m55_mean(const dory_cortex_m55_mean_t *a)
{
  const dory_cortex_m55_pool_t *const pool = &a->pool;
  for (uint32_t i = 0; i < pool->y_h; i++) {
    for (uint32_t j = 0; j < pool->y_w; j++) {
      const window_t window = window_of(pool, i, j);
      mean(a, &window, pool->y + (i * pool->y_w + j) * pool->c);
    }
  }
}

void dory_cortex_m55_maxpool(const dory_cortex_m55_pool_t *a)
{
  for (uint32_t i = 0; i < a->y_h; i++) {
    for (uint32_t j = 0; j < a->y_w; j++) {
      const window_t window = window_of(a, i, j);
      maximum(a, &window, a->y + (i * a->y_w + j) * a->c);
    }
  }
}
