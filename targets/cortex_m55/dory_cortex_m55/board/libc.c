/* Memory functions for a program without a C library, 16 bytes at a time.
 *
 * Compilers make calls of them that no source has: they are kept although nobody seems to use them. */
#include <arm_mve.h>
#include <string.h>

#define LIBCALL __attribute__((used))
/* Compilers know a loop that copies, and call for it the very function that it is part of. */
#define KEEP_LOOP() __asm__ volatile("" ::: "memory")

LIBCALL void *memcpy(void *restrict dst, const void *restrict src, size_t bytes)
{
  uint8_t *to = dst;
  const uint8_t *from = src;
  for (int left = (int)bytes; left > 0; left -= 16, to += 16, from += 16) {
    const mve_pred16_t lanes = vctp8q((uint32_t)left);
    vstrbq_p_u8(to, vldrbq_z_u8(from, lanes), lanes);
    KEEP_LOOP();
  }
  return dst;
}

LIBCALL void *memmove(void *dst, const void *src, size_t bytes)
{
  uint8_t *const to = dst;
  const uint8_t *const from = src;
  if ((uintptr_t)dst <= (uintptr_t)src || (uintptr_t)dst >= (uintptr_t)src + bytes) {
    for (size_t i = 0; i < bytes; i++) {
      to[i] = from[i];
      KEEP_LOOP();
    }
    return dst;
  }
  for (size_t i = bytes; i > 0; i--) {
    to[i - 1] = from[i - 1];
    KEEP_LOOP();
  }
  return dst;
}

LIBCALL void *memset(void *dst, int value, size_t bytes)
{
  uint8_t *to = dst;
  for (int left = (int)bytes; left > 0; left -= 16, to += 16) {
    vstrbq_p_u8(to, vdupq_n_u8((uint8_t)value), vctp8q((uint32_t)left));
    KEEP_LOOP();
  }
  return dst;
}

LIBCALL int memcmp(const void *a, const void *b, size_t bytes)
{
  const uint8_t *const left = a, *const right = b;
  for (size_t i = 0; i < bytes; i++) {
    if (left[i] != right[i]) {
      return left[i] - right[i];
    }
  }
  return 0;
}
