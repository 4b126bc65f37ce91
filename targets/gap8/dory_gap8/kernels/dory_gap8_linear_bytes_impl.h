/* Fully connected layer of 8-bit inputs: template of the kernel DORY_KERNEL, configured as
 * dory_gap8_requant_impl.h and
 *
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_SET4_X, DORY_DOT4   an input, four and their operations
 *   DORY_CORES   cores that call it
 *
 * Outputs come in groups of four with interleaved weights: for each four inputs in turn four
 * weights of each output, so that one pointer feeds four dot products. Both ends are filled up with
 * zeros.
 *
 * Each core takes every DORY_CORES-th group with all inputs. Of the groups that do not come out
 * even, each core computes its part of the inputs; the partial sums are added up at the end, once.
 */
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

typedef struct {
  int32_t sum[4];
} dory_group_t;

/* Four inputs and the weights that go with them. */
static inline void dory_add_four(dory_group_t *g, DORY_X4_T x, const int8_t *w) {
  g->sum[0] = DORY_DOT4(x, dory_gap8_load4_i8(w), g->sum[0]);
  g->sum[1] = DORY_DOT4(x, dory_gap8_load4_i8(w + 4), g->sum[1]);
  g->sum[2] = DORY_DOT4(x, dory_gap8_load4_i8(w + 8), g->sum[2]);
  g->sum[3] = DORY_DOT4(x, dory_gap8_load4_i8(w + 12), g->sum[3]);
}

/* Sums over `fours` times four inputs, then `rest` < 4 ones. */
static inline dory_group_t dory_group(const DORY_X_T *x, const int8_t *w, int32_t fours,
                                      int32_t rest) {
  dory_group_t g = {{0, 0, 0, 0}};
  for (int32_t i = 0; i < fours; i++) {
    dory_add_four(&g, DORY_LOAD4_X(x), w);
    x += 4;
    w += 16;
  }
  if (rest > 0) {
    /* Their weights are 0: any input does behind the last one. */
    dory_add_four(&g, DORY_SET4_X(x[0], x[rest > 1], x[rest > 2 ? 2 : 0], x[0]), w);
  }
  return g;
}

static inline void dory_finish(const dory_gap8_linear_bytes_t *a, const dory_gap8_requant_t *r,
                               int32_t sum, int32_t c) {
#if DORY_STEPS == 0
  ((DORY_Y_T *)a->y)[c] = (DORY_Y_T)(sum + r->bias[c]);
#else
  ((DORY_Y_T *)a->y)[c] = dory_requantise(sum, c, r);
#endif
}

/* Computes one tile. Every core calls it. */
void DORY_KERNEL(const dory_gap8_linear_bytes_t *a) {
  const dory_gap8_requant_t r = a->requant;
  const DORY_X_T *const x = a->x;
  const int8_t *const weights = a->weights;
  const int32_t core = (int32_t)dory_core_id();
  const int32_t fours = a->x_c >> 2, rest = a->x_c & 3;
  const int32_t row = (fours + (rest != 0)) * 16;
  const int32_t groups = (a->y_c + 3) >> 2;
  const int32_t even = (int32_t)((uint32_t)groups / DORY_CORES) * DORY_CORES;
  const int32_t shared = groups - even;
  for (int32_t group = core; group < even; group += DORY_CORES) {
    const dory_group_t g = dory_group(x, weights + group * row, fours, rest);
    const int32_t n = dory_gap8_min(4, a->y_c - 4 * group);
    for (int32_t i = 0; i < n; i++) {
      dory_finish(a, &r, g.sum[i], 4 * group + i);
    }
  }
  if (shared > 0) {
    const int32_t part = (int32_t)((uint32_t)(fours + DORY_CORES - 1) / DORY_CORES);
    const int32_t first = dory_gap8_min(core * part, fours);
    const int32_t count = dory_gap8_min(part, fours - first);
    const int32_t mine = core == DORY_CORES - 1 ? rest : 0;
    const int8_t *const w = weights + even * row + (mine > 0 ? fours - count : first) * 16;
    int32_t *const partial = a->scratch;
    int32_t *to = partial + core * 4 * shared;
    for (int32_t group = 0; group < shared; group++) {
      const dory_group_t g =
          dory_group(x + 4 * (mine > 0 ? fours - count : first), w + group * row, count, mine);
      to[0] = g.sum[0];
      to[1] = g.sum[1];
      to[2] = g.sum[2];
      to[3] = g.sum[3];
      to += 4;
    }
    dory_barrier();
    for (int32_t c = 4 * even + core; c < a->y_c; c += DORY_CORES) {
      const int32_t *from = partial + c - 4 * even;
      int32_t sum = 0;
      for (int32_t i = 0; i < DORY_CORES; i++) {
        sum += *from;
        from += 4 * shared;
      }
      dory_finish(a, &r, sum, c);
    }
  }
}
