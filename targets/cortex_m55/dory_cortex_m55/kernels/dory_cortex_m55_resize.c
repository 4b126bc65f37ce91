#include "dory_cortex_m55_resize.h"

#include "dory_cortex_m55_runs.h"

DORY_M55_INLINE int32x4_t times(int32x4_t sums, const uint8_t *x, int32_t weight,
                                mve_pred16_t lanes, uint32_t is_signed)
{
  const int32x4_t own = is_signed ? vldrbq_z_s32((const int8_t *)x, lanes) : bytes_as_s32(x, lanes);
  return vmlaq_n_s32(sums, own, weight);
}

/* One pixel from four of x: those of the rows x and below, at the places of a column. */
DORY_M55_INLINE void between(const dory_cortex_m55_resize_t *a, const uint8_t *x,
                             const uint8_t *below, const int32_t *rows, const int32_t *columns,
                             uint8_t *y, uint32_t is_signed)
{
  const int32_t left = (columns[0] - a->x_column) * a->y_c;
  const int32_t right = (columns[1] - a->x_column) * a->y_c;
  const int32_t upper = rows[2], lower = rows[3];
  for (int32_t c = 0; c < a->y_c; c += 4) {
    const mve_pred16_t lanes = vctp32q((uint32_t)(a->y_c - c));
    int32x4_t sums = vdupq_n_s32(0);
    sums = times(sums, x + left + c, upper * columns[2], lanes, is_signed);
    sums = times(sums, x + right + c, upper * columns[3], lanes, is_signed);
    sums = times(sums, below + left + c, lower * columns[2], lanes, is_signed);
    sums = times(sums, below + right + c, lower * columns[3], lanes, is_signed);
    vstrbq_p_s32((int8_t *)y + c, dory_m55_requant(&a->requant, sums), lanes);
  }
}

void dory_cortex_m55_resize(const dory_cortex_m55_resize_t *given)
{
  const dory_cortex_m55_resize_t own = *given, *const a = &own; /* y might lie in *given */
  const int32_t pitch = a->x_w * a->y_c;
  uint8_t *y = a->y;
  for (int32_t i = 0; i < a->y_h; i++) {
    const int32_t *const rows = a->taps + 4 * (a->y_row + i);
    const uint8_t *const x = a->x + (rows[0] - a->x_row) * pitch;
    const uint8_t *const below = a->x + (rows[1] - a->x_row) * pitch;
    const int32_t *columns = a->taps + 4 * (a->height + a->y_column);
    for (int32_t j = 0; j < a->y_w; j++, columns += 4, y += a->y_c) {
      if (a->is_nearest) {
        dory_m55_copy(y, x + (columns[0] - a->x_column) * a->y_c, (uint32_t)a->y_c, 0);
      } else if (a->x_signed) {
        between(a, x, below, rows, columns, y, 1);
      } else {
        between(a, x, below, rows, columns, y, 0);
      }
    }
  }
}
