/* Fully connected layer of inputs of 8 or 16 bits: template of the kernel DORY_KERNEL, configured as
 * dory_gap8_requant_impl.h and
 *
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_SET4_X, DORY_DOT4   an input, four and their operations
 *   DORY_X_BITS, DORY_X_SIGNED   an input
 *   DORY_CORES   cores that call it
 *
 * Outputs come in groups of four with interleaved weights: for each four inputs in turn four
 * weights of each output, so that one pointer feeds four dot products. Both ends are filled up with
 * zeros. Inputs of 16 bits are taken apart, four at a time, into their low and their high bytes, which
 * have sums of their own.
 *
 * Each core takes every DORY_CORES-th group with all inputs. Of the groups that do not come out
 * even, each core computes its part of the inputs; the partial sums are added up at the end, once.
 */
#include "dory_gap8_requant_impl.h"
#include "dory_gap8_share.h"

typedef struct {
  int32_t sum[4];
#if DORY_X_BITS == 16
  int32_t high[4];
#endif
} dory_group_t;

#if DORY_X_BITS == 16

#if DORY_X_SIGNED
typedef dory_gap8_i8x4_t dory_high_t;
#define DORY_SET_HIGH dory_gap8_set4_i8
#define DORY_PICK_HIGH dory_gap8_shuffle4_i8
#define DORY_LOAD_HIGH dory_gap8_load4_i8
#define DORY_DOT_HIGH dory_gap8_dot4_i8
#else
typedef dory_gap8_u8x4_t dory_high_t;
#define DORY_SET_HIGH dory_gap8_set4_u8
#define DORY_PICK_HIGH dory_gap8_shuffle4_u8
#define DORY_LOAD_HIGH dory_gap8_load4_u8
#define DORY_DOT_HIGH dory_gap8_dot4_u8
#endif

/* The bytes of four inputs. */
typedef struct {
  dory_gap8_u8x4_t low;
  dory_high_t high;
} dory_inputs_t;

/* How they are picked. */
typedef struct {
  dory_gap8_i8x4_t low, high;
} dory_picks_t;

static inline dory_picks_t dory_picks(void) {
  const dory_picks_t picks = {dory_gap8_order4(0, 2, 4, 6), dory_gap8_order4(1, 3, 5, 7)};
  return picks;
}

static inline dory_inputs_t dory_four(const DORY_X_T *x, const dory_picks_t *picks) {
  const dory_inputs_t four = {
      dory_gap8_shuffle4_u8(dory_gap8_load4_u8(x), dory_gap8_load4_u8(x + 2), picks->low),
      DORY_PICK_HIGH(DORY_LOAD_HIGH(x), DORY_LOAD_HIGH(x + 2), picks->high)};
  return four;
}

static inline dory_inputs_t dory_fewer(int32_t a, int32_t b, int32_t c) {
  const dory_inputs_t four = {dory_gap8_set4_u8(a, b, c, 0),
                              DORY_SET_HIGH(a >> 8, b >> 8, c >> 8, 0)};
  return four;
}

/* The products of four inputs with the weights of an output. */
static inline void dory_add_output(dory_group_t *g, int32_t i, dory_inputs_t x, const int8_t *w) {
  const dory_gap8_i8x4_t weights = dory_gap8_load4_i8(w);
  g->sum[i] = dory_gap8_dot4_u8(x.low, weights, g->sum[i]);
  g->high[i] = DORY_DOT_HIGH(x.high, weights, g->high[i]);
}

#else

typedef DORY_X4_T dory_inputs_t;
typedef int32_t dory_picks_t;

static inline dory_picks_t dory_picks(void) {
  return 0;
}

static inline dory_inputs_t dory_four(const DORY_X_T *x, const dory_picks_t *picks) {
  (void)picks;
  return DORY_LOAD4_X(x);
}

static inline dory_inputs_t dory_fewer(int32_t a, int32_t b, int32_t c) {
  return DORY_SET4_X(a, b, c, 0);
}

static inline void dory_add_output(dory_group_t *g, int32_t i, dory_inputs_t x, const int8_t *w) {
  g->sum[i] = DORY_DOT4(x, dory_gap8_load4_i8(w), g->sum[i]);
}

#endif

/* Four inputs and the weights that go with them. */
static inline void dory_add_four(dory_group_t *g, dory_inputs_t x, const int8_t *w) {
  dory_add_output(g, 0, x, w);
  dory_add_output(g, 1, x, w + 4);
  dory_add_output(g, 2, x, w + 8);
  dory_add_output(g, 3, x, w + 12);
}

/* Sums over `fours` times four inputs, then `rest` < 4 ones. */
static inline dory_group_t dory_group(const DORY_X_T *x, const int8_t *w, int32_t fours,
                                      int32_t rest) {
  const dory_picks_t picks = dory_picks();
  dory_group_t g = {{0, 0, 0, 0}
#if DORY_X_BITS == 16
                    ,
                    {0, 0, 0, 0}
#endif
  };
  for (int32_t i = 0; i < fours; i++) {
    dory_add_four(&g, dory_four(x, &picks), w);
    x += 4;
    w += 16;
  }
  if (rest > 0) {
    /* Their weights are 0: any input does behind the last one. */
    dory_add_four(&g, dory_fewer(x[0], x[rest > 1], x[rest > 2 ? 2 : 0]), w);
  }
#if DORY_X_BITS == 16
  for (int32_t i = 0; i < 4; i++) {
    g.sum[i] = (int32_t)((uint32_t)g.sum[i] + ((uint32_t)g.high[i] << 8));
  }
#endif
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
