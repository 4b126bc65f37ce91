/* Requantisation of an accumulator, fixed at compile time:
 *
 *   DORY_STEPS  0: none, the accumulator with its bias is the output; 1 or 2
 *   DORY_SHIFT  of the first step. 32 costs nothing: the upper half of a 64-bit product
 *   DORY_CLIP   DORY_UNSIGNED: [0, 2^DORY_CLIP_BITS - 1]; DORY_SIGNED: those of a signed number of
 *               DORY_CLIP_BITS bits; DORY_BOUNDS: lo and hi; DORY_NONE
 *   DORY_TURNED an offset is added to the accumulator, and then to the product of the first step
 *               DORY_BELOW: `more` where that is negative; DORY_ABOVE: `more`, which is not negative
 *               itself, where that is not. Both are of the channel. 0: nothing of that
 *   DORY_SHIFTED  1: the channel has a further shift
 *   DORY_BINARY32  1: the step has the roundings of binary32
 *   DORY_CLIP2  1: the second step has bounds
 *
 * The generator proves that all of it has the result of the network's own parameters for every
 * accumulator that can occur. */
#define DORY_UNSIGNED 1
#define DORY_SIGNED 2
#define DORY_BOUNDS 3
#define DORY_NONE 4
#define DORY_BELOW 1
#define DORY_ABOVE 2

static inline int32_t dory_bounded(int32_t value, int32_t lo, int32_t hi)
{
  return value < lo ? lo : value > hi ? hi : value;
}

static inline int32_t dory_line(int32_t value, const dory_stm32h7_line_t *line)
{
  return (int32_t)(((int64_t)value * line->mul + line->add) >> line->shift);
}

#if DORY_STEPS == 0

/* The bias of a channel. */
typedef int32_t dory_channel_t;

static inline dory_channel_t dory_channel(const dory_stm32h7_requant_t *q, int32_t c)
{
  return q->bias == 0 ? 0 : q->bias[c];
}

/* The parameters of channels from `first` on, as a copy: stores of bytes could change anything that
 * is reached by a pointer. */
static inline dory_stm32h7_requant_t dory_requant_from(const dory_stm32h7_requant_t *q,
                                                       int32_t first)
{
  dory_stm32h7_requant_t from = *q;
  from.bias = q->bias == 0 ? 0 : q->bias + first;
  return from;
}

static inline int32_t dory_requant(const dory_stm32h7_requant_t *q, dory_channel_t bias,
                                   int32_t acc)
{
  (void)q;
  return (int32_t)((uint32_t)acc + (uint32_t)bias);
}

#else

#if DORY_BINARY32

#include "dory_stm32h7_binary32_impl.h"

#define DORY_RECORD 3 /* words */

typedef struct {
  float mul;
  int32_t zero, offset;
} dory_channel_t;

static inline dory_channel_t dory_channel(const dory_stm32h7_requant_t *q, int32_t c)
{
  const int32_t *const record = q->channels + DORY_RECORD * c;
  dory_channel_t channel = {.zero = record[1], .offset = record[2]};
  dory_copy4(&channel.mul, record);
  return channel;
}

static inline int32_t dory_value(dory_channel_t channel, int32_t acc)
{
  return dory_even(dory_real((float)(acc + channel.offset) * channel.mul)) + channel.zero;
}

#else

#define DORY_RECORD (3 + (DORY_TURNED ? 2 : 0) + DORY_SHIFTED) /* words */

typedef struct {
  int32_t mul;
  int64_t add;
#if DORY_TURNED
  int32_t offset, more;
#endif
#if DORY_SHIFTED
  int32_t beyond;
#endif
} dory_channel_t;

static inline dory_channel_t dory_channel(const dory_stm32h7_requant_t *q, int32_t c)
{
  const int32_t *const record = q->channels + DORY_RECORD * c;
  const dory_channel_t channel = {
    .mul = record[0],
    .add = (int64_t)((uint64_t)(uint32_t)record[2] << 32 | (uint32_t)record[1]),
#if DORY_TURNED
    .offset = record[3],
    .more = record[4],
#endif
#if DORY_SHIFTED
    .beyond = record[DORY_RECORD - 1],
#endif
  };
  return channel;
}

static inline int32_t dory_value(dory_channel_t channel, int32_t acc)
{
#if DORY_TURNED
  const int32_t x = acc + channel.offset;
#if DORY_TURNED == DORY_ABOVE
  const int64_t add = channel.add + (uint32_t)(channel.more & ~(x >> 31));
#else
  const int64_t add = channel.add + (channel.more & (x >> 31));
#endif
#else
  const int32_t x = acc;
  const int64_t add = channel.add;
#endif
#if DORY_SHIFTED
  return (int32_t)(((int64_t)x * channel.mul + add) >> DORY_SHIFT) >> channel.beyond;
#else
  return (int32_t)(((int64_t)x * channel.mul + add) >> DORY_SHIFT);
#endif
}

#endif

static inline dory_stm32h7_requant_t dory_requant_from(const dory_stm32h7_requant_t *q,
                                                       int32_t first)
{
  dory_stm32h7_requant_t from = *q;
  from.channels = q->channels + DORY_RECORD * first;
  return from;
}

static inline int32_t dory_requant(const dory_stm32h7_requant_t *q, dory_channel_t channel,
                                   int32_t acc)
{
  DORY_KEEP(acc);
  const int32_t value = dory_value(channel, acc);
#if DORY_CLIP == DORY_UNSIGNED
  const int32_t first = dory_usat(value, DORY_CLIP_BITS);
#elif DORY_CLIP == DORY_SIGNED
  const int32_t first = dory_ssat(value, DORY_CLIP_BITS);
#elif DORY_CLIP == DORY_BOUNDS
  const int32_t first = dory_bounded(value, q->lo, q->hi);
#else
  const int32_t first = value;
#endif
#if DORY_STEPS == 1
  (void)q;
  return first;
#else
  const int32_t second = dory_line(first, &q->next);
#if DORY_CLIP2
  return dory_bounded(second, q->next.lo, q->next.hi);
#else
  return second;
#endif
#endif
}

#endif
