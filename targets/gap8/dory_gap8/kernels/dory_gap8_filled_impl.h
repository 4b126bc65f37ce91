/* Dense convolution along a row: template of the kernel DORY_KERNEL, configured as
 * dory_gap8_block_tile.h and
 *
 *   DORY_CHANNELS   input channels, four bytes at least
 *   DORY_PAD_WORD   a word of what stands around the image
 *   DORY_KERNEL_W, DORY_STRIDE_W, DORY_DILATION_W   a window, which has one row
 *
 * The tile is one row of pixels. The cores copy it into the scratch with its padding: each pixel is
 * filled up to whole words, which weights of zero cancel, and pixels whose distance is a multiple of the
 * dilation follow one another. So every window is one segment that begins on a word, and the block
 * reads it where it lies. */
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

/* Columns between the first pixels of two blocks; whether they are equally far apart in the copy. */
#define DORY_NEXT_COLUMNS (DORY_BLOCK_PIXELS * DORY_STRIDE_W)
#define DORY_RUNS_ON (DORY_BLOCK_FORM != DORY_BLOCK_RAW && DORY_NEXT_COLUMNS % DORY_DILATION_W == 0)

#define DORY_PIXEL_BYTES (DORY_CHANNELS * (int32_t)sizeof(DORY_X_T))
#define DORY_WHOLE_WORDS (DORY_PIXEL_BYTES / 4)
#define DORY_FILLED_WORDS ((DORY_PIXEL_BYTES + 3) / 4)
/* Elements of a filled pixel. */
#define DORY_FILLED (DORY_FILLED_WORDS * DORY_WORD)

/* The copy: pixels whose column leaves the same remainder, and where they begin. */
typedef struct {
  DORY_X_T *first;
  int32_t turn;
} dory_copy_of_row_t;

/* Copies a pixel. Its last word ends where the pixel ends. */
static inline void dory_fill_pixel(DORY_X_T *to, const DORY_X_T *from) {
  dory_gap8_u8x4_t words[DORY_FILLED_WORDS];
  for (int32_t i = 0; i < DORY_WHOLE_WORDS; i++) {
    words[i] = dory_gap8_load4_u8(from + DORY_WORD * i);
  }
  if (DORY_FILLED_WORDS > DORY_WHOLE_WORDS) {
    const uint32_t end =
        dory_gap8_to_word_u8(dory_gap8_load4_u8(from + (DORY_CHANNELS - DORY_WORD)));
    words[DORY_FILLED_WORDS - 1] = dory_gap8_from_word_u8(end >> (32 - DORY_PIXEL_BYTES % 4 * 8) % 32);
  }
  for (int32_t i = 0; i < DORY_FILLED_WORDS; i++) {
    dory_gap8_store4_u8(to + DORY_WORD * i, words[i]);
  }
}

/* Stores n pixels of padding; returns what follows them. */
static inline DORY_X_T *dory_fill_padding(DORY_X_T *to, int32_t n) {
  for (n *= DORY_FILLED_WORDS; n > 0; n--, to += DORY_WORD) {
    dory_gap8_store4_u8(to, dory_gap8_from_word_u8(dory_gap8_keep(DORY_PAD_WORD)));
  }
  return to;
}

/* Pixels of a remainder whose column is below `columns`. */
static inline int32_t dory_pixels_below(int32_t columns, int32_t remainder) {
  return dory_gap8_max(0, columns - remainder + DORY_DILATION_W - 1) / DORY_DILATION_W;
}

/* Copies the calling core's part of the row. */
static inline void dory_fill_row(const dory_gap8_window_t *a, const dory_copy_of_row_t *copy) {
  const int32_t before = DORY_PADDED ? a->pad_left : 0, last = before + a->x_h * a->x_w;
  const dory_gap8_range_t part =
      dory_gap8_part(copy->turn, 1, DORY_CORES, (int32_t)dory_core_id());
  for (int32_t remainder = 0; remainder < DORY_DILATION_W; remainder++) {
    const int32_t first =
        dory_gap8_clip(dory_pixels_below(before, remainder), part.first, part.end);
    const int32_t end = dory_gap8_clip(dory_pixels_below(last, remainder), first, part.end);
    const int32_t column = first * DORY_DILATION_W + remainder - before;
    const DORY_X_T *from = dory_at(a->x, column * DORY_CHANNELS);
    DORY_X_T *to = copy->first + (remainder * copy->turn + part.first) * DORY_FILLED;
    to = dory_fill_padding(to, first - part.first);
    for (int32_t n = end - first; n > 0; n--, to += DORY_FILLED) {
      dory_fill_pixel(to, from);
      from += DORY_DILATION_W * DORY_CHANNELS;
    }
    (void)dory_fill_padding(to, part.end - end);
  }
}

/* Enters the windows of a block from output `pixel` on; those that are missing repeat the last one. */
static inline void dory_enter_windows(const DORY_X_T **table, const dory_copy_of_row_t *copy,
                                      int32_t pixel, int32_t pixels) {
  uint32_t column = (uint32_t)pixel * DORY_STRIDE_W;
  for (int32_t j = 0; j < DORY_BLOCK_PIXELS; j++) {
    const uint32_t place =
        column % DORY_DILATION_W * (uint32_t)copy->turn + column / DORY_DILATION_W;
    table[j] = copy->first + place * DORY_FILLED;
    column += j + 1 < pixels ? DORY_STRIDE_W : 0;
  }
}

/* Computes one tile. Every core calls it; of what another core writes it reads the copy alone. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
  const int32_t outputs = a->y_h * a->y_w;
  const int32_t columns =
      (outputs - 1) * DORY_STRIDE_W + (DORY_KERNEL_W - 1) * DORY_DILATION_W + 1;
  const dory_copy_of_row_t copy = {a->scratch, dory_gap8_ceil_div(columns, DORY_DILATION_W)};
  dory_block_tile_t tile = {a->weights, a->parameters, 16 * DORY_KERNEL_W * DORY_FILLED_WORDS,
                            a->y_c,     {0, 0},        a->requant};
  dory_block_share_t share = dory_block_share(outputs, a->y_c);
  dory_gap8_work_t part;
  dory_block_table_t table;
  dory_block_t b;
  dory_fill_row(a, &copy);
  dory_barrier();
  while (dory_block_part(&share, outputs, a->y_c, &part)) {
    int32_t pixel = part.pixels.first;
    tile.channels = part.channels;
    dory_block_start(&b, &tile, a);
    b.table = table;
    b.table_end = table + DORY_BLOCK_PIXELS;
    b.steps = DORY_KERNEL_W * DORY_FILLED_WORDS;
    b.inputs = DORY_KERNEL_W * DORY_FILLED;
    b.x_step = DORY_NEXT_COLUMNS / DORY_DILATION_W * DORY_FILLED * (int32_t)sizeof(DORY_X_T);
    while (pixel < part.pixels.end) {
      const int32_t left = part.pixels.end - pixel;
      DORY_Y_T *const y = (DORY_Y_T *)a->y + pixel * a->y_c;
      int32_t taken = 0;
      dory_enter_windows(table, &copy, pixel, left);
#if DORY_RUNS_ON
      taken = dory_block_fours(&b, &tile, left, y);
#endif
      if (taken == 0) {
        taken = dory_gap8_min(DORY_BLOCK_PIXELS, left);
        dory_block_pixels(&b, &tile, taken, y);
      }
      pixel += taken;
    }
  }
}
