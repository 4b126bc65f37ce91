#include "dory_cortex_m55_sums.h"

void dory_cortex_m55_sums(const dory_cortex_m55_sums_t *a)
{
  for (uint32_t i = 0; i < a->count; i += 4u) {
    const mve_pred16_t lanes = vctp32q(a->count - i);
    const int32x4_t sums = vaddq_s32(words_of_table(a->tables, a->x + i, lanes),
                                     words_of_table(a->tables + 256, a->x2 + i, lanes));
    vstrbq_p_s32((int8_t *)a->y + i, dory_m55_requant(&a->requant, sums, 0), lanes);
  }
}
