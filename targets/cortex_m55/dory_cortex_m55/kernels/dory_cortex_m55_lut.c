#include "dory_cortex_m55_lut.h"

#include "dory_cortex_m55_mve.h"

void dory_cortex_m55_lut(const uint8_t *x, uint8_t *y, const uint8_t *table, uint32_t count)
{
  for (uint32_t i = 0; i < count; i += 16u) {
    const mve_pred16_t lanes = vctp8q(count - i);
    vstrbq_p_u8(y + i, vldrbq_gather_offset_z_u8(table, vldrbq_z_u8(x + i, lanes), lanes), lanes);
  }
}

void dory_cortex_m55_lut_words(const uint8_t *x, int32_t *y, const int32_t *table, uint32_t count)
{
  for (uint32_t i = 0; i < count; i += 4u) {
    const mve_pred16_t lanes = vctp32q(count - i);
    vst1q_p_s32(y + i, words_of_table(table, x + i, lanes), lanes);
  }
}
