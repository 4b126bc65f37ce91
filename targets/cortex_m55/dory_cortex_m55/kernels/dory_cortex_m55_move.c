#include "dory_cortex_m55_move.h"

#include "dory_cortex_m55_mve.h"
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

/* Bytes that are some bytes apart, here and there. */
static void line(uint8_t *y, uint32_t to, const uint8_t *x, uint32_t from, uint32_t count)
{
#if defined(__ARM_FEATURE_MVE)
  const uint32_t most = UINT16_MAX / 7u; /* eight places are offsets of 16 bits */
  if (to <= most && from <= most) {
    const uint16x8_t numbers = vidupq_n_u16(0, 1);
    const uint16x8_t places = vmulq_n_u16(numbers, (uint16_t)to);
    const uint16x8_t sources = vmulq_n_u16(numbers, (uint16_t)from);
    for (uint32_t i = 0; i < count; i += 8u, x += 8u * from, y += 8u * to) {
      const mve_pred16_t lanes = vctp16q(count - i);
      const uint16x8_t bytes = vldrbq_gather_offset_z_u16(x, sources, lanes);
      vstrbq_scatter_offset_p_u16(y, places, bytes, lanes);
    }
    return;
  }
#endif
  for (uint32_t i = 0; i < count; i++) {
    y[i * to] = x[i * from];
  }
}

/* Pixels of ``bytes``, one after the other. All but the last ones may write beyond their end. */
static void pixels(uint8_t *y, const uint8_t *x, uint32_t apart, uint32_t count, uint32_t bytes)
{
  const uint32_t last = 15u / bytes + 1u, most = count > last ? count - last : 0u;
  if (most > 0) {
    dory_m55_copy_rows(y, x, most, bytes, apart, 0);
  }
  for (uint32_t i = most; i < count; i++) {
    dory_m55_copy(y + i * bytes, x + i * apart, bytes, 0);
  }
}

void dory_cortex_m55_transpose(const dory_cortex_m55_transpose_t *a)
{
  const uint32_t pitch = a->y_w * a->y_c;
  const uint8_t *x = a->x + a->first;
  uint8_t *y = a->y;
  for (uint32_t i = 0; i < a->y_h; i++, x += a->row, y += pitch) {
    if (a->channel == 1u) {
      pixels(y, x, a->column, a->y_w, a->y_c);
      continue;
    }
    for (uint32_t j = 0; a->y_c >= a->y_w && j < a->y_w; j++) {
      line(y + j * a->y_c, 1, x + j * a->column, a->channel, a->y_c);
    }
    for (uint32_t c = 0; a->y_c < a->y_w && c < a->y_c; c++) {
      line(y + c, a->y_c, x + c * a->channel, a->column, a->y_w);
    }
  }
}
