/* What the kernels built on the 4x4 block share: how cores divide a tile, and channels or pixels
 * that are no multiple of four. Template, configured as dory_gap8_block_impl.h and
 *
 *   DORY_CORES          cores of the cluster
 *   DORY_BLOCK_SHARED   what four pixels cost beside their channels, in groups of four channels
 */
#include <string.h>

#include "dory_gap8_block_impl.h"
#include "dory_gap8_share.h"

#if DORY_BLOCK_FORM == DORY_BLOCK_RAW
#include "dory_gap8_requant_impl.h"
#define DORY_BLOCK_CHUNK 16 /* channels whose sums wait on the stack */
#else
#define DORY_BLOCK_CHUNK 32
#endif

/* The tile and the channels of it that the calling core computes. */
typedef struct {
  const int8_t *weights;
  const int32_t *parameters;
  int32_t group_bytes; /* weights of four channels */
  int32_t y_c;
  dory_gap8_range_t channels; /* the first is a multiple of four */
  const dory_gap8_requant_t *requant;
} dory_block_tile_t;

/* The part of the calling core: pixels in fours, and channels in fours where pixels do not balance. */
static inline dory_gap8_work_t dory_block_share(int32_t pixels, int32_t channels) {
  const int32_t core = (int32_t)dory_core_id();
  const int32_t units = (pixels + 3) / 4, groups = (channels + 3) / 4;
  int32_t ways = 1;
  int32_t best = dory_gap8_ceil_div(units, DORY_CORES) * (groups + DORY_BLOCK_SHARED);
  for (int32_t n = 2; n <= DORY_CORES; n *= 2) {
    const int32_t cost = dory_gap8_ceil_div(units, DORY_CORES / n) *
                         (dory_gap8_ceil_div(groups, n) + DORY_BLOCK_SHARED);
    if (cost < best) {
      best = cost;
      ways = n;
    }
  }
  {
    const int32_t parts = DORY_CORES / ways;
    dory_gap8_work_t work;
    work.pixels = dory_gap8_part(pixels, 4, parts, core % parts);
    work.channels = dory_gap8_part(channels, 4, ways, core / parts);
    return work;
  }
}

/* Runs the block on n channels from c; y is where channel c of the first pixel goes. */
static inline void dory_block_channels(dory_block_t *b, const dory_block_tile_t *t, int32_t c,
                                       int32_t n, dory_block_y_t *y, int32_t y_elements) {
  b->groups = (n + 3) >> 2;
  b->weights = t->weights + (c >> 2) * t->group_bytes;
  b->parameters = t->parameters + c * DORY_BLOCK_PARAMETERS;
  b->y = y;
  b->y_bytes = y_elements * (int32_t)sizeof(dory_block_y_t);
  dory_block_run(b);
}

/* Computes the channels of the core for the first `pixels` of four pixels; y: the first of them. */
static inline void dory_block_pixels(dory_block_t *b, const dory_block_tile_t *t, int32_t pixels,
                                     DORY_Y_T *y) {
  const int32_t end = t->channels.end;
  int32_t c = t->channels.first;
#if DORY_BLOCK_FORM != DORY_BLOCK_RAW
  /* Four pixels store their words themselves; what is left over goes through the stack. */
  if (pixels == 4 && end - c >= 4) {
    const int32_t whole = (end - c) & ~3;
    dory_block_channels(b, t, c, whole, y + c, t->y_c);
    c += whole;
  }
#endif
  for (; c < end; c += DORY_BLOCK_CHUNK) {
    int32_t words[4 * DORY_BLOCK_CHUNK * sizeof(dory_block_y_t) / sizeof(int32_t)];
    dory_block_y_t *const chunk = (dory_block_y_t *)(void *)words;
    const int32_t n = dory_gap8_min(DORY_BLOCK_CHUNK, end - c);
    dory_block_channels(b, t, c, n, chunk, DORY_BLOCK_CHUNK);
    for (int32_t j = 0; j < pixels; j++) {
      const dory_block_y_t *const from = chunk + j * DORY_BLOCK_CHUNK;
      DORY_Y_T *const to = y + j * t->y_c + c;
      for (int32_t i = 0; i < n; i++) {
#if DORY_BLOCK_FORM != DORY_BLOCK_RAW
        to[i] = from[i];
#elif DORY_STEPS == 0
        to[i] = (DORY_Y_T)(from[i] + ((const int32_t *)t->requant->bias)[c + i]);
#else
        to[i] = dory_requantise(from[i], c + i, t->requant);
#endif
      }
    }
  }
}
