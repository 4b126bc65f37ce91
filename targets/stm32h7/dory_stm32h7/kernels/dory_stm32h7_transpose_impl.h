/* Axes of bytes in another order. An instance defines DORY_KERNEL and DORY_RUNS: whether the channels
 * of a pixel of the output are neighbours in the input. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_copy_impl.h"

/* Gathers n bytes that are `step` bytes apart; returns where the next ones go. */
static inline uint8_t *dory_gathered(const uint8_t *x, int32_t step, int32_t n, uint8_t *y)
{
  for (; n >= 4; n -= 4, x += 4 * step, y += 4) {
    const uint32_t a = x[0], b = x[step], c = x[2 * step], d = x[3 * step];
    dory_store4(y, a | b << 8 | c << 16 | d << 24);
  }
  DORY_ROLLED
  for (; n > 0; n--, x += step) {
    *y++ = *x;
  }
  return y;
}

void DORY_KERNEL(const dory_stm32h7_transpose_t *a)
{
  const uint8_t *line = (const uint8_t *)a->x + a->first;
  uint8_t *y = a->y;
  for (int32_t i = 0; i < a->y_h; i++, line += a->row) {
    const uint8_t *x = line;
    for (int32_t j = 0; j < a->y_w; j++, x += a->column) {
#if DORY_RUNS
      y = dory_copied(x, a->y_c, y);
#else
      y = dory_gathered(x, a->channel, a->y_c, y);
#endif
    }
  }
}
