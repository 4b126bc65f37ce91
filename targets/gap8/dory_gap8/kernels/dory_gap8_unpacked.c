/* Tiles of packed elements as bytes and back. Per element and with the loads and stores: about one
 * instruction to unpack unsigned ones, two for signed ones, one and a half to pack. */
#include "dory_gap8_unpacked.h"

#include "dory_gap8_packed.h"
#include "dory_gap8_share.h"

/* Bytes of a and b, by number 0 .. 7. */
static inline uint32_t dory_select(uint32_t a, uint32_t b, int32_t m0, int32_t m1, int32_t m2,
                                   int32_t m3) {
  const dory_gap8_u8x4_t v =
      dory_gap8_shuffle4_u8(dory_gap8_from_word_u8(a), dory_gap8_from_word_u8(b),
                            dory_gap8_set4_i8(m0, m1, m2, m3));
  return dory_gap8_to_word_u8(v);
}

/* n neighbouring elements, from a byte on. */
static inline void dory_unpack_run(uint8_t *to, const uint8_t *from, int32_t n, int bits,
                                   int is_signed) {
  const int per_word = 32 / bits;
  const int32_t words = (int32_t)((uint32_t)n / (uint32_t)per_word);
  for (int32_t i = 0; i < words; i++, from += 4, to += per_word) {
    const uint32_t w = dory_gap8_load_word(from);
    const uint32_t f0 = dory_gap8_field(w, bits, is_signed, 0);
    const uint32_t f1 = dory_gap8_field(w, bits, is_signed, 1);
    const uint32_t low = dory_select(f0, f1, 0, 4, 1, 5), high = dory_select(f0, f1, 2, 6, 3, 7);
    if (bits == 4) {
      dory_gap8_store_word(to, low);
      dory_gap8_store_word(to + 4, high);
    } else {
      const uint32_t f2 = dory_gap8_field(w, 2, is_signed, 2);
      const uint32_t f3 = dory_gap8_field(w, 2, is_signed, 3);
      const uint32_t low2 = dory_select(f2, f3, 0, 4, 1, 5);
      const uint32_t high2 = dory_select(f2, f3, 2, 6, 3, 7);
      dory_gap8_store_word(to, dory_select(low, low2, 0, 1, 4, 5));
      dory_gap8_store_word(to + 4, dory_select(low, low2, 2, 3, 6, 7));
      dory_gap8_store_word(to + 8, dory_select(high, high2, 0, 1, 4, 5));
      dory_gap8_store_word(to + 12, dory_select(high, high2, 2, 3, 6, 7));
    }
  }
  for (int32_t i = 0; i < n - words * per_word; i++) {
    to[i] = (uint8_t)dory_gap8_get(from, i, bits, is_signed);
  }
}

/* n neighbouring elements, from a byte on; the rest of the last byte becomes zero. */
static inline void dory_pack_run(uint8_t *to, const uint8_t *from, int32_t n, int bits) {
  const int per_word = 32 / bits;
  const int mask = (1 << bits) - 1;
  const int32_t words = (int32_t)((uint32_t)n / (uint32_t)per_word);
  int32_t left = n - words * per_word;
  for (int32_t i = 0; i < words; i++, from += per_word, to += 4) {
    const uint32_t a = dory_gap8_load_word(from), b = dory_gap8_load_word(from + 4);
    const uint32_t even = dory_select(a, b, 0, 2, 4, 6), odd = dory_select(a, b, 1, 3, 5, 7);
    uint32_t w;
    if (bits == 4) {
      w = dory_gap8_bytes_and(even, mask) | dory_gap8_bytes_sll(odd, 4);
    } else {
      const uint32_t c = dory_gap8_load_word(from + 8), d = dory_gap8_load_word(from + 12);
      const uint32_t even2 = dory_select(c, d, 0, 2, 4, 6);
      const uint32_t odd2 = dory_select(c, d, 1, 3, 5, 7);
      w = dory_gap8_bytes_and(dory_select(even, even2, 0, 2, 4, 6), mask) |
          dory_gap8_bytes_and(dory_select(odd, odd2, 0, 2, 4, 6), mask) << 2 |
          dory_gap8_bytes_and(dory_select(even, even2, 1, 3, 5, 7), mask) << 4 |
          dory_gap8_bytes_sll(dory_select(odd, odd2, 1, 3, 5, 7), 6);
    }
    dory_gap8_store_word(to, w);
  }
  for (; left > 0; left -= 4, from += 4, to += bits / 2) {
    int32_t v[4] = {0, 0, 0, 0};
    for (int32_t i = 0; i < dory_gap8_min(left, 4); i++) {
      v[i] = from[i];
    }
    dory_gap8_put4(to, 0, dory_gap8_min(left, 4), bits, v);
  }
}

/* The elements or, where pixels end inside a byte, the pixels of the calling core. */
static inline dory_gap8_range_t dory_mine(int32_t n, int32_t unit) {
  return dory_gap8_part(n, unit, (int32_t)dory_core_count(), (int32_t)dory_core_id());
}

static inline void dory_unpack_tile(uint8_t *to, const uint8_t *from, int32_t pixels,
                                    int32_t channels, int bits, int is_signed) {
  if ((channels & (8 / bits - 1)) == 0) {
    const dory_gap8_range_t mine = dory_mine(pixels * channels, 32 / bits);
    if (mine.first < mine.end) {
      dory_unpack_run(to + mine.first, from + dory_gap8_bytes(mine.first, bits),
                      mine.end - mine.first, bits, is_signed);
    }
  } else {
    const dory_gap8_range_t mine = dory_mine(pixels, 1);
    for (int32_t i = mine.first; i < mine.end; i++) {
      dory_unpack_run(to + i * channels, from + i * dory_gap8_bytes(channels, bits), channels, bits,
                      is_signed);
    }
  }
}

static inline void dory_pack_tile(uint8_t *to, const uint8_t *from, int32_t pixels,
                                  int32_t channels, int bits) {
  if ((channels & (8 / bits - 1)) == 0) {
    const dory_gap8_range_t mine = dory_mine(pixels * channels, 32 / bits);
    if (mine.first < mine.end) {
      dory_pack_run(to + dory_gap8_bytes(mine.first, bits), from + mine.first,
                    mine.end - mine.first, bits);
    }
  } else {
    const dory_gap8_range_t mine = dory_mine(pixels, 1);
    for (int32_t i = mine.first; i < mine.end; i++) {
      dory_pack_run(to + i * dory_gap8_bytes(channels, bits), from + i * channels, channels, bits);
    }
  }
}

static inline void dory_unpack_words(uint8_t *to, const uint8_t *from, int32_t words, int bits) {
  const dory_gap8_range_t mine = dory_mine(words, 1);
  if (mine.first < mine.end) {
    dory_gap8_unpack(to + mine.first * (32 / bits), from + mine.first * 4,
                     (mine.end - mine.first) * 4, bits, 1);
  }
}

void dory_gap8_unpack_u2(void *to, const void *from, int32_t pixels, int32_t channels) {
  dory_unpack_tile(to, from, pixels, channels, 2, 0);
}
void dory_gap8_unpack_i2(void *to, const void *from, int32_t pixels, int32_t channels) {
  dory_unpack_tile(to, from, pixels, channels, 2, 1);
}
void dory_gap8_unpack_u4(void *to, const void *from, int32_t pixels, int32_t channels) {
  dory_unpack_tile(to, from, pixels, channels, 4, 0);
}
void dory_gap8_unpack_i4(void *to, const void *from, int32_t pixels, int32_t channels) {
  dory_unpack_tile(to, from, pixels, channels, 4, 1);
}

void dory_gap8_unpack_weights_i2(void *to, const void *from, int32_t words) {
  dory_unpack_words(to, from, words, 2);
}
void dory_gap8_unpack_weights_i4(void *to, const void *from, int32_t words) {
  dory_unpack_words(to, from, words, 4);
}

void dory_gap8_pack_2(void *to, const void *from, int32_t pixels, int32_t channels) {
  dory_pack_tile(to, from, pixels, channels, 2);
}
void dory_gap8_pack_4(void *to, const void *from, int32_t pixels, int32_t channels) {
  dory_pack_tile(to, from, pixels, channels, 4);
}
