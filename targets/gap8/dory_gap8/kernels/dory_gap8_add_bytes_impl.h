/* Sum of two tensors of bytes: template of the kernel DORY_KERNEL.
 *
 *   DORY_ADD_FORM    DORY_ADD_DOT      v = x * mul + x2 * mul2, multipliers 0 .. 255: shuffled
 *                                      together, two operands are one dot product
 *                    DORY_ADD_PRODUCTS v = x * mul + x2 * mul2, any multipliers
 *                    DORY_ADD_TABLES   v = table[x] + table2[x2]: whatever requantisation an
 *                                      operand has, for a byte it is a table of 256 entries
 *                    DORY_ADD_HALVES   v = x + x2 of unsigned bytes, stored in two halves: of four
 *                                      elements floor(v / 2), then v minus that; nothing follows
 *   DORY_ADD_FINISH  DORY_ADD_SHIFT    clip((v + add) >> shift), from 0 or -hi - 1 to hi
 *                    DORY_ADD_LOOKUP   lookup[(v + add) >> shift]: all that follows the sum, as a
 *                                      table of bytes, to be stored as bytes
 *                    DORY_ADD_STORE    v + add
 *   DORY_ADD_MOVED   whether add or shift is not 0
 *   DORY_ADD_BYTES   whether an entry of the operands' tables is a signed byte, not a word
 *   DORY_X_T, DORY_X2_T, DORY_Y_T, DORY_Y_BYTES   elements and the size of an output
 *   DORY_X_SIGNED, DORY_X2_SIGNED   whether an operand is signed; those of DORY_ADD_DOT are alike
 *   DORY_Y_SIGNED    whether a shift is followed by a signed clip
 *   DORY_CORES       cores that call it
 *
 * Tables lie in this order: table, table2, lookup. The first two are indexed by the bits of a byte and
 * have DORY_ADD_GAP bytes behind them: otherwise equal entries, such as those of 0, which most
 * elements have, would lie in one bank of L1, for which all cores would wait.
 */
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

#define DORY_ADD_DOT 0
#define DORY_ADD_TABLES 1
#define DORY_ADD_HALVES 2
#define DORY_ADD_PRODUCTS 3
#define DORY_ADD_GAP 24
#define DORY_ADD_SHIFT 0
#define DORY_ADD_LOOKUP 1
#define DORY_ADD_STORE 2

#if DORY_ADD_BYTES
typedef int8_t dory_entry_t;
#else
typedef int32_t dory_entry_t;
#endif

#if DORY_ADD_FORM == DORY_ADD_HALVES

/* Computes one tile, whose elements are a multiple of four. Every core calls it and takes its part. */
void DORY_KERNEL(const dory_gap8_add_bytes_t *a) {
  const dory_gap8_range_t part =
      dory_gap8_part(a->elements, 4, DORY_CORES, (int32_t)dory_core_id());
  const uint8_t *x = (const uint8_t *)a->x + part.first, *x2 = (const uint8_t *)a->x2 + part.first;
  uint8_t *y = (uint8_t *)a->y + 2 * part.first;
  for (int32_t fours = (part.end - part.first) >> 2; fours > 0; fours--) {
    const uint32_t first = dory_gap8_to_word_u8(dory_gap8_load4_u8(x));
    const uint32_t second = dory_gap8_to_word_u8(dory_gap8_load4_u8(x2));
    /* Half of what the bytes share, and of that in which they differ: no byte carries into another. */
    const uint32_t differ = first ^ second;
    const uint32_t half = (first & second) + ((differ & 0xfefefefeu) >> 1);
    dory_gap8_store4_u8(y, dory_gap8_from_word_u8(half));
    dory_gap8_store4_u8(y + 4, dory_gap8_from_word_u8(half + (differ & 0x01010101u)));
    x += 4;
    x2 += 4;
    y += 8;
  }
}

#else

/* What is the same for all elements, in registers. */
typedef struct {
#if DORY_ADD_FORM == DORY_ADD_DOT
  dory_gap8_u8x4_t first, second; /* multipliers of the first and of the second pair of bytes */
  dory_gap8_i8x4_t low, high;     /* how pairs of elements 0 and 1, of 2 and 3 are shuffled */
#elif DORY_ADD_FORM == DORY_ADD_PRODUCTS
  int32_t mul, mul2;
#else
  const dory_entry_t *table, *table2;
#endif
  const int8_t *lookup;
  int32_t add, shift, hi;
} dory_add_t;

static inline DORY_Y_T dory_add_finish(const dory_add_t *k, int32_t v) {
#if DORY_ADD_FINISH == DORY_ADD_STORE
  return (DORY_Y_T)(v + k->add);
#else
#if DORY_ADD_MOVED
  v = dory_gap8_add_shift(v, k->add, k->shift);
#endif
#if DORY_ADD_FINISH == DORY_ADD_LOOKUP
  return (DORY_Y_T)dory_gap8_lookup_i8(k->lookup, v);
#elif DORY_Y_SIGNED
  return (DORY_Y_T)dory_gap8_clip_signed(v, k->hi);
#else
  return (DORY_Y_T)dory_gap8_clip_unsigned(v, k->hi);
#endif
#endif
}

#if DORY_ADD_FORM == DORY_ADD_DOT

#if DORY_X_SIGNED
typedef dory_gap8_i8x4_t dory_four_t;
#define DORY_LOAD_FOUR dory_gap8_load4_i8
#define DORY_PAIRS dory_gap8_shuffle4_i8
#define DORY_PAIR(pairs, mul) dory_gap8_dot4z_u8(mul, pairs)
#else
typedef dory_gap8_u8x4_t dory_four_t;
#define DORY_LOAD_FOUR dory_gap8_load4_u8
#define DORY_PAIRS dory_gap8_shuffle4_u8
#define DORY_PAIR(pairs, mul) dory_gap8_dot4uuz(pairs, mul)
#endif

/* The sums of four elements. */
static inline void dory_add_four(const dory_add_t *k, const void *x, const void *x2, int32_t *v) {
  const dory_four_t a = DORY_LOAD_FOUR(x), b = DORY_LOAD_FOUR(x2);
  const dory_four_t low = DORY_PAIRS(a, b, k->low);
  const dory_four_t high = DORY_PAIRS(a, b, k->high);
  v[0] = DORY_PAIR(low, k->first);
  v[1] = DORY_PAIR(low, k->second);
  v[2] = DORY_PAIR(high, k->first);
  v[3] = DORY_PAIR(high, k->second);
}

#elif DORY_ADD_FORM == DORY_ADD_PRODUCTS

#if DORY_X_SIGNED
#define DORY_FIRST(four, i) dory_gap8_get4_i8(four, i)
#define DORY_LOAD_FIRST dory_gap8_load4_i8
typedef dory_gap8_i8x4_t dory_first_t;
#else
#define DORY_FIRST(four, i) dory_gap8_get4_u8(four, i)
#define DORY_LOAD_FIRST dory_gap8_load4_u8
typedef dory_gap8_u8x4_t dory_first_t;
#endif
#if DORY_X2_SIGNED
#define DORY_SECOND(four, i) dory_gap8_get4_i8(four, i)
#define DORY_LOAD_SECOND dory_gap8_load4_i8
typedef dory_gap8_i8x4_t dory_second_t;
#else
#define DORY_SECOND(four, i) dory_gap8_get4_u8(four, i)
#define DORY_LOAD_SECOND dory_gap8_load4_u8
typedef dory_gap8_u8x4_t dory_second_t;
#endif

/* The sums of four elements, which 32 bits hold. */
static inline void dory_add_four(const dory_add_t *k, const void *x, const void *x2, int32_t *v) {
  const dory_first_t a = DORY_LOAD_FIRST(x);
  const dory_second_t b = DORY_LOAD_SECOND(x2);
  v[0] = DORY_FIRST(a, 0) * k->mul + DORY_SECOND(b, 0) * k->mul2;
  v[1] = DORY_FIRST(a, 1) * k->mul + DORY_SECOND(b, 1) * k->mul2;
  v[2] = DORY_FIRST(a, 2) * k->mul + DORY_SECOND(b, 2) * k->mul2;
  v[3] = DORY_FIRST(a, 3) * k->mul + DORY_SECOND(b, 3) * k->mul2;
}

#else

#if DORY_ADD_BYTES
#define DORY_ENTRY(table, i) dory_gap8_lookup_i8(table, i)
#else
#define DORY_ENTRY(table, i) (table)[i]
#endif

static inline void dory_add_four(const dory_add_t *k, const void *x, const void *x2, int32_t *v) {
  const dory_gap8_u8x4_t a = dory_gap8_load4_u8(x), b = dory_gap8_load4_u8(x2);
  const int32_t a0 = DORY_ENTRY(k->table, dory_gap8_get4_u8(a, 0));
  const int32_t b0 = DORY_ENTRY(k->table2, dory_gap8_get4_u8(b, 0));
  const int32_t a1 = DORY_ENTRY(k->table, dory_gap8_get4_u8(a, 1));
  const int32_t b1 = DORY_ENTRY(k->table2, dory_gap8_get4_u8(b, 1));
  const int32_t a2 = DORY_ENTRY(k->table, dory_gap8_get4_u8(a, 2));
  const int32_t b2 = DORY_ENTRY(k->table2, dory_gap8_get4_u8(b, 2));
  const int32_t a3 = DORY_ENTRY(k->table, dory_gap8_get4_u8(a, 3));
  const int32_t b3 = DORY_ENTRY(k->table2, dory_gap8_get4_u8(b, 3));
  v[0] = a0 + b0;
  v[1] = a1 + b1;
  v[2] = a2 + b2;
  v[3] = a3 + b3;
}

#endif

/* Computes one tile. Every core calls it and takes its part of the elements. */
void DORY_KERNEL(const dory_gap8_add_bytes_t *a) {
  const dory_gap8_range_t part =
      dory_gap8_part(a->elements, 4, DORY_CORES, (int32_t)dory_core_id());
  const DORY_X_T *x = (const DORY_X_T *)a->x + part.first;
  const DORY_X2_T *x2 = (const DORY_X2_T *)a->x2 + part.first;
  DORY_Y_T *y = (DORY_Y_T *)a->y + part.first;
  const int32_t fours = (part.end - part.first) >> 2, rest = (part.end - part.first) & 3;
  dory_add_t k;
#if DORY_ADD_FORM == DORY_ADD_DOT
  k.first = dory_gap8_from_word_u8((uint32_t)(a->mul | a->mul2 << 8));
  k.second = dory_gap8_from_word_u8((uint32_t)(a->mul | a->mul2 << 8) << 16);
  k.low = dory_gap8_from_word_i8(dory_gap8_keep(0x05010400));
  k.high = dory_gap8_from_word_i8(dory_gap8_keep(0x07030602));
  k.lookup = a->tables;
#elif DORY_ADD_FORM == DORY_ADD_PRODUCTS
  k.mul = a->mul;
  k.mul2 = a->mul2;
  k.lookup = a->tables;
#else
  k.table = a->tables;
  k.table2 = k.table + 256 + DORY_ADD_GAP / (int32_t)sizeof(dory_entry_t);
  k.lookup = (const void *)(k.table2 + 256 + DORY_ADD_GAP / (int32_t)sizeof(dory_entry_t));
#endif
  k.add = a->add;
  k.shift = a->shift;
  k.hi = a->hi;
  for (int32_t i = 0; i < fours; i++) {
    int32_t v[4];
    dory_add_four(&k, x, x2, v);
#if DORY_Y_BYTES == 1
    dory_gap8_store4_i8(y, dory_gap8_set4_i8(dory_add_finish(&k, v[0]), dory_add_finish(&k, v[1]),
                                             dory_add_finish(&k, v[2]), dory_add_finish(&k, v[3])));
#else
    y[0] = dory_add_finish(&k, v[0]);
    y[1] = dory_add_finish(&k, v[1]);
    y[2] = dory_add_finish(&k, v[2]);
    y[3] = dory_add_finish(&k, v[3]);
#endif
    x += 4;
    x2 += 4;
    y += 4;
  }
  for (int32_t i = 0; i < rest; i++) {
#if DORY_ADD_FORM != DORY_ADD_TABLES
    const int32_t v = x[i] * a->mul + x2[i] * a->mul2;
#else
    const int32_t v = k.table[(uint8_t)x[i]] + k.table2[(uint8_t)x2[i]];
#endif
    y[i] = dory_add_finish(&k, v);
  }
}

#endif
