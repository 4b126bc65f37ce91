#include "pulp_nn_utils.h"

void pulp_nn_avgpool(uint8_t *x, uint8_t *y, pulp_nn_wide_t lambda, uint16_t shift,
    pulp_nn_wide_t add, uint16_t x_w, uint16_t x_h, uint16_t c, uint16_t y_w, uint16_t y_h,
    uint16_t kernel_w, uint16_t kernel_h, uint16_t top, uint16_t bottom, uint16_t left,
    uint16_t right, uint16_t stride_x, uint16_t stride_y, int requant) {
  int first, end;
  pulp_nn_part(y_h, &first, &end);
  for (int oy = first; oy < end; oy++)
    for (int ox = 0; ox < y_w; ox++)
      for (int n = 0; n < c; n++) {
        uint32_t sum = 0;
        for (int ky = 0; ky < kernel_h; ky++)
          for (int kx = 0; kx < kernel_w; kx++)
            sum += x[((oy * stride_y + ky) * x_w + ox * stride_x + kx) * c + n];
        const uint32_t v = sum * (uint32_t)lambda / (uint32_t)(kernel_w * kernel_h);
        const int32_t out = (int32_t)(v + (uint32_t)add) >> shift;
        y[(oy * y_w + ox) * c + n] = (uint8_t)(out < 0 ? 0 : out > 255 ? 255 : out);
      }
  pi_cl_team_barrier(0);
}
