/* The contract of PULP-NN as a header: names, order of arguments and layouts, for tests without the
 * library. The functions behind it are plain loops. */
#ifndef PULP_NN_KERNELS_H
#define PULP_NN_KERNELS_H

#include <stdint.h>

typedef BN_T pulp_nn_wide_t; /* of the batch normalisation */

void pulp_nn_conv_Ho_parallel(const uint8_t *x, uint8_t *columns, const int8_t *bias, uint8_t *y, const int8_t *weights,
    pulp_nn_wide_t *k, pulp_nn_wide_t *lambda, uint16_t mult, uint16_t shift, uint16_t x_w,
    uint16_t x_h, uint16_t x_c, uint16_t y_w, uint16_t y_h, uint16_t y_c, uint16_t kernel_w,
    uint16_t kernel_h, uint16_t top, uint16_t bottom, uint16_t left, uint16_t right,
    uint16_t stride_x, uint16_t stride_y, int relu, int batch_norm);
void pulp_nn_pointwise_HoWo_parallel(const uint8_t *x, uint8_t *columns, const int8_t *bias, uint8_t *y, const int8_t *weights,
    pulp_nn_wide_t *k, pulp_nn_wide_t *lambda, uint16_t mult, uint16_t shift, uint16_t x_w,
    uint16_t x_h, uint16_t x_c, uint16_t y_w, uint16_t y_h, uint16_t y_c, uint16_t kernel_w,
    uint16_t kernel_h, uint16_t top, uint16_t bottom, uint16_t left, uint16_t right,
    uint16_t stride_x, uint16_t stride_y, int relu, int batch_norm);
void pulp_nn_depthwise_generic(const uint8_t *x, uint8_t *columns, const int8_t *bias, uint8_t *y, const int8_t *weights, uint8_t *unused,
    pulp_nn_wide_t *k, pulp_nn_wide_t *lambda, uint16_t mult, uint16_t shift, uint16_t x_w,
    uint16_t x_h, uint16_t x_c, uint16_t y_w, uint16_t y_h, uint16_t y_c, uint16_t kernel_w,
    uint16_t kernel_h, uint16_t top, uint16_t bottom, uint16_t left, uint16_t right,
    uint16_t stride_x, uint16_t stride_y, int8_t relu, int8_t batch_norm);
void pulp_nn_linear(uint8_t *x, int8_t *bias, uint8_t *y, int8_t *weights, pulp_nn_wide_t *k,
    pulp_nn_wide_t *lambda, uint16_t mult, int8_t shift, uint16_t inputs, uint16_t outputs, int relu,
    int batch_norm);
void pulp_nn_linear_out_32(uint8_t *x, int8_t *bias, int32_t *y, int8_t *weights, uint16_t inputs,
    uint16_t outputs);
void pulp_nn_add(uint8_t *x, uint8_t *x2, uint8_t *y, uint16_t mult1, uint16_t mult2, uint16_t shift,
    uint16_t h, uint16_t w, uint16_t c);
void pulp_nn_avgpool(uint8_t *x, uint8_t *y, pulp_nn_wide_t lambda, uint16_t shift,
    pulp_nn_wide_t add, uint16_t x_w, uint16_t x_h, uint16_t c, uint16_t y_w, uint16_t y_h,
    uint16_t kernel_w, uint16_t kernel_h, uint16_t top, uint16_t bottom, uint16_t left,
    uint16_t right, uint16_t stride_x, uint16_t stride_y, int requant);

#endif
