/* Products of columns and rows of weights in blocks of a few pixels x 2 output channels.
 *
 * Four elements k .. k+3 of a column are two words, (k, k+2) and (k+1, k+3): what UXTB16 and its
 * form with a rotation make of four bytes, without any further shuffling. Columns of DORY_PIXELS
 * pixels are interleaved: the two words of the first pixel, the two words of the second.
 *
 * Rows of weights are padded with zeros to multiples of four. The rows of two channels a, b are
 * interleaved, bytes as a0 b0 a2 b2 a1 b1 a3 b3, so that a word has two of each channel, and 16-bit
 * numbers as a0 a2 a1 a3 b0 b2 b1 b3; an odd last channel has its row alone.
 *
 * DORY_PAIRS is 1 where pairs of channels may be computed by dory_stm32h7_pairs_impl.h. */
#include "dory_stm32h7_weights_impl.h"

/* Pixels that are computed together, and words of their columns for one vector of four elements. */
enum { DORY_PIXELS = DORY_PAIRS ? 3 : 2, DORY_COLUMN = 2 * DORY_PIXELS };

/* Pixels of the next block of n. */
static inline int32_t dory_together(int32_t n)
{
  return n < DORY_PIXELS ? n : DORY_PIXELS;
}

#if DORY_PAIRS && defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_DSP) && \
    (!DORY_BINARY32 || DORY_HAS_BINARY32)
#define DORY_ASSEMBLY 1
#include "dory_stm32h7_pairs_impl.h"
#else
#define DORY_ASSEMBLY 0
#endif

#if !DORY_ASSEMBLY

/* Four products of two rows and two neighbouring pixels of the columns x. */
static inline void dory_block_2x2(const uint32_t *w, const uint32_t *x, int32_t vectors,
                                  int32_t sums[4])
{
  int32_t a0 = 0, a1 = 0, b0 = 0, b1 = 0;
  do {
    const uint32_t x0e = x[0], x0o = x[1], x1e = x[2], x1o = x[3];
#if DORY_W_BITS == 8
    const dory_weights_t even = dory_weights_at(w), odd = dory_weights_at(w + 1);
    const dory_weights_t a = {even.even, odd.even}, b = {even.odd, odd.odd};
#else
    const dory_weights_t a = dory_weights_at(w), b = dory_weights_at(w + DORY_W_WORDS);
#endif
    a0 = dory_smlad(a.even, x0e, a0);
    a1 = dory_smlad(a.even, x1e, a1);
    a0 = dory_smlad(a.odd, x0o, a0);
    a1 = dory_smlad(a.odd, x1o, a1);
    b0 = dory_smlad(b.even, x0e, b0);
    b1 = dory_smlad(b.even, x1e, b1);
    b0 = dory_smlad(b.odd, x0o, b0);
    b1 = dory_smlad(b.odd, x1o, b1);
    w += 2 * DORY_W_WORDS;
    x += DORY_COLUMN;
  } while (--vectors != 0);
  sums[0] = a0;
  sums[1] = a1;
  sums[2] = b0;
  sums[3] = b1;
}

#endif

/* The product of a row that is alone and one pixel of the columns x. */
static inline int32_t dory_block_1x1(const uint32_t *w, const uint32_t *x, int32_t vectors)
{
  int32_t sum = 0;
  do {
    const dory_weights_t a = dory_weights_at(w);
    sum = dory_smlad(a.even, x[0], sum);
    sum = dory_smlad(a.odd, x[1], sum);
    w += DORY_W_WORDS;
    x += DORY_COLUMN;
  } while (--vectors != 0);
  return sum;
}

/* What the pairs of channels of some pixels share. first: the channel of the first row, for its
 * parameters. pitch: from a pixel of the output to the next, in elements. */
typedef struct {
  const dory_stm32h7_requant_t *requant;
  const uint32_t *w, *x;
  int32_t vectors, first, channels, pitch;
#if DORY_ASSEMBLY
  dory_pairs_t pairs; /* of three pixels */
#endif
} dory_product_t;

static inline dory_product_t dory_product(const dory_stm32h7_requant_t *requant, const uint32_t *w,
                                          const uint32_t *x, int32_t vectors, int32_t first,
                                          int32_t channels, int32_t pitch)
{
  const dory_product_t product = {
    .requant = requant,
    .w = w,
    .x = x,
    .vectors = vectors,
    .first = first,
    .channels = channels,
    .pitch = pitch,
#if DORY_ASSEMBLY
    .pairs =
      {
        .weights = w,
        .columns = x,
        .columns_end = x + DORY_COLUMN * vectors,
        .records = requant->channels + DORY_RECORD * first,
        .pitch = pitch * (int32_t)sizeof(DORY_Y_T),
        .pitch2 = 2 * pitch * (int32_t)sizeof(DORY_Y_T),
        .skipped = (DORY_VECTORS - 1 - (vectors - 1) % DORY_VECTORS) * DORY_VECTOR_CODE,
      },
#endif
  };
  return product;
}

#if DORY_WINDOW

/* Moves on to other columns. */
static inline void dory_set_columns(dory_product_t *product, const uint32_t *x)
{
  product->x = x;
#if DORY_ASSEMBLY
  product->pairs.columns = x;
  product->pairs.columns_end = x + DORY_COLUMN * product->vectors;
#endif
}

#endif

#if DORY_ASSEMBLY

/* The first `paired` channels of n pixels. */
static inline void dory_paired(dory_product_t *product, int32_t paired, int32_t n, DORY_Y_T *y)
{
  product->pairs.y = y;
  product->pairs.end = y + paired;
  if (n == DORY_PIXELS) {
    dory_pairs(&product->pairs);
  } else if (n == 1) {
    dory_pairs_of_one(&product->pairs);
  } else {
    dory_pairs_t pairs = product->pairs;
    pairs.pitch2 = 0;
    pairs.two = 1;
    pairs.skipped = pairs.skipped / DORY_VECTOR_CODE * DORY_VECTOR_CODE_TWO;
    dory_pairs(&pairs);
  }
}

#else

/* The first `paired` channels of n pixels, in blocks of two, the second of which may begin with the
 * last of the first. A single pixel is stored last, over another one that is none. */
static inline void dory_paired(dory_product_t *product, int32_t paired, int32_t n, DORY_Y_T *y)
{
  /* A copy: stores of bytes could change anything that is reached by a pointer. */
  const dory_stm32h7_requant_t copy = *product->requant, *const q = &copy;
  const uint32_t *w = product->w;
  const int32_t pitch = n > 1 ? product->pitch : 0;
  for (int32_t c = 0; c < paired; c += 2) {
    for (int32_t pixel = 0; pixel == 0 || (DORY_PIXELS > 2 && pixel < n - 1); pixel++) {
      DORY_Y_T *const y1 = y + pixel * pitch, *const y2 = y1 + pitch;
      int32_t sums[4];
      dory_block_2x2(w, product->x + 2 * pixel, product->vectors, sums);
      const dory_channel_t a = dory_channel(q, product->first + c);
      const dory_channel_t b = dory_channel(q, product->first + c + 1);
      y2[c] = (DORY_Y_T)dory_requant(q, a, sums[1]);
      y1[c] = (DORY_Y_T)dory_requant(q, a, sums[0]);
      y2[c + 1] = (DORY_Y_T)dory_requant(q, b, sums[3]);
      y1[c + 1] = (DORY_Y_T)dory_requant(q, b, sums[2]);
    }
    w += 2 * DORY_W_WORDS * product->vectors;
  }
}

#endif

/* All channels of n pixels. */
static inline void dory_pixels(dory_product_t *product, int32_t n, DORY_Y_T *y)
{
  const int32_t paired = product->channels & ~1;
  if (paired > 0) {
    dory_paired(product, paired, n, y);
  }
  if (paired < product->channels) {
    const dory_channel_t last = dory_channel(product->requant, product->first + paired);
    const uint32_t *const w = product->w + paired * product->vectors * DORY_W_WORDS;
    for (int32_t k = 0; k < n; k++) {
      const int32_t sum = dory_block_1x1(w, product->x + 2 * k, product->vectors);
      y[paired + k * product->pitch] = (DORY_Y_T)dory_requant(product->requant, last, sum);
    }
  }
}
