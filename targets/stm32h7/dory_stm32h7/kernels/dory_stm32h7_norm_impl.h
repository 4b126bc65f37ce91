/* Layer normalisation of bytes in integers of 32 bits. An instance defines DORY_KERNEL, DORY_X_T,
 * DORY_Y_T, and
 *
 *   DORY_CENTRED  1 where the mean is taken off
 *   DORY_BIAS     1 where biases stand behind the weights */
#include "dory_stm32h7_types.h"

/* Returns the integer part of the root. */
static int32_t dory_root(uint32_t value)
{
  uint32_t root = 0;
  for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1) {
    const uint32_t next = root | bit;
    root = next * next <= value ? next : root;
  }
  return (int32_t)root;
}

static void dory_pixel(const dory_stm32h7_norm_t *a, const DORY_X_T *x, DORY_Y_T *y)
{
  const int32_t *const weights = a->weights;
  const DORY_X_T *const outputs = x + a->channel;
  int32_t sum = 0, mean = 0;
  uint32_t squares = 0; /* modulo 2^32: what they become is below 2^31 */
  for (int32_t c = 0; c < a->x_c; c++) {
    sum += x[c];
    squares += (uint32_t)(x[c] * x[c]);
  }
  if (DORY_CENTRED) {
    mean = sum / a->x_c;
    squares -= (uint32_t)mean * (2u * (uint32_t)sum - (uint32_t)a->x_c * (uint32_t)mean);
  }
  const int32_t root = dory_root(squares / (uint32_t)a->x_c + 1u);
  for (int32_t c = 0; c < a->y_c; c++) {
    const int32_t bias = DORY_BIAS ? weights[a->y_c + c] : 0;
    const int32_t value = (outputs[c] - mean) * weights[c] / root + bias;
    const int32_t wrapped = (int32_t)((uint32_t)value << a->up) >> a->down;
    y[c] = (DORY_Y_T)(wrapped < a->lo ? a->lo : wrapped > a->hi ? a->hi : wrapped);
  }
}

void DORY_KERNEL(const dory_stm32h7_norm_t *a)
{
  const DORY_X_T *x = a->x;
  DORY_Y_T *y = a->y;
  for (int32_t pixel = 0; pixel < a->pixels; pixel++, x += a->x_c, y += a->y_c) {
    dory_pixel(a, x, y);
  }
}
