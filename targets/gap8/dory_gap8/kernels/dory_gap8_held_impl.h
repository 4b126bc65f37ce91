/* Dense convolution of few inputs, which stay in registers: template of the kernel DORY_KERNEL,
 * configured as dory_gap8_block_value.h and
 *
 *   DORY_X_T, DORY_Y_T    an input, an output
 *   DORY_KERNEL_H, DORY_KERNEL_W, DORY_STRIDE_H, DORY_STRIDE_W   of the window
 *   DORY_CHANNELS         input channels
 *   DORY_PADDED           whether windows reach beyond the tensor
 *   DORY_PAD_WORD         a word of what stands there
 *   DORY_POOL             2: an output is the largest of 2 x 2 sums, requantised; 1, the default: of one
 *   DORY_OUTPUTS          outputs of a strip: so many below each other share their inputs
 *   DORY_WORDS            words of weights of a row of the window
 *   DORY_REST             bytes of a row that are left over: those of rows below each other make words
 *   DORY_JUMP             how many outputs later the word begins that has the rows beyond four
 *   DORY_CHANNEL_BYTES    of the weights and parameters of an output channel
 *   DORY_SHIFT, DORY_LOW_BITS, DORY_HI   of all channels: the assembly has no registers for them
 *   DORY_CORES            cores of the cluster
 *   DORY_WALK             strips that are computed at a time where there is padding
 *   DORY_PATCH_ROWS, DORY_PATCH_ROW   rows of the copy of their inputs, and bytes between them, a
 *                         multiple of four
 *   DORY_WORD_CYCLES, DORY_OUTPUT_CYCLES   of a channel of a strip: once, and for each output
 *   DORY_KERNEL_ASM         the file with the assembly
 *
 * Strips whose windows all lie in the tile read it where it is; the last word of a row may have up to
 * three bytes behind it, which weights of zero cancel. Others read a copy with its padding, which the
 * core makes in its part of the scratch.
 *
 * On the chip the strips are assembly, which backend/held_assembly.py writes for the window. The C
 * function that follows gives the same bytes. */
#include "dory_gap8_block_value.h"
#include "dory_gap8_share.h"
#include "dory_gap8_types.h"

#ifndef DORY_POOL
#define DORY_POOL 1
#endif

/* Rows and columns of inputs from output to output, and columns that an output sees. */
#define DORY_DOWN (DORY_POOL * DORY_STRIDE_H)
#define DORY_ACROSS (DORY_POOL * DORY_STRIDE_W)
#define DORY_SEEN_W (DORY_KERNEL_W + (DORY_POOL - 1) * DORY_STRIDE_W)
#define DORY_RUN (DORY_KERNEL_W * DORY_CHANNELS)
#define DORY_STEP (DORY_STRIDE_W * DORY_CHANNELS)

/* Strips that are neighbours in a row; the assembly knows the order of the fields. Of a pool a strip
 * has the outputs' two columns. */
typedef struct {
  const DORY_X_T *x; /* the first input of the first strip */
  int32_t x_step;    /* bytes from column to column */
  int32_t x_row;     /* bytes from row to row */
  const int8_t *weights; /* of the first channel: weights, parameters, then those of the next one */
  DORY_Y_T *y;
  int32_t y_next; /* bytes behind the channels of a strip before those of the next one */
  DORY_Y_T *y_end; /* what would be the output of the strip behind the last one */
  int32_t y_row;   /* bytes from output to output of a strip */
  int32_t y_back;  /* from the last output of a channel to the first one of the next channel */
  int32_t channels;
#if DORY_POOL > 1
  int32_t *sums; /* room for those of the first column: of all channels, one for each output */
#endif
} dory_held_t;

#if defined(__riscv) && DORY_GAP8_XPULPV2

#include DORY_KERNEL_ASM

#else

/* The sum of an output, whose first input is at x, with the weights of a channel. */
static inline int32_t dory_held_sum(const DORY_X_T *x, int32_t x_row, const int8_t *w) {
  const int32_t whole = DORY_REST ? 4 * DORY_WORDS : DORY_RUN;
  const int8_t *const rest = w + 4 * DORY_KERNEL_H * DORY_WORDS;
  int32_t sum = 0;
  for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++, x += x_row) {
    for (int32_t i = 0; i < whole; i++) {
      sum += x[i] * w[4 * DORY_WORDS * ky + i];
    }
    for (int32_t i = 0; i < DORY_REST; i++) {
      const int32_t below = ky < 4 ? ky : 4 + ky - DORY_STRIDE_H * DORY_JUMP;
      sum += x[whole + i] * rest[(DORY_JUMP ? 8 : 4) * i + below];
    }
  }
  return sum;
}

/* The largest sum of an output, whose first input is at x. */
static inline int32_t dory_held_largest(const dory_held_t *s, const DORY_X_T *x, const int8_t *w) {
  int32_t best = dory_held_sum(x, s->x_row, w);
  for (int32_t i = 1; i < DORY_POOL * DORY_POOL; i++) {
    const int32_t down = i / DORY_POOL * DORY_STRIDE_H * s->x_row;
    const int32_t sum = dory_held_sum(x + down + i % DORY_POOL * s->x_step, s->x_row, w);
    best = sum > best ? sum : best;
  }
  return best;
}

/* Computes strips of `rows` outputs. */
static void dory_held_run(dory_held_t *s, int32_t rows) {
  for (; s->y != s->y_end; s->x += DORY_POOL * s->x_step, s->y += s->channels + s->y_next) {
    const int8_t *w = s->weights;
    for (int32_t c = 0; c < s->channels; c++, w += DORY_CHANNEL_BYTES) {
      const int32_t *const parameters =
          (const int32_t *)(const void *)(w + DORY_CHANNEL_BYTES - 4 * DORY_BLOCK_PARAMETERS);
      for (int32_t p = 0; p < rows; p++) {
        const int32_t sum = dory_held_largest(s, s->x + p * DORY_DOWN * s->x_row, w);
        s->y[p * s->y_row + c] =
            (DORY_Y_T)dory_block_value(sum, parameters, DORY_SHIFT, DORY_LOW_BITS, DORY_HI);
      }
    }
  }
}

#endif

#if DORY_PADDED

/* Copies what `rows` rows of windows from (row, column) on see, with what stands around the tile; each
 * row of the copy has `size` bytes, of which a multiple of four is written. */
static DORY_GAP8_NOINLINE void dory_held_patch(DORY_X_T *to, const dory_gap8_window_t *a, int32_t row,
                                               int32_t column, int32_t rows, int32_t size) {
  const DORY_X_T *const x = a->x;
  const int32_t pitch = a->x_w * DORY_CHANNELS, first = column * DORY_CHANNELS;
  /* Bytes of the copy before and behind which there is no tile. */
  const int32_t begin = dory_gap8_clip(-first, 0, size), end = dory_gap8_clip(pitch - first, begin, size);
  for (; rows > 0; rows--, row++, to += DORY_PATCH_ROW) {
    const int inside = (uint32_t)row < (uint32_t)a->x_h;
    int32_t i = begin;
    if (!inside || end - begin < size) {
      for (int32_t k = 0; k < size; k += 4) {
        dory_gap8_store4_u8(to + k, dory_gap8_from_word_u8(DORY_PAD_WORD));
      }
    }
    if (inside) {
      const DORY_X_T *const from = x + row * pitch + first;
      for (; i + 4 <= end; i += 4) {
        dory_gap8_store4_u8(to + i, dory_gap8_load4_u8(from + i));
      }
      for (; i < end; i++) {
        to[i] = from[i];
      }
    }
  }
}

#endif

/* How many of `count` strips from a column of the tile on see no padding left and right. */
static inline int32_t dory_held_inside(int32_t column, int32_t x_w, int32_t count) {
  const int32_t room = x_w - DORY_SEEN_W - column;
  return column < 0 || room < 0 ? 0 : dory_gap8_min(room / DORY_ACROSS + 1, count);
}

/* The share of the calling core, of the channels of all strips, where rows of strips take different
 * numbers of cycles. top, bottom: what a strip of the first and of the last row takes more. */
static DORY_GAP8_NOINLINE dory_gap8_range_t dory_held_uneven(const dory_gap8_window_t *a,
                                                             int32_t strips, int32_t longer,
                                                             int32_t top, int32_t bottom) {
  const int32_t width = a->y_w, y_c = a->y_c, one_more = y_c * DORY_OUTPUT_CYCLES;
  const int32_t least = dory_gap8_div(a->y_h, strips);
  const int32_t cycles = a->strip_cycles + y_c * DORY_WORD_CYCLES + least * one_more;
  /* The first row of strips, others with one more output, the rest, the last row. */
  dory_gap8_run_t runs[4] = {{width, cycles + (longer > 0 ? one_more : 0) + top},
                             {width * (longer - (longer > 0)), cycles + one_more},
                             {width * (strips - 1 - longer - (longer == 0)), cycles},
                             {width, cycles + bottom}};
  if (strips == 1) { /* it is the first and the last row */
    runs[2].pieces = 0;
    runs[3].pieces = 0;
  }
  return dory_gap8_even(runs, 4, y_c, DORY_CORES);
}

/* The share of the calling core: it may begin and end at any channel of a strip. longer: rows of strips
 * with one more output than the rest. */
static inline dory_gap8_range_t dory_held_share(const dory_gap8_window_t *a, int32_t strips,
                                                int32_t longer) {
  const int32_t width = a->y_w, y_c = a->y_c;
  int32_t top = 0, bottom = 0;
#if DORY_PADDED
  if (a->pad_top > 0) {
    top = a->copy_cycles;
  }
  if ((a->y_h * DORY_POOL - 1) * DORY_STRIDE_H + DORY_KERNEL_H - a->pad_top > a->x_h) {
    bottom = a->copy_cycles;
  }
#endif
  /* A core has the copies of a row, all cores have what shorter strips save. */
  const int32_t shorter = (longer > 0 ? strips - longer : 0) * y_c * DORY_OUTPUT_CYCLES;
  if (width * (DORY_CORES * (top + bottom) + shorter) < DORY_CORES * DORY_GAP8_UNEVEN) {
    const int32_t all = strips * width, whole = dory_gap8_ceil_div(all, DORY_CORES);
    const int32_t cycles = y_c * (DORY_WORD_CYCLES + DORY_OUTPUTS * DORY_OUTPUT_CYCLES);
    const int32_t idle = (DORY_CORES * whole - all) * cycles; /* with whole strips */
    return dory_gap8_part(all * y_c, idle < DORY_CORES * DORY_GAP8_UNEVEN ? y_c : 1, DORY_CORES,
                          (int32_t)dory_core_id());
  }
  return dory_held_uneven(a, strips, longer, top, bottom);
}

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const int32_t strips = dory_gap8_ceil_div(a->y_h, DORY_OUTPUTS);
  /* Outputs of the strips; the first ones have one more. */
  const int32_t least = a->y_h / strips, longer = a->y_h - strips * least;
  const int32_t y_c = a->y_c, width = a->y_w;
  const dory_gap8_range_t share = dory_held_share(a, strips, longer);
  const int32_t number = dory_gap8_div(share.first, y_c);
  int32_t left = share.end - share.first, channel = share.first - number * y_c;
  int32_t strip = dory_gap8_div(number, width), place = number - strip * width;
  dory_held_t s;
  s.x_step = DORY_STEP;
  s.y_row = width * y_c;
#if DORY_POOL > 1
  s.sums = (int32_t *)(void *)((uint8_t *)a->scratch +
                               DORY_CORES * DORY_PATCH_ROW * DORY_PATCH_ROWS) +
           (int32_t)dory_core_id() * (DORY_OUTPUTS * a->y_c);
#endif
  while (left > 0) {
    const int32_t first = strip * least + dory_gap8_min(strip, longer);
    const int32_t rows = least + (strip < longer);
    const int32_t row = first * DORY_DOWN - (DORY_PADDED ? a->pad_top : 0);
    const int32_t column = place * DORY_ACROSS - (DORY_PADDED ? a->pad_left : 0);
    int32_t count = 1;
    s.channels = dory_gap8_min(left, y_c - channel);
    s.y_next = y_c - s.channels;
    if (s.channels == y_c) {
      count = dory_gap8_min(dory_gap8_div(left, y_c), width - place);
    }
#if DORY_PADDED
    const int32_t x_rows = (DORY_POOL * rows - 1) * DORY_STRIDE_H + DORY_KERNEL_H;
    const int all_rows = row >= 0 && row + x_rows <= a->x_h;
    /* A few strips are copied all when the first or the last one has to be. */
    const int short_row = count <= DORY_WALK;
    const int32_t inside = all_rows ? dory_held_inside(column, a->x_w, count) : 0;
    if (inside < (short_row ? count : 1)) {
      DORY_X_T *const copy = (DORY_X_T *)a->scratch +
                             (int32_t)dory_core_id() * (DORY_PATCH_ROW * DORY_PATCH_ROWS);
      count = dory_gap8_min(count, DORY_WALK);
      if (all_rows && column < 0 && !short_row) {
        count = dory_gap8_min(count, (DORY_ACROSS - 1 - column) / DORY_ACROSS);
      }
      dory_held_patch(copy, a, row, column, x_rows,
                      (DORY_POOL * count - 1) * DORY_STEP + DORY_RUN);
      s.x = copy;
      s.x_row = DORY_PATCH_ROW;
    } else {
      count = inside;
      s.x = (const DORY_X_T *)a->x + (row * a->x_w + column) * DORY_CHANNELS;
      s.x_row = a->x_w * DORY_CHANNELS;
    }
#else
    s.x = (const DORY_X_T *)a->x + (row * a->x_w + column) * DORY_CHANNELS;
    s.x_row = a->x_w * DORY_CHANNELS;
#endif
    s.weights = (const int8_t *)a->weights + channel * DORY_CHANNEL_BYTES;
    s.y = (DORY_Y_T *)a->y + (first * width + place) * y_c + channel;
    s.y_back = 1 - (rows - 1) * s.y_row;
    s.y_end = s.y + count * y_c;
    dory_held_run(&s, rows);
    left -= count * s.channels;
    channel = 0;
    place += count;
    if (place == width) {
      place = 0;
      strip++;
    }
  }
}
