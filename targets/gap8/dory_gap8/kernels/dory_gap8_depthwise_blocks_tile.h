/* A tile of the kernels of dory_gap8_depthwise_blocks.h, included behind
 *
 *   dory_lay         lays the blocks of a strip from `fresh` on
 *   dory_strip_run   strips one after another
 *   dory_half_run    the last strip, where it has half the outputs or fewer (DORY_HALVES)
 *   dory_columns     columns that a number of outputs along b reads
 *   dory_set_walk    what depends on the number of outputs along b */

/* What stands for a channel of the group: its weights and parameters, and where it is. */
static inline void dory_select(dory_strip_t *s, int32_t channel) {
  s->channel = channel;
  s->weights = (const int8_t *)s->tile->weights + DORY_FILTER * channel;
#if DORY_STRIP_ASM
  s->parameters = s->tile->requant.channels + (DORY_PER_CHANNEL ? channel * DORY_Q_WORDS : 0);
#endif
}

/* The strips of a call; the last of them may have half the outputs or fewer. */
static inline void dory_run(dory_strip_t *s, int32_t half) {
#if DORY_HALVES
  if (half) {
    if (--s->strips > 0) {
      dory_strip_run(s);
    }
    dory_half_run(s);
    return;
  }
#else
  (void)half;
#endif
  dory_strip_run(s);
}

#if DORY_MULTIPLIER > 1

/* One strip of the output channels from k to end of a group, several of which have one input. */
static DORY_GAP8_NOINLINE void dory_multiplied(dory_strip_t *s, dory_gap8_group_t g, int32_t k,
                                               int32_t end, int32_t half) {
  DORY_Y_T *const y = s->y - k;
  dory_strip_t next = *s;
  for (; k < end; k++) {
    next = *s;
    next.channels = 1;
    next.lane = 4 * (g.lane + dory_gap8_source(k));
    next.y = y + k;
    dory_select(&next, g.first + k);
    dory_run(&next, half);
  }
  *s = next;
}

#endif

/* Computes one tile. Every core calls it; no core reads what another one writes. */
void DORY_KERNEL(const dory_gap8_strips_t *a) {
  const dory_gap8_u8x4_t padding = dory_gap8_from_word_u8(dory_gap8_keep(DORY_PAD_WORD));
  const int32_t strips = dory_gap8_ceil_div(a->y_a, DORY_ROWS);
  /* The number of the strip with half the outputs or fewer: `strips` where there is none. */
  const int32_t half = strips - ((uint32_t)(a->y_a - 1) % DORY_ROWS < DORY_ROWS / 2);
  const int32_t walks = dory_gap8_ceil_div(a->y_b, DORY_WALK);
  const int32_t walk = walks == 1 ? a->y_b : dory_gap8_ceil_div(a->y_b, walks);
  const int32_t columns = dory_columns(walk);
  dory_gap8_units_t u = dory_gap8_units(a, strips * walks, 0);
  int32_t w = walks == 1 ? 0 : dory_gap8_div(u.position, strips);
  int32_t strip = u.position - w * strips;
  int32_t staged = 0, blanked = -1;
  const uint8_t *x = (const uint8_t *)a->x;
  DORY_Y_T *y = (DORY_Y_T *)a->y;
  dory_strip_t s;
  for (int32_t i = 0; i < 3; i++) {
    s.block[i] = (uint8_t *)a->scratch +
                 ((int32_t)dory_core_id() * DORY_BLOCKS + i) * columns * DORY_COLUMN_BYTES;
  }
  s.tile = a;
  s.padding = &padding;
  s.y_row = a->y_step_a;
  s.rows = a->x_a;
  s.x_row = a->x_step_a;
  s.x_step = a->x_step_b;
#if DORY_STRIP_ASM
  s.shift = a->requant.shift;
  s.low_bits = a->requant.low_bits;
  s.hi = a->requant.hi;
#endif
  while (u.left > 0) {
    const dory_gap8_group_t g = dory_gap8_group(a, u.group);
    const int32_t end = dory_gap8_min(u.channel + u.left, g.count);
    if (blanked != w) {
      const int32_t b = w * walk, x_b = b * DORY_STEP - a->pad_b;
      const int32_t count = dory_gap8_min(walk, a->y_b - b);
      const dory_gap8_columns_t c = dory_gap8_columns(a, x_b, columns);
      /* Units with a column of the tile are laid as a whole. */
      const int32_t before = dory_gap8_ceil_div(c.before, DORY_UNIT) * DORY_UNIT;
      const int32_t after = dory_gap8_div(c.after, DORY_UNIT) * DORY_UNIT;
      for (int32_t i = 0; i < DORY_BLOCKS; i++) {
        dory_gap8_padding(4 * before, s.block[i]);
        dory_gap8_padding(4 * after, s.block[i] + (columns - after) * DORY_COLUMN_BYTES);
      }
      x = (const uint8_t *)a->x + (x_b + c.before) * a->x_step_b;
      y = (DORY_Y_T *)a->y + b * a->y_step_b;
      s.before = dory_gap8_div(c.before, DORY_UNIT) * DORY_UNIT * DORY_COLUMN_BYTES;
      dory_set_walk(&s, count, c);
      blanked = w;
    }
    s.x = x + g.base;
    s.y = y + DORY_ROWS * strip * a->y_step_a + g.first + u.channel;
    s.left = a->y_a - DORY_ROWS * strip;
    s.fresh = 4 * staged;
    s.row = 4 * (strip * (DORY_BLOCKS - 1) + staged) - a->pad_a;
    s.lane = 4 * (g.lane + u.channel);
    s.channels = end - u.channel;
    s.strips = 1;
    dory_select(&s, g.first + u.channel);
#if DORY_MULTIPLIER > 1
    dory_lay(&s);
    dory_multiplied(&s, g, u.channel, end, strip == half);
#else
#if DORY_STRIP_ASM && DORY_GAP8_XPULPV2
    const int32_t wide = a->x_c >= 4; /* narrow pixels have no words to load */
    if (!wide) {
      dory_lay(&s);
    }
#else
    const int32_t wide = 1;
#endif
    if (wide && u.left >= 2 * g.count && s.channels == g.count) {
      s.strips = strips - strip;
      if (u.left < s.strips * g.count) {
        s.strips = dory_gap8_div(u.left, g.count);
      }
    }
    strip += s.strips - 1;
    u.left -= (s.strips - 1) * g.count;
    dory_run(&s, strip == half);
#endif
    u.left -= end - u.channel;
    u.channel = 0;
    strip++;
    staged = 1;
    if (strip == strips) {
      strip = 0;
      staged = 0;
      w++;
    }
    if (w == walks) {
      w = 0;
      u.group += u.step;
    }
  }
}
