/* Products of matrices, x2 times x, on the 4x4 block: template of the kernel DORY_KERNEL, configured as
 * dory_gap8_block_tile.h for inputs of x2, and
 *
 *   DORY_FLIP              what turns elements of x into signed bytes: 0, or 0x80808080 where they are
 *                          unsigned
 *   DORY_ONE_X, DORY_ONE_X2   whether x, x2 has one matrix for all of the output
 *
 * The matrix x is laid out first as the block reads weights: all cores take groups of four of its
 * columns, four rows at a time. Its rows are filled up with zeros, to two steps at least, so that what
 * the block reads behind a row of x2 does not count. Where zero points are not 0, the sums of the
 * products of plain elements lack
 *
 *   for each column of x   -x2_zero * (sum of its elements - inner * x_zero), a term of a channel
 *   for each row of x2     -x_zero * (sum of its elements), a term of a pixel
 */
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

/* The elements of `n` channels in a row, 4 at most, as signed bytes; the others are 0. */
static inline dory_gap8_u8x4_t dory_four(const uint8_t *from, int32_t n) {
  uint32_t word = DORY_FLIP;
  if (n >= 4) {
    word ^= dory_gap8_to_word_u8(dory_gap8_load4_u8(from));
  } else {
    uint32_t some = 0;
    for (int32_t i = n - 1; i >= 0; i--) {
      some = some << 8 | (from[i] ^ (DORY_FLIP & 0xff));
    }
    word = some;
  }
  return dory_gap8_from_word_u8(word);
}

/* Lays out four columns of a matrix, of which `n` are there, and their terms. */
static inline void dory_lay_out(int8_t *to, const uint8_t *from, int32_t pitch, int32_t n,
                                const dory_gap8_matrices_t *a) {
  const dory_gap8_i8x4_t low = dory_gap8_order4(0, 4, 1, 5), high = dory_gap8_order4(2, 6, 3, 7);
  const dory_gap8_i8x4_t first = dory_gap8_order4(0, 1, 4, 5), last = dory_gap8_order4(2, 3, 6, 7);
  const dory_gap8_u8x4_t none = dory_gap8_from_word_u8(0);
  const int32_t inner = a->block.x_w, steps = dory_gap8_max(2, (inner + 3) >> 2);
#if DORY_BLOCK_COLUMN_TERMS
  const dory_gap8_i8x4_t ones = dory_gap8_from_word_i8(0x01010101);
  int32_t sum[4] = {0, 0, 0, 0};
#endif
  for (int32_t j = 0; j < 4 * steps; j += 4, to += 16) {
    dory_gap8_u8x4_t row[4], column[4];
    for (int32_t i = 0; i < 4; i++) {
      row[i] = j + i < inner ? dory_four(from, n) : none;
      from += j + i < inner ? pitch : 0;
    }
    const dory_gap8_u8x4_t a0 = dory_gap8_shuffle4_u8(row[0], row[1], low);
    const dory_gap8_u8x4_t a1 = dory_gap8_shuffle4_u8(row[2], row[3], low);
    const dory_gap8_u8x4_t b0 = dory_gap8_shuffle4_u8(row[0], row[1], high);
    const dory_gap8_u8x4_t b1 = dory_gap8_shuffle4_u8(row[2], row[3], high);
    column[0] = dory_gap8_shuffle4_u8(a0, a1, first);
    column[1] = dory_gap8_shuffle4_u8(a0, a1, last);
    column[2] = dory_gap8_shuffle4_u8(b0, b1, first);
    column[3] = dory_gap8_shuffle4_u8(b0, b1, last);
    for (int32_t c = 0; c < 4; c++) {
      dory_gap8_store4_u8(to + 4 * c, column[c]);
#if DORY_BLOCK_COLUMN_TERMS
      const uint32_t word = dory_gap8_to_word_u8(column[c]);
      sum[c] = dory_gap8_dot4_i8(dory_gap8_from_word_i8(word), ones, sum[c]);
#endif
    }
  }
#if DORY_BLOCK_COLUMN_TERMS
  for (int32_t c = 0; c < 4; c++) {
    sum[c] = -a->x2_zero * (sum[c] - inner * a->x_zero);
  }
  memcpy(to, sum, sizeof sum);
#endif
}

#if DORY_BLOCK_ROW_TERMS
/* The term of a row of x2. */
static inline int32_t dory_row_term(const DORY_X_T *row, int32_t inner, int32_t zero) {
  const dory_gap8_i8x4_t ones = dory_gap8_from_word_i8(0x01010101);
  int32_t sum = 0, i = 0;
  for (; i + 4 <= inner; i += 4) {
    sum = DORY_DOT4(DORY_LOAD4_X(row + i), ones, sum);
  }
  for (; i < inner; i++) {
    sum += row[i];
  }
  return -zero * sum;
}
#endif

/* Computes one tile. Every core calls it; they meet when x is laid out. */
void DORY_KERNEL(const dory_gap8_matrices_t *a) {
  const dory_gap8_window_t *const sizes = &a->block;
  const int32_t inner = sizes->x_w, y_h = sizes->y_h, y_w = sizes->y_w, y_c = sizes->y_c;
  const int32_t steps = dory_gap8_max(2, (inner + 3) >> 2), groups = (y_c + 3) >> 2;
  const int32_t group_bytes = 16 * (steps + DORY_BLOCK_COLUMN_TERMS);
  const int32_t matrix_bytes = groups * group_bytes, matrices = DORY_ONE_X ? 1 : y_h;
  int8_t *const laid_out = (int8_t *)sizes->scratch;
  int32_t *const terms = (int32_t *)(void *)(laid_out + matrices * matrix_bytes);
  const int32_t core = (int32_t)dory_core_id();
  for (int32_t i = core; i < matrices * groups; i += DORY_CORES) {
    const int32_t matrix = i / groups, c = 4 * (i - matrix * groups);
    dory_lay_out(laid_out + i * group_bytes,
                 (const uint8_t *)a->x + matrix * inner * y_c + c, y_c, y_c - c, a);
  }
#if DORY_BLOCK_ROW_TERMS
  for (int32_t i = core; i < (DORY_ONE_X2 ? 1 : y_h) * y_w; i += DORY_CORES) {
    terms[i] = dory_row_term((const DORY_X_T *)a->x2 + i * inner, inner, a->x_zero);
  }
#endif
  dory_barrier();
  dory_block_share_t share = dory_block_share(y_w, y_c);
  dory_gap8_work_t part;
  while (dory_block_part(&share, y_w, y_c, &part)) {
    const int32_t first = part.pixels.first, rows = part.pixels.end - first;
    for (int32_t matrix = 0; matrix < y_h; matrix++) {
      const dory_block_tile_t tile = {laid_out + (DORY_ONE_X ? 0 : matrix * matrix_bytes),
                                      sizes->parameters, group_bytes, y_c, part.channels,
                                      sizes->requant};
      const int32_t row = (DORY_ONE_X2 ? 0 : matrix * y_w) + first;
      dory_block_t b;
      dory_block_table_t table;
      dory_block_start(&b, &tile, sizes);
      b.steps = steps;
      b.inputs = inner;
      dory_block_row(&b, &tile, table, (const DORY_X_T *)a->x2 + row * inner, terms + row, inner,
                     rows, (DORY_Y_T *)sizes->y + (matrix * y_w + first) * y_c);
    }
  }
}
