/* Sum over a window, mean of what lies in the image, or mean in binary32. */
#include <stdint.h>

#include "dory_portable.h"
#include "dory_portable_float.h"

/* Returns the mean of n elements, n > 0, with ties away from the origin. */
static int64_t mean(const dory_portable_pool_t *layer, int64_t sum, int64_t n)
{
  const int64_t above = sum - n * layer->origin;

  return layer->origin + (above < 0 ? -((n / 2 - above) / n) : (above + n / 2) / n);
}

/* Returns a sum in binary32 with one element more, in units of 2^-x_digits. */
static int64_t real_sum(const dory_portable_pool_t *layer, int64_t sum, int64_t element)
{
  const dory_portable_real_t *const real = &layer->real;
  const int64_t product =
      dory_portable_round_signed((element - real->x_zero) * (int64_t)real->x_mantissa);

  return dory_portable_round_signed(sum + product);
}

/* Returns a sum of n elements in binary32, divided by n and by the scale of the output, plus its
 * zero point, rounded to an integer. */
static int64_t real_mean(const dory_portable_pool_t *layer, int64_t sum, int64_t n)
{
  const dory_portable_real_t *const real = &layer->real;
  dory_portable_positive_t value = {(uint64_t)(sum < 0 ? -sum : sum), -real->x_digits};
  const dory_portable_positive_t count = {(uint64_t)n, 0};
  const dory_portable_positive_t scale = {real->y_mantissa, -real->y_digits};

  value = dory_portable_divide(value, count);
  value = dory_portable_divide(value, scale);
  return dory_portable_even_sum(value, sum < 0, real->y_zero);
}

#define DORY_POOL dory_portable_avgpool
#define DORY_POOL_START 0
#define DORY_POOL_FOLD(layer, value, element) \
  ((layer)->is_real ? real_sum(layer, value, element) : (value) + (element))
#define DORY_POOL_BESIDE(layer, value) ((value) + (layer)->pad_value)
#define DORY_POOL_END(layer, value, n)                                                         \
  ((layer)->is_real                                                                            \
       ? real_mean(layer, value,                                                               \
                   (layer)->inside                                                             \
                       ? (n)                                                                   \
                       : (int64_t)((layer)->window.kernel_h * (layer)->window.kernel_w))       \
       : (layer)->inside ? mean(layer, value, n)                                               \
                         : (value))
#include "dory_portable_pool_impl.h"
