/* Slices and padding: runs of bytes are copied by words. An instance defines DORY_KERNEL and
 * DORY_FILL, a word full of what stands beside the input. Elements have whole bytes, channels are
 * counted by bytes. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_copy_impl.h"

/* Writes n bytes of whole elements of DORY_FILL; returns where the next ones go. */
static inline uint8_t *dory_filled(int32_t n, uint8_t *y)
{
  uint32_t word = DORY_FILL;
  for (; n >= 4; n -= 4, y += 4) {
    dory_store4(y, word);
  }
  DORY_ROLLED
  for (; n > 0; n--, word >>= 8) {
    *y++ = (uint8_t)(word & 0xFFu);
  }
  return y;
}

/* How many of n elements, the first of which is element `first` of an axis, lie before its begin;
 * and of those behind them, how many lie in the `size` elements of the axis. */
static inline int32_t dory_before(int32_t first, int32_t n)
{
  return first >= 0 ? 0 : -first < n ? -first : n;
}

static inline int32_t dory_within(int32_t first, int32_t n, int32_t size)
{
  const int32_t left = size - first;
  return left <= 0 ? 0 : left < n ? left : n;
}

/* A run of n bytes of which the first is byte `first` of a run of `size`. */
static inline uint8_t *dory_run(const uint8_t *x, int32_t first, int32_t size, int32_t n,
                                uint8_t *y)
{
  const int32_t before = dory_before(first, n);
  const int32_t inside = dory_within(first + before, n - before, size);
  y = dory_filled(before, y);
  y = dory_copied(x + first + before, inside, y);
  return dory_filled(n - before - inside, y);
}

void DORY_KERNEL(const dory_stm32h7_move_t *a)
{
  uint8_t *y = a->y;
  const int32_t row_bytes = a->x_w * a->x_c;
  const int whole = a->step_w == 1 && a->channel == 0 && a->y_c == a->x_c;
  for (int32_t i = 0, row = a->row; i < a->y_h; i++, row += a->step_h) {
    const uint8_t *const x = (const uint8_t *)a->x + row * row_bytes;
    if (row < 0 || row >= a->x_h) {
      y = dory_filled(a->y_w * a->y_c, y);
    } else if (whole) {
      y = dory_run(x, a->column * a->x_c, row_bytes, a->y_w * a->y_c, y);
    } else {
      for (int32_t j = 0, column = a->column; j < a->y_w; j++, column += a->step_w) {
        if (column < 0 || column >= a->x_w) {
          y = dory_filled(a->y_c, y);
        } else {
          y = dory_run(x + column * a->x_c, a->channel, a->x_c, a->y_c, y);
        }
      }
    }
  }
}
