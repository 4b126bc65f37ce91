/* Softmax of bytes as quotients of integers. An instance defines DORY_KERNEL, DORY_X_T and DORY_Y_T. */
#include "dory_stm32h7_types.h"

static void dory_pixel(const dory_stm32h7_shares_t *a, const DORY_X_T *x, DORY_Y_T *y)
{
  const uint32_t *const table = a->table;
  const DORY_X_T *const outputs = x + a->channel;
  int32_t largest = x[0];
  uint32_t sum = 0;
  for (int32_t c = 1; c < a->x_c; c++) {
    largest = x[c] > largest ? x[c] : largest;
  }
  for (int32_t c = 0; c < a->x_c; c++) {
    sum += table[largest - x[c]];
  }
  for (int32_t c = 0; c < a->y_c; c++) {
    const int32_t share = (int32_t)(a->factor * table[largest - outputs[c]] / sum) + a->add;
    y[c] = (DORY_Y_T)(share < a->lo ? a->lo : share > a->hi ? a->hi : share);
  }
}

void DORY_KERNEL(const dory_stm32h7_shares_t *a)
{
  const DORY_X_T *x = a->x;
  DORY_Y_T *y = a->y;
  for (int32_t pixel = 0; pixel < a->pixels; pixel++, x += a->x_c, y += a->y_c) {
    dory_pixel(a, x, y);
  }
}
