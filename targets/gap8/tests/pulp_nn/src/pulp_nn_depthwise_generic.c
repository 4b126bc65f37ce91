#include "pulp_nn_utils.h"

/* From CHW to HWC; the cores share the channels. */
void pulp_nn_depthwise_generic(const uint8_t *x, uint8_t *columns, const int8_t *bias, uint8_t *y, const int8_t *weights, uint8_t *unused,
    pulp_nn_wide_t *k, pulp_nn_wide_t *lambda, uint16_t mult, uint16_t shift, uint16_t x_w,
    uint16_t x_h, uint16_t x_c, uint16_t y_w, uint16_t y_h, uint16_t y_c, uint16_t kernel_w,
    uint16_t kernel_h, uint16_t top, uint16_t bottom, uint16_t left, uint16_t right,
    uint16_t stride_x, uint16_t stride_y, int8_t relu, int8_t batch_norm) {
  int first, end;
  pulp_nn_part(y_c, &first, &end);
  for (int c = first; c < end; c++)
    for (int oy = 0; oy < y_h; oy++)
      for (int ox = 0; ox < y_w; ox++) {
        int32_t acc = 0;
        for (int ky = 0; ky < kernel_h; ky++)
          for (int kx = 0; kx < kernel_w; kx++) {
            const int iy = oy * stride_y - top + ky, ix = ox * stride_x - left + kx;
            if (iy >= 0 && iy < x_h && ix >= 0 && ix < x_w)
              acc += weights[(c * kernel_h + ky) * kernel_w + kx] * x[(c * x_h + iy) * x_w + ix];
          }
        y[(oy * y_w + ox) * y_c + c] = pulp_nn_bn(acc, k[c], lambda[c], shift);
      }
  pi_cl_team_barrier(0);
}
