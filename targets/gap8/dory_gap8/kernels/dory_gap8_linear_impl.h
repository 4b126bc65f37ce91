/* Fully connected layer: template of the kernel DORY_KERNEL, see dory_gap8_matmul_impl.h. The input
 * is one packed column, whatever the shape of the image: its weights have zeros where a pixel ends
 * inside a byte. */
#define DORY_PACKED_COLUMNS 1
#include "dory_gap8_matmul_impl.h"
#include "dory_gap8_share.h"

/* Computes one tile. Every core calls it and takes its part of the outputs. */
void DORY_KERNEL(const dory_gap8_linear_t *a) {
  const dory_matmul_t m = dory_matmul(a->weights, a->x_bytes, a->first, a->last, &a->requant);
  const dory_gap8_range_t outputs =
      dory_gap8_part(a->y_c, dory_gap8_per_byte(DORY_Y_BITS), (int32_t)dory_core_count(),
                     (int32_t)dory_core_id());
  if (outputs.first < outputs.end) {
    dory_matmul_1(&m, a->x, a->y, a->psum, outputs.first, outputs.end);
  }
}
