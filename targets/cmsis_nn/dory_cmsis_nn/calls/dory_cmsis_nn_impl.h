/* What the calls of CMSIS-NN share. */
#ifndef DORY_CMSIS_NN_IMPL_H
#define DORY_CMSIS_NN_IMPL_H

#include "dory_cmsis_nn.h"

#ifdef DORY_CMSIS_NN_NATIVE
#include "dory_cmsis_nn_plain.h"
#else
#include "dory_cmsis_nn_requantize.h"
#endif

#include "arm_nnfunctions.h"

/* Copies bytes with their highest bits turned over; to and from may be the same. */
static inline void dory_turn(uint8_t *to, const uint8_t *from, int32_t bytes)
{
  for (; bytes >= 4; bytes -= 4, to += 4, from += 4) {
    uint32_t word;
    __builtin_memcpy(&word, from, 4);
    word ^= 0x80808080u;
    __builtin_memcpy(to, &word, 4);
  }
  for (; bytes > 0; bytes--) {
    *to++ = *from++ ^ 0x80u;
  }
}

/* The input as signed bytes. */
static inline const int8_t *dory_signed_input(const dory_cmsis_nn_t *a, int32_t elements)
{
  if (!a->x_turned) {
    return a->x;
  }
  uint8_t *const copy = (uint8_t *)a->scratch + a->buffer;
  dory_turn(copy, a->x, elements);
  return (const int8_t *)copy;
}

/* Ends a call: outputs as they are stored. Nothing but a bug of the generator makes the library
 * refuse its arguments. */
static inline void dory_finish(const dory_cmsis_nn_t *a, arm_cmsis_nn_status status)
{
  if (status != ARM_CMSIS_NN_SUCCESS) {
    __builtin_trap();
  }
  if (a->y_turned) {
    dory_turn(a->y, a->y, a->y_h * a->y_w * a->y_c);
  }
}

static inline cmsis_nn_context dory_context(const dory_cmsis_nn_t *a)
{
  const cmsis_nn_context context = {a->scratch, a->buffer};
  return context;
}

static inline cmsis_nn_per_channel_quant_params dory_quant(const dory_cmsis_nn_t *a)
{
  const cmsis_nn_per_channel_quant_params quant = {(int32_t *)a->mul, (int32_t *)a->rest};
  return quant;
}

static inline cmsis_nn_dims dory_dims(int32_t n, int32_t h, int32_t w, int32_t c)
{
  const cmsis_nn_dims dims = {n, h, w, c};
  return dims;
}

static inline cmsis_nn_tile dory_tile(int32_t w, int32_t h)
{
  const cmsis_nn_tile tile = {w, h};
  return tile;
}

static inline cmsis_nn_activation dory_bounds(const dory_cmsis_nn_t *a)
{
  const cmsis_nn_activation bounds = {a->lo, a->hi};
  return bounds;
}

static inline cmsis_nn_dw_conv_params dory_depthwise_params(const dory_cmsis_nn_t *a)
{
  cmsis_nn_dw_conv_params params;
  params.input_offset = a->x_offset;
  params.output_offset = a->y_offset;
  params.ch_mult = 1;
  params.stride = dory_tile(a->stride_w, a->stride_h);
  params.padding = dory_tile(a->pad_left, a->pad_top);
  params.dilation = dory_tile(1, 1);
  params.activation = dory_bounds(a);
  return params;
}

static inline cmsis_nn_conv_params dory_conv_params(const dory_cmsis_nn_t *a)
{
  cmsis_nn_conv_params params;
  params.input_offset = a->x_offset;
  params.output_offset = a->y_offset;
  params.stride = dory_tile(a->stride_w, a->stride_h);
  params.padding = dory_tile(a->pad_left, a->pad_top);
  params.dilation = dory_tile(a->dilation_w, a->dilation_h);
  params.activation = dory_bounds(a);
  return params;
}

#endif
