/* Matrix product with requantisation: template for convolution, pointwise and linear kernels.
 *
 * A column is the k inputs of one output pixel. The inner block computes 4 output channels of 2
 * columns, so that 6 loads feed 8 dot products. Configured by dory_gap8_requant_impl.h and
 *
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_DOT4   an input; four of them and their operations
 *   DORY_ACCUMULATE   whether input channels come in several tiles, with sums in psum
 */
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_simd.h"

typedef struct {
  const int8_t *weights;
  int32_t k;   /* length of a column */
  int32_t row; /* length of a weight row, a multiple of 4 */
  int32_t first, last;
  const dory_gap8_requant_t *requant;
} dory_matmul_t;

/* What an accumulator starts with. */
static inline int32_t dory_start(const dory_matmul_t *m, const int32_t *psum, int32_t c) {
#if DORY_ACCUMULATE
  return m->first ? 0 : psum[c];
#else
  (void)m;
  (void)psum;
  (void)c;
  return 0;
#endif
}

/* Stores a sum: as output, or for the next tile of input channels. */
static inline void dory_finish(const dory_matmul_t *m, int32_t acc, DORY_Y_T *y, int32_t *psum,
                               int32_t c) {
#if DORY_ACCUMULATE
  if (!m->last) {
    psum[c] = acc;
    return;
  }
#else
  (void)psum;
#endif
#if DORY_STEPS == 0
  y[c] = (DORY_Y_T)(acc + ((const int32_t *)m->requant->bias)[c]);
#else
  y[c] = dory_requantise(acc, c, m->requant);
#endif
}


static inline void dory_block_4x2(const dory_matmul_t *m, const DORY_X_T *x0, const DORY_X_T *x1,
                                  DORY_Y_T *y0, DORY_Y_T *y1, int32_t *p0, int32_t *p1, int32_t c) {
  const int8_t *w0 = m->weights + c * m->row;
  const int8_t *w1 = w0 + m->row;
  const int8_t *w2 = w1 + m->row;
  const int8_t *w3 = w2 + m->row;
  const int32_t k = m->k;
  int32_t a0 = dory_start(m, p0, c), a1 = dory_start(m, p0, c + 1);
  int32_t a2 = dory_start(m, p0, c + 2), a3 = dory_start(m, p0, c + 3);
  int32_t b0 = dory_start(m, p1, c), b1 = dory_start(m, p1, c + 1);
  int32_t b2 = dory_start(m, p1, c + 2), b3 = dory_start(m, p1, c + 3);
  int32_t i = 0;
  for (; i + 4 <= k; i += 4) {
    const DORY_X4_T xa = DORY_LOAD4_X(x0 + i), xb = DORY_LOAD4_X(x1 + i);
    const dory_gap8_i8x4_t v0 = dory_gap8_load4_i8(w0 + i), v1 = dory_gap8_load4_i8(w1 + i);
    const dory_gap8_i8x4_t v2 = dory_gap8_load4_i8(w2 + i), v3 = dory_gap8_load4_i8(w3 + i);
    a0 = DORY_DOT4(xa, v0, a0);
    a1 = DORY_DOT4(xa, v1, a1);
    a2 = DORY_DOT4(xa, v2, a2);
    a3 = DORY_DOT4(xa, v3, a3);
    b0 = DORY_DOT4(xb, v0, b0);
    b1 = DORY_DOT4(xb, v1, b1);
    b2 = DORY_DOT4(xb, v2, b2);
    b3 = DORY_DOT4(xb, v3, b3);
  }
  for (; i < k; i++) {
    const int32_t xa = x0[i], xb = x1[i];
    a0 += xa * w0[i];
    a1 += xa * w1[i];
    a2 += xa * w2[i];
    a3 += xa * w3[i];
    b0 += xb * w0[i];
    b1 += xb * w1[i];
    b2 += xb * w2[i];
    b3 += xb * w3[i];
  }
  dory_finish(m, a0, y0, p0, c);
  dory_finish(m, a1, y0, p0, c + 1);
  dory_finish(m, a2, y0, p0, c + 2);
  dory_finish(m, a3, y0, p0, c + 3);
  dory_finish(m, b0, y1, p1, c);
  dory_finish(m, b1, y1, p1, c + 1);
  dory_finish(m, b2, y1, p1, c + 2);
  dory_finish(m, b3, y1, p1, c + 3);
}

static inline void dory_block_4x1(const dory_matmul_t *m, const DORY_X_T *x, DORY_Y_T *y,
                                  int32_t *psum, int32_t c) {
  const int8_t *w0 = m->weights + c * m->row;
  const int8_t *w1 = w0 + m->row;
  const int8_t *w2 = w1 + m->row;
  const int8_t *w3 = w2 + m->row;
  const int32_t k = m->k;
  int32_t a0 = dory_start(m, psum, c), a1 = dory_start(m, psum, c + 1);
  int32_t a2 = dory_start(m, psum, c + 2), a3 = dory_start(m, psum, c + 3);
  int32_t i = 0;
  for (; i + 4 <= k; i += 4) {
    const DORY_X4_T v = DORY_LOAD4_X(x + i);
    a0 = DORY_DOT4(v, dory_gap8_load4_i8(w0 + i), a0);
    a1 = DORY_DOT4(v, dory_gap8_load4_i8(w1 + i), a1);
    a2 = DORY_DOT4(v, dory_gap8_load4_i8(w2 + i), a2);
    a3 = DORY_DOT4(v, dory_gap8_load4_i8(w3 + i), a3);
  }
  for (; i < k; i++) {
    a0 += x[i] * w0[i];
    a1 += x[i] * w1[i];
    a2 += x[i] * w2[i];
    a3 += x[i] * w3[i];
  }
  dory_finish(m, a0, y, psum, c);
  dory_finish(m, a1, y, psum, c + 1);
  dory_finish(m, a2, y, psum, c + 2);
  dory_finish(m, a3, y, psum, c + 3);
}

static inline void dory_block_1x1(const dory_matmul_t *m, const DORY_X_T *x, DORY_Y_T *y,
                                  int32_t *psum, int32_t c) {
  const int8_t *w = m->weights + c * m->row;
  const int32_t k = m->k;
  int32_t acc = dory_start(m, psum, c);
  int32_t i = 0;
  for (; i + 4 <= k; i += 4) {
    acc = DORY_DOT4(DORY_LOAD4_X(x + i), dory_gap8_load4_i8(w + i), acc);
  }
  for (; i < k; i++) {
    acc += x[i] * w[i];
  }
  dory_finish(m, acc, y, psum, c);
}

/* Two pixels, output channels c .. end - 1. */
static inline void dory_matmul_2(const dory_matmul_t *m, const DORY_X_T *x0, const DORY_X_T *x1,
                                 DORY_Y_T *y0, DORY_Y_T *y1, int32_t *p0, int32_t *p1, int32_t c,
                                 int32_t end) {
  for (; c + 4 <= end; c += 4) {
    dory_block_4x2(m, x0, x1, y0, y1, p0, p1, c);
  }
  for (; c < end; c++) {
    dory_block_1x1(m, x0, y0, p0, c);
    dory_block_1x1(m, x1, y1, p1, c);
  }
}

/* One pixel, output channels c .. end - 1. */
static inline void dory_matmul_1(const dory_matmul_t *m, const DORY_X_T *x, DORY_Y_T *y,
                                 int32_t *psum, int32_t c, int32_t end) {
  for (; c + 4 <= end; c += 4) {
    dory_block_4x1(m, x, y, psum, c);
  }
  for (; c < end; c++) {
    dory_block_1x1(m, x, y, psum, c);
  }
}
