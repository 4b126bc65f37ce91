/* What the kernels built on the 4x4 block share: how cores divide a tile, and channels or pixels
 * that are no multiple of four. Template, configured as dory_gap8_block_impl.h and
 *
 *   DORY_CORES          cores of the cluster
 *   DORY_BLOCK_ENDS     whether dory_block_fours computes channels that make no four (0 where not defined)
 *   DORY_BLOCK_DEEP     whether what includes it takes much of a core's stack itself (0 where not defined)
 */
#include <string.h>

#include "dory_gap8_block_impl.h"
#include "dory_gap8_share.h"

/* Channels that wait on the stack, as sums or as bytes. */
#if DORY_BLOCK_FORM == DORY_BLOCK_RAW
#include "dory_gap8_requant_impl.h"
#define DORY_BLOCK_CHUNK (DORY_BLOCK_DEEP ? 8 : 16)
#else
#define DORY_BLOCK_CHUNK 32
#endif

#ifndef DORY_BLOCK_ENDS
#define DORY_BLOCK_ENDS 0
#endif
#ifndef DORY_BLOCK_DEEP
#define DORY_BLOCK_DEEP 0
#endif

/* Clears n inputs, a word at a time as far as possible, whatever their alignment. */
static inline void dory_clear(DORY_X_T *to, int32_t n) {
  int32_t i = 0;
  for (; i + DORY_WORD <= n; i += DORY_WORD) {
    dory_gap8_store4_u8(to + i, dory_gap8_set4_u8(0, 0, 0, 0));
  }
  for (; i < n; i++) {
    to[i] = 0;
  }
}

/* The tile and the channels of it that the calling core computes. */
typedef struct {
  const int8_t *weights;
  const int32_t *parameters;
  int32_t group_bytes; /* weights of four channels */
  int32_t y_c;
  dory_gap8_range_t channels; /* of a part of the share; the first is a multiple of four */
  const dory_gap8_requant_t *requant;
} dory_block_tile_t;

/* The share of a core: groups of four channels of blocks of pixels, in the order of the blocks. It begins
 * with a group of a block, and ends before last_group of the last block. */
typedef struct {
  int32_t block, group, last, last_group;
  int32_t groups; /* of a block */
} dory_block_share_t;

/* The share of groups `first` .. `end` - 1 of all blocks. */
static inline dory_block_share_t dory_block_groups(dory_gap8_range_t range, int32_t groups) {
  const int32_t block = dory_gap8_div(range.first, groups), last = dory_gap8_div(range.end, groups);
  const dory_block_share_t share = {block, range.first - block * groups, last,
                                    range.end - last * groups, groups};
  return share;
}

/* The share of the calling core, where all blocks of the tile's pixels take as long: whole blocks, or
 * parts of them where the largest share has fewer groups then. */
static inline dory_block_share_t dory_block_share(int32_t pixels, int32_t channels) {
  const int32_t core = (int32_t)dory_core_id();
  const int32_t groups = (int32_t)(((uint32_t)channels + 3) / 4);
  const int32_t blocks = dory_gap8_ceil_div(pixels, DORY_BLOCK_PIXELS);
  const dory_gap8_range_t whole = dory_gap8_part(blocks, 1, DORY_CORES, core);
  dory_block_share_t share = {whole.first, 0, whole.end, 0, groups};
  if (dory_gap8_ceil_div(blocks * groups, DORY_CORES) <
      dory_gap8_ceil_div(blocks, DORY_CORES) * groups) {
    share = dory_block_groups(dory_gap8_part(blocks * groups, 1, DORY_CORES, core), groups);
  }
  return share;
}

/* Takes the next part of a share off it: whole blocks, or some of the channels of one. Returns whether
 * there is one. pixels, channels: of the tile. */
static inline int dory_block_part(dory_block_share_t *share, int32_t pixels, int32_t channels,
                                  dory_gap8_work_t *part) {
  const int32_t block = share->block, group = share->group;
  int32_t blocks = 1, end = share->groups;
  if (block == share->last) {
    end = share->last_group;
    share->group = end;
    if (group >= end) {
      return 0;
    }
  } else {
    if (group == 0) {
      blocks = share->last - block;
    }
    share->block += blocks;
    share->group = 0;
  }
  part->channels.first = 4 * group;
  part->channels.end = dory_gap8_min(4 * end, channels);
  part->pixels.first = DORY_BLOCK_PIXELS * block;
  part->pixels.end = dory_gap8_min(part->pixels.first + DORY_BLOCK_PIXELS * blocks, pixels);
  return 1;
}

/* Where the weights of the channels from c begin, a multiple of four. */
static inline const int8_t *dory_block_weights(const dory_block_tile_t *t, int32_t c) {
  return t->weights + (c >> 2) * t->group_bytes;
}

/* Sets what is equal for all pixels: the block computes whole groups of four channels. */
static inline void dory_block_start(dory_block_t *b, const dory_block_tile_t *t,
                                    const dory_gap8_window_t *a) {
  const int32_t c = t->channels.first;
  b->groups = (t->channels.end - c) >> 2;
  b->weights = dory_block_weights(t, c);
  b->skip = 0;
  b->fours = 1;
#if !DORY_BLOCK_SLIDE
  b->x_step = 0;
#endif
  b->parameters = t->parameters + c * DORY_BLOCK_PARAMETERS;
  b->y_bytes = t->y_c * (int32_t)sizeof(dory_block_y_t);
  b->shift = a->shift;
  b->low_bits = a->low_bits;
  b->hi = a->hi;
}

/* Computes the channels of the core from c for the first `pixels` of a block by way of the stack;
 * y: the first of them. */
static DORY_GAP8_NOINLINE void dory_block_rest(dory_block_t *b, const dory_block_tile_t *t,
                                               int32_t c, int32_t pixels, DORY_Y_T *y) {
  const int8_t *const weights = b->weights;
  const int32_t *const parameters = b->parameters;
  const int32_t groups = b->groups, y_bytes = b->y_bytes;
  const int32_t first_row = (int32_t)(weights - dory_block_weights(t, t->channels.first));
  const int32_t pitch = y_bytes / (int32_t)sizeof(dory_block_y_t);
  b->y_bytes = DORY_BLOCK_CHUNK * (int32_t)sizeof(dory_block_y_t);
  for (; c < t->channels.end; c += DORY_BLOCK_CHUNK) {
    dory_block_y_t chunk[DORY_BLOCK_PIXELS * DORY_BLOCK_CHUNK] DORY_GAP8_WORDS;
    const int32_t n = dory_gap8_min(DORY_BLOCK_CHUNK, t->channels.end - c);
    b->groups = (n + 3) >> 2;
    b->weights = dory_block_weights(t, c) + first_row;
    b->parameters = t->parameters + c * DORY_BLOCK_PARAMETERS;
    b->y = chunk;
    dory_block_run(b);
    for (int32_t j = 0; j < pixels; j++) {
      const dory_block_y_t *const from = chunk + j * DORY_BLOCK_CHUNK;
      DORY_Y_T *const to = y + j * pitch + c;
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
  b->weights = weights;
  b->parameters = parameters;
  b->groups = groups;
  b->y_bytes = y_bytes;
}

/* Whether the block stores all channels of the core itself, so that it may go on to the next pixels. */
static inline int dory_block_is_whole(const dory_block_t *b, const dory_block_tile_t *t) {
  return DORY_BLOCK_FORM != DORY_BLOCK_RAW && 4 * b->groups == t->channels.end - t->channels.first;
}

/* Computes the channels of the core for the first `pixels` of a block; y: the first of them. */
static inline void dory_block_pixels(dory_block_t *b, const dory_block_tile_t *t, int32_t pixels,
                                     DORY_Y_T *y) {
  int32_t c = t->channels.first;
#if DORY_BLOCK_FORM != DORY_BLOCK_RAW
  /* Whole blocks store their words themselves; what is left over goes through the stack. */
  if (pixels == DORY_BLOCK_PIXELS && b->groups > 0) {
    b->y = y + c;
    dory_block_run(b);
    c += 4 * b->groups;
  }
#endif
  if (c < t->channels.end) {
    dory_block_rest(b, t, c, pixels, y);
  }
}

#if !DORY_BLOCK_SLIDE

#ifndef DORY_PASSES
#define DORY_PASSES 1
#endif

/* Where the segments of a block's pixels begin. */
typedef const DORY_X_T *dory_block_table_t[DORY_BLOCK_PIXELS * DORY_PASSES];

#if DORY_BLOCK_FORM != DORY_BLOCK_RAW

#if DORY_BLOCK_ENDS

/* Computes the last channels of the core, which make no four, for `fours` blocks of pixels. They are
 * stored as a word, which reaches into the first four of the next pixel. */
static inline void dory_block_ends(const dory_block_t *b, const dory_block_tile_t *t, int32_t fours,
                                   DORY_Y_T *y) {
  const int32_t c = t->channels.first + 4 * b->groups;
  dory_block_table_t table;
  dory_block_t ends = *b;
  memcpy(table, b->table, sizeof table);
  ends.table = table;
  ends.table_end = table + (b->table_end - b->table);
  ends.groups = 1;
  ends.weights = dory_block_weights(t, c);
  ends.parameters = t->parameters + c * DORY_BLOCK_PARAMETERS;
  ends.y = y + c;
  ends.fours = fours;
  dory_block_run(&ends);
}

#endif

/* Computes the channels of the core for blocks of pixels that follow one another, as many as it can of
 * the first `pixels`, and returns of how many; dory_block_pixels takes others. Channels that make no
 * four go first, because they reach into the next pixel: it must be there, with first channels that
 * this core computes after them. */
static inline int32_t dory_block_fours(dory_block_t *b, const dory_block_tile_t *t, int32_t pixels,
                                       DORY_Y_T *y) {
  const int is_whole = dory_block_is_whole(b, t);
  int32_t fours = is_whole ? dory_gap8_div(pixels, DORY_BLOCK_PIXELS) : 0;
#if DORY_BLOCK_ENDS
  if (!is_whole && t->channels.first == 0 && b->groups > 0) {
    fours = dory_gap8_div(pixels - 1, DORY_BLOCK_PIXELS);
    if (fours > 0) {
      dory_block_ends(b, t, fours, y);
    }
  }
#endif
  if (fours > 0) {
    b->y = y + t->channels.first;
    b->fours = fours;
    dory_block_run(b);
    b->fours = 1;
  }
  return DORY_BLOCK_PIXELS * fours;
}

#endif

/* Computes the channels of the core for pixels that follow one another, each of x_c inputs, which are
 * a segment. table: room; x, y: the first of them; terms: that of the first pixel
 * (DORY_BLOCK_ROW_TERMS). */
static inline void dory_block_row(dory_block_t *b, const dory_block_tile_t *t,
                                  const DORY_X_T **table, const DORY_X_T *x, const int32_t *terms,
                                  int32_t x_c, int32_t pixels, DORY_Y_T *y) {
  b->table = table;
  b->table_end = table + DORY_BLOCK_PIXELS * DORY_PASSES;
  b->x_step = DORY_BLOCK_PIXELS * x_c * (int32_t)sizeof(DORY_X_T);
  while (pixels > 0) {
    int32_t taken = DORY_BLOCK_PIXELS;
    const DORY_X_T *pixel = x;
    for (int32_t j = 0; j < DORY_BLOCK_PIXELS; j++) {
      for (int32_t pass = 0; pass < DORY_PASSES; pass++) {
        table[DORY_BLOCK_PIXELS * pass + j] = pixel;
      }
      /* Pixels that are missing repeat the last one. */
      pixel += j + 1 < pixels ? x_c : 0;
    }
    b->fours = 1;
    if (pixels >= 2 * DORY_BLOCK_PIXELS && dory_block_is_whole(b, t)) {
      b->fours = (int32_t)((uint32_t)pixels / DORY_BLOCK_PIXELS);
      taken *= b->fours;
    }
#if DORY_BLOCK_ROW_TERMS
    b->terms = terms;
#endif
    dory_block_pixels(b, t, dory_gap8_min(DORY_BLOCK_PIXELS, pixels), y);
    if (pixels > taken) { /* the last block is whole: it begins in the one before */
      taken = dory_gap8_min(taken, pixels - DORY_BLOCK_PIXELS);
    }
    terms += DORY_BLOCK_ROW_TERMS ? taken : 0;
    pixels -= taken;
    x += taken * x_c;
    y += taken * t->y_c;
  }
  (void)terms;
}

#endif
