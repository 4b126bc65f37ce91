/* Function of one byte by a table. An instance defines DORY_KERNEL, DORY_Y_T, and
 *
 *   DORY_CHANNELWISE  1: every channel has a table of its own
 *
 * A byte of the input is the index, whatever its sign. */
#include "dory_stm32h7_simd.h"

#if DORY_CHANNELWISE

void DORY_KERNEL(const dory_stm32h7_lut_t *a)
{
  const int32_t on = a->y_c;
  const DORY_Y_T *table = a->table;
  for (int32_t c = 0; c < on; c++, table += 256) {
    const uint8_t *x = (const uint8_t *)a->x + c;
    DORY_Y_T *y = (DORY_Y_T *)a->y + c;
    int32_t n = a->pixels;
    /* No load waits for the one before it. */
    for (; n >= 4; n -= 4, x += 4 * on, y += 4 * on) {
      const uint32_t at0 = x[0], at1 = x[on], at2 = x[2 * on], at3 = x[3 * on];
      const DORY_Y_T y0 = table[at0], y1 = table[at1], y2 = table[at2], y3 = table[at3];
      y[0] = y0;
      y[on] = y1;
      y[2 * on] = y2;
      y[3 * on] = y3;
    }
    DORY_ROLLED
    for (; n > 0; n--, x += on, y += on) {
      *y = table[*x];
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
