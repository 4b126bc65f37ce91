/* Four weights of DORY_W_BITS bits (8 or 16), at a word, as two words of 16-bit numbers: the first
 * and the third, the second and the fourth. In memory bytes keep their order and take a word, 16-bit
 * numbers lie as they are used and take two. */
enum { DORY_W_WORDS = DORY_W_BITS / 8 };

typedef struct {
  uint32_t even, odd;
} dory_weights_t;

static inline dory_weights_t dory_weights_at(const uint32_t *w)
{
#if DORY_W_BITS == 8
  const uint32_t word = w[0];
  const dory_weights_t four = {dory_sxtb16(word), dory_sxtb16_odd(word)};
#else
  const dory_weights_t four = {w[0], w[1]};
#endif
  return four;
}
