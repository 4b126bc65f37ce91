#include "pulp_nn_utils.h"

/* HWC, filters in rows of taps and channels; the cores share the rows of the output. */
void pulp_nn_conv_Ho_parallel(const uint8_t *x, uint8_t *columns, const int8_t *bias, uint8_t *y, const int8_t *weights,
    pulp_nn_wide_t *k, pulp_nn_wide_t *lambda, uint16_t mult, uint16_t shift, uint16_t x_w,
    uint16_t x_h, uint16_t x_c, uint16_t y_w, uint16_t y_h, uint16_t y_c, uint16_t kernel_w,
    uint16_t kernel_h, uint16_t top, uint16_t bottom, uint16_t left, uint16_t right,
    uint16_t stride_x, uint16_t stride_y, int relu, int batch_norm) {
  int first, end;
  pulp_nn_part(y_h, &first, &end);
  for (int oy = first; oy < end; oy++)
    for (int ox = 0; ox < y_w; ox++)
      for (int o = 0; o < y_c; o++) {
        const int8_t *w = weights + o * kernel_h * kernel_w * x_c;
        int32_t acc = 0;
        for (int ky = 0; ky < kernel_h; ky++)
          for (int kx = 0; kx < kernel_w; kx++)
            for (int c = 0; c < x_c; c++, w++) {
              const int iy = oy * stride_y - top + ky, ix = ox * stride_x - left + kx;
              if (iy >= 0 && iy < x_h && ix >= 0 && ix < x_w) acc += *w * x[(iy * x_w + ix) * x_c + c];
            }
        y[(oy * y_w + ox) * y_c + o] = pulp_nn_bn(acc, k[o], lambda[o], shift);
      }
  pi_cl_team_barrier(0);
}
