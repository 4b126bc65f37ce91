/* The analog array: ternary weights, a converter of 6 bits, requantisation per channel. */
#include "dory_diana_model.h"

#include <string.h>

#define ROW_GRANULE 288
#define COLUMN_GRANULE 128
#define ROWS_PER_SIGN 64 /* rows that share a sign pattern */

/* cells[r][k]: the weight of row r, in the order of the inputs, and column k. */
static int8_t cells[DIANA_ROWS][DIANA_COLUMNS];
static uint8_t row_used[DIANA_ROWS]; /* some weight of the row is not 0 */

typedef struct {
  int top, bottom, left, right;
  int columns;               /* of the output */
  uint32_t x_step, y_step;   /* bytes from pixel to pixel */
  uint32_t rows;             /* of weights, without padding */
  uint32_t image_rows, image_columns;
} geometry_t;

static geometry_t analog_geometry(const Layer_parameters *p)
{
  const unsigned padding = (unsigned)p->padding;
  const geometry_t g = {
      .top = (int)(padding >> 2 & 3u),
      .bottom = (int)(padding & 3u),
      .left = (int)(padding >> 6 & 3u),
      .right = (int)(padding >> 4 & 3u),
      .columns = p->ox * p->ox_unroll,
      .x_step = diana_round_up((uint32_t)p->c, 64),
      .y_step = diana_round_up((uint32_t)p->k, 64),
      .rows = (uint32_t)(p->c * p->fy * p->fx),
      .image_rows = diana_round_up((uint32_t)(p->c * p->fy * p->fx), ROW_GRANULE),
      .image_columns = diana_round_up((uint32_t)p->k, COLUMN_GRANULE),
  };
  return g;
}

/* --- weights --- */

/* The analog front end of a block of rows inverts some columns. */
static int inverted(uint32_t image_row, uint32_t column)
{
  const uint32_t block = image_row / ROWS_PER_SIGN;
  if (column % 2 == 0) return block < 6 || block > 11;
  return block <= 8;
}

static int bit(const uint8_t *plane, uint32_t column)
{
  return (int)(diana_word(plane + column / 32 * 4) >> (31 - column % 32) & 1u);
}

static void decode_row(const diana_job_t *job, const geometry_t *g, uint32_t image_row)
{
  const uint32_t row = g->image_rows - 1 - image_row;
  const uint8_t *const plus = job->w + image_row * (g->image_columns / 4);
  const uint8_t *const minus = plus + g->image_columns / 8;
  row_used[row] = 0;
  for (uint32_t column = 0; column < g->image_columns; ++column) {
    const int up = bit(plus, column), down = bit(minus, column);
    if (up && down)
      diana_fault("image row %lu, column %lu is both +1 and -1", (unsigned long)image_row,
                  (unsigned long)column);
    const int weight = inverted(image_row, column) ? down - up : up - down;
    if (weight != 0 && (row >= g->rows || column >= (uint32_t)job->p.k))
      diana_fault("image row %lu, column %lu holds a weight, but there are %lu rows and %d columns",
                  (unsigned long)image_row, (unsigned long)column, (unsigned long)g->rows,
                  job->p.k);
    cells[row][column] = (int8_t)weight;
    if (weight != 0) row_used[row] = 1;
  }
}

/* --- inputs --- */

/* Seven bits have one sign for the whole tile. Channels without weights may hold anything. */
static void check_inputs(const diana_job_t *job, const geometry_t *g)
{
  const Layer_parameters *const p = &job->p;
  const uint32_t taps = (uint32_t)(p->fy * p->fx);
  int low = 0, high = 0;
  for (uint32_t c = 0; c < (uint32_t)p->c; ++c) {
    int used = 0;
    for (uint32_t tap = 0; tap < taps; ++tap) used |= row_used[c * taps + tap];
    if (!used) continue;
    for (uint32_t pixel = 0; pixel < (uint32_t)(p->cy * p->cx); ++pixel) {
      const uint8_t byte = job->x[pixel * g->x_step + c];
      const int value = byte < 128 ? byte : byte - 256;
      if (value < -64) diana_fault("input %d of channel %lu is not in 7 bits", value,
                                   (unsigned long)c);
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low < 0 && high > 63)
    diana_fault("inputs from %d to %d are neither in 0 .. 127 nor in -64 .. 63", low, high);
}

/* --- arithmetic --- */

/* The converter: rounds down, 6 bits. */
static int adc(int32_t acc, int32_t scale)
{
  const int32_t down = acc >= 0 ? acc / scale : -((-acc + scale - 1) / scale);
  return diana_clip(down, -32, 31);
}

static uint8_t requantise(const diana_job_t *job, uint32_t k, int t)
{
  const int32_t mul = diana_signed(diana_word(job->bn + 8 * k));
  const int32_t add = diana_signed(diana_word(job->bn + 8 * k + 4));
  const int64_t value = (int64_t)t * mul + add;
  if (value < INT32_MIN || value > INT32_MAX)
    diana_fault("%d * %ld + %ld of output channel %lu leaves int32", t, (long)mul, (long)add,
                (unsigned long)k);
  const int64_t shifted = diana_shift(value, job->p.output_shift);
  return (uint8_t)(job->p.activation_function == 1 ? diana_clip(shifted, 0, 127)
                                                   : diana_clip(shifted, -64, 63));
}

static void accumulate(const diana_job_t *job, const geometry_t *g, int y, int x,
                       int32_t acc[DIANA_COLUMNS])
{
  const Layer_parameters *const p = &job->p;
  memset(acc, 0, sizeof(int32_t) * DIANA_COLUMNS);
  for (int i = 0; i < p->fy; ++i) {
    const int row = y * p->stride + i - g->top;
    if (row < 0 || row >= p->cy) continue;
    for (int j = 0; j < p->fx; ++j) {
      const int column = x * p->stride + j - g->left;
      if (column < 0 || column >= p->cx) continue;
      const uint8_t *const pixel = job->x + (uint32_t)(row * p->cx + column) * g->x_step;
      for (int c = 0; c < p->c; ++c) {
        const int r = (c * p->fy + i) * p->fx + j;
        if (!row_used[r]) continue;
        const int32_t value = pixel[c] < 128 ? pixel[c] : pixel[c] - 256;
        const int8_t *const weights = cells[r];
        for (int k = 0; k < p->k; ++k) acc[k] += value * weights[k];
      }
    }
  }
}

static void analog_run(const diana_job_t *job)
{
  const Layer_parameters *const p = &job->p;
  const geometry_t g = analog_geometry(p);
  const int32_t scale = dory_diana_port_chip()->adc_scale;
  int32_t acc[DIANA_COLUMNS];
  for (uint32_t row = 0; row < g.image_rows; ++row) decode_row(job, &g, row);
  check_inputs(job, &g);
  diana_junk(job->y, job->y_bytes); /* stays in the padding channels */
  for (int y = 0; y < p->oy; ++y) {
    for (int x = 0; x < g.columns; ++x) {
      uint8_t *const out = job->y + (uint32_t)(y * g.columns + x) * g.y_step;
      accumulate(job, &g, y, x, acc);
      for (uint32_t k = 0; k < (uint32_t)p->k; ++k)
        out[k] = requantise(job, k, adc(acc[k], scale));
    }
  }
}

/* --- rules --- */

static void array_rules(const Layer_parameters *p)
{
  diana_common(p);
  diana_multiple("c", p->c, 16);
  diana_range("k", p->k, 1, DIANA_COLUMNS);
  diana_range("c", p->c, 16, DIANA_ROWS);
  diana_filter("fx", p->fx);
  diana_filter("fy", p->fy);
  if (p->ox_unroll != 1 && p->ox_unroll != 2 && p->ox_unroll != 4)
    diana_fault("ox_unroll = %d is not 1, 2 or 4", p->ox_unroll);
  const int rows = p->c * p->fy * (p->fx + p->ox_unroll - 1);
  if (rows > DIANA_ROWS)
    diana_fault("c * fy * (fx + ox_unroll - 1) = %d rows, the array has %d", rows, DIANA_ROWS);
  if (p->ox_unroll * p->k > DIANA_COLUMNS)
    diana_fault("ox_unroll * k = %d columns, the array has %d", p->ox_unroll * p->k,
                DIANA_COLUMNS);
  diana_range("stride", p->stride, 1, 2);
}

static void window_rules(const Layer_parameters *p, const geometry_t *g)
{
  if (((unsigned)p->padding & ~0xFFu) != 0)
    diana_fault("padding = 0x%x has other bits than bottom, top << 2, right << 4 and left << 6",
                (unsigned)p->padding);
  diana_padding("top", g->top, p->fy, 3);
  diana_padding("bottom", g->bottom, p->fy, 3);
  diana_padding("left", g->left, p->fx, 3);
  diana_padding("right", g->right, p->fx, 3);
  diana_windows("rows", p->oy, p->stride, p->fy, g->top, p->cy, g->bottom);
  diana_windows("columns", g->columns, p->stride, p->fx, g->left, p->cx, g->right);
}

static void analog_call(diana_job_t *job, uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W,
                        uintptr_t l2_BN, uintptr_t l1_W, uintptr_t l1_y)
{
  const Layer_parameters *const p = &job->p;
  array_rules(p);
  const geometry_t g = analog_geometry(p);
  window_rules(p, &g);
  if (dory_diana_port_chip()->adc_scale < 1)
    diana_fault("adc_scale = %ld is not positive", (long)dory_diana_port_chip()->adc_scale);
  if (l1_W != 0) diana_fault("l1_W = %llu is not 0", (unsigned long long)l1_W);
  const uint64_t x_bytes = (uint64_t)p->cy * (uint64_t)p->cx * g.x_step;
  const uint64_t y_bytes = (uint64_t)p->oy * (uint64_t)g.columns * g.y_step;
  diana_l2_tile("l2_x", l2_x);
  job->x = diana_l1("l1_x", l1_x, x_bytes);
  job->y = diana_l1("l1_y", l1_y, y_bytes);
  job->x_bytes = (uint32_t)x_bytes;
  job->y_bytes = (uint32_t)y_bytes;
  job->w_bytes = g.image_rows * (g.image_columns / 4);
  job->bn_bytes = 8 * (uint32_t)p->k;
  job->w = diana_l2("l2_W", l2_W, job->w_bytes);
  job->bn = diana_l2("l2_BN", l2_BN, job->bn_bytes);
  job->run = analog_run;
  job->array = DIANA_ANALOG;
  job->macs = (uint64_t)p->oy * (uint64_t)g.columns * (uint64_t)p->k * g.rows;
  diana_start(job);
}

void analog_conv_2d(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l2_BN,
                    uintptr_t l1_W, uintptr_t l1_y, Layer_parameters *parameters)
{
  diana_enter("analog_conv_2d");
  diana_job_t job = {.p = *parameters};
  analog_call(&job, l2_x, l1_x, l2_W, l2_BN, l1_W, l1_y);
}

void analog_fully_connected(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l2_BN,
                            uintptr_t l1_W, uintptr_t l1_y, Layer_parameters *parameters)
{
  diana_enter("analog_fully_connected");
  diana_job_t job = {.p = *parameters};
  const Layer_parameters *const p = &job.p;
  const char *const pixel = "there is one pixel";
  diana_one_pixel(p);
  diana_equal("fx", p->fx, 1, pixel);
  diana_equal("fy", p->fy, 1, pixel);
  diana_equal("ox_unroll", p->ox_unroll, 1, pixel);
  diana_equal("stride", p->stride, 1, pixel);
  diana_equal("padding", p->padding, 0, pixel);
  analog_call(&job, l2_x, l1_x, l2_W, l2_BN, l1_W, l1_y);
}
