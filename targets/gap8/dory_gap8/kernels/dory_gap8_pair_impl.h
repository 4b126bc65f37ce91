/* Functions of two operands: template of the kernel DORY_KERNEL.
 *
 *   DORY_PAIR        DORY_PAIR_ADD, _MUL, _MAXIMUM, _MINIMUM: what becomes of what they contribute
 *   DORY_X_T, DORY_X2_T, DORY_Y_T   elements of both operands and of the output
 *   DORY_FORM1, DORY_FORM2   what an element v contributes:
 *     DORY_PLAIN       v
 *     DORY_LINEAR      v * mul + add, within 32 bits; a record is mul, add
 *     DORY_TABLE       an entry of 256, indexed by the bits of a byte
 *     DORY_SHIFTED     clip((v * mul + add) >> shift), in 64 bits; a record is mul and both words of
 *                      add, the lower first
 *     DORY_WORD        v, a constant behind its step
 *   DORY_CHANNELS1, DORY_CHANNELS2   whether each channel has a record; otherwise there is one
 *   DORY_FITS1, DORY_FITS2   whether 32 bits of a shifted one are left without a clip, and the shift is
 *                            below 32
 *   DORY_ONE_CHANNEL whether the second operand has one element for all channels of a pixel
 *   DORY_PIXEL_CHANNELS   cycles of a pixel beside its channels, in channels
 *
 * and by dory_gap8_requant_impl.h. Elements are loaded one by one: to take four of them out of a
 * word needs as many instructions as to load them.
 */
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

#define DORY_PAIR_ADD 0
#define DORY_PAIR_MUL 1
#define DORY_PAIR_MAXIMUM 2
#define DORY_PAIR_MINIMUM 3

#define DORY_PLAIN 0
#define DORY_LINEAR 1
#define DORY_TABLE 2
#define DORY_SHIFTED 3
#define DORY_WORD 4

/* Words of a record. */
#define DORY_RECORD(form) ((form) == DORY_SHIFTED ? 3 : 2)

/* What an element contributes. v: its value; bits: those of a byte. */
static inline int32_t dory_contribution(int32_t v, uint8_t bits, int form, int fits,
                                        const int32_t *record, const dory_gap8_operand_t *o) {
  if (form == DORY_LINEAR) {
    return (int32_t)((uint32_t)v * (uint32_t)record[0] + (uint32_t)record[1]);
  }
  if (form == DORY_TABLE) {
    return record[bits];
  }
  if (form == DORY_SHIFTED) {
    const int64_t add = (int64_t)((uint64_t)(uint32_t)record[2] << 32 | (uint32_t)record[1]);
    const int64_t sum = (int64_t)v * record[0] + add;
    if (fits) {
      const uint32_t low = (uint32_t)sum, high = (uint32_t)((uint64_t)sum >> 32);
      return (int32_t)(high << 1 << (31 - o->shift) | low >> o->shift);
    }
    const int64_t moved = sum >> o->shift;
    return moved < o->lo ? o->lo : moved > o->hi ? o->hi : (int32_t)moved;
  }
  return v;
}

static inline int32_t dory_pair(int32_t a, int32_t b) {
#if DORY_PAIR == DORY_PAIR_ADD
  return a + b;
#elif DORY_PAIR == DORY_PAIR_MUL
  return a * b;
#elif DORY_PAIR == DORY_PAIR_MAXIMUM
  return dory_gap8_max(a, b);
#else
  return dory_gap8_min(a, b);
#endif
}

/* Channels c0 .. c1 - 1 of one pixel. */
static inline void dory_pair_pixel(const dory_gap8_pair_t *a, const DORY_X_T *x,
                                   const DORY_X2_T *x2, DORY_Y_T *y, int32_t c0, int32_t c1) {
  const dory_gap8_requant_t *const requant = &a->requant;
  const int32_t *const records1 = a->operand[0].records, *const records2 = a->operand[1].records;
#if DORY_STEPS > 0 && !DORY_PER_CHANNEL
  const dory_parameters_t all = dory_parameters(0, requant);
#endif
#if DORY_ONE_CHANNEL && !DORY_CHANNELS2
  const int32_t shared =
      dory_contribution((int32_t)*x2, (uint8_t)*x2, DORY_FORM2, DORY_FITS2, records2,
                        &a->operand[1]);
#endif
  for (int32_t c = c0; c < c1; c++) {
    const DORY_X_T v = x[c];
    const int32_t first =
        dory_contribution((int32_t)v, (uint8_t)v, DORY_FORM1, DORY_FITS1,
                          records1 + (DORY_CHANNELS1 ? c * DORY_RECORD(DORY_FORM1) : 0),
                          &a->operand[0]);
#if DORY_ONE_CHANNEL && !DORY_CHANNELS2
    const int32_t second = shared;
#else
    const DORY_X2_T w = x2[DORY_ONE_CHANNEL ? 0 : c];
    const int32_t second =
        dory_contribution((int32_t)w, (uint8_t)w, DORY_FORM2, DORY_FITS2,
                          records2 + (DORY_CHANNELS2 ? c * DORY_RECORD(DORY_FORM2) : 0),
                          &a->operand[1]);
#endif
    const int32_t acc = dory_pair(first, second);
#if DORY_STEPS == 0
    (void)requant;
    y[c] = (DORY_Y_T)acc;
#elif DORY_PER_CHANNEL
    const dory_parameters_t own = dory_parameters(c, requant);
    y[c] = dory_apply(acc, &own, requant);
#else
    y[c] = dory_apply(acc, &all, requant);
#endif
  }
}

/* Computes one tile. Every core calls it and takes its part of pixels and of channels. */
void DORY_KERNEL(const dory_gap8_pair_t *a) {
  const int32_t channels = a->channels, y_w = a->y_w;
  const dory_gap8_work_t work =
      dory_gap8_share_units(a->pixels, 1, channels, 4, DORY_PIXEL_CHANNELS);
  const DORY_X_T *x = (const DORY_X_T *)a->x + work.pixels.first * channels;
  const DORY_X2_T *const x2 = (const DORY_X2_T *)a->x2 + a->first;
  DORY_Y_T *y = (DORY_Y_T *)a->y + work.pixels.first * channels;
  int32_t row = work.pixels.first / y_w;
  int32_t column = work.pixels.first - row * y_w;
  for (int32_t pixel = work.pixels.first; pixel < work.pixels.end; pixel++) {
    dory_pair_pixel(a, x, x2 + (row * a->row + column * a->column), y, work.channels.first,
                    work.channels.end);
    x += channels;
    y += channels;
    if (++column == y_w) {
      column = 0;
      row++;
    }
  }
}
