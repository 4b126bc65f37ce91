/* Memory functions for a program without a C library.
 *
 * Compilers recognise loops that copy or set memory and call these very functions for them, here
 * without end: an empty assembly statement in a loop keeps them from it.
 * Compilers also make calls of these functions that no source has, for assignments of structures
 * and initialisers. With link-time optimisation they do so after unused functions were dropped:
 * LIBCALL keeps the functions until then. */
#include <stdint.h>
#include <string.h>

#define KEEP_LOOP() __asm__ volatile("" ::: "memory")
#define LIBCALL __attribute__((used))

/* Words of memory that holds anything. */
typedef uint32_t __attribute__((may_alias)) word_t;

static int word_aligned(const void *a, const void *b)
{
  return (((uintptr_t)a | (uintptr_t)b) & 3u) == 0;
}

/* Copies from the first byte on; what lies behind `dst` may be part of the source. */
static void *copy_forward(void *dst, const void *src, size_t bytes)
{
  uint8_t *to = dst;
  const uint8_t *from = src;
  if (word_aligned(dst, src)) {
    word_t *words_to = dst;
    const word_t *words_from = src;
    for (; bytes >= 16; bytes -= 16) {
      const uint32_t a = words_from[0], b = words_from[1], c = words_from[2], d = words_from[3];
      words_to[0] = a;
      words_to[1] = b;
      words_to[2] = c;
      words_to[3] = d;
      words_to += 4;
      words_from += 4;
      KEEP_LOOP();
    }
    for (; bytes >= 4; bytes -= 4) {
      *words_to++ = *words_from++;
      KEEP_LOOP();
    }
    to = (uint8_t *)words_to;
    from = (const uint8_t *)words_from;
  }
  for (; bytes > 0; bytes--) {
    *to++ = *from++;
    KEEP_LOOP();
  }
  return dst;
}

LIBCALL void *memcpy(void *restrict dst, const void *restrict src, size_t bytes)
{
  return copy_forward(dst, src, bytes);
}

LIBCALL void *memmove(void *dst, const void *src, size_t bytes)
{
  uint8_t *const to = dst;
  const uint8_t *const from = src;
  if ((uintptr_t)dst <= (uintptr_t)src || (uintptr_t)dst >= (uintptr_t)src + bytes) {
    return copy_forward(dst, src, bytes);
  }
  for (size_t i = bytes; i-- > 0;) {
    to[i] = from[i];
    KEEP_LOOP();
  }
  return dst;
}

LIBCALL void *memset(void *dst, int value, size_t bytes)
{
  uint8_t *to = dst;
  const uint8_t byte = (uint8_t)value;
  for (; bytes > 0 && ((uintptr_t)to & 3u) != 0; bytes--) {
    *to++ = byte;
    KEEP_LOOP();
  }
  word_t *words = (word_t *)(void *)to;
  for (; bytes >= 4; bytes -= 4) {
    *words++ = byte * 0x01010101u;
    KEEP_LOOP();
  }
  to = (uint8_t *)words;
  for (; bytes > 0; bytes--) {
    *to++ = byte;
    KEEP_LOOP();
  }
  return dst;
}

LIBCALL int memcmp(const void *a, const void *b, size_t bytes)
{
  const uint8_t *const x = a;
  const uint8_t *const y = b;
  for (size_t i = 0; i < bytes; i++) {
    if (x[i] != y[i]) {
      return x[i] < y[i] ? -1 : 1;
    }
    KEEP_LOOP();
  }
  return 0;
}
