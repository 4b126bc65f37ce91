/* Tiles of packed elements as bytes and back, for kernels that compute on bytes.
 *
 * Every core calls each function and does its part; what it wrote belongs to others only after a
 * barrier. A tile is pixels x channels; its packed pixels start on a byte, those of bytes follow
 * each other. Elements keep their order. */
#ifndef DORY_GAP8_UNPACKED_H
#define DORY_GAP8_UNPACKED_H

#include <stdint.h>

/* Elements of 2 and 4 bits to bytes of the same sign. */
void dory_gap8_unpack_u2(void *to, const void *from, int32_t pixels, int32_t channels);
void dory_gap8_unpack_i2(void *to, const void *from, int32_t pixels, int32_t channels);
void dory_gap8_unpack_u4(void *to, const void *from, int32_t pixels, int32_t channels);
void dory_gap8_unpack_i4(void *to, const void *from, int32_t pixels, int32_t channels);

/* Signed weights to bytes: `words` words, whose fields (dory_gap8_packed.h) follow each other. */
void dory_gap8_unpack_weights_i2(void *to, const void *from, int32_t words);
void dory_gap8_unpack_weights_i4(void *to, const void *from, int32_t words);

/* The low bits of bytes to elements of 2 and 4 bits. */
void dory_gap8_pack_2(void *to, const void *from, int32_t pixels, int32_t channels);
void dory_gap8_pack_4(void *to, const void *from, int32_t pixels, int32_t channels);

#endif
