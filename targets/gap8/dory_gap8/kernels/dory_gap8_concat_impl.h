/* Inputs one after the other along an axis: template of the kernel DORY_KERNEL.
 *
 *   DORY_CORES   cores that share a tile
 *
 * The output has `count` runs, each of which has a piece of every input. Cores share the runs, and
 * where these are few the bytes of each. */
#include "dory_gap8_bytes.h"
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

/* Computes one tile. Every core calls it and takes its part of the runs or of their bytes. */
void DORY_KERNEL(const dory_gap8_concat_t *a) {
  const int32_t bytes = a->length * a->unit, skipped = a->first * a->unit;
  const dory_gap8_work_t work = dory_gap8_share_units(a->count, 1, bytes, 4, 32);
  const int32_t begin = work.channels.first + skipped, end = work.channels.end + skipped;
  int32_t place = 0;
  for (int32_t input = 0; input < a->inputs; input++) {
    const int32_t run = a->sizes[input] * a->unit;
    const int32_t first = dory_gap8_max(begin, place), last = dory_gap8_min(end, place + run);
    const uint8_t *x = (const uint8_t *)a->x[input] + work.pixels.first * run;
    uint8_t *y = (uint8_t *)a->y + work.pixels.first * bytes;
    if (first < last) {
      for (int32_t n = work.pixels.first; n < work.pixels.end; n++) {
        dory_gap8_copy_bytes(y + (first - skipped), x + (first - place), last - first);
        x += run;
        y += bytes;
      }
    }
    place += run;
  }
}
