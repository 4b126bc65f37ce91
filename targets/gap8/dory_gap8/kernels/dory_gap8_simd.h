/* Operations on four elements at once, and the few scalar ones that have an instruction.
 *
 * Everything that a compiler for XpulpV2 offers a builtin for stands here and nowhere else. This is
 * the portable form: any byte order of the four products gives the same sum, and memory is read
 * with memcpy, so that no address needs to be aligned.
 *
 * Conversions to a narrower signed type keep the low bits, as every compiler of this target does.
 */
#ifndef DORY_GAP8_SIMD_H
#define DORY_GAP8_SIMD_H

#include <stdint.h>
#include <string.h>

/* Four neighbouring elements of 8 and of 16 bits. */
typedef struct {
  uint8_t e[4];
} dory_gap8_u8x4_t;
typedef struct {
  int8_t e[4];
} dory_gap8_i8x4_t;
typedef struct {
  uint16_t e[4];
} dory_gap8_u16x4_t;
typedef struct {
  int16_t e[4];
} dory_gap8_i16x4_t;

#define DORY_GAP8_FOUR(type, name)                                                            \
  static inline type dory_gap8_load4_##name(const void *p) {                                  \
    type v;                                                                                   \
    memcpy(&v, p, sizeof v);                                                                  \
    return v;                                                                                 \
  }                                                                                           \
  static inline void dory_gap8_store4_##name(void *p, type v) {                               \
    memcpy(p, &v, sizeof v);                                                                  \
  }                                                                                           \
  static inline int32_t dory_gap8_dot4_##name(type x, dory_gap8_i8x4_t w, int32_t acc) {      \
    return acc + (x.e[0] * w.e[0] + x.e[1] * w.e[1] + x.e[2] * w.e[2] + x.e[3] * w.e[3]);     \
  }                                                                                           \
  static inline type dory_gap8_max4_##name(type a, type b) {                                  \
    for (int i = 0; i < 4; i++) {                                                             \
      a.e[i] = a.e[i] > b.e[i] ? a.e[i] : b.e[i];                                             \
    }                                                                                         \
    return a;                                                                                 \
  }

/* dory_gap8_load4_<type>, dory_gap8_store4_<type>: four neighbours in memory.
 * dory_gap8_dot4_<type>(x, w, acc): acc plus the dot product of four inputs and four weights.
 * dory_gap8_max4_<type>: the greater of each two. */
DORY_GAP8_FOUR(dory_gap8_u8x4_t, u8)
DORY_GAP8_FOUR(dory_gap8_i8x4_t, i8)
DORY_GAP8_FOUR(dory_gap8_u16x4_t, u16)
DORY_GAP8_FOUR(dory_gap8_i16x4_t, i16)

static inline int32_t dory_gap8_min(int32_t a, int32_t b) {
  return a < b ? a : b;
}

/* The value of lo .. hi that is nearest to v. */
static inline int32_t dory_gap8_clip(int32_t v, int32_t lo, int32_t hi) {
  v = v < lo ? lo : v;
  return v > hi ? hi : v;
}

#endif
