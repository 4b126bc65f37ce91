/* Maximum pooling, four channels at a time. An instance defines DORY_KERNEL, DORY_X_T, DORY_X_BITS and
 * DORY_X_SIGNED. Signed bytes are compared with their sign bit turned over. A window without any
 * tap inside the image has the least value of its type. */
#include "dory_stm32h7_pool_window.h"
#include "dory_stm32h7_simd.h"

#if DORY_X_BITS == 16

#define DORY_LEAST (DORY_X_SIGNED ? -32768 : 0)

/* The greater of each pair of elements. */
static inline uint32_t dory_greater(uint32_t a, uint32_t b)
{
#if defined(__GNUC__) && defined(__thumb2__) && defined(__ARM_FEATURE_DSP)
  uint32_t greater;
#if DORY_X_SIGNED
  __asm__("ssub16 %0, %1, %2\n sel %0, %1, %2" : "=&r"(greater) : "r"(a), "r"(b) : "cc");
#else
  __asm__("usub16 %0, %1, %2\n sel %0, %1, %2" : "=&r"(greater) : "r"(a), "r"(b) : "cc");
#endif
  return greater;
#else
  const DORY_X_T a_low = (DORY_X_T)(a & 0xFFFFu), a_high = (DORY_X_T)(a >> 16);
  const DORY_X_T b_low = (DORY_X_T)(b & 0xFFFFu), b_high = (DORY_X_T)(b >> 16);
  return ((a_low > b_low ? a : b) & 0xFFFFu) | ((a_high > b_high ? a : b) & 0xFFFF0000u);
#endif
}

static inline void dory_four(const DORY_X_T *x, const dory_stm32h7_box_t *box, DORY_X_T *y)
{
  uint32_t first = DORY_X_SIGNED ? 0x80008000u : 0u, second = first;
  for (int32_t i = box->rows; i > 0; i--, x += box->row) {
    const DORY_X_T *from = x;
    for (int32_t j = box->columns; j > 0; j--, from += box->column) {
      first = dory_greater(first, dory_load4(from));
      second = dory_greater(second, dory_load4(from + 2));
    }
  }
  dory_store4(y, first);
  dory_store4(y + 2, second);
}

static inline DORY_X_T dory_one(const DORY_X_T *x, const dory_stm32h7_box_t *box)
{
  int32_t most = DORY_LEAST;
  for (int32_t i = 0; i < box->rows; i++) {
    for (int32_t j = 0; j < box->columns; j++) {
      const int32_t value = x[i * box->row + j * box->column];
      most = value > most ? value : most;
    }
  }
  return (DORY_X_T)most;
}

#else

#if DORY_X_SIGNED
#define DORY_TURN 0x80808080u
#else
#define DORY_TURN 0u
#endif

static inline void dory_four(const DORY_X_T *x, const dory_stm32h7_box_t *box, DORY_X_T *y)
{
  uint32_t most = 0;
  for (int32_t i = box->rows; i > 0; i--, x += box->row) {
    const DORY_X_T *from = x;
    for (int32_t j = box->columns; j > 0; j--, from += box->column) {
      most = dory_umax8(most, dory_load4(from) ^ DORY_TURN);
    }
  }
  dory_store4(y, most ^ DORY_TURN);
}

static inline DORY_X_T dory_one(const DORY_X_T *x, const dory_stm32h7_box_t *box)
{
  const uint8_t turn = (uint8_t)(DORY_TURN & 0xFFu);
  uint8_t most = 0;
  for (int32_t i = 0; i < box->rows; i++) {
    for (int32_t j = 0; j < box->columns; j++) {
      const uint8_t value = (uint8_t)x[i * box->row + j * box->column] ^ turn;
      most = value > most ? value : most;
    }
  }
  return (DORY_X_T)(most ^ turn);
}

#endif

void DORY_KERNEL(const dory_stm32h7_pool_t *a)
{
  DORY_X_T *y = a->y;
  for (int32_t i = 0; i < a->y_h; i++) {
    for (int32_t j = 0; j < a->y_w; j++, y += a->y_c) {
      const dory_stm32h7_box_t box = dory_box(a, i, j);
      const DORY_X_T *const x = (const DORY_X_T *)a->x + box.offset;
      int32_t c = 0;
      for (; c <= a->y_c - 4; c += 4) {
        dory_four(x + c, &box, y + c);
      }
      for (; c < a->y_c; c++) {
        y[c] = dory_one(x + c, &box);
      }
    }
  }
}
