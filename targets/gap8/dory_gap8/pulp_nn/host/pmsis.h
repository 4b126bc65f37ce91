/* What PULP-NN uses of the SDK and of the compiler for XpulpV2, for the simulation on a PC.
 *
 * Vectors need no alignment here, as on the cores. */
#ifndef DORY_GAP8_PMSIS_H
#define DORY_GAP8_PMSIS_H

#include <stddef.h>
#include <stdint.h>

#include "dory_hal.h"
#include "network.h"

#define NUM_CORES DORY_CORES

typedef unsigned char v4u __attribute__((vector_size(4), aligned(1), may_alias));
typedef signed char v4s __attribute__((vector_size(4), aligned(1), may_alias));

static inline int pi_core_id(void) { return (int)dory_core_id(); }
static inline void pi_cl_team_barrier(int barrier) {
  (void)barrier;
  dory_barrier();
}

static inline int dory_pulp_dot(v4u x, v4s w, int acc) {
  return acc + x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3];
}
static inline int dory_pulp_clip(int v, int hi) { return v < 0 ? 0 : v > hi ? hi : v; }
static inline int dory_pulp_log2(unsigned v) { return 31 - __builtin_clz(v); }
static inline int dory_pulp_extract(int v, int size, int offset) {
  return (int)((unsigned)v << (32 - size - offset)) >> (32 - size);
}
static inline unsigned dory_pulp_extract_u(unsigned v, int size, int offset) {
  return v << (32 - size - offset) >> (32 - size);
}
static inline v4s dory_pulp_pack(int a, int b, int c, int d) {
  const v4s v = {(signed char)a, (signed char)b, (signed char)c, (signed char)d};
  return v;
}
static inline v4u dory_pulp_max(v4u a, v4u b) {
  for (int i = 0; i < 4; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
  return a;
}
static inline v4s dory_pulp_average(v4s a, v4s b) {
  for (int i = 0; i < 4; i++) a[i] = (signed char)((a[i] + b[i]) >> 1);
  return a;
}
static inline int dory_pulp_min(int a, int b) { return a < b ? a : b; }
static inline int dory_pulp_max_scalar(int a, int b) { return a > b ? a : b; }

#define __builtin_pulp_sdotusp4(x, w, acc) dory_pulp_dot((x), (w), (acc))
#define __builtin_pulp_clipu_r(v, hi) dory_pulp_clip((int)(v), (hi))
#define __builtin_pulp_fl1(v) dory_pulp_log2((unsigned)(v))
#define __builtin_pulp_bextract(v, size, offset) dory_pulp_extract((v), (size), (offset))
#define __builtin_pulp_bextractu(v, size, offset) dory_pulp_extract_u((v), (size), (offset))
#define __builtin_pulp_pack4(a, b, c, d) dory_pulp_pack((a), (b), (c), (d))
#define __builtin_pulp_maxu4(a, b) dory_pulp_max((a), (b))
#define __builtin_pulp_avg4(a, b) dory_pulp_average((a), (b))
#define __builtin_pulp_minsi(a, b) dory_pulp_min((a), (b))
#define __builtin_pulp_maxsi(a, b) dory_pulp_max_scalar((a), (b))

#endif
