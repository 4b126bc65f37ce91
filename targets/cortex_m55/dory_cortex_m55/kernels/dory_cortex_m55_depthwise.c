#include "dory_cortex_m55_depthwise.h"

#include "dory_cortex_m55_finish.h"

/* Channels are computed in blocks of 16 bytes, and a strip has those of a block that the outputs of a
 * row need: [planes][columns][16 bytes][4 rows], what lies outside of x included. Columns are 68
 * bytes apart and planes 8 bytes more than whole vectors, so that the words of a window lie in
 * different banks of the memory. */
enum { BLOCK = 16, WORD = 4, COLUMN = 68 };

typedef struct {
  uint32_t *vectors; /* where each vector of a window begins, in bytes from its first column */
  uint32_t *words;   /* and its words from there */
  int32_t *sums;     /* [2 rows][y_w, even][16 bytes]: of lower bytes, then of upper ones */
  uint8_t *outside;  /* 16 times the padding */
  uint8_t *strip;
  uint32_t columns, plane, row; /* columns; bytes of a plane; sums of a row */
} places_t;

/* Rows of a plane: where each begins, the bytes from a column to the next, and how many of 16 bytes
 * there are. */
typedef struct {
  const uint8_t *x[WORD];
  uint32_t step[WORD];
  uint32_t bytes;
} rows_t;

static places_t places_of(const dory_cortex_m55_depthwise_t *a)
{
  const uint32_t wide = a->planes > WORD ? 1u : WORD / a->planes;
  const uint32_t of_column = a->planes > WORD ? a->planes / WORD : 1u;
  const uint32_t even = (a->y_w + 1u) & ~1u;
  places_t p;
  p.vectors = (uint32_t *)(void *)a->scratch;
  p.words = p.vectors + ((a->vectors + 3u) & ~3u);
  p.sums = (int32_t *)(p.words + WORD);
  p.row = even * BLOCK;
  p.outside = (uint8_t *)(p.sums + 2u * p.row);
  p.strip = p.outside + 16;
  p.columns = (a->y_w - 1u) * a->stride_w + (a->kernel_w - 1u) * a->dilation_w + 1u;
  const uint32_t room = even * a->stride_w + a->window_vectors * wide * a->dilation_w;
  p.plane = ((room * COLUMN + 15u) & ~15u) + 8u;
  for (uint32_t i = 0; i < a->vectors; i++) {
    const uint32_t own = i % a->window_vectors;
    p.vectors[i] = own / of_column * wide * a->dilation_w * COLUMN + own % of_column * WORD * p.plane;
  }
  const uint32_t deep = WORD / wide;
  for (uint32_t i = 0; i < WORD; i++) {
    p.words[i] = i / deep * a->dilation_w * COLUMN + i % deep * p.plane;
  }
  for (uint32_t i = 0; i < 16u; i++) {
    p.outside[i] = a->padding;
  }
  return p;
}

#if defined(__ARM_FEATURE_MVE)

/* A column of words; flip_ turns the signs of a row's bytes. */
#define COLUMN_OF_WORDS(flip_)                                                                  \
  "vldrb.8 q0, [%[x0]]\n\tadd %[x0], %[x0], %[s0]\n\t"                                          \
  "vldrb.8 q1, [%[x1]]\n\t" flip_("q0") "add %[x1], %[x1], %[s1]\n\t"                           \
  "vldrb.8 q2, [%[x2]]\n\t" flip_("q1") "add %[x2], %[x2], %[s2]\n\t"                           \
  "vldrb.8 q3, [%[x3]]\n\t" flip_("q2") "add %[x3], %[x3], %[s3]\n\t" flip_("q3")               \
  "vst40.8 {q0, q1, q2, q3}, [%[to]]\n\t"                                                       \
  "vst41.8 {q0, q1, q2, q3}, [%[to]]\n\t"                                                       \
  "vst42.8 {q0, q1, q2, q3}, [%[to]]\n\t"                                                       \
  "vst43.8 {q0, q1, q2, q3}, [%[to]]\n\t"                                                       \
  "adds %[to], #68\n\t"
#define FLIP(x_) "veor " x_ ", " x_ ", q4\n\t"
#define KEEP(x_) ""
#define LAY(flip_)                                                                              \
  __asm__ volatile("vdup.16 q4, %[flip]\n\t"                                                    \
                   "wls lr, %[columns], 2f\n"                                                   \
                   "1:\n\t" COLUMN_OF_WORDS(flip_) "le lr, 1b\n"                                \
                   "2:"                                                                         \
                   : [to] "+&l"(to), [x0] "+&r"(x0), [x1] "+&r"(x1), [x2] "+&r"(x2),            \
                     [x3] "+&r"(x3)                                                             \
                   : [s0] "r"(rows->step[0]), [s1] "r"(rows->step[1]), [s2] "r"(rows->step[2]), \
                     [s3] "r"(rows->step[3]), [columns] "r"(columns), [flip] "r"(flip)          \
                   : "lr", "cc", "q0", "q1", "q2", "q3", "q4", "memory")

/* Columns of words from four rows of bytes, of which whole vectors are loaded; returns where the next
 * ones begin. */
DORY_M55_ALONE uint8_t *lay_words(uint8_t *to, const rows_t *rows, uint32_t columns,
                                  uint16_t flip)
{
  const uint8_t *x0 = rows->x[0], *x1 = rows->x[1], *x2 = rows->x[2], *x3 = rows->x[3];
  if (flip) {
    LAY(FLIP);
  } else {
    LAY(KEEP);
  }
  return to;
}

/* Sums of four channels, ``apart`` bytes in the strip, of two rows of outputs whose windows are a
 * vector: a load serves two outputs of both. The fourth sum is stored in the next round; before the
 * first one its place is the end of the first row, whose sum follows. */
DORY_M55_ALONE void two_rows(const places_t *p, const uint8_t *strip, uint32_t apart,
                             const int8_t *w, int32_t *sums)
{
  int32_t *sums1 = sums + p->row, s0, s1, s2, s3;
  const uint8_t *x;
  uint32_t channels = 4;
  x = (const uint8_t *)p->words;
  __asm__ volatile("vldrw.u32 q7, [%[x]]\n"
                   "1:\n\t"
                   "vldrw.u32 q1, [%[w]], #16\n\t"
                   "mov %[s0], #0\n\t"
                   "vmov q2, q1\n\t"
                   "mov %[x], %[strip]\n\t"
                   "vshlc q2, %[s0], #32\n\t"
                   "add %[strip], %[strip], %[apart]\n\t"
                   "vshl.i32 q3, q1, #8\n\t"
                   "dls lr, %[pairs]\n\t"
                   "vshl.i32 q4, q2, #8\n"
                   "2:\n\t"
                   "vldrw.u32 q0, [%[x], q7]\n\t"
                   "str %[s3], [%[sums1], #-64]\n\t"
                   "vmladav.s8 %[s0], q0, q1\n\t"
                   "add %[x], %[x], #136\n\t"
                   "vmladav.s8 %[s1], q0, q2\n\t"
                   "str %[s0], [%[sums0]], #128\n\t"
                   "vmladav.s8 %[s2], q0, q3\n\t"
                   "str %[s1], [%[sums0], #-64]\n\t"
                   "vmladav.s8 %[s3], q0, q4\n\t"
                   "str %[s2], [%[sums1]], #128\n\t"
                   "le lr, 2b\n\t"
                   "str %[s3], [%[sums1], #-64]\n\t"
                   "sub %[sums0], %[sums0], %[pairs], lsl #7\n\t"
                   "sub %[sums1], %[sums1], %[pairs], lsl #7\n\t"
                   "add %[sums0], %[sums0], #4\n\t"
                   "add %[sums1], %[sums1], #4\n\t"
                   "subs %[channels], %[channels], #1\n\t"
                   "bne 1b"
                   : [s0] "=&Te"(s0), [s1] "=&Te"(s1), [s2] "=&Te"(s2), [s3] "=&Te"(s3),
                     [x] "+&r"(x), [w] "+&r"(w), [strip] "+&r"(strip), [sums0] "+&r"(sums),
                     [sums1] "+&r"(sums1), [channels] "+&r"(channels)
                   : [apart] "r"(apart), [pairs] "r"(p->row / (2u * BLOCK))
                   : "lr", "cc", "q0", "q1", "q2", "q3", "q4", "q7", "memory");
}

/* Sums of four channels of a row of outputs whose windows are a vector, two outputs at a time. */
DORY_M55_ALONE void one_vector(const places_t *p, uint32_t step, const uint8_t *strip,
                               uint32_t apart, const int8_t *w, int32_t *sums)
{
  int32_t s0, s1;
  const uint8_t *x = (const uint8_t *)p->words;
  uint32_t channels = 4;
  __asm__ volatile("vldrw.u32 q7, [%[x]]\n"
                   "1:\n\t"
                   "vldrw.u32 q1, [%[w]], #16\n\t"
                   "mov %[x], %[strip]\n\t"
                   "add %[strip], %[strip], %[apart]\n\t"
                   "dls lr, %[pairs]\n"
                   "2:\n\t"
                   "vldrw.u32 q0, [%[x], q7]\n\t"
                   "add %[x], %[x], %[step]\n\t"
                   "vmladav.s8 %[s0], q0, q1\n\t"
                   "vldrw.u32 q2, [%[x], q7]\n\t"
                   "add %[x], %[x], %[step]\n\t"
                   "vmladav.s8 %[s1], q2, q1\n\t"
                   "str %[s0], [%[sums]], #128\n\t"
                   "str %[s1], [%[sums], #-64]\n\t"
                   "le lr, 2b\n\t"
                   "sub %[sums], %[sums], %[pairs], lsl #7\n\t"
                   "add %[sums], %[sums], #4\n\t"
                   "subs %[channels], %[channels], #1\n\t"
                   "bne 1b"
                   : [s0] "=&Te"(s0), [s1] "=&Te"(s1), [x] "+&r"(x), [w] "+&r"(w),
                     [strip] "+&r"(strip), [sums] "+&r"(sums), [channels] "+&r"(channels)
                   : [apart] "r"(apart), [pairs] "r"(p->row / (2u * BLOCK)), [step] "r"(step)
                   : "lr", "cc", "q0", "q1", "q2", "q7", "memory");
}

#else

static uint8_t *lay_words(uint8_t *to, const rows_t *rows, uint32_t columns, uint16_t flip)
{
  for (uint32_t column = 0; column < columns; column++, to += COLUMN) {
    for (uint32_t i = 0; i < BLOCK * WORD; i++) {
      const uint32_t row = i % WORD, byte = i / WORD;
      const uint8_t *const x = rows->x[row] + column * rows->step[row];
      to[i] = byte < rows->bytes ? x[byte] ^ (uint8_t)(flip >> byte % 2u * 8u) : 0;
    }
  }
  return to;
}

static void two_rows(const places_t *p, const uint8_t *strip, uint32_t apart, const int8_t *w,
                     int32_t *sums)
{
  for (uint32_t i = 0; i < 4u * p->row / BLOCK; i++) {
    const uint32_t channel = i % 4u, output = i / 4u;
    const int8_t *const x = (const int8_t *)strip + output * COLUMN + channel * apart;
    int32_t upper = 0, lower = 0;
    for (uint32_t tap = 0; tap < 12u; tap++) {
      const int8_t *const at = x + tap / WORD * COLUMN + tap % WORD, own = w[16u * channel + tap];
      upper += tap % WORD < 3u ? at[0] * own : 0;
      lower += tap % WORD < 3u ? at[1] * own : 0;
    }
    sums[output * BLOCK + channel] = upper, sums[output * BLOCK + channel + p->row] = lower;
  }
}

static void one_vector(const places_t *p, uint32_t step, const uint8_t *strip, uint32_t apart,
                       const int8_t *w, int32_t *sums)
{
  const uint32x4_t words = vldrwq_u32(p->words);
  for (uint32_t i = 0; i < 4u * p->row / BLOCK; i++) {
    const uint32_t channel = i % 4u, output = i / 4u;
    const uint8_t *const x = strip + output * step + channel * apart;
    sums[output * BLOCK + channel] =
      vmladavaq_s8(0, bytes_of_words(x, words), vldrbq_s8(w + 16u * channel));
  }
}

#endif

/* Sums of four channels, ``apart`` bytes in the strip, of a row of outputs. */
DORY_M55_INLINE void one_row(const dory_cortex_m55_depthwise_t *a, const places_t *p,
                             const uint8_t *strip, uint32_t apart, const int8_t *w, int32_t *sums,
                             uint32_t held)
{
  const uint32x4_t words = vldrwq_u32(p->words);
  const uint32_t step = a->stride_w * COLUMN, length = 16u * a->vectors;
  const uint32_t at1 = held > 1u ? p->vectors[1] : 0, at2 = held > 2u ? p->vectors[2] : 0;
  const uint32_t at3 = held > 3u ? p->vectors[3] : 0;
  for (uint32_t channel = 0; channel < 4u; channel++, strip += apart, w += length) {
    const int8x16_t w0 = vldrbq_s8(w), w1 = vldrbq_s8(w + (held > 1u ? 16 : 0));
    const int8x16_t w2 = vldrbq_s8(w + (held > 2u ? 32 : 0));
    const int8x16_t w3 = vldrbq_s8(w + (held > 3u ? 48 : 0));
    const uint8_t *x = strip;
    int32_t *to = sums + channel;
    for (uint32_t i = a->y_w; i > 0; i--, x += step, to += BLOCK) {
      int32_t sum = vmladavaq_s8(0, bytes_of_words(x, words), w0);
      sum = held > 1u ? vmladavaq_s8(sum, bytes_of_words(x + at1, words), w1) : sum;
      sum = held > 2u ? vmladavaq_s8(sum, bytes_of_words(x + at2, words), w2) : sum;
      sum = held > 3u ? vmladavaq_s8(sum, bytes_of_words(x + at3, words), w3) : sum;
      for (uint32_t k = 4; held > 4u && k < a->vectors; k++) {
        sum = vmladavaq_s8(sum, bytes_of_words(x + p->vectors[k], words), vldrbq_s8(w + 16u * k));
      }
      to[0] = sum;
    }
  }
}

/* Sums of four channels of one row of outputs, or of two. */
static void sums_of(const dory_cortex_m55_depthwise_t *a, const places_t *p, uint32_t rows,
                    const uint8_t *strip, uint32_t apart, const int8_t *w, int32_t *sums)
{
  if (rows == 2u) {
    two_rows(p, strip, apart, w, sums);
    return;
  }
  switch (a->vectors) {
    case 1: one_vector(p, a->stride_w * COLUMN, strip, apart, w, sums); break;
    case 2: one_row(a, p, strip, apart, w, sums, 2); break;
    case 3: one_row(a, p, strip, apart, w, sums, 3); break;
    case 4: one_row(a, p, strip, apart, w, sums, 4); break;
    default: one_row(a, p, strip, apart, w, sums, 5); break;
  }
}

/* Lays a plane of the strip: four rows from ``top`` on, of a block of channels from a byte on. */
static void lay_plane(const dory_cortex_m55_depthwise_t *a, const places_t *p, uint8_t *to,
                      int32_t top, uint32_t byte)
{
  const uint32_t bytes = a->c * a->x_bytes - byte;
  const uint32_t before = a->pad_left > 0 ? (uint32_t)a->pad_left : 0u;
  const uint32_t first = a->pad_left < 0 ? (uint32_t)-a->pad_left : 0u;
  const uint32_t left = before < p->columns ? before : p->columns;
  const uint32_t most = a->x_w > first ? a->x_w - first : 0u;
  const uint32_t inside = p->columns - left < most ? p->columns - left : most;
  const uint8_t *const corner = a->x + first * a->x_column + byte;
  rows_t beside = {.bytes = BLOCK};
  rows_t rows = {.bytes = bytes < BLOCK ? bytes : BLOCK};
  for (uint32_t i = 0; i < WORD; i++) {
    const int32_t row = top + (int32_t)(i * a->dilation_h);
    const int is_inside = row >= 0 && row < (int32_t)a->x_h;
    beside.x[i] = p->outside;
    beside.step[i] = 0;
    rows.x[i] = is_inside ? corner + (uint32_t)row * a->x_row : p->outside;
    rows.step[i] = is_inside ? a->x_column : 0u;
  }
  to = lay_words(to, &beside, left, a->flip);
  to = lay_words(to, &rows, inside, a->flip);
  lay_words(to, &beside, p->columns - left - inside, a->flip);
}

/* Adds the sums of the upper bytes of eight channels to those of the lower ones. */
static void add_upper(int32_t *sums, uint32_t pixels)
{
  for (; pixels > 0; pixels--, sums += BLOCK) {
    vst1q_s32(sums, vmlaq_n_s32(vldrwq_s32(sums), vldrwq_s32(sums + 8), 256));
    vst1q_s32(sums + 4, vmlaq_n_s32(vldrwq_s32(sums + 4), vldrwq_s32(sums + 12), 256));
  }
}

/* Sums of a block of channels of ``bytes``, of one row of outputs or two. */
DORY_M55_INLINE void sums_of_block(const dory_cortex_m55_depthwise_t *a, const places_t *p,
                                   uint32_t rows, const int8_t *w, uint32_t fours, uint32_t bytes)
{
  for (uint32_t i = 0; i < fours; i++, w += a->vectors * 64u) {
    const uint32_t first = i / 2u * 8u + i % 2u; /* channel (dory_cortex_m55_requant.h) */
    for (uint32_t byte = 0; byte < bytes; byte++) {
      sums_of(a, p, rows, p->strip + (first * bytes + byte) * WORD, 2u * WORD * bytes, w,
              p->sums + 4u * i + 8u * byte);
    }
  }
}

/* Outputs of a block of channels, of one row or two. */
static void outputs_of(const dory_cortex_m55_depthwise_t *a, const places_t *p, uint32_t row,
                       uint32_t rows, uint32_t channel)
{
  const uint32_t most = BLOCK / a->x_bytes, count = a->c - channel < most ? a->c - channel : most;
  const uint32_t plane_rows = WORD * a->dilation_h;
  int32_t top = (int32_t)(row * a->stride_h) - a->pad_top;
  for (uint32_t i = 0; i < a->planes; i++, top += (int32_t)plane_rows) {
    lay_plane(a, p, p->strip + i * p->plane, top, channel * a->x_bytes);
  }
  const int8_t *const w = a->weights + channel * a->vectors * 16u;
  if (a->x_bytes == 1u) {
    sums_of_block(a, p, rows, w, count > 8u ? 4u : 2u, 1);
  } else {
    sums_of_block(a, p, rows, w, 2, 2);
    add_upper(p->sums, rows * p->row / BLOCK);
  }
  for (uint32_t i = 0; i < rows; i++) {
    const dory_cortex_m55_outputs_t outputs = {
      a->y + (row + i) * a->y_row + channel * a->y_bytes, p->sums + i * p->row, channel, count, a->y_w,
      BLOCK, a->y_column, a->y_bytes};
    dory_cortex_m55_finish(&a->requant, &outputs);
  }
}

void dory_cortex_m55_depthwise(const dory_cortex_m55_depthwise_t *a)
{
  const places_t p = places_of(a);
  const int in_pairs = a->vectors == 1u && a->kernel_h <= 3u && a->kernel_w <= 3u && a->stride_h == 1u &&
                       a->stride_w == 1u && a->dilation_h == 1u && a->dilation_w == 1u;
  for (uint32_t row = 0; row < a->y_h;) {
    const uint32_t rows = in_pairs && row + 1u < a->y_h ? 2u : 1u;
    for (uint32_t channel = 0; channel < a->c; channel += BLOCK / a->x_bytes) {
      outputs_of(a, &p, row, rows, channel);
    }
    row += rows;
  }
}
