/* Quotient of two operands in binary32, by integers. */
#include "dory_portable_elements.h"
#include "dory_portable_kinds.h"

#define FAR ((int64_t)1 << 23)

static dory_portable_positive_t scaled(int64_t value, dory_portable_scale_t scale)
{
  const uint64_t size = value < 0 ? (uint64_t)-value : (uint64_t)value;
  const dory_portable_positive_t product = {size * scale.mantissa, -scale.digits};

  return dory_portable_positive(product);
}

static int64_t quotient(const dory_portable_quotient_t *layer, int64_t a, int64_t b)
{
  const dory_portable_positive_t first = scaled(a, layer->scale), second = scaled(b, layer->scale2);
  const dory_portable_positive_t value = layer->is_turned ? second : first;
  const dory_portable_positive_t by = layer->is_turned ? first : second;
  const dory_portable_positive_t step = {layer->out_scale.mantissa, -layer->out_scale.digits};

  if (by.digits == 0) {
    return (layer->is_turned ? b : a) > 0 ? FAR : -FAR;
  }
  return dory_portable_even_sum(dory_portable_divide(dory_portable_divide(value, by), step),
                                (a < 0) != (b < 0), 0);
}

#define DORY_PAIR dory_portable_quotient
#define DORY_PAIR_LAYER dory_portable_quotient_t
#define DORY_PAIR_VALUE(a, b) quotient(layer, a, b)
#include "dory_portable_pair_impl.h"
