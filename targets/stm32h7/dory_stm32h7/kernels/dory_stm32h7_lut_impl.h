/* Function of one byte by a table. An instance defines DORY_KERNEL, DORY_Y_T, and
 *
 *   DORY_CHANNELWISE  1: every channel has a table of its own
 *
 * A byte of the input is the index, whatever its sign. */
#include "dory_stm32h7_simd.h"

#if DORY_CHANNELWISE

void DORY_KERNEL(const dory_stm32h7_lut_t *a)
{
  const uint8_t *x = a->x;
  DORY_Y_T *y = a->y;
  for (int32_t pixel = 0; pixel < a->pixels; pixel++) {
    const DORY_Y_T *table = a->table;
    for (int32_t c = 0; c < a->y_c; c++, table += 256) {
      *y++ = table[*x++];
    }
  }
}

#else

void DORY_KERNEL(const dory_stm32h7_lut_t *a)
{
  const DORY_Y_T *const table = a->table;
  const uint8_t *x = a->x;
  DORY_Y_T *y = a->y;
  int32_t n = a->pixels * a->y_c;
  /* No load waits for the one before it. */
  for (; n >= 4; n -= 4, x += 4, y += 4) {
    const uint32_t word = dory_load4(x);
    const DORY_Y_T y0 = table[word & 0xFFu], y1 = table[word >> 8 & 0xFFu];
    const DORY_Y_T y2 = table[word >> 16 & 0xFFu], y3 = table[word >> 24];
    y[0] = y0;
    y[1] = y1;
    y[2] = y2;
    y[3] = y3;
  }
  DORY_ROLLED
  for (; n > 0; n--) {
    *y++ = table[*x++];
  }
}

#endif
