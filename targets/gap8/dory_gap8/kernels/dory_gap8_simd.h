/* Operations on four elements at once, and the few scalar ones that have an instruction.
 *
 * Everything that a compiler for XpulpV2 offers a builtin for stands here and nowhere else, twice:
 * with the builtins where the compiler is one of the chip's, and in portable C with identical
 * results. What is proven with the portable form on a PC is what the chip computes.
 *
 * On the chip a vector of four bytes is a 32-bit register. An address that is no multiple of 4
 * works everywhere, but costs the chip a cycle more.
 *
 * Conversions to a narrower signed type keep the low bits, as every compiler of this target does.
 */
#ifndef DORY_GAP8_SIMD_H
#define DORY_GAP8_SIMD_H

#include <stdint.h>
#include <string.h>

/* Whether the builtins are used; -DDORY_GAP8_XPULPV2=0 compiles the portable form for the chip. */
#ifndef DORY_GAP8_XPULPV2
#ifdef __riscv
#define DORY_GAP8_XPULPV2 1
#else
#define DORY_GAP8_XPULPV2 0
#endif
#endif

/* For functions that are called in several places and must not fill the instruction cache: it has
 * 4 KB for all cores. */
#ifdef __GNUC__
#define DORY_GAP8_NOINLINE __attribute__((noinline))
#else
#define DORY_GAP8_NOINLINE
#endif

/* For arrays that are read and written by words, too, with the functions below. */
#ifdef __GNUC__
#define DORY_GAP8_WORDS __attribute__((aligned(4)))
#else
#define DORY_GAP8_WORDS
#endif

/* Four neighbouring elements of 8 bits:
 *
 *   dory_gap8_load4_<type>, dory_gap8_store4_<type>   in memory
 *   dory_gap8_set4_<type>(a, b, c, d)     of four numbers, whose low bits are taken
 *   dory_gap8_get4_<type>(v, i)           element i
 *   dory_gap8_dot4_<type>(x, w, acc)      acc plus the dot product of inputs and signed weights
 *   dory_gap8_dot4z_<type>(x, w)          the dot product alone
 *   dory_gap8_max4_<type>(a, b)           the greater of each two
 *   dory_gap8_shuffle4_<type>(a, b, m)    element i is number m[i] of a0 .. a3, b0 .. b3
 *   dory_gap8_from_word_<type>(w), dory_gap8_to_word_<type>(v)   element 0 in the low bits
 *
 * dory_gap8_order4(a, b, c, d), four constants of type i8 for a shuffle; dory_gap8_low4_u8(a, b),
 * a0 a1 b0 b1;
 * and dory_gap8_dot4uu, dory_gap8_dot4uuz for inputs and weights that are both unsigned. */
#if DORY_GAP8_XPULPV2

typedef uint8_t dory_gap8_u8x4_t __attribute__((vector_size(4), may_alias));
typedef int8_t dory_gap8_i8x4_t __attribute__((vector_size(4), may_alias));

/* The compiler would load such a constant from the memory of the code, were it to know it. */
static inline dory_gap8_i8x4_t dory_gap8_order4(int a, int b, int c, int d) {
  int32_t word = d << 24 | c << 16 | b << 8 | a;
  __asm__("" : "+r"(word));
  return (dory_gap8_i8x4_t)word;
}

static inline dory_gap8_u8x4_t dory_gap8_low4_u8(dory_gap8_u8x4_t a, dory_gap8_u8x4_t b) {
  dory_gap8_u8x4_t v;
  __asm__("pv.pack.h %0, %1, %2" : "=r"(v) : "r"(b), "r"(a));
  return v;
}

#define DORY_GAP8_FOUR(type, name, dot, dotz, max)                                            \
  static inline type dory_gap8_load4_##name(const void *p) {                                  \
    return *(const type *)p;                                                                  \
  }                                                                                           \
  static inline void dory_gap8_store4_##name(void *p, type v) {                               \
    *(type *)p = v;                                                                           \
  }                                                                                           \
  static inline type dory_gap8_set4_##name(int32_t a, int32_t b, int32_t c, int32_t d) {      \
    return (type)__builtin_pulp_pack4(a, b, c, d);                                            \
  }                                                                                           \
  static inline int32_t dory_gap8_get4_##name(type v, int i) {                                \
    return v[i];                                                                              \
  }                                                                                           \
  static inline int32_t dory_gap8_dot4_##name(type x, dory_gap8_i8x4_t w, int32_t acc) {      \
    return dot(x, w, acc);                                                                    \
  }                                                                                           \
  static inline int32_t dory_gap8_dot4z_##name(type x, dory_gap8_i8x4_t w) {                  \
    return dotz(x, w);                                                                        \
  }                                                                                           \
  static inline type dory_gap8_max4_##name(type a, type b) {                                  \
    return max(a, b);                                                                         \
  }                                                                                           \
  static inline type dory_gap8_shuffle4_##name(type a, type b, dory_gap8_i8x4_t m) {          \
    return __builtin_shuffle(a, b, m);                                                        \
  }                                                                                           \
  static inline type dory_gap8_from_word_##name(uint32_t w) {                                 \
    return (type)w;                                                                           \
  }                                                                                           \
  static inline uint32_t dory_gap8_to_word_##name(type v) {                                   \
    return (uint32_t)v;                                                                       \
  }

DORY_GAP8_FOUR(dory_gap8_u8x4_t, u8, __builtin_pulp_sdotusp4, __builtin_pulp_dotusp4,
               __builtin_pulp_maxu4)
DORY_GAP8_FOUR(dory_gap8_i8x4_t, i8, __builtin_pulp_sdotsp4, __builtin_pulp_dotsp4,
               __builtin_pulp_max4)

static inline int32_t dory_gap8_dot4uu(dory_gap8_u8x4_t a, dory_gap8_u8x4_t b, int32_t acc) {
  return (int32_t)__builtin_pulp_sdotup4(a, b, (uint32_t)acc);
}
static inline int32_t dory_gap8_dot4uuz(dory_gap8_u8x4_t a, dory_gap8_u8x4_t b) {
  return (int32_t)__builtin_pulp_dotup4(a, b);
}

/* The value of 0 .. 255 and of -128 .. 127 that is nearest to v. */
static inline int32_t dory_gap8_clip_u8(int32_t v) {
  return __builtin_pulp_clipu_r(v, 255);
}
static inline int32_t dory_gap8_clip_i8(int32_t v) {
  return __builtin_pulp_clip_r(v, 127);
}

/* The value of 0 .. hi and of -hi - 1 .. hi that is nearest to v; hi >= 0. */
static inline int32_t dory_gap8_clip_unsigned(int32_t v, int32_t hi) {
  return __builtin_pulp_clipu_r(v, hi);
}
static inline int32_t dory_gap8_clip_signed(int32_t v, int32_t hi) {
  return __builtin_pulp_clip_r(v, hi);
}

/* The four bytes of a word, each shifted by n bits of 0 .. 7, filled with zeros or with its sign; and
 * each byte's bits that are set in `mask`, of -32 .. 31 best. */
static inline uint32_t dory_gap8_bytes_sll(uint32_t w, int n) {
  const dory_gap8_u8x4_t by = {(uint8_t)n, (uint8_t)n, (uint8_t)n, (uint8_t)n};
  return (uint32_t)((dory_gap8_u8x4_t)w << by);
}
static inline uint32_t dory_gap8_bytes_srl(uint32_t w, int n) {
  const dory_gap8_u8x4_t by = {(uint8_t)n, (uint8_t)n, (uint8_t)n, (uint8_t)n};
  return (uint32_t)((dory_gap8_u8x4_t)w >> by);
}
static inline uint32_t dory_gap8_bytes_sra(uint32_t w, int n) {
  const dory_gap8_i8x4_t by = {(int8_t)n, (int8_t)n, (int8_t)n, (int8_t)n};
  return (uint32_t)((dory_gap8_i8x4_t)w >> by);
}
static inline uint32_t dory_gap8_bytes_and(uint32_t w, int mask) {
  const dory_gap8_i8x4_t m = {(int8_t)mask, (int8_t)mask, (int8_t)mask, (int8_t)mask};
  return (uint32_t)((dory_gap8_i8x4_t)w & m);
}

#else

typedef struct {
  uint8_t e[4];
} dory_gap8_u8x4_t;
typedef struct {
  int8_t e[4];
} dory_gap8_i8x4_t;

static inline dory_gap8_i8x4_t dory_gap8_order4(int a, int b, int c, int d) {
  const dory_gap8_i8x4_t order = {{(int8_t)a, (int8_t)b, (int8_t)c, (int8_t)d}};
  return order;
}

static inline dory_gap8_u8x4_t dory_gap8_low4_u8(dory_gap8_u8x4_t a, dory_gap8_u8x4_t b) {
  const dory_gap8_u8x4_t v = {{a.e[0], a.e[1], b.e[0], b.e[1]}};
  return v;
}

#define DORY_GAP8_FOUR(type, element, name)                                                   \
  static inline type dory_gap8_load4_##name(const void *p) {                                  \
    type v;                                                                                   \
    memcpy(&v, p, sizeof v);                                                                  \
    return v;                                                                                 \
  }                                                                                           \
  static inline void dory_gap8_store4_##name(void *p, type v) {                               \
    memcpy(p, &v, sizeof v);                                                                  \
  }                                                                                           \
  static inline type dory_gap8_set4_##name(int32_t a, int32_t b, int32_t c, int32_t d) {      \
    const type v = {{(element)a, (element)b, (element)c, (element)d}};                        \
    return v;                                                                                 \
  }                                                                                           \
  static inline int32_t dory_gap8_get4_##name(type v, int i) {                                \
    return v.e[i];                                                                            \
  }                                                                                           \
  static inline int32_t dory_gap8_dot4z_##name(type x, dory_gap8_i8x4_t w) {                  \
    return x.e[0] * w.e[0] + x.e[1] * w.e[1] + x.e[2] * w.e[2] + x.e[3] * w.e[3];             \
  }                                                                                           \
  static inline int32_t dory_gap8_dot4_##name(type x, dory_gap8_i8x4_t w, int32_t acc) {      \
    return acc + dory_gap8_dot4z_##name(x, w);                                                \
  }                                                                                           \
  static inline type dory_gap8_max4_##name(type a, type b) {                                  \
    const type v = {{a.e[0] > b.e[0] ? a.e[0] : b.e[0], a.e[1] > b.e[1] ? a.e[1] : b.e[1],    \
                     a.e[2] > b.e[2] ? a.e[2] : b.e[2], a.e[3] > b.e[3] ? a.e[3] : b.e[3]}};  \
    return v;                                                                                 \
  }                                                                                           \
  static inline type dory_gap8_shuffle4_##name(type a, type b, dory_gap8_i8x4_t m) {          \
    type v;                                                                                   \
    for (int i = 0; i < 4; i++) {                                                             \
      const int n = m.e[i] & 7;                                                               \
      v.e[i] = n < 4 ? a.e[n] : b.e[n - 4];                                                   \
    }                                                                                         \
    return v;                                                                                 \
  }                                                                                           \
  static inline type dory_gap8_from_word_##name(uint32_t w) {                                 \
    const type v = {{(element)w, (element)(w >> 8), (element)(w >> 16), (element)(w >> 24)}}; \
    return v;                                                                                 \
  }                                                                                           \
  static inline uint32_t dory_gap8_to_word_##name(type v) {                                   \
    return (uint32_t)(uint8_t)v.e[0] | (uint32_t)(uint8_t)v.e[1] << 8 |                       \
           (uint32_t)(uint8_t)v.e[2] << 16 | (uint32_t)(uint8_t)v.e[3] << 24;                 \
  }

DORY_GAP8_FOUR(dory_gap8_u8x4_t, uint8_t, u8)
DORY_GAP8_FOUR(dory_gap8_i8x4_t, int8_t, i8)

static inline int32_t dory_gap8_dot4uu(dory_gap8_u8x4_t a, dory_gap8_u8x4_t b, int32_t acc) {
  return acc + (a.e[0] * b.e[0] + a.e[1] * b.e[1] + a.e[2] * b.e[2] + a.e[3] * b.e[3]);
}
static inline int32_t dory_gap8_dot4uuz(dory_gap8_u8x4_t a, dory_gap8_u8x4_t b) {
  return dory_gap8_dot4uu(a, b, 0);
}

static inline int32_t dory_gap8_clip_u8(int32_t v) {
  return v < 0 ? 0 : v > 255 ? 255 : v;
}
static inline int32_t dory_gap8_clip_i8(int32_t v) {
  return v < -128 ? -128 : v > 127 ? 127 : v;
}

static inline int32_t dory_gap8_clip_unsigned(int32_t v, int32_t hi) {
  return v < 0 ? 0 : v > hi ? hi : v;
}
static inline int32_t dory_gap8_clip_signed(int32_t v, int32_t hi) {
  return v < -hi - 1 ? -hi - 1 : v > hi ? hi : v;
}

static inline uint32_t dory_gap8_bytes_and(uint32_t w, int mask) {
  return w & (0x01010101u * (uint8_t)mask);
}
static inline uint32_t dory_gap8_bytes_sll(uint32_t w, int n) {
  return dory_gap8_bytes_and(w << n, 0xff << n);
}
static inline uint32_t dory_gap8_bytes_srl(uint32_t w, int n) {
  return dory_gap8_bytes_and(w >> n, 0xff >> n);
}
static inline uint32_t dory_gap8_bytes_sra(uint32_t w, int n) {
  const uint32_t signs = (w >> 7) & 0x01010101u;
  return dory_gap8_bytes_srl(w, n) | signs * (0xffu & ~(0xffu >> n));
}

#endif

/* Four neighbouring elements of 16 bits, for which the chip has no operation with 8-bit weights: in
 * registers, which compilers do not do with arrays. */
typedef struct {
  uint16_t a, b, c, d;
} dory_gap8_u16x4_t;
typedef struct {
  int16_t a, b, c, d;
} dory_gap8_i16x4_t;

#define DORY_GAP8_FOUR_WIDE(type, name)                                                       \
  static inline type dory_gap8_load4_##name(const void *p) {                                  \
    const uint8_t *const from = p;                                                            \
    type v;                                                                                   \
    memcpy(&v.a, from, sizeof v.a);                                                           \
    memcpy(&v.b, from + 2, sizeof v.b);                                                       \
    memcpy(&v.c, from + 4, sizeof v.c);                                                       \
    memcpy(&v.d, from + 6, sizeof v.d);                                                       \
    return v;                                                                                 \
  }                                                                                           \
  static inline void dory_gap8_store4_##name(void *p, type v) {                               \
    memcpy(p, &v, sizeof v);                                                                  \
  }                                                                                           \
  static inline int32_t dory_gap8_dot4_##name(type x, dory_gap8_i8x4_t w, int32_t acc) {      \
    return acc + x.a * dory_gap8_get4_i8(w, 0) + x.b * dory_gap8_get4_i8(w, 1) +              \
           x.c * dory_gap8_get4_i8(w, 2) + x.d * dory_gap8_get4_i8(w, 3);                     \
  }                                                                                           \
  static inline type dory_gap8_max4_##name(type x, type y) {                                  \
    x.a = x.a > y.a ? x.a : y.a;                                                              \
    x.b = x.b > y.b ? x.b : y.b;                                                              \
    x.c = x.c > y.c ? x.c : y.c;                                                              \
    x.d = x.d > y.d ? x.d : y.d;                                                              \
    return x;                                                                                 \
  }

DORY_GAP8_FOUR_WIDE(dory_gap8_u16x4_t, u16)
DORY_GAP8_FOUR_WIDE(dory_gap8_i16x4_t, i16)

static inline int32_t dory_gap8_min(int32_t a, int32_t b) {
  return a < b ? a : b;
}
static inline int32_t dory_gap8_max(int32_t a, int32_t b) {
  return a > b ? a : b;
}

/* table[i], addressed by two registers, where compilers add them up first. */
static inline int32_t dory_gap8_lookup_i8(const int8_t *table, int32_t i) {
#if defined(__riscv) && DORY_GAP8_XPULPV2
  int32_t v;
  __asm__ volatile("p.lb %0, %1(%2)" : "=r"(v) : "r"(i), "r"(table), "m"(*table));
  return v;
#else
  return table[i];
#endif
}

/* w, of which the compiler does not know that it is a constant: it stays in a register instead of
 * being loaded from slow memory time and again. */
static inline uint32_t dory_gap8_keep(uint32_t w) {
#if defined(__riscv) && DORY_GAP8_XPULPV2
  __asm__("" : "+r"(w));
#endif
  return w;
}

/* (v + add) >> shift: one instruction, for which compilers copy `add` first. */
static inline int32_t dory_gap8_add_shift(int32_t v, int32_t add, int32_t shift) {
#if defined(__riscv) && DORY_GAP8_XPULPV2
  __asm__("p.addNr %0, %1, %2" : "+r"(v) : "r"(add), "r"(shift));
  return v;
#else
  return (int32_t)((uint32_t)v + (uint32_t)add) >> shift;
#endif
}

/* The value of lo .. hi that is nearest to v. */
static inline int32_t dory_gap8_clip(int32_t v, int32_t lo, int32_t hi) {
  return dory_gap8_min(dory_gap8_max(v, lo), hi);
}

#endif
