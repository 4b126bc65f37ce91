/* The builtins of the chip's compilers as the instruction set manual defines the instructions
 * behind them, in GNU C for a PC: so that code that uses them can be compiled and run there. */
#include <stdint.h>

typedef uint8_t stub_v4u __attribute__((vector_size(4)));
typedef int8_t stub_v4s __attribute__((vector_size(4)));

#define STUB_DOT(name, x_t, w_t)                                                             \
  static inline int32_t stub_##name(x_t x, w_t w, int32_t acc) {                             \
    for (int i = 0; i < 4; i++) {                                                            \
      acc = (int32_t)((uint32_t)acc + (uint32_t)(x[i] * w[i]));                              \
    }                                                                                        \
    return acc;                                                                              \
  }
STUB_DOT(usp, stub_v4u, stub_v4s)
STUB_DOT(sp, stub_v4s, stub_v4s)
STUB_DOT(up, stub_v4u, stub_v4u)
#define __builtin_pulp_sdotusp4(x, w, acc) stub_usp(x, w, acc)
#define __builtin_pulp_sdotsp4(x, w, acc) stub_sp(x, w, acc)
#define __builtin_pulp_sdotup4(x, w, acc) (uint32_t)stub_up(x, w, (int32_t)(acc))
#define __builtin_pulp_dotup4(x, w) (uint32_t)stub_up(x, w, 0)
#define __builtin_pulp_dotusp4(x, w) stub_usp(x, w, 0)
#define __builtin_pulp_dotsp4(x, w) stub_sp(x, w, 0)

#define STUB_MAX(name, type)                                                                 \
  static inline type stub_##name(type a, type b) {                                           \
    for (int i = 0; i < 4; i++) {                                                            \
      a[i] = a[i] > b[i] ? a[i] : b[i];                                                      \
    }                                                                                        \
    return a;                                                                                \
  }
STUB_MAX(maxu, stub_v4u)
STUB_MAX(maxs, stub_v4s)
#define __builtin_pulp_maxu4(a, b) stub_maxu(a, b)
#define __builtin_pulp_max4(a, b) stub_maxs(a, b)

#define __builtin_pulp_pack4(a, b, c, d) \
  ((stub_v4s){(int8_t)(a), (int8_t)(b), (int8_t)(c), (int8_t)(d)})

/* p.clipur: 0 .. r; p.clipr: -(r + 1) .. r */
static inline int32_t stub_between(int32_t v, int32_t lo, int32_t hi) {
  return v < lo ? lo : v > hi ? hi : v;
}
#define __builtin_pulp_clipu_r(v, r) stub_between(v, 0, r)
#define __builtin_pulp_clip_r(v, r) stub_between(v, -(r)-1, r)
