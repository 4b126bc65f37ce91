/* What all portable kernels share: elements in storage form, requantisation, shares of the cores. */
#ifndef DORY_PORTABLE_ELEMENTS_H
#define DORY_PORTABLE_ELEMENTS_H

#include <string.h>

#include "dory_hal.h"
#include "dory_portable.h"
#include "dory_portable_float.h"

/* Bytes of one pixel. */
static inline uint32_t dory_portable_pixel_bytes(uint32_t channels, dory_portable_type_t type)
{
  return (channels * type.bits + 7u) / 8u;
}

/* Returns element c of a pixel. */
static inline int64_t dory_portable_get(const uint8_t *pixel, uint32_t c, dory_portable_type_t type)
{
  uint32_t value = 0;

  if (type.bits == 8) {
    value = pixel[c];
  } else if (type.bits == 16) {
    value = (uint32_t)pixel[2 * c] | (uint32_t)pixel[2 * c + 1] << 8;
  } else if (type.bits == 32) {
    value = (uint32_t)pixel[4 * c] | (uint32_t)pixel[4 * c + 1] << 8 |
            (uint32_t)pixel[4 * c + 2] << 16 | (uint32_t)pixel[4 * c + 3] << 24;
  } else {
    const uint32_t bit = c * type.bits;
    value = (uint32_t)pixel[bit / 8] >> (bit % 8) & ((1u << type.bits) - 1u);
  }
  if (type.is_signed) {
    const int64_t sign = (int64_t)1 << (type.bits - 1);
    return ((int64_t)value ^ sign) - sign;
  }
  return value;
}

/* Stores element c of a pixel. Elements that share a byte are stored by one core in rising order:
 * the first one clears the byte, which leaves its padding bits zero. */
static inline void dory_portable_put(uint8_t *pixel, uint32_t c, dory_portable_type_t type,
                                     int64_t value)
{
  const uint32_t bits = (uint32_t)value;

  if (type.bits >= 8) {
    const uint32_t bytes = type.bits / 8u;
    for (uint32_t b = 0; b < bytes; b++) {
      pixel[c * bytes + b] = (uint8_t)(bits >> (8 * b));
    }
  } else {
    const uint32_t bit = c * type.bits;
    const uint32_t kept = bit % 8 == 0 ? 0u : pixel[bit / 8];
    const uint32_t field = (bits & ((1u << type.bits) - 1u)) << (bit % 8);
    pixel[bit / 8] = (uint8_t)(kept | field);
  }
}

/* The share of a core: outputs are counted in units, the channels of a pixel that lie in one byte
 * (one channel when elements are bytes or larger). */
typedef struct {
  uint32_t begin, end; /* units of this core */
  uint32_t per_unit;   /* channels of a unit, fewer in the last one of a pixel */
  uint32_t per_pixel;  /* units of a pixel */
} dory_portable_share_t;

static inline dory_portable_share_t dory_portable_share(const dory_portable_tile_t *tile,
                                                        dory_portable_type_t type)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  dory_portable_share_t share;

  share.per_unit = type.bits < 8 ? 8u / type.bits : 1u;
  share.per_pixel = (tile->y_c + share.per_unit - 1u) / share.per_unit;
  const uint32_t units = tile->y_h * tile->y_w * share.per_pixel;
  const uint32_t most = (units + cores - 1u) / cores;
  share.begin = core * most < units ? core * most : units;
  share.end = share.begin + most < units ? share.begin + most : units;
  return share;
}

/* Returns entry i of a table of int64; the table need not be aligned. */
static inline int64_t dory_portable_int64(const uint8_t *table, uint32_t i)
{
  int64_t value;

  memcpy(&value, table + 8u * i, sizeof value);
  return value;
}

static inline int32_t dory_portable_int32(const uint8_t *table, uint32_t i)
{
  int32_t value;

  memcpy(&value, table + 4u * i, sizeof value);
  return value;
}

/* Bytes of the parameter tables of the steps of a tile. */
static inline uint32_t dory_portable_table_bytes(const dory_portable_steps_t *steps,
                                                 uint32_t channels)
{
  uint32_t entries = 0;

  for (uint32_t i = 0; i < steps->count; i++) {
    entries += steps->step[i].mul_per_channel ? channels : 1u;
    if (steps->step[i].float32) {
      continue;
    }
    entries += steps->step[i].add_per_channel ? channels : 1u;
    if (steps->step[i].two_addends) {
      entries += steps->step[i].negative_per_channel ? channels : 1u;
    }
  }
  return 8u * entries;
}

/* Applies the steps to a value of channel c of a tile of `channels`. */
static inline int64_t dory_portable_apply(const dory_portable_steps_t *steps, const uint8_t *table,
                                          uint32_t channels, uint32_t c, int64_t value)
{
  for (uint32_t i = 0; i < steps->count; i++) {
    const dory_portable_step_t *const step = &steps->step[i];
    const uint64_t mul = (uint64_t)dory_portable_int64(table, step->mul_per_channel ? c : 0u);
    table += 8u * (step->mul_per_channel ? channels : 1u);
    if (step->float32) {
      value = step->div + dory_portable_even_product(value - step->turn, (int64_t)mul);
      value = value < step->lo ? step->lo : value;
      value = value > step->hi ? step->hi : value;
      continue;
    }
    uint64_t add = (uint64_t)dory_portable_int64(table, step->add_per_channel ? c : 0u);
    table += 8u * (step->add_per_channel ? channels : 1u);
    if (step->two_addends) {
      if (value < step->turn) {
        add = (uint64_t)dory_portable_int64(table, step->negative_per_channel ? c : 0u);
      }
      table += 8u * (step->negative_per_channel ? channels : 1u);
    }

    /* Unsigned, because the product alone may leave 64 bits where the sum does not. */
    value = (int64_t)((uint64_t)value * mul + add);
    if (step->shift >= 0) {
      value = value < 0 ? ~(~value >> step->shift) : value >> step->shift;
    } else {
      const int64_t quotient = value / step->div;
      value = quotient * step->div > value ? quotient - 1 : quotient;
    }
    value = value < step->lo ? step->lo : value;
    value = value > step->hi ? step->hi : value;
  }
  return value;
}

/* Returns the sum of n products of int16 and int8: 256 of them have at most 31 bits. */
static inline int64_t dory_portable_dot16(const uint8_t *x, const int8_t *w, uint32_t n)
{
  int64_t total = 0;

  for (uint32_t done = 0; done < n;) {
    const uint32_t end = n - done > 256u ? done + 256u : n;
    int32_t sum = 0;
    for (; done < end; done++) {
      int16_t element;
      memcpy(&element, x + 2u * done, sizeof element);
      sum += element * w[done];
    }
    total += sum;
  }
  return total;
}

/* Returns the sum of n products: elements c.. of a pixel with the weights first.. of a row. */
static inline int64_t dory_portable_dot(const uint8_t *pixel, uint32_t c, dory_portable_type_t type,
                                        const uint8_t *weights, uint32_t first,
                                        dory_portable_type_t weight, uint32_t n)
{
  if (type.bits == 16 && type.is_signed && weight.bits == 8 && weight.is_signed) {
    return dory_portable_dot16(pixel + 2u * c, (const int8_t *)weights + first, n);
  }

  if (type.bits == 8 && weight.bits == 8 && weight.is_signed) {
    const int8_t *const w = (const int8_t *)weights + first;
    int32_t sum = 0;
    if (type.is_signed) {
      const int8_t *const x = (const int8_t *)pixel + c;
      for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * w[i];
      }
    } else {
      const uint8_t *const x = pixel + c;
      for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * w[i];
      }
    }
    return sum;
  }
  int64_t sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    sum += dory_portable_get(pixel, c + i, type) * dory_portable_get(weights, first + i, weight);
  }
  return sum;
}

/* Returns the sum of the first n weights of a row. */
static inline int32_t dory_portable_weight_sum(const uint8_t *weights, dory_portable_type_t weight,
                                               uint32_t n)
{
  int32_t sum = 0;

  for (uint32_t i = 0; i < n; i++) {
    sum += (int32_t)dory_portable_get(weights, i, weight);
  }
  return sum;
}

/* Returns the largest element of a pixel. */
static inline int64_t dory_portable_largest(const uint8_t *pixel, uint32_t channels,
                                            dory_portable_type_t type)
{
  int64_t largest = dory_portable_get(pixel, 0, type);

  for (uint32_t c = 1; c < channels; c++) {
    const int64_t value = dory_portable_get(pixel, c, type);
    largest = value > largest ? value : largest;
  }
  return largest;
}

/* Ends the sum of one output: keeps it for the next tile of input channels, where it has 32 bits, or
 * requantises and stores it. */
static inline void dory_portable_finish(const dory_portable_steps_t *steps, const uint8_t *table,
                                        const dory_portable_tile_t *tile, dory_portable_type_t type,
                                        uint32_t pixel, uint32_t c, int64_t sum, int32_t *psum,
                                        int last, uint8_t *y)
{
  if (!last) {
    psum[pixel * tile->y_c + c] = (int32_t)sum;
    return;
  }
  dory_portable_put(y + pixel * dory_portable_pixel_bytes(tile->y_c, type), c, type,
                    dory_portable_apply(steps, table, tile->y_c, c, sum));
}

/* Returns what the sum of one output starts from: the bias, or what earlier tiles left. */
static inline int32_t dory_portable_begin(const uint8_t *bias, const int32_t *psum,
                                          const dory_portable_tile_t *tile, uint32_t pixel,
                                          uint32_t c, int first)
{
  if (!first) {
    return psum[pixel * tile->y_c + c];
  }
  return bias != NULL ? dory_portable_int32(bias, c) : 0;
}

#endif
