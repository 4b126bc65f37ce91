/* Dense convolution that first gathers its inputs, for pixels that are no words: template of the
 * kernel DORY_KERNEL, configured as dory_gap8_window_impl.h and
 *
 *   DORY_CHANNELS   input channels
 *   DORY_PAD_VALUE  what stands around the image
 *   DORY_PAD_WORD   a word of it
 *   DORY_COPIED     whether the cores first copy the tile, with what stands around it, into the scratch:
 *                   no window has a border then. For tiles of short rows, where most windows do, and
 *                   of windows along a row, where the first cores had all of the borders.
 *   DORY_BATCH      blocks of pixels that are gathered before they are computed
 *
 * Each core lays the inputs of blocks of pixels into its part of the scratch, a column for each. The
 * inputs of a window are runs of neighbours in memory: its rows, or its taps where they are apart.
 * First come the whole words of every run, then what is left over of every run, then zeros up to the
 * next word; so words are only ever stored where words begin. */
#include "dory_gap8_block_tile.h"
#include "dory_gap8_types.h"

#if DORY_DILATION_W == 1
#define DORY_ROW_RUNS 1
#define DORY_RUN (DORY_KERNEL_W * DORY_CHANNELS)
#else
#define DORY_ROW_RUNS DORY_KERNEL_W
#define DORY_RUN DORY_CHANNELS
#endif
#define DORY_RUNS (DORY_KERNEL_H * DORY_ROW_RUNS)
/* Inputs in the words of a run, and those left over. */
#define DORY_WHOLE (DORY_RUN / DORY_LANES * DORY_LANES)
#define DORY_REST (DORY_RUN - DORY_WHOLE)
/* Steps of the block, two at least, and inputs of a column with what fills it up. */
#define DORY_COLUMN (DORY_RUNS * DORY_RUN)
#define DORY_GATHERED \
  (DORY_COLUMN <= 2 * DORY_LANES ? 2 : (DORY_COLUMN + DORY_LANES - 1) / DORY_LANES)
#define DORY_PITCH (DORY_LANES * DORY_GATHERED)

#define DORY_BLOCK_COLUMNS (DORY_BLOCK_PIXELS * DORY_PITCH)

/* Words of a run whose loads come before their stores, so that no instruction waits for the one before
 * it; those of long runs would not fit into registers. */
#define DORY_AT_ONCE 16

/* Gathers run number `run`, all of it. */
static inline void dory_gather_run(DORY_X_T *column, int32_t run, const DORY_X_T *from) {
  DORY_X_T *const to = column + run * DORY_WHOLE;
  DORY_X_T *const rest = column + DORY_RUNS * DORY_WHOLE + run * DORY_REST;
  dory_gap8_u8x4_t words[DORY_AT_ONCE];
  DORY_X_T left[DORY_REST + 1];
  for (int32_t i = 0; i < DORY_REST; i++) {
    left[i] = from[DORY_WHOLE + i];
  }
  for (int32_t first = 0; first < DORY_WHOLE; first += DORY_LANES * DORY_AT_ONCE) {
    const int32_t n = dory_gap8_min((DORY_WHOLE - first) / DORY_LANES, DORY_AT_ONCE);
    for (int32_t i = 0; i < n; i++) {
      words[i] = dory_gap8_load4_u8(from + first + DORY_LANES * i);
    }
    for (int32_t i = 0; i < n; i++) {
      dory_gap8_store4_u8(to + first + DORY_LANES * i, words[i]);
    }
  }
  for (int32_t i = 0; i < DORY_REST; i++) {
    rest[i] = left[i];
  }
}

#define DORY_BORDERS (DORY_PADDED && !DORY_COPIED)

/* A window: row and column of its first tap, which padding makes negative, and that tap's place behind
 * the first input. */
typedef struct {
  int32_t row, column, place;
} dory_window_t;

/* Goes on to the next window. last_column: of the last one in a row of y_w. */
static inline void dory_next_window(dory_window_t *w, int32_t last_column, int32_t y_w,
                                    int32_t x_row) {
  const int next = w->column == last_column;
  w->column += DORY_STRIDE_W;
  w->place += DORY_STRIDE_W * DORY_CHANNELS;
  if (next) {
    w->column -= y_w * DORY_STRIDE_W;
    w->row += DORY_STRIDE_H;
    w->place += DORY_STRIDE_H * x_row - y_w * (DORY_STRIDE_W * DORY_CHANNELS);
  }
}

/* Gathers the column of a window that lies in the tile, or those of a block of neighbours in a row:
 * the compiler knows which, and where each input of them lies behind the first one. */
static inline void dory_gather_inside(DORY_X_T *columns, const DORY_X_T *from, int32_t x_row,
                                      int block) {
  for (int32_t ky = 0; ky < DORY_KERNEL_H; ky++) {
    for (int32_t kx = 0; kx < DORY_ROW_RUNS; kx++) {
      const int32_t run = ky * DORY_ROW_RUNS + kx, next = DORY_STRIDE_W * DORY_CHANNELS;
      const DORY_X_T *const at = from + kx * (DORY_DILATION_W * DORY_CHANNELS);
      dory_gather_run(columns, run, at);
      if (block) {
        dory_gather_run(columns + DORY_PITCH, run, at + next);
        dory_gather_run(columns + 2 * DORY_PITCH, run, at + 2 * next);
#if DORY_BLOCK_PIXELS == 4
        dory_gather_run(columns + 3 * DORY_PITCH, run, at + 3 * next);
#endif
      }
    }
    from += DORY_DILATION_H * x_row;
  }
}

/* The tile in which windows lie. */
typedef struct {
  const DORY_X_T *x;
  int32_t h, w;
} dory_image_t;

#if DORY_COPIED

/* Copies inputs first .. end - 1 of a row with what stands around it; inputs before .. last - 1 of it
 * are those from `from` on. */
static inline void dory_copy_row(DORY_X_T *out, const DORY_X_T *from, int32_t before, int32_t last,
                                 int32_t first, int32_t end) {
  const int32_t begin = dory_gap8_clip(before, first, end), stop = dory_gap8_clip(last, begin, end);
  int32_t i = first;
  for (; i < begin; i++) {
    out[i] = (DORY_X_T)DORY_PAD_VALUE;
  }
  for (; i + DORY_LANES <= stop; i += DORY_LANES) {
    dory_gap8_store4_u8(out + i, dory_gap8_load4_u8(from + (i - before)));
  }
  for (; i < stop; i++) {
    out[i] = from[i - before];
  }
  for (; i < end; i++) {
    out[i] = (DORY_X_T)DORY_PAD_VALUE;
  }
}

/* Copies the calling core's part of the tile with what stands around it to `to`, behind the columns of
 * all cores: rows, or a piece of each where there are fewer rows than cores. All windows lie in it once
 * every core has done so. */
static DORY_GAP8_NOINLINE dory_image_t dory_copy_image(const dory_gap8_window_t *a, DORY_X_T *to) {
  const dory_image_t image = {
      to, (a->y_h - 1) * DORY_STRIDE_H + (DORY_KERNEL_H - 1) * DORY_DILATION_H + 1,
      (a->y_w - 1) * DORY_STRIDE_W + (DORY_KERNEL_W - 1) * DORY_DILATION_W + 1};
  const int32_t before = a->pad_left * DORY_CHANNELS, last = before + a->x_w * DORY_CHANNELS;
  const int32_t pitch = image.w * DORY_CHANNELS;
  const int by_rows = image.h >= DORY_CORES;
  const int32_t core = (int32_t)dory_core_id();
  const dory_gap8_range_t all = {0, pitch};
  const dory_gap8_range_t piece =
      by_rows ? all : dory_gap8_part(pitch, DORY_LANES, DORY_CORES, core);
  for (int32_t row = by_rows ? core : 0; row < image.h; row += by_rows ? DORY_CORES : 1) {
    const int32_t x_row = row - a->pad_top;
    const int inside = (uint32_t)x_row < (uint32_t)a->x_h;
    const DORY_X_T *const from =
        (const DORY_X_T *)a->x + (inside ? x_row * a->x_w * DORY_CHANNELS : 0);
    dory_copy_row(to + row * pitch, from, inside ? before : pitch, inside ? last : pitch, piece.first,
                  piece.end);
  }
  dory_barrier();
  return image;
}

#endif

#if DORY_BORDERS

/* Fills the words of a run with what stands around the image. */
static inline void dory_fill_run(DORY_X_T *run) {
  for (int32_t i = 0; i <= DORY_RUN / DORY_LANES; i++) {
    dory_gap8_store4_u8(run + DORY_LANES * i, dory_gap8_from_word_u8(dory_gap8_keep(DORY_PAD_WORD)));
  }
}

/* Gathers the runs of a window that are not all in the tile. A run of which a part is padding is put
 * together first. */
static DORY_GAP8_NOINLINE void dory_gather_border(DORY_X_T *column, const dory_gap8_window_t *a,
                                                  const dory_window_t *w) {
  const int32_t rows = (int32_t)dory_gap8_keep(DORY_KERNEL_H);
  const DORY_X_T *const x = a->x;
  DORY_X_T padding[DORY_WHOLE + DORY_LANES] DORY_GAP8_WORDS;
  DORY_X_T mixed[DORY_WHOLE + DORY_LANES] DORY_GAP8_WORDS;
  int32_t run = 0, row = w->row, place = w->place;
  dory_fill_run(padding);
  for (int32_t ky = 0; ky < rows; ky++) {
    const int row_inside = (uint32_t)row < (uint32_t)a->x_h;
    for (int32_t kx = 0; kx < DORY_ROW_RUNS; kx++, run++) {
      /* Inputs of the run before which and from which on there are none. */
      const int32_t at = w->column + kx * DORY_DILATION_W;
      const int32_t from = place + kx * (DORY_DILATION_W * DORY_CHANNELS);
      const int32_t end = row_inside ? (a->x_w - at) * DORY_CHANNELS : 0;
      const DORY_X_T *source = padding;
      if (at >= 0 && end >= DORY_RUN) {
        source = x + from;
      } else if (at * DORY_CHANNELS > -DORY_RUN && end > 0) {
        const int32_t last = dory_gap8_min(end, DORY_RUN);
        dory_fill_run(mixed);
        for (int32_t i = dory_gap8_max(0, -at * DORY_CHANNELS); i < last; i++) {
          mixed[i] = x[from + i];
        }
        source = mixed;
      }
      dory_gather_run(column, run, source);
    }
    row += DORY_DILATION_H;
    place += DORY_DILATION_H * a->x_w * DORY_CHANNELS;
  }
}

#endif

/* Where the inputs of a block of pixels are. */
static inline void dory_enter_columns(const DORY_X_T **table, const DORY_X_T *columns) {
  for (int32_t j = 0; j < DORY_BLOCK_PIXELS; j++) {
    table[j] = columns + j * DORY_PITCH;
    table[DORY_BLOCK_PIXELS + j] = table[j];
  }
}

/* Clears what fills up columns: nothing stores there. */
static inline void dory_clear_fill(DORY_X_T *columns) {
  for (int32_t j = 0; j < DORY_BATCH * DORY_BLOCK_PIXELS; j++, columns += DORY_PITCH) {
    for (int32_t i = DORY_COLUMN / DORY_LANES * DORY_LANES; i < DORY_PITCH; i += DORY_LANES) {
      dory_gap8_store4_u8(columns + i, dory_gap8_set4_u8(0, 0, 0, 0));
    }
  }
}

/* Computes one tile. Every core calls it; of what another core writes it reads the copy alone. */
void DORY_KERNEL(const dory_gap8_window_t *a) {
#if DORY_COPIED
  const dory_image_t image =
      dory_copy_image(a, (DORY_X_T *)a->scratch + DORY_CORES * DORY_BATCH * DORY_BLOCK_COLUMNS);
#else
  const dory_image_t image = {a->x, a->x_h, a->x_w};
#endif
  const int32_t x_row = image.w * DORY_CHANNELS;
  const int32_t all = a->y_h * a->y_w;
  dory_block_tile_t tile = {a->weights, a->parameters, 16 * DORY_PASSES * DORY_GATHERED,
                            a->y_c,     {0, 0},        a->requant};
  dory_block_share_t share = dory_block_share(all, a->y_c);
  DORY_X_T *const columns =
      (DORY_X_T *)a->scratch + (int32_t)dory_core_id() * (DORY_BATCH * DORY_BLOCK_COLUMNS);
  const DORY_X_T *table[2 * DORY_BLOCK_PIXELS];
  /* Windows whose first tap is in the first of so many rows and columns lie in the tile. */
  const uint32_t rows_inside =
      (uint32_t)dory_gap8_max(0, image.h - (DORY_KERNEL_H - 1) * DORY_DILATION_H);
  const uint32_t columns_inside =
      (uint32_t)dory_gap8_max(0, image.w - (DORY_KERNEL_W - 1) * DORY_DILATION_W);
  const int32_t last_column = (a->y_w - 1) * DORY_STRIDE_W - (DORY_BORDERS ? a->pad_left : 0);
  dory_gap8_work_t part;
  dory_block_t b;
  dory_clear_fill(columns);
  while (dory_block_part(&share, all, a->y_c, &part)) {
    DORY_Y_T *y = (DORY_Y_T *)a->y + part.pixels.first * a->y_c;
    int32_t left = part.pixels.end - part.pixels.first, most;
    dory_window_t w;
    tile.channels = part.channels;
    dory_block_start(&b, &tile, a);
    most = DORY_BLOCK_PIXELS * (dory_block_is_whole(&b, &tile) ? DORY_BATCH : 1);
    dory_enter_columns(table, columns);
    b.table = table;
    b.table_end = table + DORY_BLOCK_PIXELS * DORY_PASSES;
    b.steps = DORY_GATHERED;
    b.inputs = DORY_PITCH;
    b.x_step = DORY_BLOCK_COLUMNS * (int32_t)sizeof(DORY_X_T);
    w.row = part.pixels.first / a->y_w;
    w.column = (part.pixels.first - w.row * a->y_w) * DORY_STRIDE_W - (DORY_BORDERS ? a->pad_left : 0);
    w.row = w.row * DORY_STRIDE_H - (DORY_BORDERS ? a->pad_top : 0);
    w.place = w.row * x_row + w.column * DORY_CHANNELS;
    while (left > 0) {
      const int32_t pixels = dory_gap8_min(most, left);
      int32_t missing = pixels;
      DORY_X_T *to = columns;
#if DORY_BATCH > 1
      /* The block moves the pointers. */
      dory_enter_columns(table, columns);
      b.fours = 1;
      if (pixels > DORY_BLOCK_PIXELS) {
        b.fours = (int32_t)((uint32_t)pixels / DORY_BLOCK_PIXELS);
        missing = DORY_BLOCK_PIXELS * b.fours;
      }
#endif
      left -= missing;
      do {
        const int32_t end = w.column + (DORY_BLOCK_PIXELS - 1) * DORY_STRIDE_W;
        if (missing >= DORY_BLOCK_PIXELS && end <= last_column &&
            (!DORY_BORDERS || (((uint32_t)w.row < rows_inside) & (w.column >= 0) &
                               (end < (int32_t)columns_inside)))) {
          dory_gather_inside(to, image.x + w.place, x_row, 1);
          w.column = end;
          w.place += (DORY_BLOCK_PIXELS - 1) * (DORY_STRIDE_W * DORY_CHANNELS);
          missing -= DORY_BLOCK_PIXELS;
          to += DORY_BLOCK_COLUMNS;
        } else {
          if (!DORY_BORDERS ||
              (((uint32_t)w.row < rows_inside) & ((uint32_t)w.column < columns_inside))) {
            dory_gather_inside(to, image.x + w.place, x_row, 0);
          }
#if DORY_BORDERS
          else {
            dory_gather_border(to, a, &w);
          }
#endif
          missing--;
          to += DORY_PITCH;
        }
        dory_next_window(&w, last_column, a->y_w, x_row);
      } while (missing != 0);
      dory_block_pixels(&b, &tile, dory_gap8_min(DORY_BLOCK_PIXELS, pixels), y);
      y += (pixels > DORY_BLOCK_PIXELS ? DORY_BLOCK_PIXELS * b.fours : pixels) * a->y_c;
    }
  }
}
