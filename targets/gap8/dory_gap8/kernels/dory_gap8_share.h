/* How the cores of the cluster share the work of one tile. */
#ifndef DORY_GAP8_SHARE_H
#define DORY_GAP8_SHARE_H

#include <stdint.h>

#include "dory_gap8_simd.h"
#include "dory_hal.h"

/* Elements first .. end - 1; empty when first == end. */
typedef struct {
  int32_t first, end;
} dory_gap8_range_t;

typedef struct {
  dory_gap8_range_t pixels, channels;
} dory_gap8_work_t;

/* a / b, rounded down and up; neither is negative: signed divisions by a power of two take five
 * instructions. */
static inline int32_t dory_gap8_div(int32_t a, int32_t b) {
  return (int32_t)((uint32_t)a / (uint32_t)b);
}

static inline int32_t dory_gap8_ceil_div(int32_t a, int32_t b) {
  return dory_gap8_div(a + b - 1, b);
}

/* Elements that share a byte: cores may not share them. */
static inline int32_t dory_gap8_per_byte(int bits) {
  return bits < 8 ? 8 / bits : 1;
}

/* Part number `index` of `parts` parts of n elements, whose lengths are multiples of `unit`. */
static inline dory_gap8_range_t dory_gap8_part(int32_t n, int32_t unit, int32_t parts,
                                               int32_t index) {
  const int32_t length = dory_gap8_ceil_div(dory_gap8_ceil_div(n, unit), parts) * unit;
  const int32_t first = dory_gap8_min(index * length, n);
  const dory_gap8_range_t range = {first, dory_gap8_min(first + length, n)};
  return range;
}

/* Cycles that uneven shares cost a core, for code that is not in the cache and for parts of pieces: they
 * are taken where they save more. */
#define DORY_GAP8_UNEVEN 1000

/* Pieces of work that follow one another, each of which takes as many cycles. */
typedef struct {
  int32_t pieces, cycles;
} dory_gap8_run_t;

/* How many steps of runs, each piece of which has `steps`, are done after some cycles. */
static inline int32_t dory_gap8_after(const dory_gap8_run_t *run, int32_t cycles, int32_t steps) {
  int32_t before = 0, whole;
  for (; run->pieces * run->cycles < cycles; run++) {
    cycles -= run->pieces * run->cycles;
    before += run->pieces;
  }
  whole = dory_gap8_div(cycles, run->cycles);
  cycles -= whole * run->cycles;
  return (before + whole) * steps + dory_gap8_div(cycles * steps, run->cycles);
}

/* The steps of the calling core, of so many that take as many cycles each. */
static inline dory_gap8_range_t dory_gap8_even(const dory_gap8_run_t *runs, int32_t count,
                                               int32_t steps, int32_t cores) {
  int32_t total = 0, share, begin;
  for (int32_t i = 0; i < count; i++) {
    total += runs[i].pieces * runs[i].cycles;
  }
  share = dory_gap8_ceil_div(total, cores);
  begin = dory_gap8_min((int32_t)dory_core_id() * share, total);
  const dory_gap8_range_t range = {
      dory_gap8_after(runs, begin, steps),
      dory_gap8_after(runs, dory_gap8_min(begin + share, total), steps)};
  return range;
}

/* The taps 0 .. taps - 1, at start, start + step ..., that lie in 0 .. size - 1. */
static inline dory_gap8_range_t dory_gap8_inside(int32_t start, int32_t step, int32_t taps,
                                                 int32_t size) {
  dory_gap8_range_t range = {0, taps};
  for (int32_t i = 0; i < taps; i++, start += step) {
    range.first += start < 0;
    range.end -= start >= size;
  }
  return range;
}

/* The part of the calling core of pixels x channels.
 *
 * Pixels are shared in multiples of `unit`, channels in multiples of `channel_unit`. Where pixels do
 * not balance, 2, 4 ... groups of cores take different channels; each of them then pays what a pixel
 * costs whatever the channels (im2col), which is `pixel_cost`, measured in channels. */
static inline dory_gap8_work_t dory_gap8_share_units(int32_t pixels, int32_t unit, int32_t channels,
                                                     int32_t channel_unit, int32_t pixel_cost) {
  const int32_t cores = (int32_t)dory_core_count();
  const int32_t core = (int32_t)dory_core_id();
  const int32_t units = dory_gap8_ceil_div(pixels, unit);
  const int32_t channel_units = dory_gap8_ceil_div(channels, channel_unit);
  int32_t groups = 1;
  int32_t best = dory_gap8_ceil_div(units, cores) * (channels + pixel_cost);
  for (int32_t g = 2; g <= cores; g *= 2) {
    const int32_t most = dory_gap8_min(dory_gap8_ceil_div(channel_units, g) * channel_unit, channels);
    const int32_t cost = dory_gap8_ceil_div(units, cores / g) * (most + pixel_cost);
    if (cost < best) {
      best = cost;
      groups = g;
    }
  }
  const int32_t per_group = cores / groups;
  dory_gap8_work_t work;
  work.pixels = dory_gap8_part(pixels, unit, per_group, core % per_group);
  work.channels = dory_gap8_part(channels, channel_unit, groups, core / per_group);
  return work;
}

/* The same with channels that cores may share as they like. */
static inline dory_gap8_work_t dory_gap8_share(int32_t pixels, int32_t unit, int32_t channels,
                                               int32_t pixel_cost) {
  return dory_gap8_share_units(pixels, unit, channels, 1, pixel_cost);
}

#endif
