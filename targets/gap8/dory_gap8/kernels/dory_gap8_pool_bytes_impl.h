/* Sums over windows of 8-bit elements: template of the kernel DORY_KERNEL.
 *
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X      an element, four of them and their operations
 *   DORY_DOT4, DORY_Y_BYTES                likewise, of a sum, and the size of an output
 *   DORY_POOL_PAD                          the value of padding
 *   DORY_POOL_REAL                         1: a mean in binary32, see dory_gap8_realpool_impl.h,
 *                                          0: a sum, requantised as dory_gap8_requant_impl.h says,
 *                                          with the same parameters for all channels
 *
 * Four neighbouring channels at once. A sum of each of four bytes is a dot product with a unit
 * vector, which takes the byte apart and adds it in one instruction. The window of a pixel is cut
 * at the borders once, before its channels.
 */
#ifndef DORY_POOL_PAD
#define DORY_POOL_PAD 0
#endif

#ifndef DORY_POOL_REAL
#define DORY_POOL_REAL 0
#endif

#if DORY_POOL_REAL
#include "dory_gap8_types.h"
#else
#include "dory_gap8_requant_impl.h"
#endif
#include "dory_gap8_pool_share.h"

/* Taps of a window that lie inside: `rows` times `columns` from x. */
typedef struct {
  const DORY_X_T *x;
  int32_t rows, columns;
  int32_t pitch; /* elements from row to row */
  int32_t step;  /* elements from tap to tap */
  int32_t start; /* of a sum: what its padding adds */
} dory_taps_t;

/* What all sums go through. */
typedef struct {
#if DORY_POOL_REAL
  const dory_gap8_realpool_t *real;
#else
#if DORY_STEPS > 0
  dory_parameters_t parameters;
#endif
  dory_gap8_requant_t requant;
#endif
  dory_gap8_i8x4_t unit[4]; /* 1 in one byte */
} dory_pooled_t;

#if DORY_POOL_REAL

/* A number of binary32, whatever the compiler computes in. */
static inline float dory_rounded(float value) {
  volatile float rounded = value;
  return rounded;
}

/* The mean as it is defined: elements of a channel are added one after the other. */
static __attribute__((noinline)) int32_t dory_real_mean(const dory_taps_t *t, const DORY_X_T *x,
                                                        const dory_gap8_realpool_t *real) {
  const float limit = 4194304.0f; /* 2^22: sums with 3 * 2^22 have no digits behind the point */
  float total = 0.0f;
  for (int32_t ky = 0; ky < t->rows; ky++) {
    for (int32_t kx = 0; kx < t->columns; kx++) {
      const float element = (float)(x[kx * t->step] - real->zero_point);
      total = dory_rounded(total + dory_rounded(element * real->scale));
    }
    x += t->pitch;
  }
  const float mean = dory_rounded(dory_rounded(total / (float)real->taps) / real->out_scale);
  const float moved = dory_rounded(mean + (float)real->out_zero);
  const float inside = moved < -limit ? -limit : moved > limit ? limit : moved;
  return (int32_t)dory_rounded(dory_rounded(inside + 3.0f * limit) - 3.0f * limit);
}

/* The output of a sum; x: its first element. */
static inline DORY_Y_T dory_pooled(const dory_taps_t *t, const DORY_X_T *x, int32_t sum,
                                   const dory_pooled_t *q) {
  const dory_gap8_realpool_t *real = q->real;
  const int64_t mean = (int64_t)sum * real->mul + real->add;
  const uint32_t rest = (uint32_t)mean & ((1u << real->shift) - 1u);
  int32_t value = (int32_t)(mean >> real->shift);
  if (rest - real->margin > (1u << real->shift) - 2u * real->margin) {
    value = dory_real_mean(t, x, real);
  }
  return (DORY_Y_T)dory_gap8_min(dory_gap8_max(value, real->lo), real->hi);
}

#define DORY_POOLED(k, sum) dory_pooled(t, first + (k), sum, q)

#else

#define DORY_POOLED(k, sum) dory_pooled(sum, q)

static inline DORY_Y_T dory_pooled(int32_t sum, const dory_pooled_t *q) {
#if DORY_STEPS == 0
  (void)q;
  return (DORY_Y_T)sum;
#else
  return dory_apply(sum, &q->parameters, &q->requant);
#endif
}

#endif

/* Sums of four bytes. */
typedef struct {
  int32_t sum[4];
} dory_sums_t;

static inline dory_sums_t dory_sums(const dory_taps_t *t) {
  const dory_sums_t s = {{t->start, t->start, t->start, t->start}};
  return s;
}

static inline void dory_add_tap(dory_sums_t *s, DORY_X4_T v, const dory_gap8_i8x4_t *unit) {
  s->sum[0] = DORY_DOT4(v, unit[0], s->sum[0]);
  s->sum[1] = DORY_DOT4(v, unit[1], s->sum[1]);
  s->sum[2] = DORY_DOT4(v, unit[2], s->sum[2]);
  s->sum[3] = DORY_DOT4(v, unit[3], s->sum[3]);
}

/* first: the element of the first sum where the window begins. */
static inline void dory_store_sums(const dory_taps_t *t, const DORY_X_T *first, DORY_Y_T *y,
                                   const dory_sums_t *s, const dory_pooled_t *q) {
  (void)t;
  (void)first;
#if DORY_Y_BYTES == 1
  dory_gap8_store4_i8(y, dory_gap8_set4_i8(DORY_POOLED(0, s->sum[0]), DORY_POOLED(1, s->sum[1]),
                                           DORY_POOLED(2, s->sum[2]), DORY_POOLED(3, s->sum[3])));
#else
  y[0] = DORY_POOLED(0, s->sum[0]);
  y[1] = DORY_POOLED(1, s->sum[1]);
  y[2] = DORY_POOLED(2, s->sum[2]);
  y[3] = DORY_POOLED(3, s->sum[3]);
#endif
}

static inline void dory_pool_four(const dory_taps_t *t, const DORY_X_T *x, DORY_Y_T *y,
                                  const dory_pooled_t *q) {
  const DORY_X_T *const first = x;
  dory_sums_t s = dory_sums(t);
  int32_t rows = t->rows;
  do {
    const DORY_X_T *tap = x;
    int32_t columns = t->columns;
    do {
      dory_add_tap(&s, DORY_LOAD4_X(tap), q->unit);
      tap += t->step;
    } while (--columns != 0);
    x += t->pitch;
  } while (--rows != 0);
  dory_store_sums(t, first, y, &s, q);
}

/* Eight channels: no operation waits for the load before it. */
static inline void dory_pool_eight(const dory_taps_t *t, const DORY_X_T *x, DORY_Y_T *y,
                                   const dory_pooled_t *q) {
  const DORY_X_T *const first = x;
  dory_sums_t s = dory_sums(t), s2 = s;
  int32_t rows = t->rows;
  do {
    const DORY_X_T *tap = x;
    int32_t columns = t->columns;
    do {
      const DORY_X4_T v = DORY_LOAD4_X(tap), v2 = DORY_LOAD4_X(tap + 4);
      dory_add_tap(&s, v, q->unit);
      dory_add_tap(&s2, v2, q->unit);
      tap += t->step;
    } while (--columns != 0);
    x += t->pitch;
  } while (--rows != 0);
  dory_store_sums(t, first, y, &s, q);
  dory_store_sums(t, first + 4, y + 4, &s2, q);
}

static inline void dory_pool_one(const dory_taps_t *t, const DORY_X_T *x, DORY_Y_T *y,
                                 const dory_pooled_t *q) {
  const DORY_X_T *const first = x;
  int32_t sum = t->start;
  for (int32_t ky = 0; ky < t->rows; ky++) {
    for (int32_t kx = 0; kx < t->columns; kx++) {
      sum += x[kx * t->step];
    }
    x += t->pitch;
  }
  (void)first;
  *y = DORY_POOLED(0, sum);
}

/* Channels c0 .. c1 - 1 of one pixel, whose window has a tap. */
static inline void dory_pool_pixel(const dory_taps_t *t, DORY_Y_T *y, int32_t c0, int32_t c1,
                                   const dory_pooled_t *q) {
  int32_t c = c0;
  for (; c + 8 <= c1; c += 8) {
    dory_pool_eight(t, t->x + c, y + c, q);
  }
  for (; c + 4 <= c1; c += 4) {
    dory_pool_four(t, t->x + c, y + c, q);
  }
  for (; c < c1; c++) {
    dory_pool_one(t, t->x + c, y + c, q);
  }
}

/* Computes one tile. Every core calls it and takes its part of pixels and of groups of channels. */
#if DORY_POOL_REAL
void DORY_KERNEL(const dory_gap8_realpool_t *real) {
  const dory_gap8_pool_t *const a = &real->pool;
#else
void DORY_KERNEL(const dory_gap8_pool_t *a) {
#endif
  const int32_t channels = a->y_c, y_w = a->y_w;
  const int32_t stride_h = a->stride_h, stride_w = a->stride_w;
  const int32_t kernel_h = a->kernel_h, kernel_w = a->kernel_w;
  const int32_t x_h = a->x_h, x_w = a->x_w;
  const dory_share_t share = dory_share(a->y_h * y_w, (channels + 3) >> 2);
  const int32_t c0 = 4 * share.groups.first;
  const int32_t c1 = dory_gap8_min(4 * share.groups.end, channels);
  DORY_Y_T *y = (DORY_Y_T *)a->y + share.pixels.first * channels;
  int32_t oy = (int32_t)((uint32_t)share.pixels.first / (uint32_t)y_w);
  int32_t ox = share.pixels.first - oy * y_w;
  dory_taps_t t;
  dory_pooled_t q;
#if DORY_POOL_REAL
  q.real = real;
#else
  q.requant = a->requant;
#endif
  q.unit[0] = dory_gap8_from_word_i8(dory_gap8_keep(1));
  q.unit[1] = dory_gap8_from_word_i8(dory_gap8_keep(1 << 8));
  q.unit[2] = dory_gap8_from_word_i8(dory_gap8_keep(1 << 16));
  q.unit[3] = dory_gap8_from_word_i8(dory_gap8_keep(1 << 24));
#if !DORY_POOL_REAL && DORY_STEPS > 0
  q.parameters = dory_parameters(0, &q.requant);
#endif
  t.pitch = x_w * channels;
  t.step = channels;
  t.start = 0;
  for (int32_t pixel = share.pixels.first; pixel < share.pixels.end; pixel++) {
    const int32_t iy = oy * stride_h - a->pad_top, ix = ox * stride_w - a->pad_left;
    const int32_t top = dory_gap8_max(iy, 0), left = dory_gap8_max(ix, 0);
    t.x = (const DORY_X_T *)a->x + (top * x_w + left) * channels;
    t.rows = dory_gap8_min(iy + kernel_h, x_h) - top;
    t.columns = dory_gap8_min(ix + kernel_w, x_w) - left;
#if DORY_POOL_REAL
    t.start = -t.rows * t.columns * real->zero_point;
#elif DORY_POOL_PAD
    t.start = (kernel_h * kernel_w - t.rows * t.columns) * (DORY_POOL_PAD);
#endif
    dory_pool_pixel(&t, y, c0, c1, &q);
    y += channels;
    if (++ox == y_w) {
      ox = 0;
      oy++;
    }
  }
}
