/* Real numbers at the border of a network: a stored integer q stands for scale * (q - zero_point).
 *
 * The quotient is a float; its ties go away from zero, as in TensorFlow Lite, or to even, as in
 * ONNX. Nothing of the C library is called. What is beyond the range becomes its bound; what is no
 * number, the zero point. */
#ifndef DORY_FLOAT_H
#define DORY_FLOAT_H

#include <stdint.h>

/* How a tensor is stored. bytes: of an element, little-endian. lo, hi: range of its values. scales: of
 * each of the channels of a pixel; 0: all have the one scale. */
typedef struct {
  uint32_t count, bytes;
  float scale;
  int32_t zero_point, lo, hi;
  uint32_t channels;
  const float *scales;
} dory_quantized_t;

/* The scale of element i. */
static inline float dory_scale(const dory_quantized_t *tensor, uint32_t i)
{
  return tensor->scales ? tensor->scales[i % tensor->channels] : tensor->scale;
}

static inline int32_t dory_quantize(const dory_quantized_t *tensor, uint32_t i, int ties_even,
                                    float value)
{
  const float most = 1073741824.0f;
  const float scaled = value / dory_scale(tensor, i);
  if (scaled >= most) return tensor->hi;
  if (scaled <= -most) return tensor->lo;
  int32_t found = scaled == scaled ? (int32_t)scaled : 0;
  const float rest = scaled == scaled ? scaled - (float)found : 0.0f; /* exact */
  const int tie_stays = ties_even && found % 2 == 0;
  if (rest > 0.5f || (rest == 0.5f && !tie_stays)) found++;
  if (rest < -0.5f || (rest == -0.5f && !tie_stays)) found--;
  found += tensor->zero_point;
  return found < tensor->lo ? tensor->lo : found > tensor->hi ? tensor->hi : found;
}

static inline float dory_dequantize(const dory_quantized_t *tensor, uint32_t i, int32_t value)
{
  return dory_scale(tensor, i) * (float)(value - tensor->zero_point);
}

/* Writes tensor->count elements. */
static inline void dory_quantize_all(const dory_quantized_t *tensor, int ties_even,
                                     const float *values, uint8_t *elements)
{
  for (uint32_t i = 0; i < tensor->count; i++) {
    const uint32_t found = (uint32_t)dory_quantize(tensor, i, ties_even, values[i]);
    for (uint32_t k = 0; k < tensor->bytes; k++) {
      *elements++ = (uint8_t)(found >> 8 * k & 255u);
    }
  }
}

/* Reads tensor->count elements. */
static inline void dory_dequantize_all(const dory_quantized_t *tensor, const uint8_t *elements,
                                       float *values)
{
  for (uint32_t i = 0; i < tensor->count; i++) {
    uint32_t found = 0;
    for (uint32_t k = 0; k < tensor->bytes; k++) {
      found |= (uint32_t)*elements++ << 8 * k;
    }
    const uint32_t sign = tensor->lo < 0 ? 1u << (8 * tensor->bytes - 1) : 0;
    values[i] = dory_dequantize(tensor, i, (int32_t)((found ^ sign) - sign));
  }
}

#endif
