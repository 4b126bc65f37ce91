/* Convolutions and fully connected layers of inputs of 8 or 16 bits. */
#ifndef DORY_CORTEX_M55_CONV_H
#define DORY_CORTEX_M55_CONV_H

#include <stdint.h>

#include "dory_cortex_m55_requant.h"

/* Channels whose sums wait for their requantisation. */
#define DORY_CORTEX_M55_ROWS 128u

/* Outputs are computed line by line: down a column, or along a row where rows are columns here. */
typedef struct {
  const uint8_t *x;      /* x_h rows of x_w pixels of x_c bytes */
  uint8_t *y;            /* y_h rows of y_w pixels of y_c channels of y_bytes */
  int32_t *sums;         /* [pixels][DORY_CORTEX_M55_ROWS, or y_c in eights where that is less] */
  uint8_t *columns;      /* what the windows of ``pixels`` have; NULL where pixels are columns */
  const int8_t *weights; /* rows of y_c in eights in the order of dory_cortex_m55_requant.h, laid as
                          * dory_cortex_m55_dot.h says: taps row by row, channels of each */
  uint32_t x_h, x_w, x_c;
  uint32_t y_h, y_w, y_c;
  uint32_t x_row, x_column, y_row, y_column; /* bytes from a row or a pixel to the next */
  int32_t pad_top, pad_left;
  uint32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
  const int32_t *more; /* what is added to the sums of each channel, in the order of weights; or NULL */
  int32_t lift;    /* what a weight is more than the byte that is stored */
  uint32_t x_bytes, y_bytes; /* of an element */
  uint32_t length; /* elements of a column */
  uint32_t pitch;  /* bytes of a row of weights: the same in whole vectors */
  uint32_t pixels; /* so many, of a line, are computed together */
  uint8_t flip;    /* 0x80: x has no sign and is multiplied as x - 128 */
  uint8_t padding; /* each byte of the elements outside of x, flipped */
  dory_cortex_m55_requant_t requant;
} dory_cortex_m55_conv_t;

void dory_cortex_m55_conv(const dory_cortex_m55_conv_t *a);

/* Groups of channels, each with its own inputs and outputs. */
typedef struct {
  dory_cortex_m55_conv_t conv; /* of the first group: x_c and y_c are its own */
  uint32_t groups;
  uint32_t x_step, y_step, weights_step, requant_step; /* bytes from a group to the next */
} dory_cortex_m55_grouped_t;

void dory_cortex_m55_grouped(const dory_cortex_m55_grouped_t *a);

#endif
