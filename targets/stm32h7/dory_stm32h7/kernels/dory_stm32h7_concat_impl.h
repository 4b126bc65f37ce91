/* Inputs one after another along an axis: runs of bytes. An instance defines DORY_KERNEL.
 *
 * A tile has `outer` groups of `count` slices; a slice is `slice` bytes, and slices from `first` on are
 * taken of those of all inputs, which lie in L1 with all their slices. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_copy_impl.h"

void DORY_KERNEL(const dory_stm32h7_concat_t *a)
{
  uint8_t *y = a->y;
  for (int32_t group = 0; group < a->outer; group++) {
    int32_t first = a->first, left = a->count;
    for (int32_t input = 0; left > 0; input++) {
      const int32_t size = a->sizes[input];
      if (first < size) {
        const int32_t n = size - first < left ? size - first : left;
        const uint8_t *const x = a->x[input];
        y = dory_copied(x + (group * size + first) * a->slice, n * a->slice, y);
        left -= n;
        first = size;
      }
      first -= size;
    }
  }
}
