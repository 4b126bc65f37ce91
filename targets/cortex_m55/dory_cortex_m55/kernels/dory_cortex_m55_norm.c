#include "dory_cortex_m55_norm.h"

#include "dory_cortex_m55_divide.h"
#include "dory_cortex_m55_mve.h"

/* The integer part of the root of a number below 2^18. */
static uint32_t root_of(uint32_t value)
{
  uint32_t root = 0;
  for (uint32_t bit = 1u << 8; bit != 0; bit >>= 1) {
    const uint32_t next = root | bit;
    root = next * next <= value ? next : root;
  }
  return root;
}

DORY_M55_INLINE void pixel_of(const dory_cortex_m55_norm_t *a, const uint8_t *x, uint8_t *y,
                              uint32_t is_signed)
{
  int32_t sum = 0, mean = 0;
  uint32_t deviations = 0; /* modulo 2^32: what squares become is below 2^31 */
  for (uint32_t c = 0; c < a->x_c; c += 16u) {
    const mve_pred16_t lanes = vctp8q(a->x_c - c);
    if (is_signed) {
      const int8x16_t own = vldrbq_z_s8((const int8_t *)x + c, lanes);
      sum = vaddvaq_s8(sum, own);
      deviations = (uint32_t)vmladavaq_s8((int32_t)deviations, own, own);
    } else {
      const uint8x16_t own = vldrbq_z_u8(x + c, lanes);
      sum = (int32_t)vaddvaq_u8((uint32_t)sum, own);
      deviations = vmladavaq_u8(deviations, own, own);
    }
  }
  if (a->centred) {
    mean = sum / (int32_t)a->x_c;
    deviations -= (uint32_t)mean * (2u * (uint32_t)sum - a->x_c * (uint32_t)mean);
  }
  const dory_m55_divisor_t d = dory_m55_divisor(root_of(deviations / a->x_c + 1u));
  const int32_t *const weights = a->weights, *const biases = weights + ((a->y_c + 3u) & ~3u);
  const int32x4_t up = vdupq_n_s32((int32_t)(1u << a->up));
  x += a->channel;
  for (uint32_t c = 0; c < a->y_c; c += 4u) {
    const mve_pred16_t lanes = vctp32q(a->y_c - c);
    const int32x4_t own =
      is_signed ? vldrbq_z_s32((const int8_t *)x + c, lanes) : bytes_as_s32(x + c, lanes);
    const int32x4_t less = vsubq_s32(own, vdupq_n_s32(mean));
    const int32x4_t parts = quotients(vmulq_s32(less, vldrwq_s32(weights + c)), d.factor, d.bits);
    int32x4_t value = vmulq_s32(vaddq_s32(parts, vldrwq_s32(biases + c)), up);
    value = vshlq_r_s32(value, -a->down);
    value = vminq_s32(vmaxq_s32(value, vdupq_n_s32(a->lo)), vdupq_n_s32(a->hi));
    vstrbq_p_s32((int8_t *)y + c, value, lanes);
  }
}

void dory_cortex_m55_norm(const dory_cortex_m55_norm_t *given)
{
  const dory_cortex_m55_norm_t a = *given; /* y might lie in *given */
  const uint8_t *x = a.x;
  uint8_t *y = a.y;
  for (uint32_t pixel = 0; pixel < a.pixels; pixel++, x += a.x_c, y += a.y_c) {
    if (a.x_signed) {
      pixel_of(&a, x, y, 1);
    } else {
      pixel_of(&a, x, y, 0);
    }
  }
}
