/* The digital array: convolution, depthwise convolution, fully connected, sum. */
#include "dory_diana_model.h"

#include <string.h>

#define BLOCK 16      /* output channels per block of weights */
#define BIAS_BYTES 64 /* of a block */
#define CHUNK 64      /* output columns that are computed together */

static uint8_t weight_memory[DIANA_DIGITAL_WEIGHT_BYTES];

typedef struct {
  int top, bottom, side; /* side: left and right */
  int stride;
} geometry_t;

/* --- bytes --- */

/* Offset of an element among bytes that are reversed in groups of 4. */
static uint32_t reversed(uint32_t offset) { return offset ^ 3u; }

/* Where byte `plane` of the bias of an output lies in the bias of its block. */
static uint32_t bias_offset(uint32_t output, uint32_t plane)
{
  return reversed(plane * BLOCK + output);
}

static int32_t bias_of(const uint8_t *bias, uint32_t output)
{
  uint8_t bytes[4];
  for (uint32_t plane = 0; plane < 4; ++plane) bytes[plane] = bias[bias_offset(output, plane)];
  return diana_signed(diana_word(bytes));
}

static const uint8_t *fetch(const diana_job_t *job)
{
  memcpy(weight_memory + job->w_offset, job->w, job->w_bytes);
  return weight_memory + job->w_offset;
}

static int8_t element(const uint8_t *bytes, uint32_t offset)
{
  const uint8_t byte = bytes[reversed(offset)];
  return (int8_t)(byte < 128 ? byte : byte - 256);
}

/* acc without bias cannot overflow: the weight memory holds at most 4096 weights per output. */
static uint8_t finished(const Layer_parameters *p, int32_t acc, int32_t bias)
{
  const int64_t sum = (int64_t)acc + bias;
  if (sum < INT32_MIN || sum > INT32_MAX)
    diana_fault("accumulator %d + bias %d leaves int32", (int)acc, (int)bias);
  const int low = p->activation_function == 1 ? 0 : -128;
  return (uint8_t)diana_clip(diana_shift(sum, p->output_shift), low, 127);
}

/* --- rules --- */

static geometry_t digital_padding(const Layer_parameters *p)
{
  const unsigned padding = (unsigned)p->padding;
  if ((padding & ~0xFF0Fu) != 0)
    diana_fault("padding = 0x%x has other bits than right, top << 8 and bottom << 12", padding);
  const geometry_t g = {(int)(padding >> 8 & 15u), (int)(padding >> 12 & 15u),
                        (int)(padding & 15u), p->stride + 1};
  diana_range("stride", p->stride, 0, 1);
  diana_padding("top", g.top, p->fy, 15);
  diana_padding("bottom", g.bottom, p->fy, 15);
  diana_padding("right", g.side, p->fx, 15);
  return g;
}

/* Planes of padded channels and columns, in and out. */
static void planes(const Layer_parameters *p)
{
  diana_common(p);
  diana_multiple("c", p->c, BLOCK);
  diana_multiple("k", p->k, BLOCK);
  diana_multiple("cx", p->cx, 16);
  diana_multiple("ox", p->ox, 16);
}

static void plane_buffers(diana_job_t *job, uintptr_t l1_x, uintptr_t l1_y)
{
  const Layer_parameters *const p = &job->p;
  const uint64_t x_bytes = (uint64_t)p->c * (uint64_t)p->cy * (uint64_t)p->cx;
  const uint64_t y_bytes = (uint64_t)p->k * (uint64_t)p->oy * (uint64_t)p->ox;
  job->x = diana_l1("l1_x", l1_x, x_bytes);
  job->y = diana_l1("l1_y", l1_y, y_bytes);
  job->x_bytes = (uint32_t)x_bytes;
  job->y_bytes = (uint32_t)y_bytes;
}

static void weights(diana_job_t *job, uintptr_t l2_W, uintptr_t l1_W, uint64_t bytes)
{
  if (l1_W % 16 != 0)
    diana_fault("l1_W = %llu is not a multiple of 16", (unsigned long long)l1_W);
  if (l1_W > DIANA_DIGITAL_WEIGHT_BYTES || bytes > DIANA_DIGITAL_WEIGHT_BYTES - l1_W)
    diana_fault("%llu bytes of weights at l1_W = %llu do not fit the weight memory of %u bytes",
                (unsigned long long)bytes, (unsigned long long)l1_W, DIANA_DIGITAL_WEIGHT_BYTES);
  job->w = diana_l2("l2_W", l2_W, bytes);
  job->w_bytes = (uint32_t)bytes;
  job->w_offset = (uint32_t)l1_W;
}

/* What fully connected layers and sums do not have. */
static void no_windows(const Layer_parameters *p)
{
  diana_equal("fx", p->fx, 1, "there is no filter");
  diana_equal("fy", p->fy, 1, "there is no filter");
  diana_equal("padding", p->padding, 0, "there is no filter");
  diana_equal("stride", p->stride, 0, "there is no filter");
}

static uint64_t block_bytes(const Layer_parameters *p, uint32_t inputs)
{
  return (uint64_t)inputs * (uint64_t)p->fy * (uint64_t)p->fx * BLOCK + BIAS_BYTES;
}

/* --- convolution --- */

/* The columns of which the window ends behind the right padding get junk. */
static int specified_columns(const Layer_parameters *p, const geometry_t *g)
{
  const int room = p->cx + g->side - p->fx + g->side; /* where the last window may begin */
  if (room < 0) return 0;
  return room / g->stride + 1 < p->ox ? room / g->stride + 1 : p->ox;
}

/* Columns [*first, *last) of a chunk of outputs that have a real input under tap j. */
static void real_columns(const Layer_parameters *p, const geometry_t *g, int j, int start, int end,
                         int *first, int *last)
{
  int low = start, high = end;
  while (low < end && low * g->stride + j - g->side < 0) ++low;
  while (high > low && (high - 1) * g->stride + j - g->side >= p->cx) --high;
  *first = low;
  *last = high;
}

/* Sixteen outputs of columns start .. end of one row. */
static void conv_chunk(const diana_job_t *job, const geometry_t *g, const uint8_t *block, int y,
                       int start, int end, int32_t acc[CHUNK][BLOCK])
{
  const Layer_parameters *const p = &job->p;
  memset(acc, 0, sizeof(int32_t) * CHUNK * BLOCK);
  for (int c = 0; c < p->c; ++c) {
    for (int i = 0; i < p->fy; ++i) {
      const int row = y * g->stride + i - g->top;
      if (row < 0 || row >= p->cy) continue;
      const uint32_t line = ((uint32_t)c * (uint32_t)p->cy + (uint32_t)row) * (uint32_t)p->cx;
      for (int j = 0; j < p->fx; ++j) {
        const uint32_t at = (uint32_t)((c * p->fy + i) * p->fx + j) * BLOCK;
        int32_t w[BLOCK];
        for (uint32_t k = 0; k < BLOCK; ++k) w[k] = element(block, at + k);
        int first, last;
        real_columns(p, g, j, start, end, &first, &last);
        for (int x = first; x < last; ++x) {
          const int32_t in = element(job->x, line + (uint32_t)(x * g->stride + j - g->side));
          for (uint32_t k = 0; k < BLOCK; ++k) acc[x - start][k] += in * w[k];
        }
      }
    }
  }
}

static void conv_run(const diana_job_t *job)
{
  const Layer_parameters *const p = &job->p;
  const geometry_t g = digital_padding(p);
  const uint8_t *block = fetch(job);
  const uint32_t step = (uint32_t)block_bytes(p, (uint32_t)p->c);
  const int columns = specified_columns(p, &g);
  int32_t acc[CHUNK][BLOCK];
  diana_junk(job->y, job->y_bytes);
  for (int k = 0; k < p->k; k += BLOCK, block += step) {
    int32_t bias[BLOCK];
    for (uint32_t i = 0; i < BLOCK; ++i) bias[i] = bias_of(block + step - BIAS_BYTES, i);
    for (int y = 0; y < p->oy; ++y) {
      for (int start = 0; start < columns; start += CHUNK) {
        const int end = start + CHUNK < columns ? start + CHUNK : columns;
        conv_chunk(job, &g, block, y, start, end, acc);
        for (int i = 0; i < BLOCK; ++i) {
          const uint32_t line = (uint32_t)(((k + i) * p->oy + y) * p->ox);
          for (int x = start; x < end; ++x)
            job->y[reversed(line + (uint32_t)x)] = finished(p, acc[x - start][i], bias[i]);
        }
      }
    }
  }
}

void digital_conv_2d(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l1_W,
                     uintptr_t l1_y, Layer_parameters *parameters)
{
  diana_enter("digital_conv_2d");
  diana_job_t job = {.run = conv_run, .array = DIANA_DIGITAL, .p = *parameters};
  const Layer_parameters *const p = &job.p;
  planes(p);
  diana_filter("fx", p->fx);
  diana_filter("fy", p->fy);
  const geometry_t g = digital_padding(p);
  diana_windows("rows", p->oy, g.stride, p->fy, g.top, p->cy, g.bottom);
  diana_l2_tile("l2_x", l2_x);
  plane_buffers(&job, l1_x, l1_y);
  weights(&job, l2_W, l1_W, (uint64_t)(p->k / BLOCK) * block_bytes(p, (uint32_t)p->c));
  job.macs = (uint64_t)job.y_bytes * (uint64_t)p->c * (uint64_t)p->fy * (uint64_t)p->fx;
  diana_start(&job);
}

/* --- depthwise convolution --- */

/* Every channel has three companions in its block, which are 0. */
static void companions(const uint8_t *block, uint32_t bytes, int channel)
{
  for (uint32_t i = 0; i < bytes; ++i)
    if (i % 4 != 0 && block[reversed(i)] != 0)
      diana_fault("the block of channels %d .. %d has %u, not 0, at byte %lu: companion %lu of "
                  "channel %d",
                  channel, channel + 3, block[reversed(i)], (unsigned long)reversed(i),
                  (unsigned long)(i % 4), channel + (int)(i % BLOCK / 4));
}

static int32_t depthwise_sum(const diana_job_t *job, const geometry_t *g, const uint8_t *block,
                             int channel, int y, int x)
{
  const Layer_parameters *const p = &job->p;
  int32_t acc = 0;
  for (int i = 0; i < p->fy; ++i) {
    const int row = y * g->stride + i - g->top;
    if (row < 0 || row >= p->cy) continue;
    for (int j = 0; j < p->fx; ++j) {
      const int column = x * g->stride + j - g->side;
      if (column < 0 || column >= p->cx) continue;
      const uint32_t weight = (uint32_t)((i * p->fx + j) * BLOCK + 4 * (channel % 4));
      acc += element(block, weight) *
             element(job->x, (uint32_t)((channel * p->cy + row) * p->cx + column));
    }
  }
  return acc;
}

static void depthwise_run(const diana_job_t *job)
{
  const Layer_parameters *const p = &job->p;
  const geometry_t g = digital_padding(p);
  const uint8_t *const all = fetch(job);
  const uint32_t step = (uint32_t)block_bytes(p, 1);
  const int columns = specified_columns(p, &g);
  diana_junk(job->y, job->y_bytes);
  for (int channel = 0; channel < p->c; ++channel) {
    const uint8_t *const block = all + (uint32_t)(channel / 4) * step;
    if (channel % 4 == 0) companions(block, step, channel);
    const int32_t bias = bias_of(block + step - BIAS_BYTES, (uint32_t)(4 * (channel % 4)));
    for (int y = 0; y < p->oy; ++y)
      for (int x = 0; x < columns; ++x)
        job->y[reversed((uint32_t)((channel * p->oy + y) * p->ox + x))] =
            finished(p, depthwise_sum(job, &g, block, channel, y, x), bias);
  }
}

void digital_depthwise_conv_2d(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l1_W,
                               uintptr_t l1_y, Layer_parameters *parameters)
{
  diana_enter("digital_depthwise_conv_2d");
  diana_job_t job = {.run = depthwise_run, .array = DIANA_DIGITAL, .p = *parameters};
  const Layer_parameters *const p = &job.p;
  planes(p);
  diana_equal("k", p->k, p->c, "c and k of a depthwise layer are its channels");
  diana_filter("fx", p->fx);
  diana_filter("fy", p->fy);
  const geometry_t g = digital_padding(p);
  diana_windows("rows", p->oy, g.stride, p->fy, g.top, p->cy, g.bottom);
  diana_l2_tile("l2_x", l2_x);
  plane_buffers(&job, l1_x, l1_y);
  weights(&job, l2_W, l1_W, (uint64_t)(p->c / 4) * block_bytes(p, 1));
  job.macs = (uint64_t)job.y_bytes * (uint64_t)p->fy * (uint64_t)p->fx;
  diana_start(&job);
}

/* --- fully connected --- */

static void linear_run(const diana_job_t *job)
{
  const Layer_parameters *const p = &job->p;
  const uint8_t *const block = fetch(job);
  for (uint32_t k = 0; k < BLOCK; ++k) {
    int32_t acc = 0;
    for (uint32_t c = 0; c < (uint32_t)p->c; ++c)
      acc += element(job->x, c) * element(block, (c / 16 * BLOCK + k) * 16 + c % 16);
    job->y[reversed(k)] = finished(p, acc, bias_of(block + (uint32_t)p->c * BLOCK, k));
  }
}

void digital_fully_connected(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_W, uintptr_t l1_W,
                             uintptr_t l1_y, Layer_parameters *parameters)
{
  diana_enter("digital_fully_connected");
  diana_job_t job = {.run = linear_run, .array = DIANA_DIGITAL, .p = *parameters};
  const Layer_parameters *const p = &job.p;
  diana_common(p);
  diana_multiple("c", p->c, BLOCK);
  diana_equal("k", p->k, BLOCK, "a tile has 16 outputs");
  diana_one_pixel(p);
  no_windows(p);
  diana_l2_tile("l2_x", l2_x);
  plane_buffers(&job, l1_x, l1_y);
  weights(&job, l2_W, l1_W, block_bytes(p, (uint32_t)p->c));
  job.macs = (uint64_t)p->c * BLOCK;
  diana_start(&job);
}

/* --- sum --- */

static void sum_run(const diana_job_t *job)
{
  for (uint32_t i = 0; i < job->y_bytes; ++i)
    job->y[reversed(i)] = finished(&job->p, element(job->x, i) + element(job->x2, i), 0);
}

void element_wise_sum(uintptr_t l2_x, uintptr_t l1_x, uintptr_t l2_x2, uintptr_t l1_x2,
                      uintptr_t l1_y, Layer_parameters *parameters)
{
  diana_enter("element_wise_sum");
  diana_job_t job = {.run = sum_run, .array = DIANA_DIGITAL, .p = *parameters};
  const Layer_parameters *const p = &job.p;
  planes(p);
  diana_equal("k", p->k, p->c, "input and output have the same channels");
  diana_equal("ox", p->ox, p->cx, "input and output have the same columns");
  diana_equal("oy", p->oy, p->cy, "input and output have the same rows");
  no_windows(p);
  diana_l2_tile("l2_x", l2_x);
  diana_l2_tile("l2_x2", l2_x2);
  plane_buffers(&job, l1_x, l1_y);
  job.x2 = diana_l1("l1_x2", l1_x2, job.x_bytes);
  job.x2_bytes = job.x_bytes;
  job.macs = job.y_bytes;
  diana_start(&job);
}
