/* What dory_gap8_slide_asm.h computes, in C: included by dory_gap8_block_impl.h. */

#define DORY_LAST_COLUMN (3 * DORY_STRIDE_W + 2)

/* Where columns of a block's windows begin in a row: 0, 1 and the last one. */
typedef struct {
  const DORY_X_T *left, *x, *right;
} dory_columns_t;

/* Adds a row of the windows of four pixels to the sums; returns what follows its weights. */
static inline const int8_t *dory_slide_row(int32_t sum[4][4], dory_columns_t from, const int8_t *w) {
  for (int32_t i = 0; i < DORY_CHANNELS; i += DORY_LANES) {
    for (int32_t n = 0; n < 3; n++) {
      const int32_t tap = n * DORY_STRIDE_W % 3;
      for (int32_t j = 0; j < 4; j++) {
        const int32_t column = DORY_STRIDE_W * j + tap;
        const DORY_X_T *const x = column == 0                  ? from.left
                                  : column == DORY_LAST_COLUMN ? from.right
                                                               : from.x + (column - 1) * DORY_CHANNELS;
        for (int32_t c = 0; c < 4; c++) {
          sum[j][c] = dory_block_dot(x + i, DORY_LANES, w + 4 * c, sum[j][c]);
        }
      }
      w += 16;
    }
  }
  return w;
}

/* Stores what becomes of the sums of four pixels and channels; y: the first of them. */
static inline void dory_slide_store(const dory_block_t *b, int32_t sum[4][4], int32_t group,
                                    dory_block_y_t *y) {
  const int32_t y_step = b->y_bytes / (int32_t)sizeof(dory_block_y_t);
  for (int32_t j = 0; j < 4; j++) {
    for (int32_t c = 0; c < 4; c++) {
      const int32_t *const p = b->parameters + (4 * group + c) * DORY_BLOCK_PARAMETERS;
      const int32_t v = dory_block_value(sum[j][c], p, b->shift, b->low_bits, b->hi);
      y[j * y_step + 4 * group + c] = (dory_block_y_t)v;
    }
  }
}

#if DORY_APART
/* Computes `groups` times four channels of four pixels anywhere. */
static inline void dory_apart_run(const dory_block_t *b) {
  const int8_t *w = b->weights;
  for (int32_t group = 0; group < b->groups; group++, w += b->skip) {
    int32_t sum[4][4] = {{0}};
    for (int32_t row = 0; row < b->rows; row++) {
      for (int32_t i = 0; i < DORY_CHANNELS; i += DORY_LANES) {
        for (int32_t n = 0; n < 3; n++, w += 16) {
          const int32_t behind = n * DORY_STRIDE_W % 3 - DORY_LAST_READ;
          for (int32_t j = 0; j < 4; j++) {
            const DORY_X_T *const x = dory_at(b->table[4 * row + j], behind * DORY_CHANNELS + i);
            for (int32_t c = 0; c < 4; c++) {
              sum[j][c] = dory_block_dot(x, DORY_LANES, w + 4 * c, sum[j][c]);
            }
          }
        }
      }
    }
    dory_slide_store(b, sum, group, b->y);
  }
}
#endif

/* Computes `groups` times four channels of `fours` blocks of pixels. */
static DORY_GAP8_NOINLINE void dory_block_run(const dory_block_t *b) {
  const int32_t y_step = b->y_bytes / (int32_t)sizeof(dory_block_y_t);
#if DORY_APART
  if (b->table != NULL) {
    dory_apart_run(b);
    return;
  }
#endif
  for (int32_t n = 0; n < b->fours; n++) {
    const int is_last = n == b->fours - 1;
    const DORY_X_T *const x = dory_at(b->x, n * (4 * DORY_STRIDE_W * DORY_CHANNELS));
    const dory_columns_t first = {
        n == 0 ? b->left : dory_at(x, -DORY_CHANNELS),
        x,
        is_last ? b->last : n == 0 ? b->right : dory_at(x, (DORY_LAST_COLUMN - 1) * DORY_CHANNELS),
    };
    /* From a row to the next one, in elements. */
    const int32_t size = (int32_t)sizeof(DORY_X_T), next = DORY_CHANNELS + b->row / size;
    const int32_t next_left = n == 0 ? DORY_CHANNELS + b->left_row / size : next;
    const int32_t next_right = is_last  ? DORY_CHANNELS + b->last_row / size
                               : n == 0 ? DORY_CHANNELS + b->right_row / size
                                        : next;
    const int8_t *w = b->weights;
    for (int32_t group = 0; group < b->groups; group++, w += b->skip) {
      int32_t sum[4][4] = {{0}};
      dory_columns_t from = first;
      for (int32_t row = 0; row < b->rows; row++) {
        w = dory_slide_row(sum, from, w);
        from.x = dory_at(from.x, next);
        from.left = dory_at(from.left, next_left);
        from.right = dory_at(from.right, next_right);
      }
      dory_slide_store(b, sum, group, b->y + 4 * n * y_step);
    }
  }
}
