/* Maximum pooling of bytes, four channels at a time. An instance defines DORY_KERNEL and
 * DORY_X_SIGNED. Signed bytes are compared with their sign bit turned over. A window without any
 * tap inside the image has the least value of its type. */
#include "dory_stm32h7_pool_window.h"
#include "dory_stm32h7_simd.h"

#if DORY_X_SIGNED
#define DORY_TURN 0x80808080u
#else
#define DORY_TURN 0u
#endif

static inline uint32_t dory_word(const uint8_t *x, const dory_stm32h7_box_t *box)
{
  uint32_t most = 0;
  for (int32_t i = box->rows; i > 0; i--, x += box->row) {
    const uint8_t *from = x;
    for (int32_t j = box->columns; j > 0; j--, from += box->column) {
      most = dory_umax8(most, dory_load4(from) ^ DORY_TURN);
    }
  }
  return most ^ DORY_TURN;
}

static inline uint8_t dory_byte(const uint8_t *x, const dory_stm32h7_box_t *box)
{
  const uint8_t turn = (uint8_t)(DORY_TURN & 0xFFu);
  uint8_t most = 0;
  for (int32_t i = 0; i < box->rows; i++) {
    for (int32_t j = 0; j < box->columns; j++) {
      const uint8_t value = x[i * box->row + j * box->column] ^ turn;
      most = value > most ? value : most;
    }
  }
  return most ^ turn;
}

void DORY_KERNEL(const dory_stm32h7_pool_t *a)
{
  uint8_t *y = a->y;
  for (int32_t i = 0; i < a->y_h; i++) {
    for (int32_t j = 0; j < a->y_w; j++, y += a->y_c) {
      const dory_stm32h7_box_t box = dory_box(a, i, j);
      const uint8_t *const x = (const uint8_t *)a->x + box.offset;
      int32_t c = 0;
      for (; c <= a->y_c - 4; c += 4) {
        dory_store4(y + c, dory_word(x + c, &box));
      }
      for (; c < a->y_c; c++) {
        y[c] = dory_byte(x + c, &box);
      }
    }
  }
}
