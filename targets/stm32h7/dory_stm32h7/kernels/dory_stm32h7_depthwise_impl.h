/* Depthwise convolution from HWC, four channels at a time: a tap of four channels is one word of
 * inputs and one of weights, and pixels whose windows lie inside the image are computed in pairs
 * that share the weights. An instance defines DORY_KERNEL, DORY_X_SIGNED, DORY_Y_T, DORY_KERNEL_H,
 * DORY_KERNEL_W and the macros of dory_stm32h7_requant_impl.h.
 *
 * Weights: blocks of four channels, per tap four bytes. When channels are no multiple of four, the
 * last block has the last four channels and shares some with the block before; fewer than four
 * channels have one block with zeros behind them. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

/* sums: those of channels 0 to 3. */
static inline void dory_tap(uint32_t even, uint32_t odd, uint32_t x, int32_t sums[4])
{
  const uint32_t x_even = DORY_EVEN(DORY_X_SIGNED, x), x_odd = DORY_ODD(DORY_X_SIGNED, x);
  sums[0] = dory_smlabb(x_even, even, sums[0]);
  sums[2] = dory_smlatt(x_even, even, sums[2]);
  sums[1] = dory_smlabb(x_odd, odd, sums[1]);
  sums[3] = dory_smlatt(x_odd, odd, sums[3]);
}

/* The part of a window that lies inside the image: taps first .. end - 1 along an axis. */
typedef struct {
  int32_t first, end;
} dory_taps_t;

static inline dory_taps_t dory_inside(int32_t start, int32_t step, int32_t taps, int32_t size)
{
  dory_taps_t inside = {0, taps};
  while (inside.first < taps && start + inside.first * step < 0) {
    inside.first++;
  }
  while (inside.end > inside.first && start + (inside.end - 1) * step >= size) {
    inside.end--;
  }
  return inside;
}

/* Where the channels of a block lie and what becomes of them. */
typedef struct {
  const dory_stm32h7_conv_t *a;
  const uint8_t *x;
  const uint32_t *w;
  int32_t first, count;
  int32_t row, column; /* bytes from tap to tap */
} dory_block_t;

static inline void dory_finish(const dory_block_t *b, const int32_t sums[4], DORY_Y_T *y)
{
  /* A copy: stores of bytes could change anything that is reached by a pointer. */
  const dory_stm32h7_requant_t q = b->a->requant;
  const int32_t first = b->first;
  for (int k = 0; k < 4; k++) {
    y[k] = (DORY_Y_T)dory_requant(&q, dory_channel(&q, first + k), sums[k]);
  }
}

/* One pixel with part of its window; x: where the first tap would lie. */
DORY_SEPARATE void dory_border(const dory_block_t *b, int32_t x, dory_taps_t rows, dory_taps_t columns,
                        DORY_Y_T *y)
{
  int32_t sums[4] = {0, 0, 0, 0};
  for (int32_t i = rows.first; i < rows.end; i++) {
    const uint32_t *w = b->w + i * DORY_KERNEL_W + columns.first;
    const uint8_t *from = b->x + (x + i * b->row + columns.first * b->column);
    for (int32_t j = columns.first; j < columns.end; j++, w++, from += b->column) {
      dory_tap(dory_sxtb16(*w), dory_sxtb16_odd(*w), dory_load4(from), sums);
    }
  }
  dory_finish(b, sums, y);
}

/* The sums of two pixels whose columns all lie inside. w, x: weights and input of the first tap;
 * next: bytes from the last tap of a row to the first of the next; step: from pixel to pixel. */
static inline void dory_pair(const uint32_t *w, const uint8_t *x, int32_t rows, int32_t column,
                             int32_t next, int32_t step, int32_t sums[8])
{
  int32_t one[4] = {0, 0, 0, 0}, two[4] = {0, 0, 0, 0};
  for (; rows > 0; rows--) {
    for (int32_t j = 0; j < DORY_KERNEL_W; j++) {
      const uint32_t even = dory_sxtb16(*w), odd = dory_sxtb16_odd(*w);
      dory_tap(even, odd, dory_load4(x), one);
      dory_tap(even, odd, dory_load4(x + step), two);
      x += column;
      w++;
    }
    x += next;
  }
  for (int k = 0; k < 4; k++) {
    sums[k] = one[k];
    sums[4 + k] = two[k];
  }
}

/* Pairs of pixels of a row whose columns all lie inside. */
DORY_SEPARATE void dory_pairs(const dory_block_t *b, int32_t x, dory_taps_t rows, int32_t pairs,
                              DORY_Y_T *y)
{
  const dory_stm32h7_requant_t q = b->a->requant;
  const int32_t step = b->a->stride_w * b->a->x_c, pitch = b->a->y_c;
  const int32_t first = b->first, column = b->column, next = b->row - DORY_KERNEL_W * column;
  const uint32_t *const w = b->w + rows.first * DORY_KERNEL_W;
  const uint8_t *from = b->x + (x + rows.first * b->row);
  for (; pairs > 0; pairs--) {
    int32_t sums[8];
    dory_pair(w, from, rows.end - rows.first, column, next, step, sums);
    for (int k = 0; k < 4; k++) {
      const dory_channel_t channel = dory_channel(&q, first + k);
      y[k] = (DORY_Y_T)dory_requant(&q, channel, sums[k]);
      y[k + pitch] = (DORY_Y_T)dory_requant(&q, channel, sums[4 + k]);
    }
    from += 2 * step;
    y += 2 * pitch;
  }
}

/* One pixel of fewer than four channels. */
DORY_SEPARATE void dory_narrow(const dory_block_t *b, int32_t x, dory_taps_t rows, dory_taps_t columns,
                        DORY_Y_T *y)
{
  const dory_stm32h7_requant_t *const q = &b->a->requant;
  for (int32_t k = 0; k < b->count; k++) {
    int32_t sum = 0;
    for (int32_t i = rows.first; i < rows.end; i++) {
      for (int32_t j = columns.first; j < columns.end; j++) {
        const uint8_t byte = b->x[x + i * b->row + j * b->column + k];
        const int8_t weight = (int8_t)(b->w[i * DORY_KERNEL_W + j] >> (8 * k));
        sum += (DORY_X_SIGNED ? (int32_t)(int8_t)byte : (int32_t)byte) * weight;
      }
    }
    y[k] = (DORY_Y_T)dory_requant(q, dory_channel(q, b->first + k), sum);
  }
}

static void dory_channels(const dory_block_t *b)
{
  const dory_stm32h7_conv_t *const a = b->a;
  const int32_t step = a->stride_w * a->x_c;
  DORY_Y_T *y = (DORY_Y_T *)a->y + b->first;
  /* Outputs from `left` to before `end` have all columns of their windows inside. */
  const int32_t reach = (DORY_KERNEL_W - 1) * a->dilation_w + 1;
  const int32_t left = (a->pad_left + a->stride_w - 1) / a->stride_w;
  const int32_t last = a->x_w - reach + a->pad_left;
  const int32_t right = last < 0 ? 0 : last / a->stride_w + 1;
  const int32_t end = right < a->y_w ? right : a->y_w;
  for (int32_t i = 0; i < a->y_h; i++) {
    const int32_t top = i * a->stride_h - a->pad_top;
    const dory_taps_t rows = dory_inside(top, a->dilation_h, DORY_KERNEL_H, a->x_h);
    int32_t x = (top * a->x_w - a->pad_left) * a->x_c;
    for (int32_t j = 0; j < a->y_w;) {
      const int32_t pairs = j < left || b->count < 4 ? 0 : (end - j) / 2;
      if (pairs > 0) {
        dory_pairs(b, x, rows, pairs, y);
        y += 2 * pairs * a->y_c;
        x += 2 * pairs * step;
        j += 2 * pairs;
        continue;
      }
      const int32_t start = j * a->stride_w - a->pad_left;
      const dory_taps_t columns = dory_inside(start, a->dilation_w, DORY_KERNEL_W, a->x_w);
      if (b->count == 4) {
        dory_border(b, x, rows, columns, y);
      } else {
        dory_narrow(b, x, rows, columns, y);
      }
      y += a->y_c;
      x += step;
      j++;
    }
  }
}

void DORY_KERNEL(const dory_stm32h7_conv_t *a)
{
  dory_block_t block = {.a = a, .w = a->weights};
  block.row = a->dilation_h * a->x_w * a->x_c;
  block.column = a->dilation_w * a->x_c;
  for (int32_t c = 0; c < a->y_c; c += 4) {
    block.count = a->y_c < 4 ? a->y_c : 4;
    block.first = c + block.count > a->y_c ? a->y_c - block.count : c;
    block.x = (const uint8_t *)a->x + block.first;
    dory_channels(&block);
    block.w += DORY_KERNEL_H * DORY_KERNEL_W;
  }
}
