/* Products of matrices, x2 times x: x is laid out as rows of weights, then a few rows of x2 are
 * multiplied with them as the columns of a convolution. An instance defines DORY_KERNEL, DORY_Y_T,
 * DORY_X_T and DORY_X_SIGNED of an element of x2, the macros of dory_stm32h7_matmul_impl.h and
 * dory_stm32h7_requant_impl.h, and
 *
 *   DORY_FLIP    what turns elements of x into signed bytes: 0, or 0x80808080 for unsigned ones
 *   DORY_TERMS   whether zero points of x, as signed bytes, may be other than 0
 *   DORY_ONE_X, DORY_ONE_X2   whether x, x2 has one matrix for all of the output
 *
 * Columns have the elements of x2 without their zero point. That of x is a weight of further columns:
 * the sums of 128 elements, which have 16 bits. A vector has two of them, each twice, because a
 * weight has 8 bits and the zero point with its sign turned 9. */
#include "dory_stm32h7_simd.h"

#include "dory_stm32h7_requant_impl.h"

#include "dory_stm32h7_matmul_impl.h"

/* Vectors of elements whose sum has 16 bits. */
enum { DORY_SUMMED = 32 };

static inline int32_t dory_vectors(int32_t inner)
{
  const int32_t plain = (inner + 3) / 4;
  return plain + DORY_TERMS * ((plain + 2 * DORY_SUMMED - 1) / (2 * DORY_SUMMED));
}

/* Four bytes as columns, each plus the halves of `minus`; stores them. */
static inline void dory_centred(uint32_t word, uint32_t minus, uint32_t *column)
{
#if DORY_X_SIGNED
  column[0] = dory_sxtab16(minus, word);
  column[1] = dory_sxtab16(minus, word >> 8);
#else
  column[0] = dory_uxtab16(minus, word);
  column[1] = dory_uxtab16(minus, word >> 8);
#endif
}

/* Up to three bytes, and as many of `pad` as are missing to four. */
static inline uint32_t dory_padded(const uint8_t *row, int32_t n, uint32_t pad)
{
  uint32_t word = pad & 0xFFu;
  for (int32_t i = 2; i >= 0; i--) {
    word = word << 8 | (i < n ? row[i] : (pad & 0xFFu));
  }
  return word;
}

/* Lays out a row of x2 as the column of one pixel. */
static inline void dory_row(const uint8_t *row, int32_t inner, int32_t zero, uint32_t *column)
{
  const uint32_t half = (uint32_t)-zero & 0xFFFFu, minus = half << 16 | half;
#if DORY_TERMS
  uint32_t *const terms = column + DORY_COLUMN * ((inner + 3) / 4);
  int32_t n = 0;
  for (int32_t i = 0; i < dory_vectors(inner) - (inner + 3) / 4; i++) {
    terms[DORY_COLUMN * i] = 0;
  }
#endif
  while (inner > 0) {
    int32_t sum = 0;
    for (int32_t left = DORY_SUMMED; left > 0 && inner > 0; left--) {
      dory_centred(inner >= 4 ? dory_load4(row) : dory_padded(row, inner, (uint32_t)zero), minus,
                   column);
#if DORY_TERMS
      sum = dory_smlad(column[0], 0x00010001u, sum);
      sum = dory_smlad(column[1], 0x00010001u, sum);
#endif
      column += DORY_COLUMN;
      row += 4;
      inner -= 4;
    }
#if DORY_TERMS
    terms[DORY_COLUMN * (n / 2)] |= ((uint32_t)sum & 0xFFFFu) << 16 * (n & 1);
    terms[DORY_COLUMN * (n / 2) + 1] = terms[DORY_COLUMN * (n / 2)];
    n++;
#endif
    (void)sum;
  }
}

/* Element i of a column of x, rows `pitch` apart; those behind the last row are 0. */
static inline uint32_t dory_element(const uint8_t *x, int32_t pitch, int32_t rows, int32_t i)
{
  return i < rows ? (uint32_t)x[i * pitch] ^ (DORY_FLIP & 0xFFu) : 0u;
}

/* Elements i and i + 2 of a column, in the bytes 0 and 2. */
static inline uint32_t dory_half(const uint8_t *x, int32_t pitch, int32_t rows, int32_t i)
{
  return dory_element(x, pitch, rows, i) | dory_element(x, pitch, rows, i + 2) << 16;
}

/* Lays out a matrix of x: rows of pairs of channels by fours, then that of an odd last channel. */
static inline void dory_lay_out(const uint8_t *x, int32_t inner, int32_t channels, int32_t zero,
                                uint32_t *w)
{
#if DORY_TERMS
  const int32_t turned = -zero, low = turned >> 1, high = turned - low;
  const uint32_t lows = ((uint32_t)low & 0xFFu) * 0x00010001u;
  const uint32_t highs = ((uint32_t)high & 0xFFu) * 0x00010001u;
#endif
  (void)zero;
  for (int32_t c = 0; c < channels; c += 2) {
    const int32_t last = c + 1 == channels;
    for (int32_t j = 0; j < inner; j += 4) {
      const uint8_t *const at = x + c + j * channels;
      const uint32_t even = dory_half(at, channels, inner - j, 0);
      const uint32_t odd = dory_half(at, channels, inner - j, 1);
      if (last) {
        *w++ = even | odd << 8;
      } else {
        *w++ = even | dory_half(at + 1, channels, inner - j, 0) << 8;
        *w++ = odd | dory_half(at + 1, channels, inner - j, 1) << 8;
      }
    }
#if DORY_TERMS
    for (int32_t v = dory_vectors(inner) - (inner + 3) / 4; v > 0; v--) {
      if (last) {
        *w++ = lows | highs << 8;
      } else {
        *w++ = lows | lows << 8;
        *w++ = highs | highs << 8;
      }
    }
#endif
  }
}

void DORY_KERNEL(const dory_stm32h7_matrices_t *a)
{
  const int32_t inner = a->x_w, channels = a->y_c, rows = a->y_w, vectors = dory_vectors(inner);
  const dory_stm32h7_requant_t requant = a->requant;
  uint32_t *const weights = (uint32_t *)a->scratch, *const columns = weights + channels * vectors;
  const uint8_t *x = (const uint8_t *)a->x, *x2 = (const uint8_t *)a->x2;
  DORY_Y_T *y = (DORY_Y_T *)a->y;
  dory_product_t product = dory_product(&requant, weights, columns, vectors, 0, channels, channels);
  for (int32_t matrix = 0; matrix < a->y_h; matrix++) {
    const uint8_t *row = x2;
    if (matrix == 0 || !DORY_ONE_X) {
      dory_lay_out(x, inner, channels, a->x_zero, weights);
      x += inner * channels;
    }
    for (int32_t n = rows; n > 0;) {
      const int32_t together = dory_together(n);
      for (int32_t k = 0; k < together; k++) {
        dory_row(row, inner, a->x2_zero, columns + 2 * k);
        row += inner;
      }
      dory_pixels(&product, together, y);
      n -= together;
      y += together * channels;
    }
    x2 += DORY_ONE_X2 ? 0 : rows * inner;
  }
}
