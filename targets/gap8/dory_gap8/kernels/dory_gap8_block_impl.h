/* The 4x4 block: four pixels, or three, times four output channels at a time. Template, configured by
 *
 *   DORY_X_T, DORY_X4_T, DORY_LOAD4_X, DORY_DOT4, DORY_DOT4Z   an input, four of them, operations
 *   DORY_X_SIGNED     whether inputs are signed
 *   DORY_LANES        inputs of a step: a word, four of 8 bits or two of 16, with weights of as many
 *                     bits, or four in two halves
 *   DORY_HALVES       whether inputs are two bytes, of which they are the sum: of four inputs the
 *                     first halves, then the second ones, with one word of weights
 *   DORY_Y_T          type of an output
 *   DORY_BLOCK_FORM   what becomes of a sum, see below
 *   DORY_BLOCK_REACH  whether it is clamped first (not for DORY_BLOCK_RAW)
 *   DORY_BLOCK_TURNED whether an offset is added to it before, and where it is negative then,
 *                     another addend to its product (not for DORY_BLOCK_RAW)
 *   DORY_BLOCK_SHIFTS whether each channel has a shift of its own (0 where not defined)
 *   DORY_BLOCK_CLIP   how the output is clipped
 *   DORY_BLOCK_PIXELS  pixels of a block: 4, or 3 where images have so few that blocks of four
 *                      would compute more that nobody needs
 *   DORY_BLOCK_ONE    whether the inputs of a pixel are one segment in all calls
 *   DORY_BLOCK_SLIDE  whether pixels are four neighbours in a row, whose windows are three columns
 *                     wide, 1 or 2 (DORY_STRIDE_W) columns apart; then DORY_PIXEL and
 *                     DORY_PIXEL_WORDS are the bytes and words of a pixel's inputs, two words at
 *                     least, and DORY_CHANNELS their number
 *   DORY_APART        whether there are blocks of pixels that are no such neighbours, too
 *   DORY_BLOCK_COLUMN_TERMS, DORY_BLOCK_ROW_TERMS   whether each channel, each pixel has a term that is
 *                     added to its sums; with DORY_BLOCK_ONE and four pixels (0 where not defined)
 *
 * Inputs are read where they lie: the inputs of a pixel are segments of `steps` steps, and a table names where each segment of each pixel begins. Nothing has to be gathered for windows,
 * strides or dilations, and a segment that is padding points to zeros.
 *
 * Weights of four output channels are interleaved: for each word of inputs of all segments in turn a
 * word of each channel, so that one pointer feeds the block. Parameters are interleaved likewise,
 * for each channel [offset] [reach], then mul, add or mul_low, mul_high, add, then [below] and, where
 * channels have their own, shift. The terms of four channels stand behind their weights.
 *
 * On the chip the block is assembly: 8 loads and 16 dot products per step, with all registers in
 * use, which no compiler manages. Everywhere else it is the C function that follows; both give the
 * same bytes.
 */
#include "dory_gap8_block_value.h"

#ifndef DORY_BLOCK_COLUMN_TERMS
#define DORY_BLOCK_COLUMN_TERMS 0
#endif
#ifndef DORY_BLOCK_ROW_TERMS
#define DORY_BLOCK_ROW_TERMS 0
#endif

#define DORY_WORD (4 / (int32_t)sizeof(DORY_X_T)) /* elements in a word */

#if DORY_BLOCK_FORM == DORY_BLOCK_RAW
typedef int32_t dory_block_y_t;
#else
typedef DORY_Y_T dory_block_y_t;
#endif

/* The element that is `place` elements behind the first; it may lie outside, and is not read then. */
static inline const DORY_X_T *dory_at(const DORY_X_T *first, int32_t place) {
  return (const DORY_X_T *)((uintptr_t)first +
                            (uintptr_t)((intptr_t)place * (intptr_t)sizeof(DORY_X_T)));
}

/* The assembly knows the order of the fields. */
#if DORY_BLOCK_SLIDE
typedef struct {
  const DORY_X_T *x;     /* column 1 of the first window, in its first row that is no padding */
  const DORY_X_T *left;  /* column 0 */
  const DORY_X_T *right; /* the last column of the block's windows */
  const DORY_X_T *last;  /* of the last block */
  int32_t row, left_row, right_row, last_row; /* bytes from behind a pixel to the next row's */
  int32_t rows;   /* that are no padding, 1 at least */
  int32_t groups; /* four output channels each, 1 at least */
  const int8_t *weights;
  const int32_t *parameters;
  dory_block_y_t *y; /* of the first pixel */
  int32_t y_bytes;   /* from pixel to pixel */
  int32_t shift, low_bits, hi;
  int32_t skip;  /* bytes of weights between two groups, of rows that all are padding */
  int32_t fours; /* blocks of pixels that follow one another in a row, 1 at least */
#if DORY_APART
  /* NULL, or the pixels of the only block are anywhere, and pointers to DORY_LAST_READ of each row of
   * each of their windows, whose rows all count; four more may be read. */
  const DORY_X_T **table;
#endif
} dory_block_t;
#define DORY_LAST_READ (3 - DORY_STRIDE_W) /* the column of a window that is read last */
#else
typedef struct {
  const DORY_X_T **table;     /* where each segment of the pixels begins */
  const DORY_X_T **table_end; /* a pointer per pixel and segment */
  int32_t steps;                    /* of a segment, 2 at least */
  int32_t groups;                   /* four output channels each, 1 at least */
  const int8_t *weights;
  const int32_t *parameters;
  dory_block_y_t *y; /* of the first pixel */
  int32_t y_bytes;   /* from pixel to pixel */
  int32_t shift, low_bits, hi;
  int32_t skip;   /* bytes of weights between two groups, of rows that all are padding */
  int32_t inputs; /* of a segment: the C function reads no more, the assembly whole steps */
  int32_t fours;  /* blocks of pixels that follow one another, 1 at least */
  int32_t x_step; /* bytes by which the pointers move from one block to the next */
#if DORY_BLOCK_ROW_TERMS
  const int32_t *terms; /* of the first pixel, followed by those of the others */
#endif
} dory_block_t;
#endif

#if defined(__riscv) && DORY_GAP8_XPULPV2

#include "dory_gap8_block_asm.h"

#else

/* One step of a pixel and a channel: the products of its inputs, of which n are there. */
static inline int32_t dory_block_dot(const DORY_X_T *x, int32_t n, const int8_t *w, int32_t sum) {
#if DORY_HALVES
  const uint8_t *const halves = (const uint8_t *)x;
  const dory_gap8_i8x4_t weights = dory_gap8_load4_i8(w);
  (void)n;
  sum = dory_gap8_dot4_u8(dory_gap8_load4_u8(halves), weights, sum);
  return dory_gap8_dot4_u8(dory_gap8_load4_u8(halves + 4), weights, sum);
#elif DORY_LANES == 4
  const DORY_X4_T v = n >= 4 ? DORY_LOAD4_X(x)
                             : DORY_SET4_X(n > 0 ? x[0] : 0, n > 1 ? x[1] : 0, n > 2 ? x[2] : 0, 0);
  return DORY_DOT4(v, dory_gap8_load4_i8(w), sum);
#else
  int16_t pair[2];
  memcpy(pair, w, sizeof pair);
  return sum + x[0] * pair[0] + (n > 1 ? x[1] * pair[1] : 0);
#endif
}

#if DORY_BLOCK_SLIDE
#include "dory_gap8_slide_run.h"
#else

/* Adds the terms of the channels, which follow their weights, and those of the pixels. */
static inline void dory_block_terms(int32_t sum[DORY_BLOCK_PIXELS][4], const int8_t *channels,
                                    const int32_t *pixels) {
#if DORY_BLOCK_COLUMN_TERMS || DORY_BLOCK_ROW_TERMS
  int32_t terms[4] = {0, 0, 0, 0};
#if DORY_BLOCK_COLUMN_TERMS
  memcpy(terms, channels, sizeof terms);
#endif
  for (int j = 0; j < DORY_BLOCK_PIXELS; j++) {
    for (int c = 0; c < 4; c++) {
      sum[j][c] += terms[c] + (DORY_BLOCK_ROW_TERMS ? pixels[j] : 0);
    }
  }
#endif
  (void)sum;
  (void)channels;
  (void)pixels;
}

/* Computes `groups` times four channels of a block of pixels, from `first` on. */
static inline void dory_block_four(const dory_block_t *b, dory_block_y_t *first,
                                   const int32_t *terms) {
  for (int32_t group = 0; group < b->groups; group++) {
    const int32_t words = (int32_t)(b->table_end - b->table) / DORY_BLOCK_PIXELS * b->steps;
    const int32_t bytes = 16 * (words + DORY_BLOCK_COLUMN_TERMS) + b->skip;
    const int8_t *w = b->weights + group * bytes;
    int32_t sum[DORY_BLOCK_PIXELS][4] = {{0}};
    for (const DORY_X_T **row = b->table; row != b->table_end; row += DORY_BLOCK_PIXELS) {
      for (int32_t step = 0; step < b->steps; step++, w += 16) {
        for (int j = 0; j < DORY_BLOCK_PIXELS; j++) {
          const DORY_X_T *const x = row[j] + DORY_LANES * step;
          for (int c = 0; c < 4; c++) {
            sum[j][c] = dory_block_dot(x, b->inputs - DORY_LANES * step, w + 4 * c, sum[j][c]);
          }
        }
      }
    }
    dory_block_terms(sum, w, terms);
    for (int32_t j = 0; j < DORY_BLOCK_PIXELS; j++) {
      dory_block_y_t *const y =
          first + j * (b->y_bytes / (int32_t)sizeof(dory_block_y_t)) + 4 * group;
      for (int32_t c = 0; c < 4; c++) {
        const int32_t *const p = b->parameters + (4 * group + c) * DORY_BLOCK_PARAMETERS;
        y[c] = (dory_block_y_t)dory_block_value(sum[j][c], p, b->shift, b->low_bits, b->hi);
      }
    }
  }
}

/* Computes `groups` times four channels of `fours` blocks of pixels. */
static DORY_GAP8_NOINLINE void dory_block_run(const dory_block_t *b) {
  const int32_t step = b->x_step / (int32_t)sizeof(DORY_X_T);
  dory_block_y_t *y = b->y;
#if DORY_BLOCK_ROW_TERMS
  const int32_t *terms = b->terms;
#else
  const int32_t *const terms = NULL;
#endif
  for (int32_t n = b->fours;; y += DORY_BLOCK_PIXELS * (b->y_bytes / (int32_t)sizeof(dory_block_y_t))) {
    dory_block_four(b, y, terms);
#if DORY_BLOCK_ROW_TERMS
    terms += DORY_BLOCK_PIXELS;
#endif
    if (--n == 0) {
      return;
    }
    for (const DORY_X_T **entry = b->table; entry != b->table_end; entry++) {
      *entry += step;
    }
  }
}

#endif

#endif
