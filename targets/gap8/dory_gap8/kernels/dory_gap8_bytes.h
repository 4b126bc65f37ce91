/* Copying and filling bytes of any alignment, four at once: for the kernels that move elements. */
#ifndef DORY_GAP8_BYTES_H
#define DORY_GAP8_BYTES_H

#include "dory_gap8_simd.h"

static inline void dory_gap8_copy_bytes(uint8_t *to, const uint8_t *from, int32_t n) {
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    dory_gap8_store4_u8(to + i, dory_gap8_load4_u8(from + i));
  }
  for (; i < n; i++) {
    to[i] = from[i];
  }
}

/* word: the byte four times. */
static inline void dory_gap8_fill_bytes(uint8_t *to, uint32_t word, int32_t n) {
  const dory_gap8_u8x4_t four = dory_gap8_from_word_u8(word);
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    dory_gap8_store4_u8(to + i, four);
  }
  for (; i < n; i++) {
    to[i] = (uint8_t)word;
  }
}

#endif
