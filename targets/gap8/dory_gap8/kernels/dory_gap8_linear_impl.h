/* Fully connected layer: template of the kernel DORY_KERNEL, see dory_gap8_matmul_impl.h. */
#include "dory_gap8_matmul_impl.h"
#include "dory_gap8_share.h"

/* Computes one tile. Every core calls it and takes its part of the outputs. */
void DORY_KERNEL(const dory_gap8_linear_t *a) {
  const dory_matmul_t m = {a->weights, a->x_c,  (a->x_c + 3) & ~3,
                           a->first,   a->last, &a->requant};
  const dory_gap8_range_t outputs =
      dory_gap8_part(a->y_c, 1, (int32_t)dory_core_count(), (int32_t)dory_core_id());
  dory_matmul_1(&m, a->x, a->y, a->psum, outputs.first, outputs.end);
}
