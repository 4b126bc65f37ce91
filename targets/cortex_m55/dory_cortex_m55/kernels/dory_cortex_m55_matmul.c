#include "dory_cortex_m55_matmul.h"

#include <stddef.h>

#include "dory_cortex_m55_dot.h"

/* A channel of x as a row of weights. */
typedef struct {
  const uint8_t *x;
  int8_t *to;
  uint32_t apart, count, pitch; /* bytes from a pixel to the next; pixels, and in whole vectors */
  uint32_t step;                /* bytes from a vector of the row to the next */
  uint8_t flip;
} row_t;

/* Lays a row, 0 after its end; returns its sum. */
static int32_t lay(const row_t *row)
{
  int32_t sum = 0;
#if defined(__ARM_FEATURE_MVE)
  const uint16x8_t at = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)row->apart);
  const uint16x8_t flip = vdupq_n_u16(row->flip), none = vdupq_n_u16(0);
  for (uint32_t i = 0; i < row->pitch; i += 8u) {
    const mve_pred16_t lanes = vctp16q(i < row->count ? row->count - i : 0u);
    uint16x8_t bytes = vldrbq_gather_offset_z_u16(row->x + i * row->apart, at, lanes);
    bytes = vpselq_u16(veorq_u16(bytes, flip), none, lanes);
    vstrbq_u16((uint8_t *)row->to + i / 16u * row->step + i % 16u, bytes);
  }
#else
  for (uint32_t i = 0; i < row->pitch; i++) {
    const uint8_t byte = i < row->count ? row->x[i * row->apart] ^ row->flip : 0;
    row->to[i / 16u * row->step + i % 16u] = (int8_t)byte;
  }
#endif
  for (uint32_t i = 0; i < row->pitch; i += 16u) {
    sum = vaddvaq_s8(sum, vldrbq_s8(row->to + i / 16u * row->step));
  }
  return sum;
}

/* Lays the channels of a matrix in the order of dory_cortex_m55_requant.h, as dory_cortex_m55_dot.h
 * says, and what zero points add to the sums of each. */
static void lay_matrix(const dory_cortex_m55_matmul_t *a, const uint8_t *x, int8_t *weights)
{
  const uint32_t rows = (a->conv.y_c + 7u) & ~7u, pitch = a->conv.pitch;
  const int in_pairs = pitch > 16u * DORY_HELD;
  const int32_t both = (int32_t)a->conv.length * -a->conv.lift * a->x2_zero;
  for (uint32_t place = 0; place < rows; place++) {
    const uint32_t eight = place % 8u, channel = place - eight + eight % 4u * 2u + eight / 4u;
    const uint32_t at = in_pairs ? place / 2u * 2u * pitch + place % 2u * 16u : place * pitch;
    const int is_there = channel < a->conv.y_c;
    const row_t row = {x + (is_there ? channel : 0u), weights + at, a->x_c, a->conv.length, pitch,
                       in_pairs ? 32u : 16u, a->x_flip};
    a->scratch[place] = both - a->x2_zero * lay(&row);
  }
}

void dory_cortex_m55_matmul(const dory_cortex_m55_matmul_t *given)
{
  const dory_cortex_m55_matmul_t a = *given; /* y might lie in *given */
  int8_t *const weights = (int8_t *)(a.scratch + ((a.conv.y_c + 7u) & ~7u));
  dory_cortex_m55_conv_t conv = a.conv;
  const uint8_t *x = a.x;
  conv.weights = weights;
  conv.more = a.scratch;
  for (uint32_t i = 0; i < a.matrices; i++) {
    if (i == 0 || a.x_step > 0) {
      lay_matrix(&a, x, weights);
    }
    dory_cortex_m55_conv(&conv);
    x += a.x_step;
    conv.x += a.x2_step;
    conv.y += a.y_step;
  }
}
