/* Average pooling: sums of four channels in two words, then requantisation with the same
 * parameters for all channels. An instance defines DORY_KERNEL, DORY_X_SIGNED, DORY_X_T, DORY_Y_T
 * the value of padding DORY_PAD_VALUE and the macros of dory_stm32h7_requant_impl.h. The sums of a
 * window of bytes fit 16 bits, or DORY_WIDE is 1: sums of 32 bits. */
#include "dory_stm32h7_pool_window.h"
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

static inline int32_t dory_low(uint32_t sums)
{
  return DORY_X_SIGNED ? (int32_t)(int16_t)(sums & 0xFFFFu) : (int32_t)(sums & 0xFFFFu);
}

static inline int32_t dory_high(uint32_t sums)
{
  return DORY_X_SIGNED ? (int32_t)(int16_t)(sums >> 16) : (int32_t)(sums >> 16);
}

#if DORY_WIDE

static inline void dory_sums(const DORY_X_T *x, const dory_stm32h7_box_t *box, int32_t sums[4])
{
  int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (int32_t i = box->rows; i > 0; i--, x += box->row) {
    const DORY_X_T *from = x;
    for (int32_t j = box->columns; j > 0; j--, from += box->column) {
#if DORY_X_BITS == 16
      const uint32_t first = dory_load4(from), second = dory_load4(from + 2);
      s0 += dory_low(first);
      s1 += dory_high(first);
      s2 += dory_low(second);
      s3 += dory_high(second);
#else
      s0 += from[0];
      s1 += from[1];
      s2 += from[2];
      s3 += from[3];
#endif
    }
  }
  sums[0] = s0;
  sums[1] = s1;
  sums[2] = s2;
  sums[3] = s3;
}

#else

static inline void dory_sums(const DORY_X_T *x, const dory_stm32h7_box_t *box, int32_t sums[4])
{
  uint32_t even = 0, odd = 0;
  for (int32_t i = box->rows; i > 0; i--, x += box->row) {
    const DORY_X_T *from = x;
    for (int32_t j = box->columns; j > 0; j--, from += box->column) {
      const uint32_t word = dory_load4(from);
#if DORY_X_SIGNED
      even = dory_sxtab16(even, word);
      odd = dory_sxtab16(odd, word >> 8 | word << 24);
#else
      even = dory_uxtab16(even, word);
      odd = dory_uxtab16(odd, word >> 8 | word << 24);
#endif
    }
  }
  sums[0] = dory_low(even);
  sums[1] = dory_low(odd);
  sums[2] = dory_high(even);
  sums[3] = dory_high(odd);
}

#endif

static inline int32_t dory_sum(const DORY_X_T *x, const dory_stm32h7_box_t *box)
{
  int32_t sum = 0;
  for (int32_t i = 0; i < box->rows; i++) {
    for (int32_t j = 0; j < box->columns; j++) {
      sum += x[i * box->row + j * box->column];
    }
  }
  return sum;
}

void DORY_KERNEL(const dory_stm32h7_pool_t *a)
{
  const dory_stm32h7_requant_t *const q = &a->requant;
  const dory_channel_t channel = dory_channel(q, 0);
  DORY_Y_T *y = a->y;
  for (int32_t i = 0; i < a->y_h; i++) {
    for (int32_t j = 0; j < a->y_w; j++, y += a->y_c) {
      const dory_stm32h7_box_t box = dory_box(a, i, j);
      const DORY_X_T *const x = (const DORY_X_T *)a->x + box.offset;
      const int32_t padding =
        (a->kernel_h * a->kernel_w - box.rows * box.columns) * (DORY_PAD_VALUE);
      int32_t c = 0;
      for (; c <= a->y_c - 4; c += 4) {
        int32_t sums[4];
        dory_sums(x + c, &box, sums);
        for (int k = 0; k < 4; k++) {
          y[c + k] = (DORY_Y_T)dory_requant(q, channel, padding + sums[k]);
        }
      }
      for (; c < a->y_c; c++) {
        y[c] = (DORY_Y_T)dory_requant(q, channel, padding + dory_sum(x + c, &box));
      }
    }
  }
}
