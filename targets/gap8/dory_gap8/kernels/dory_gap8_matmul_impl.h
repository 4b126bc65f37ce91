/* Matrix product with requantisation: template for convolution, pointwise and linear kernels.
 *
 * A column is the inputs of one output pixel, a row the weights of one output channel in the same
 * order. The inner block computes 4 output channels of 2 columns. Configured by
 * dory_gap8_requant_impl.h and
 *
 *   DORY_X_BITS, DORY_X_SIGNED    an input; DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_DOT4: it, or the
 *                                 byte that it becomes; four of them and their operations
 *   DORY_W_BITS                   a weight: 2, 4 or 8, always signed
 *   DORY_W_SHIFT                  0, or 8 - DORY_W_BITS: accumulators are 2^DORY_W_SHIFT too large
 *   DORY_Y_BITS                   an output
 *   DORY_PACKED_COLUMNS           whether inputs below 8 bits are taken apart here, because each is
 *                                 used but once (linear), or came as bytes (the others)
 *   DORY_ACCUMULATE               whether input channels come in several tiles, with sums in psum
 *
 * Dot products are of vectors of four bytes, so weights below 8 bits are taken apart in the inner
 * loop. A field left in the high bits of its byte is the weight times 2^(8 - bits) as a signed byte;
 * sign extension costs a shift more for each field but the highest. The sum then is that much too
 * large, which one shift per output takes back exactly, wherever the proven accumulator times
 * 2^(8 - bits) fits 32 bits: always in practice. Instructions per 128 MAC in the block of 4 x 2:
 *
 *   8-bit weights   16 loads of weights, 8 of inputs, 32 dot products                     56
 *   4-bit weights    8 loads, 16 shifts and masks, 8 of inputs, 32 dot products           64
 *   2-bit weights    4 loads, 24 shifts and masks, 8 of inputs, 32 dot products           68
 *   sign-extended    4-bit: 8 + 24 + 8 + 32; 2-bit: 4 + 28 + 8 + 32                       72
 *
 * Where many pixels use a weight, taking it apart once and computing on bytes is cheaper still
 * (dory_gap8_unpacked.h). This is the way for few pixels, groups, partial sums and what has no room
 * for bytes in L1.
 */
#include "dory_gap8_packed.h"
#include "dory_gap8_requant_impl.h"

#define DORY_COLUMN_BITS (DORY_X_BITS >= 8 ? DORY_X_BITS : DORY_PACKED_COLUMNS ? DORY_X_BITS : 8)

/* Inputs and weights go by groups of whole words of both: 1, 2 or 4 vectors. */
#if DORY_W_BITS == 2 || (DORY_X_BITS == 2 && DORY_PACKED_COLUMNS)
#define DORY_GROUP_VECTORS 4
#elif DORY_W_BITS == 4 || (DORY_X_BITS == 4 && DORY_PACKED_COLUMNS)
#define DORY_GROUP_VECTORS 2
#else
#define DORY_GROUP_VECTORS 1
#endif
#define DORY_GROUP_BYTES (DORY_GROUP_VECTORS * 4 * DORY_COLUMN_BITS / 8)
#define DORY_GROUP_WEIGHT_BYTES (DORY_GROUP_VECTORS * 4 * DORY_W_BITS / 8)

typedef struct {
  const uint8_t *weights;
  int32_t row;    /* bytes of a weight row */
  int32_t groups; /* whole groups of a column */
  int32_t rest;   /* bytes of a column behind them, less than a group */
  int32_t first, last;
  const dory_gap8_requant_t *requant;
} dory_matmul_t;

/* A product whose columns have `bytes` bytes of inputs. */
static inline dory_matmul_t dory_matmul(const void *weights, int32_t bytes, int32_t first,
                                        int32_t last, const dory_gap8_requant_t *requant) {
  const int32_t groups = (int32_t)((uint32_t)bytes / DORY_GROUP_BYTES);
  const int32_t rest = bytes - groups * DORY_GROUP_BYTES;
  const int32_t row = (groups + (rest != 0)) * DORY_GROUP_WEIGHT_BYTES;
  const dory_matmul_t m = {weights, row, groups, rest, first, last, requant};
  return m;
}

/* Vector v of a group of inputs. */
static inline DORY_X4_T dory_inputs(const uint8_t *x, int v) {
#if DORY_X_BITS < 8 && DORY_PACKED_COLUMNS
  const int fields = 8 / DORY_X_BITS;
  const uint32_t w = dory_gap8_load_word(x + v / fields * 4);
  return DORY_FROM_WORD_X(dory_gap8_field(w, DORY_X_BITS, DORY_X_SIGNED, v % fields));
#else
  return DORY_LOAD4_X(x + v * 4 * (int)sizeof(DORY_X_T));
#endif
}

/* Vector v of a group of weights. */
static inline dory_gap8_i8x4_t dory_weights(const uint8_t *row, int v) {
#if DORY_W_BITS == 8
  return dory_gap8_load4_i8(row + v * 4);
#else
  const int fields = 8 / DORY_W_BITS;
  const uint32_t w = dory_gap8_load_word(row + v / fields * 4);
  return dory_gap8_from_word_i8(DORY_W_SHIFT != 0
                                    ? dory_gap8_field_high(w, DORY_W_BITS, v % fields)
                                    : dory_gap8_field(w, DORY_W_BITS, 1, v % fields));
#endif
}

/* STEP(v) for every vector of a group. */
#if DORY_GROUP_VECTORS == 4
#define DORY_EVERY_VECTOR(STEP) STEP(0) STEP(1) STEP(2) STEP(3)
#elif DORY_GROUP_VECTORS == 2
#define DORY_EVERY_VECTOR(STEP) STEP(0) STEP(1)
#else
#define DORY_EVERY_VECTOR(STEP) STEP(0)
#endif

/* A column: its whole groups where they lie, and the group behind them completed with zeros. */
typedef struct {
  const uint8_t *x;
  uint32_t end[DORY_GROUP_BYTES / 4];
} dory_column_t;

static inline void dory_open(const dory_matmul_t *m, const uint8_t *x, dory_column_t *column) {
  column->x = x;
  if (m->rest != 0) {
    for (int i = 0; i < DORY_GROUP_BYTES / 4; i++) {
      column->end[i] = 0;
    }
    dory_gap8_copy((uint8_t *)column->end, x + m->groups * DORY_GROUP_BYTES, m->rest);
  }
}

/* What an accumulator starts with. */
static inline int32_t dory_start(const dory_matmul_t *m, const int32_t *psum, int32_t c) {
#if DORY_ACCUMULATE
  return m->first ? 0 : (int32_t)((uint32_t)psum[c] << DORY_W_SHIFT);
#else
  (void)m;
  (void)psum;
  (void)c;
  return 0;
#endif
}

/* The output of channel c. */
static inline int32_t dory_output(const dory_matmul_t *m, int32_t acc, int32_t c) {
#if DORY_STEPS == 0
  return (acc >> DORY_W_SHIFT) + ((const int32_t *)m->requant->bias)[c];
#else
  return dory_requantise(acc >> DORY_W_SHIFT, c, m->requant);
#endif
}

/* Stores the sums of channels c .. c + n - 1, n up to 4: as outputs, or for the next tile of
 * inputs. */
static inline void dory_finish(const dory_matmul_t *m, const int32_t acc[4], int32_t n,
                               uint8_t *y, int32_t *psum, int32_t c) {
  int32_t q[4] = {0, 0, 0, 0};
#if DORY_ACCUMULATE
  if (!m->last) {
    for (int32_t i = 0; i < n; i++) {
      psum[c + i] = acc[i] >> DORY_W_SHIFT;
    }
    return;
  }
#else
  (void)psum;
#endif
  if (n == 4) {
    q[0] = dory_output(m, acc[0], c);
    q[1] = dory_output(m, acc[1], c + 1);
    q[2] = dory_output(m, acc[2], c + 2);
    q[3] = dory_output(m, acc[3], c + 3);
  } else {
    for (int32_t i = 0; i < n; i++) {
      q[i] = dory_output(m, acc[i], c + i);
    }
  }
  dory_gap8_put4(y, c, n, DORY_Y_BITS, q);
}

#define DORY_STEP_4X2(v)                                                             \
  {                                                                                  \
    const DORY_X4_T xa = dory_inputs(x0, v), xb = dory_inputs(x1, v);                \
    const dory_gap8_i8x4_t v0 = dory_weights(w0, v), v1 = dory_weights(w1, v);       \
    const dory_gap8_i8x4_t v2 = dory_weights(w2, v), v3 = dory_weights(w3, v);       \
    a0 = DORY_DOT4(xa, v0, a0);                                                      \
    a1 = DORY_DOT4(xa, v1, a1);                                                      \
    a2 = DORY_DOT4(xa, v2, a2);                                                      \
    a3 = DORY_DOT4(xa, v3, a3);                                                      \
    b0 = DORY_DOT4(xb, v0, b0);                                                      \
    b1 = DORY_DOT4(xb, v1, b1);                                                      \
    b2 = DORY_DOT4(xb, v2, b2);                                                      \
    b3 = DORY_DOT4(xb, v3, b3);                                                      \
  }

/* Blocks have functions of their own where their weights, taken apart for inputs of two bytes, do not
 * fit the registers: what one of them keeps on the stack has gone when the next one runs. */
#if DORY_COLUMN_BITS > 8 && DORY_W_BITS < 8
#define DORY_BLOCK static DORY_GAP8_NOINLINE
#else
#define DORY_BLOCK static inline
#endif

/* In every block the first pass takes the whole groups, the second one what is left. */
DORY_BLOCK void dory_block_4x2(const dory_matmul_t *m, const dory_column_t *p,
                               const dory_column_t *q, uint8_t *y0, uint8_t *y1, int32_t *p0,
                               int32_t *p1, int32_t c) {
  const uint8_t *w0 = m->weights + c * m->row;
  const uint8_t *w1 = w0 + m->row;
  const uint8_t *w2 = w1 + m->row;
  const uint8_t *w3 = w2 + m->row;
  const uint8_t *x0 = p->x, *x1 = q->x;
  int32_t a0 = dory_start(m, p0, c), a1 = dory_start(m, p0, c + 1);
  int32_t a2 = dory_start(m, p0, c + 2), a3 = dory_start(m, p0, c + 3);
  int32_t b0 = dory_start(m, p1, c), b1 = dory_start(m, p1, c + 1);
  int32_t b2 = dory_start(m, p1, c + 2), b3 = dory_start(m, p1, c + 3);
  int32_t groups = m->groups;
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < groups; i++) {
      DORY_EVERY_VECTOR(DORY_STEP_4X2)
      x0 += DORY_GROUP_BYTES;
      x1 += DORY_GROUP_BYTES;
      w0 += DORY_GROUP_WEIGHT_BYTES;
      w1 += DORY_GROUP_WEIGHT_BYTES;
      w2 += DORY_GROUP_WEIGHT_BYTES;
      w3 += DORY_GROUP_WEIGHT_BYTES;
    }
    groups = m->rest != 0;
    x0 = (const uint8_t *)p->end;
    x1 = (const uint8_t *)q->end;
  }
  {
    const int32_t a[4] = {a0, a1, a2, a3}, b[4] = {b0, b1, b2, b3};
    dory_finish(m, a, 4, y0, p0, c);
    dory_finish(m, b, 4, y1, p1, c);
  }
}

#define DORY_STEP_1X2(v)                                                     \
  {                                                                          \
    const dory_gap8_i8x4_t weights = dory_weights(w, v);                     \
    *a = DORY_DOT4(dory_inputs(x0, v), weights, *a);                         \
    *b = DORY_DOT4(dory_inputs(x1, v), weights, *b);                         \
  }

DORY_BLOCK void dory_block_1x2(const dory_matmul_t *m, const dory_column_t *p,
                               const dory_column_t *q, const int32_t *p0, const int32_t *p1,
                               int32_t c, int32_t *a, int32_t *b) {
  const uint8_t *w = m->weights + c * m->row;
  const uint8_t *x0 = p->x, *x1 = q->x;
  int32_t groups = m->groups;
  *a = dory_start(m, p0, c);
  *b = dory_start(m, p1, c);
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < groups; i++) {
      DORY_EVERY_VECTOR(DORY_STEP_1X2)
      x0 += DORY_GROUP_BYTES;
      x1 += DORY_GROUP_BYTES;
      w += DORY_GROUP_WEIGHT_BYTES;
    }
    groups = m->rest != 0;
    x0 = (const uint8_t *)p->end;
    x1 = (const uint8_t *)q->end;
  }
}

#define DORY_STEP_4X1(v)                                   \
  {                                                        \
    const DORY_X4_T xa = dory_inputs(x, v);                \
    a0 = DORY_DOT4(xa, dory_weights(w0, v), a0);           \
    a1 = DORY_DOT4(xa, dory_weights(w1, v), a1);           \
    a2 = DORY_DOT4(xa, dory_weights(w2, v), a2);           \
    a3 = DORY_DOT4(xa, dory_weights(w3, v), a3);           \
  }

DORY_BLOCK void dory_block_4x1(const dory_matmul_t *m, const dory_column_t *p, uint8_t *y,
                               int32_t *psum, int32_t c) {
  const uint8_t *w0 = m->weights + c * m->row;
  const uint8_t *w1 = w0 + m->row;
  const uint8_t *w2 = w1 + m->row;
  const uint8_t *w3 = w2 + m->row;
  const uint8_t *x = p->x;
  int32_t a0 = dory_start(m, psum, c), a1 = dory_start(m, psum, c + 1);
  int32_t a2 = dory_start(m, psum, c + 2), a3 = dory_start(m, psum, c + 3);
  int32_t groups = m->groups;
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < groups; i++) {
      DORY_EVERY_VECTOR(DORY_STEP_4X1)
      x += DORY_GROUP_BYTES;
      w0 += DORY_GROUP_WEIGHT_BYTES;
      w1 += DORY_GROUP_WEIGHT_BYTES;
      w2 += DORY_GROUP_WEIGHT_BYTES;
      w3 += DORY_GROUP_WEIGHT_BYTES;
    }
    groups = m->rest != 0;
    x = (const uint8_t *)p->end;
  }
  {
    const int32_t a[4] = {a0, a1, a2, a3};
    dory_finish(m, a, 4, y, psum, c);
  }
}

#define DORY_STEP_1X1(v) acc = DORY_DOT4(dory_inputs(x, v), dory_weights(w, v), acc);

DORY_BLOCK int32_t dory_block_1x1(const dory_matmul_t *m, const dory_column_t *p,
                                  const int32_t *psum, int32_t c) {
  const uint8_t *w = m->weights + c * m->row;
  const uint8_t *x = p->x;
  int32_t acc = dory_start(m, psum, c);
  int32_t groups = m->groups;
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t i = 0; i < groups; i++) {
      DORY_EVERY_VECTOR(DORY_STEP_1X1)
      x += DORY_GROUP_BYTES;
      w += DORY_GROUP_WEIGHT_BYTES;
    }
    groups = m->rest != 0;
    x = (const uint8_t *)p->end;
  }
  return acc;
}

/* Two pixels, output channels c .. end - 1, where c starts a byte of the output. */
static inline void dory_matmul_2(const dory_matmul_t *m, const uint8_t *x0, const uint8_t *x1,
                                 uint8_t *y0, uint8_t *y1, int32_t *p0, int32_t *p1, int32_t c,
                                 int32_t end) {
  dory_column_t p, q;
  dory_open(m, x0, &p);
  dory_open(m, x1, &q);
  for (; c + 4 <= end; c += 4) {
    dory_block_4x2(m, &p, &q, y0, y1, p0, p1, c);
  }
  if (c < end) {
    int32_t a[4] = {0, 0, 0, 0}, b[4] = {0, 0, 0, 0};
    for (int32_t i = 0; i < end - c; i++) {
      dory_block_1x2(m, &p, &q, p0, p1, c + i, &a[i], &b[i]);
    }
    dory_finish(m, a, end - c, y0, p0, c);
    dory_finish(m, b, end - c, y1, p1, c);
  }
}

/* One pixel, output channels c .. end - 1, where c starts a byte of the output. */
static inline void dory_matmul_1(const dory_matmul_t *m, const uint8_t *x, uint8_t *y,
                                 int32_t *psum, int32_t c, int32_t end) {
  dory_column_t p;
  dory_open(m, x, &p);
  for (; c + 4 <= end; c += 4) {
    dory_block_4x1(m, &p, y, psum, c);
  }
  if (c < end) {
    int32_t a[4] = {0, 0, 0, 0};
    for (int32_t i = 0; i < end - c; i++) {
      a[i] = dory_block_1x1(m, &p, psum, c + i);
    }
    dory_finish(m, a, end - c, y, psum, c);
  }
}
