/* Softmax of elements of 16 bits, by two functions with 513 values each. */
#include "dory_portable_elements.h"
#include "dory_portable_fixed.h"
#include "dory_portable_kinds.h"

#define ENTRIES 513u

static int32_t entry(const uint8_t *table, uint32_t i)
{
  int16_t value;

  memcpy(&value, table + 2u * i, sizeof value);
  return value;
}

/* Returns a function at a place of 16 bits: between two values a straight line, rounded. */
static int32_t looked_up(const uint8_t *table, uint32_t at)
{
  const int32_t base = entry(table, at >> 7);
  const int32_t rise = (entry(table, (at >> 7) + 1u) - base) * (int32_t)(at & 127u) + 64;

  return base + (rise < 0 ? ~(~rise >> 7) : rise >> 7);
}

/* Returns the exponential of a channel. */
static int32_t power(const dory_portable_wide_softmax_t *layer, const uint8_t *pixel, uint32_t c,
                     int64_t largest, const uint8_t *table, const uint8_t *steps)
{
  const int64_t difference = dory_portable_get(pixel, c, layer->x) - largest;

  return looked_up(table, (uint32_t)dory_portable_apply(&layer->argument, steps, 1u, 0u,
                                                        difference));
}

void dory_portable_wide_softmax(const dory_portable_wide_softmax_t *layer,
                                const dory_portable_tile_t *tile, uint32_t channel,
                                const uint8_t *x, const uint8_t *table, const uint8_t *steps,
                                uint8_t *y)
{
  const uint32_t cores = dory_core_count(), core = dory_core_id();
  const uint32_t pixels = tile->y_h * tile->y_w;
  const uint32_t x_bytes = dory_portable_pixel_bytes(tile->x_c, layer->x);
  const uint32_t y_bytes = dory_portable_pixel_bytes(tile->y_c, layer->y);
  const uint8_t *const after = steps + dory_portable_table_bytes(&layer->argument, 1u);

  for (uint32_t pixel = core; pixel < pixels; pixel += cores) {
    const uint8_t *const from = x + pixel * x_bytes;
    const int64_t largest = dory_portable_largest(from, tile->x_c, layer->x);
    uint32_t sum = 0;

    for (uint32_t c = 0; c < tile->x_c; c++) {
      sum += (uint32_t)power(layer, from, c, largest, table, steps);
    }
    const uint32_t zeros = dory_fixed_leading_zeros(sum);
    const uint32_t fraction = ((sum << (zeros - 1u)) + (1u << 13)) / (1u << 14) - (1u << 16);
    const int32_t inverse =
        looked_up(table + 2u * ENTRIES, fraction > 0xffffu ? 0xffffu : fraction);
    for (uint32_t c = 0; c < tile->y_c; c++) {
      const int32_t share = power(layer, from, channel + c, largest, table, steps) * inverse;
      dory_portable_put(y + pixel * y_bytes, c, layer->y,
                        dory_portable_apply(&layer->steps, after, tile->y_c, c,
                                            dory_fixed_rounded_shift(share, 31u - zeros)));
    }
  }
}
