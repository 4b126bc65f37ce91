/* Four elements k .. k+3 of an input of DORY_X_BITS bits (8 or 16), type DORY_X_T, as two words of
 * 16-bit numbers: (k, k+2) and (k+1, k+3). For bytes that is what UXTB16 and its form with a
 * rotation make of a word, without any further shuffling. */
typedef struct {
  uint32_t even, odd;
} dory_vector_t;

#if DORY_X_BITS == 8

static inline dory_vector_t dory_vector_of(uint32_t word)
{
  const dory_vector_t vector = {DORY_EVEN(DORY_X_SIGNED, word), DORY_ODD(DORY_X_SIGNED, word)};
  return vector;
}

static inline dory_vector_t dory_vector_at(const DORY_X_T *x)
{
  return dory_vector_of(dory_load4(x));
}

/* The last one to three elements, zeros behind them. */
static inline dory_vector_t dory_rest_at(const DORY_X_T *x, int32_t n)
{
  uint32_t word = (uint8_t)x[0];
  word |= n > 1 ? (uint32_t)(uint8_t)x[1] << 8 : 0u;
  word |= n > 2 ? (uint32_t)(uint8_t)x[2] << 16 : 0u;
  return dory_vector_of(word);
}

#else

static inline dory_vector_t dory_vector_at(const DORY_X_T *x)
{
  const uint32_t low = dory_load4(x), high = dory_load4(x + 2);
  const dory_vector_t vector = {(low & 0xFFFFu) | high << 16, low >> 16 | (high & 0xFFFF0000u)};
  return vector;
}

/* The last one to three elements, zeros behind them. */
static inline dory_vector_t dory_rest_at(const DORY_X_T *x, int32_t n)
{
  dory_vector_t vector = {(uint16_t)x[0], 0u};
  vector.odd = n > 1 ? (uint16_t)x[1] : 0u;
  vector.even |= n > 2 ? (uint32_t)(uint16_t)x[2] << 16 : 0u;
  return vector;
}

#endif
