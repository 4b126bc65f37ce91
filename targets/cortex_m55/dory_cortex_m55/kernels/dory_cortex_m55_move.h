/* Slices, padding, concatenation and other orders of axes, of bytes. */
#ifndef DORY_CORTEX_M55_MOVE_H
#define DORY_CORTEX_M55_MOVE_H

#include <stdint.h>

typedef struct {
  const uint8_t *x; /* [x_h][x_w][x_c] */
  uint8_t *y;       /* [y_h][y_w][y_c] */
  int32_t x_h, x_w, x_c, y_h, y_w, y_c;
  int32_t row, column, channel; /* of the first output, in x */
  int32_t step_h, step_w;
  uint8_t value; /* what lies outside of x */
} dory_cortex_m55_move_t;

/* Slices and padding: elements of x in steps, or the value. */
void dory_cortex_m55_move(const dory_cortex_m55_move_t *a);

typedef struct {
  const uint8_t *const *x; /* of each input, with all its slices */
  const int32_t *sizes;    /* its slices along the axis */
  uint8_t *y;
  int32_t outer;        /* groups of slices */
  int32_t first, count; /* slices of a group that y has, of those of all inputs */
  int32_t slice;        /* bytes */
} dory_cortex_m55_concat_t;

/* Inputs one after another along an axis. */
void dory_cortex_m55_concat(const dory_cortex_m55_concat_t *a);

typedef struct {
  const uint8_t *x; /* the first output in x is ``first`` bytes on */
  uint8_t *y;       /* [y_h][y_w][y_c] */
  uint32_t first, y_h, y_w, y_c;
  uint32_t row, column, channel; /* bytes in x from an output to the next along each axis */
} dory_cortex_m55_transpose_t;

/* Axes in another order. */
void dory_cortex_m55_transpose(const dory_cortex_m55_transpose_t *a);

#endif
