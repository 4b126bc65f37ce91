/* Elements of 2 and 4 bits, packed along the channels: element 0 in the low bits, every pixel starts
 * on a byte, padding bits are zero.
 *
 * The chip multiplies bytes. A word of packed elements is taken apart into its fields: field v is a
 * vector of the elements v of its four bytes. So neighbours in a vector are not neighbours in
 * memory; weights are permuted alike beforehand, and nothing is shuffled at run time.
 *
 * `bits` and `is_signed` are constants in every call: the functions dissolve into a few instructions.
 */
#ifndef DORY_GAP8_PACKED_H
#define DORY_GAP8_PACKED_H

#include <stdint.h>

#include "dory_gap8_simd.h"

static inline uint32_t dory_gap8_load_word(const uint8_t *p) {
  return dory_gap8_to_word_u8(dory_gap8_load4_u8(p));
}
static inline void dory_gap8_store_word(uint8_t *p, uint32_t w) {
  dory_gap8_store4_u8(p, dory_gap8_from_word_u8(w));
}

/* The first n bytes of a word, 1 to 3, the others zero. */
static inline uint32_t dory_gap8_load_part(const uint8_t *p, int32_t n) {
  uint32_t w = p[0];
  if (n > 1) {
    w |= (uint32_t)p[1] << 8;
  }
  if (n > 2) {
    w |= (uint32_t)p[2] << 16;
  }
  return w;
}
static inline void dory_gap8_store_part(uint8_t *p, int32_t n, uint32_t w) {
  for (int32_t i = 0; i < n; i++) {
    p[i] = (uint8_t)(w >> (8 * i));
  }
}

/* Bytes of n neighbouring elements. */
static inline int32_t dory_gap8_bytes(int32_t n, int bits) {
  return bits < 8 ? (n * bits + 7) >> 3 : n * (bits >> 3);
}

/* Field v, each element in the high bits of its byte: as signed bytes, value << (8 - bits). */
static inline uint32_t dory_gap8_field_high(uint32_t w, int bits, int v) {
  const int above = 8 - bits * (v + 1);
  const uint32_t high = above > 0 ? dory_gap8_bytes_sll(w, above) : w;
  return v > 0 ? dory_gap8_bytes_and(high, -(1 << (8 - bits))) : high;
}

/* Field v as bytes. */
static inline uint32_t dory_gap8_field(uint32_t w, int bits, int is_signed, int v) {
  const int above = 8 - bits * (v + 1);
  if (is_signed) {
    return dory_gap8_bytes_sra(above > 0 ? dory_gap8_bytes_sll(w, above) : w, 8 - bits);
  }
  {
    const uint32_t low = v > 0 ? dory_gap8_bytes_srl(w, bits * v) : w;
    return above > 0 ? dory_gap8_bytes_and(low, (1 << bits) - 1) : low;
  }
}

/* Takes `bytes` of packed elements apart: the fields of each word follow each other as words. The
 * last word is completed with zeros. Source and destination may overlap where the destination ends
 * at or behind the end of the source's last word. */
static inline void dory_gap8_unpack(uint8_t *to, const uint8_t *from, int32_t bytes, int bits,
                                    int is_signed) {
  const int fields = 8 / bits;
  const int32_t words = bytes >> 2;
  for (int32_t i = 0; i < words; i++, from += 4, to += 4 * fields) {
    const uint32_t w = dory_gap8_load_word(from);
    for (int v = 0; v < fields; v++) {
      dory_gap8_store_word(to + 4 * v, dory_gap8_field(w, bits, is_signed, v));
    }
  }
  if ((bytes & 3) != 0) {
    const uint32_t w = dory_gap8_load_part(from, bytes & 3);
    for (int v = 0; v < fields; v++) {
      dory_gap8_store_word(to + 4 * v, dory_gap8_field(w, bits, is_signed, v));
    }
  }
}

/* Copies n bytes by words; returns the end of the copy. */
static inline uint8_t *dory_gap8_copy(uint8_t *to, const uint8_t *from, int32_t n) {
  const int32_t words = n >> 2;
  for (int32_t i = 0; i < words; i++, to += 4, from += 4) {
    dory_gap8_store_word(to, dory_gap8_load_word(from));
  }
  for (int32_t i = 0; i < (n & 3); i++) {
    *to++ = *from++;
  }
  return to;
}

/* Clears n bytes; returns their end. */
static inline uint8_t *dory_gap8_clear(uint8_t *to, int32_t n) {
  const int32_t words = n >> 2;
  for (int32_t i = 0; i < words; i++, to += 4) {
    dory_gap8_store_word(to, 0);
  }
  for (int32_t i = 0; i < (n & 3); i++) {
    *to++ = 0;
  }
  return to;
}

/* Element `c` of a pixel; elements of 16 and 32 bits are aligned. */
static inline int32_t dory_gap8_get(const uint8_t *pixel, int32_t c, int bits, int is_signed) {
  if (bits == 16) {
    return is_signed ? ((const int16_t *)(const void *)pixel)[c]
                     : ((const uint16_t *)(const void *)pixel)[c];
  }
  if (bits == 8) {
    return is_signed ? (int8_t)pixel[c] : pixel[c];
  }
  {
    const int32_t first = c * bits;
    const int32_t value = (pixel[first >> 3] >> (first & 7)) & ((1 << bits) - 1);
    const int32_t sign = 1 << (bits - 1);
    return is_signed ? (value ^ sign) - sign : value;
  }
}

/* Channels c .. c + n - 1 of a pixel, n up to 4, as v[0] .. v[n - 1]; c starts a byte. */
static inline void dory_gap8_get4(const uint8_t *pixel, int32_t c, int32_t n, int bits,
                                  int is_signed, int32_t v[4]) {
  const uint8_t *const p = pixel + dory_gap8_bytes(c, bits);
  v[0] = dory_gap8_get(p, 0, bits, is_signed);
  if (n > 1) {
    v[1] = dory_gap8_get(p, 1, bits, is_signed);
  }
  if (n > 2) {
    v[2] = dory_gap8_get(p, 2, bits, is_signed);
  }
  if (n > 3) {
    v[3] = dory_gap8_get(p, 3, bits, is_signed);
  }
}

/* Stores the low bits of v as element `c` of a pixel of whole bytes. */
static inline void dory_gap8_put(uint8_t *pixel, int32_t c, int bits, int32_t v) {
  if (bits == 32) {
    ((int32_t *)(void *)pixel)[c] = v;
  } else if (bits == 16) {
    ((uint16_t *)(void *)pixel)[c] = (uint16_t)v;
  } else {
    pixel[c] = (uint8_t)v;
  }
}

/* Stores v[0] .. v[n - 1], n of 1 to 4, as channels c .. of a pixel, where c starts a byte. The
 * rest of the last byte becomes zero: no other core may store into it. */
static inline void dory_gap8_put4(uint8_t *pixel, int32_t c, int32_t n, int bits,
                                  const int32_t v[4]) {
  uint8_t *const p = pixel + dory_gap8_bytes(c, bits);
  if (bits >= 8) {
    dory_gap8_put(p, 0, bits, v[0]);
    if (n > 1) {
      dory_gap8_put(p, 1, bits, v[1]);
    }
    if (n > 2) {
      dory_gap8_put(p, 2, bits, v[2]);
    }
    if (n > 3) {
      dory_gap8_put(p, 3, bits, v[3]);
    }
  } else {
    const uint32_t mask = (1u << bits) - 1u;
    uint32_t w = (uint32_t)v[0] & mask;
    if (n > 1) {
      w |= ((uint32_t)v[1] & mask) << bits;
    }
    if (n > 2) {
      w |= ((uint32_t)v[2] & mask) << (2 * bits);
    }
    if (n > 3) {
      w |= ((uint32_t)v[3] & mask) << (3 * bits);
    }
    p[0] = (uint8_t)w;
    if (bits == 4 && n > 2) {
      p[1] = (uint8_t)(w >> 8);
    }
  }
}

#endif
