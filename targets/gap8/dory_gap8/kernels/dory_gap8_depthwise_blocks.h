/* What the depthwise kernels share whose filters have a size that they know: strips that follow one
 * another in a group of four channels share blocks of four transposed rows. Template, see
 * dory_gap8_depthwise_strips.h, configured by
 *
 *   DORY_CORES      cores that share a tile
 *   DORY_MULTIPLIER output channels of an input channel
 *   DORY_WALK       outputs along b whose inputs are in the scratch at a time
 *   DORY_STRIP_ASM  whether the assembly for the chip has this requantisation and type of output
 *   DORY_X_SIGNED   whether inputs are signed
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_DOT4, DORY_DOT4Z, DORY_SHUFFLE_X   an input; four of them
 *
 * and by what includes it:
 *
 *   DORY_BLOCKS     blocks that a strip reads; the last one is the first one of the next strip
 *   DORY_STEP       of windows, along both axes
 *   DORY_ROWS       outputs along a of a strip
 *   DORY_HALVES     whether a last strip of half the outputs or fewer has a function of its own,
 *                   which reads one block fewer
 *   DORY_UNIT       columns that lie together in a block
 *   DORY_FILTER     bytes of the weights of a channel
 *   DORY_CLASSES    classes of outputs with weights of their own, 0: outputs have none
 *
 * The tile itself is in dory_gap8_depthwise_blocks_tile.h. */
#include "dory_gap8_depthwise_strips.h"

/* Bytes of a column: four words. */
#define DORY_COLUMN_BYTES 16

#if DORY_CLASSES
/* Outputs of a strip with the same weights. The assembly knows the order of the fields. */
typedef struct {
  int32_t skipped, y;        /* outputs along a before the first one; elements to it */
  int32_t weights;           /* bytes to those of the class */
  int32_t loops, rest;       /* outputs along b, three at a time, and those left */
  int32_t x_back, y_back;    /* from the end of a channel to the start of the next one */
} dory_class_t;
#endif

/* Strips one after another, of some channels of a group. The assembly knows the order of the fields;
 * what a call changes is meant for the next one: the strips that follow. */
typedef struct {
  uint8_t *block[3];         /* blocks of four transposed rows, rotated by a call */
  const int8_t *weights;     /* of the first channel */
  const int32_t *parameters;
  DORY_Y_T *y;               /* of the first channel and strip */
  int32_t left, y_row;       /* outputs along a from the strip on; from one to the next */
  int32_t step;              /* from output to output along b */
  int32_t loops, rest;       /* outputs along b, two at a time (3x3, stride 1), and whether there is one more */
  int32_t x_back, y_back;    /* from the end of a channel to the start of the next one */
  int32_t channels;          /* 1 at least */
  int32_t shift, low_bits, hi;
  int32_t strips;            /* 1 at least */
  int32_t fresh;             /* bytes of block[] before the first block that is not laid yet */
  const uint8_t *x;          /* in row 0, the first column inside the tile, at the group's first channel */
  int32_t row, rows;         /* the first one to lay, those of the tile */
  int32_t x_row, x_step;     /* from row to row, from column to column */
  int32_t inside, before;    /* columns of the tile, in units without padding; bytes of a block before them */
  const dory_gap8_u8x4_t *padding;
  int32_t lane;              /* bytes from the group's first input channel to that of the first one */
#if DORY_CLASSES
  int32_t first, last;       /* whether the first and last columns of the tile share a unit with padding */
  int32_t class_count;       /* 1 at least */
  dory_class_t classes[DORY_CLASSES];
#endif
  const dory_gap8_strips_t *tile;
  int32_t channel; /* the first one */
} dory_strip_t;

static inline DORY_X4_T dory_word(const uint8_t *p) {
  return DORY_LOAD4_X((const DORY_X_T *)p);
}

/* The last block becomes the first one. */
static inline void dory_last_first(uint8_t **block) {
  uint8_t *const last = block[DORY_BLOCKS - 1];
  for (int32_t i = DORY_BLOCKS - 1; i > 0; i--) {
    block[i] = block[i - 1];
  }
  block[0] = last;
}

/* Goes on to the next strip. */
static inline void dory_next_strip(dory_strip_t *s) {
  dory_last_first(s->block);
  s->fresh = 4;
  s->left -= DORY_ROWS;
  s->y += DORY_ROWS * s->y_row;
}
