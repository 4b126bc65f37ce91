#include "dory_cortex_m55_move.h"

#include "dory_cortex_m55_runs.h"

static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }

/* Bytes first .. first + n - 1 of a run of ``size``, or the value beside it; returns where the next
 * ones go. */
static uint8_t *moved(uint8_t *y, const uint8_t *x, int32_t first, int32_t n, int32_t size,
                      uint8_t value)
{
  const int32_t before = first < 0 ? least(-first, n) : 0, begin = first + before;
  const int32_t inside = begin < size ? least(size - begin, n - before) : 0;
  if (before > 0) {
    dory_m55_fill(y, value, (uint32_t)before);
  }
  if (inside > 0) {
    dory_m55_copy(y + before, x + begin, (uint32_t)inside, 0);
  }
  if (n > before + inside) {
    dory_m55_fill(y + before + inside, value, (uint32_t)(n - before - inside));
  }
  return y + n;
}

void dory_cortex_m55_move(const dory_cortex_m55_move_t *a)
{
  const int is_whole = a->step_w == 1 && a->channel == 0 && a->x_c == a->y_c;
  const int32_t pitch = a->x_w * a->x_c, all = a->y_w * a->y_c;
  uint8_t *y = a->y;
  for (int32_t i = 0; i < a->y_h; i++) {
    const int32_t row = a->row + i * a->step_h;
    if (row < 0 || row >= a->x_h) {
      y = moved(y, a->x, 0, all, 0, a->value);
      continue;
    }
    const uint8_t *const x = a->x + row * pitch;
    if (is_whole) {
      y = moved(y, x, a->column * a->x_c, all, pitch, a->value);
      continue;
    }
    for (int32_t j = 0; j < a->y_w; j++) {
      const int32_t column = a->column + j * a->step_w;
      if (column < 0 || column >= a->x_w) {
        y = moved(y, x, 0, a->y_c, 0, a->value);
      } else {
        y = moved(y, x + column * a->x_c, a->channel, a->y_c, a->x_c, a->value);
      }
    }
  }
}

void dory_cortex_m55_concat(const dory_cortex_m55_concat_t *a)
{
  uint8_t *y = a->y;
  for (int32_t group = 0; group < a->outer; group++) {
    int32_t first = a->first, left = a->count;
    for (int32_t input = 0; left > 0; input++) {
      const int32_t size = a->sizes[input];
      if (first < size) {
        const int32_t n = least(size - first, left);
        const uint8_t *const x = a->x[input] + (group * size + first) * a->slice;
        dory_m55_copy(y, x, (uint32_t)(n * a->slice), 0);
        y += n * a->slice;
        left -= n;
        first = size;
      }
      first -= size;
    }
  }
}
