/* Runs of bytes, copied by words. */

/* Copies n bytes; returns where the next ones go. */
static inline uint8_t *dory_copied(const uint8_t *x, int32_t n, uint8_t *y)
{
  for (; n >= 16; n -= 16, x += 16, y += 16) {
    const uint32_t a = dory_load4(x), b = dory_load4(x + 4);
    const uint32_t c = dory_load4(x + 8), d = dory_load4(x + 12);
    dory_store4(y, a);
    dory_store4(y + 4, b);
    dory_store4(y + 8, c);
    dory_store4(y + 12, d);
  }
  DORY_ROLLED
  for (; n >= 4; n -= 4, x += 4, y += 4) {
    dory_store4(y, dory_load4(x));
  }
  DORY_ROLLED
  for (; n > 0; n--) {
    *y++ = *x++;
  }
  return y;
}
