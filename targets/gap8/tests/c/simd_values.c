/* Prints what every operation of dory_gap8_simd.h gives for a fixed sequence of operands. */
#ifdef STUB_BUILTINS
#include "xpulpv2.h"
#endif
#include "dory_gap8_simd.h"

#include <stdio.h>

static uint32_t state = 1;

static uint32_t next(void) {
  state = state * 1664525u + 1013904223u;
  return state ^ state >> 15;
}

#define PRINT4(name, v)                                                                       \
  printf(" %d %d %d %d", (int)dory_gap8_get4_##name(v, 0), (int)dory_gap8_get4_##name(v, 1),  \
         (int)dory_gap8_get4_##name(v, 2), (int)dory_gap8_get4_##name(v, 3))

#define SHOW(name)                                                                            \
  static void show_##name(const uint8_t *a, const uint8_t *b, const uint8_t *m) {             \
    const dory_gap8_##name##x4_t va = dory_gap8_load4_##name(a);                              \
    const dory_gap8_##name##x4_t vb = dory_gap8_load4_##name(b);                              \
    const dory_gap8_i8x4_t w = dory_gap8_load4_i8(b);                                         \
    uint8_t out[4];                                                                           \
    printf("%d", (int)dory_gap8_dot4_##name(va, w, -12345));                                  \
    printf(" %d", (int)dory_gap8_dot4z_##name(va, w));                                        \
    PRINT4(name, dory_gap8_max4_##name(va, vb));                                              \
    PRINT4(name, dory_gap8_shuffle4_##name(va, vb, dory_gap8_load4_i8(m)));                   \
    PRINT4(name, dory_gap8_set4_##name(a[0] - 400, a[1], b[0] + 300, -b[1]));                 \
    PRINT4(name, dory_gap8_from_word_##name(dory_gap8_to_word_##name(va) ^ 0x80ff0180u));     \
    dory_gap8_store4_##name(out, vb);                                                         \
    printf(" %d %d %d %d\n", out[0], out[1], out[2], out[3]);                                 \
  }

SHOW(u8)
SHOW(i8)

int main(void) {
  for (int n = 0; n < 2000; n++) {
    uint8_t a[4], b[4], m[4];
    for (int i = 0; i < 4; i++) {
      a[i] = (uint8_t)next();
      b[i] = (uint8_t)next();
      m[i] = (uint8_t)(next() >> 7 & 7);
    }
    show_u8(a, b, m);
    show_i8(a, b, m);
    for (int i = 0; i < 8; i++) {
      const uint32_t w = dory_gap8_to_word_u8(dory_gap8_load4_u8(a));
      printf("%x %x %x %x\n", (unsigned)dory_gap8_bytes_sll(w, i),
             (unsigned)dory_gap8_bytes_srl(w, i), (unsigned)dory_gap8_bytes_sra(w, i),
             (unsigned)dory_gap8_bytes_and(w, -(1 << i)));
    }
    printf("%d\n", (int)dory_gap8_dot4uu(dory_gap8_load4_u8(a), dory_gap8_load4_u8(b), 7));
    printf("%d\n", (int)dory_gap8_dot4uuz(dory_gap8_load4_u8(a), dory_gap8_load4_u8(b)));
  }
  for (int32_t v = -600; v < 600; v++) {
    printf("%d %d %d\n", (int)dory_gap8_clip_u8(v), (int)dory_gap8_clip_i8(v),
           (int)dory_gap8_clip(v, -77, 401));
    printf("%d %d\n", (int)dory_gap8_clip_unsigned(v, 401), (int)dory_gap8_clip_signed(v, 76));
  }
  printf("%d %d\n", (int)dory_gap8_clip_u8(INT32_MIN), (int)dory_gap8_clip_i8(INT32_MAX));
  return 0;
}
