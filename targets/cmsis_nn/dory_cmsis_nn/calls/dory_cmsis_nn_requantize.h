/* Included before sources of CMSIS-NN: requantisation without its rounding.
 *
 * What the library calls shift is the addend of a product whose upper half is the result: with the
 * parameters that the generator has proven, exactly the value that the network defines. */
#ifndef DORY_CMSIS_NN_REQUANTIZE_H
#define DORY_CMSIS_NN_REQUANTIZE_H

#include "dory_cmsis_nn_names.h"

#include "dory_cmsis_nn_plain.h"

static inline int32_t dory_cmsis_nn_requantize(int32_t val, int32_t mul, int32_t rest)
{
  return (int32_t)(((int64_t)val * mul + rest) >> 32);
}

#define arm_nn_requantize(val, mul, rest) dory_cmsis_nn_requantize((val), (mul), (rest))

#endif
