/* Products of columns and rows of weights in blocks of 2 pixels x 2 output channels.
 *
 * Four elements k .. k+3 of a column are two words, (k, k+2) and (k+1, k+3): what UXTB16 and its
 * form with a rotation make of four bytes, without any further shuffling. Columns of two pixels
 * are interleaved: the two words of the first pixel, the two words of the second.
 *
 * Rows of weights are padded with zeros to multiples of four. The rows of two channels are
 * interleaved by fours; an odd last channel has its row alone.
 *
 * DORY_PAIRS is 1 where pairs of channels may be computed by dory_stm32h7_pairs_impl.h. */
#include "dory_stm32h7_weights_impl.h"

/* Words of a column of two pixels for one vector of four elements. */
enum { DORY_COLUMN = 4 };

#if DORY_PAIRS && defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_DSP) && \
    (!DORY_BINARY32 || DORY_HAS_BINARY32)
#define DORY_ASSEMBLY 1
#include "dory_stm32h7_pairs_impl.h"
#else
#define DORY_ASSEMBLY 0
#endif

#if !DORY_ASSEMBLY

/* Four products of rows a, b and both pixels of the columns x. */
static inline void dory_block_2x2(const uint32_t *w, const uint32_t *x, int32_t vectors,
                                  int32_t sums[4])
{
  int32_t a0 = 0, a1 = 0, b0 = 0, b1 = 0;
  do {
    const uint32_t x0e = x[0], x0o = x[1], x1e = x[2], x1o = x[3];
    const dory_weights_t a = dory_weights_at(w), b = dory_weights_at(w + DORY_W_WORDS);
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

/* The product of one row, whose vectors are `step` vectors apart, and one pixel of the columns x. */
static inline int32_t dory_block_1x1(const uint32_t *w, int32_t step, const uint32_t *x,
                                     int32_t vectors)
{
  int32_t sum = 0;
  do {
    const dory_weights_t a = dory_weights_at(w);
    sum = dory_smlad(a.even, x[0], sum);
    sum = dory_smlad(a.odd, x[1], sum);
    w += step * DORY_W_WORDS;
    x += DORY_COLUMN;
  } while (--vectors != 0);
  return sum;
}

/* What the pairs of channels of two pixels share. first: the channel of the first row, for its
 * parameters. pitch: from a pixel of the output to the next, in elements. */
typedef struct {
  const dory_stm32h7_requant_t *requant;
  const uint32_t *w, *x;
  int32_t vectors, first, channels, pitch;
#if DORY_ASSEMBLY
  dory_pairs_t pairs;
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
        .rounds = (vectors + DORY_VECTORS - 1) / DORY_VECTORS,
        .records = requant->channels + DORY_RECORD * first,
        .pitch = pitch * (int32_t)sizeof(DORY_Y_T),
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
#endif
}

#endif

/* The last channel, of an odd number, of two pixels. */
static inline void dory_last_channel(const dory_product_t *product, const uint32_t *w, DORY_Y_T *y)
{
  const int32_t c = product->channels - 1;
  const dory_channel_t a = dory_channel(product->requant, product->first + c);
  const int32_t sum = dory_block_1x1(w, 1, product->x, product->vectors);
  const int32_t sum2 = dory_block_1x1(w, 1, product->x + 2, product->vectors);
  y[c] = (DORY_Y_T)dory_requant(product->requant, a, sum);
  y[c + product->pitch] = (DORY_Y_T)dory_requant(product->requant, a, sum2);
}

/* All channels of two pixels. */
static inline void dory_two_pixels(dory_product_t *product, DORY_Y_T *y)
{
  const int32_t paired = product->channels & ~1;
  const uint32_t *w = product->w;
#if DORY_ASSEMBLY
  if (paired > 0) {
    product->pairs.y = y;
    product->pairs.end = y + paired;
    dory_pairs(&product->pairs);
  }
  w += paired * product->vectors * DORY_W_WORDS;
#else
  /* A copy: stores of bytes could change anything that is reached by a pointer. */
  const dory_stm32h7_requant_t copy = *product->requant, *const q = &copy;
  DORY_Y_T *const y2 = y + product->pitch;
  for (int32_t c = 0; c < paired; c += 2) {
    int32_t sums[4];
    dory_block_2x2(w, product->x, product->vectors, sums);
    w += 2 * DORY_W_WORDS * product->vectors;
    const dory_channel_t a = dory_channel(q, product->first + c);
    const dory_channel_t b = dory_channel(q, product->first + c + 1);
    y[c] = (DORY_Y_T)dory_requant(q, a, sums[0]);
    y2[c] = (DORY_Y_T)dory_requant(q, a, sums[1]);
    y[c + 1] = (DORY_Y_T)dory_requant(q, b, sums[2]);
    y2[c + 1] = (DORY_Y_T)dory_requant(q, b, sums[3]);
  }
#endif
  if (paired < product->channels) {
    dory_last_channel(product, w, y);
  }
}

/* All channels of the first of two pixels. The assembly computes the second one as well and
 * overwrites it with the first. */
static inline void dory_one_pixel(dory_product_t *product, DORY_Y_T *y)
{
  int32_t c = 0;
#if DORY_ASSEMBLY
  c = product->channels & ~1;
  if (c > 0) {
    const int32_t pitch = product->pairs.pitch;
    product->pairs.pitch = 0;
    product->pairs.y = y;
    product->pairs.end = y + c;
    dory_pairs(&product->pairs);
    product->pairs.pitch = pitch;
  }
#endif
  for (; c < product->channels; c++) {
    const int paired = (c | 1) < product->channels;
    const uint32_t *const row =
      product->w + DORY_W_WORDS * ((c & ~1) * product->vectors + (paired ? c & 1 : 0));
    const int32_t sum = dory_block_1x1(row, paired ? 2 : 1, product->x, product->vectors);
    y[c] = (DORY_Y_T)dory_requant(product->requant, dory_channel(product->requant, product->first + c), sum);
  }
}
