/* Windows of pooling layers: the part that lies inside the image, as a box of inputs. */
#ifndef DORY_STM32H7_POOL_WINDOW_H
#define DORY_STM32H7_POOL_WINDOW_H

#include "dory_stm32h7_types.h"

/* offset: of the first element inside. rows, columns: taps inside; 0 when there are none.
 * row, column: elements from tap to tap. */
typedef struct {
  int32_t offset, rows, columns, row, column;
} dory_stm32h7_box_t;

/* Takes the taps off that lie before or behind the axis. Returns those that are left. */
static inline int32_t dory_clipped(int32_t *start, int32_t step, int32_t taps, int32_t size)
{
  while (taps > 0 && *start < 0) {
    *start += step;
    taps--;
  }
  while (taps > 0 && *start + (taps - 1) * step >= size) {
    taps--;
  }
  return taps;
}

/* The window of output (i, j). */
static inline dory_stm32h7_box_t dory_box(const dory_stm32h7_pool_t *a, int32_t i, int32_t j)
{
  int32_t top = i * a->stride_h - a->pad_top, left = j * a->stride_w - a->pad_left;
  dory_stm32h7_box_t box;
  box.rows = dory_clipped(&top, a->dilation_h, a->kernel_h, a->x_h);
  box.columns = dory_clipped(&left, a->dilation_w, a->kernel_w, a->x_w);
  box.offset = (top * a->x_w + left) * a->y_c;
  box.row = a->dilation_h * a->x_w * a->y_c;
  box.column = a->dilation_w * a->y_c;
  return box;
}

#endif
