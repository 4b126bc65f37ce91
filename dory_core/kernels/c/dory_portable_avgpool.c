/* Sum over a window, or mean of what lies in the image. */
#include <stdint.h>

#include "dory_portable.h"

/* Returns the mean of n elements, n > 0, with ties away from the origin. */
static int64_t mean(const dory_portable_pool_t *layer, int64_t sum, int64_t n)
{
  const int64_t above = sum - n * layer->origin;

  return layer->origin + (above < 0 ? -((n / 2 - above) / n) : (above + n / 2) / n);
}

#define DORY_POOL dory_portable_avgpool
#define DORY_POOL_START 0
#define DORY_POOL_FOLD(value, element) ((value) + (element))
#define DORY_POOL_BESIDE(layer, value) ((layer)->inside ? (value) : (value) + (layer)->pad_value)
#define DORY_POOL_END(layer, value, n) ((layer)->inside ? mean(layer, value, n) : (value))
#include "dory_portable_pool_impl.h"
