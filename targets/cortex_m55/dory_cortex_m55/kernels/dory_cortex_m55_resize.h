/* Interpolation of bytes between two rows and two columns, and nearest neighbours. */
#ifndef DORY_CORTEX_M55_RESIZE_H
#define DORY_CORTEX_M55_RESIZE_H

#include <stdint.h>

#include "dory_cortex_m55_requant.h"

typedef struct {
  const uint8_t *x;    /* rows of x_w pixels of y_c channels, from (x_row, x_column) on */
  uint8_t *y;          /* [y_h][y_w][y_c], from (y_row, y_column) on */
  const int32_t *taps; /* of all rows of the output, then of all columns: two places, two weights */
  int32_t x_w, x_row, x_column;
  int32_t y_h, y_w, y_c, y_row, y_column;
  int32_t height;     /* of the whole output */
  uint32_t x_signed;
  uint32_t is_nearest; /* outputs are elements of x */
  dory_cortex_m55_requant_t requant; /* eight times the same */
} dory_cortex_m55_resize_t;

void dory_cortex_m55_resize(const dory_cortex_m55_resize_t *a);

#endif
