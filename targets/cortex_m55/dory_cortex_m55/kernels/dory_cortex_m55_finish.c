#include "dory_cortex_m55_finish.h"

#include <stddef.h>

/* Outputs of eight channels, or of fewer, in lanes of 16 bits. */
DORY_M55_INLINE int16x8_t eight(const dory_cortex_m55_requant_t *a, uint32_t form,
                                const int32_t *sums, uint32_t at)
{
  const int16x8_t y = narrowed(dory_m55_outputs(a, form, vldrwq_s32(sums), at),
                               dory_m55_outputs(a, form, vldrwq_s32(sums + 4), at + 4u));
  return vminq_s16(vmaxq_s16(y, vdupq_n_s16((int16_t)a->lo)), vdupq_n_s16((int16_t)a->hi));
}

DORY_M55_INLINE void finish_form(const dory_cortex_m55_requant_t *given, uint32_t form,
                                 const dory_cortex_m55_outputs_t *all)
{
  const dory_cortex_m55_requant_t own = *given;
  const dory_cortex_m55_outputs_t o = *all;
  for (uint32_t c = 0; c < o.count; c += 8u) {
    const mve_pred16_t lanes = vctp16q(o.count - c);
    for (uint32_t i = 0; i < o.pixels; i++) {
      const int16x8_t y = eight(&own, form, o.sums + i * o.pitch + c, o.channel + c);
      uint8_t *const to = o.y + i * o.y_step + c * o.bytes;
      if (o.bytes == 2u) {
        vstrhq_p_s16((int16_t *)(void *)to, y, lanes);
      } else {
        vstrbq_p_s16((int8_t *)to, y, lanes);
      }
    }
  }
}

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)

#define SUMS(q_, at_) "vldrw.u32 " q_ ", [%[sums], #" at_ "]\n\t"
#define OWN(q_, at_) "vldrw.u32 " q_ ", [%[own], #" at_ "]\n\t"
#define UP(x_) "vqshl.s32 " x_ ", %[up]\n\t"
#define ADD(x_, q_) "vqadd.s32 " x_ ", " x_ ", " q_ "\n\t"
#define MUL(x_, q_) "vmulh.s32 " x_ ", " x_ ", " q_ "\n\t"
#define NEXT "add %[sums], %[sums], %[sums_on]\n\t"
#define STORE(y_) "vpst\n\tvstrbt.16 " y_ ", [%[y]]\n\tadd %[y], %[y], %[y_on]\n\t"
/* The shift to the right and half the bits: a shift by 16 leaves the upper half, which need not
 * saturate (and Binutils 2.40 takes vqshrn for vqrshrn); any shift. */
#define EVEN_16(y_, x_) "vshrnb.i32 " y_ ", " x_ ", #16\n\t"
#define ODD_16(y_, x_) "vshrnt.i32 " y_ ", " x_ ", #16\n\t"
#define EVEN_ANY(y_, x_) "vshl.s32 " x_ ", %[down]\n\tvqmovnb.s32 " y_ ", " x_ "\n\t"
#define ODD_ANY(y_, x_) "vshl.s32 " x_ ", %[down]\n\tvqmovnt.s32 " y_ ", " x_ "\n\t"
/* The nearest integers of numbers in binary32. */
#define EVEN_FLOAT(y_, x_) "vcvtn.s32.f32 " x_ ", " x_ "\n\tvqmovnb.s32 " y_ ", " x_ "\n\t"
#define ODD_FLOAT(y_, x_) "vcvtn.s32.f32 " x_ ", " x_ "\n\tvqmovnt.s32 " y_ ", " x_ "\n\t"
/* Bounds: those of bytes with a sign or without, which narrowing has, or others. */
#define SIGNED(y_) "vqmovnb.s16 " y_ ", " y_ "\n\t"
#define UNSIGNED(y_) "vqmovunb.s16 " y_ ", " y_ "\n\t"
#define BOUNDS(y_) "vmax.s16 " y_ ", " y_ ", q6\n\tvmin.s16 " y_ ", " y_ ", q7\n\t"
/* The same behind an addend. */
#define MORE(y_) "vqadd.s16 " y_ ", " y_ ", %[up]\n\t"
#define SIGNED_MORE(y_) MORE(y_) SIGNED(y_)
#define UNSIGNED_MORE(y_) MORE(y_) UNSIGNED(y_)
#define BOUNDS_MORE(y_) MORE(y_) BOUNDS(y_)

/* Of eight channels two pixels at once: loads, products and the rest alternate where they can. What
 * becomes of a sum before it is narrowed are three steps, by a shift, an addend and a factor. */
#define TIMES(x_, q_) "vmul.i32 " x_ ", " x_ ", %[up]\n\t"
#define PLUS(x_, q_) "vadd.i32 " x_ ", " x_ ", " q_ "\n\t"
#define FLOAT(x_, q_) "vcvt.f32.s32 " x_ ", " x_ "\n\t"
#define MUL_FLOAT(x_, q_) "vmul.f32 " x_ ", " x_ ", " q_ "\n\t"
#define PAIRS(first_, second_, third_, even_, odd_, bounds_)                                    \
  __asm__ volatile("0:\n\t"                                                                     \
                   "vctp.16 %[left]\n\t" OWN("q4", "0") OWN("q5", "16") OWN("q6", "32")         \
                     OWN("q7", "48") "add %[own], %[own], #64\n\t"                              \
                   "dls lr, %[pairs]\n"                                                         \
                   "1:\n\t" SUMS("q0", "0") first_("q0", "q4") SUMS("q1", "16")                 \
                     first_("q1", "q5") second_("q0", "q4") third_("q0", "q6")                  \
                       second_("q1", "q5") NEXT even_("q0", "q0") third_("q1", "q7")            \
                         SUMS("q2", "0") odd_("q0", "q1") first_("q2", "q4") SUMS("q3", "16")   \
                           bounds_("q0") first_("q3", "q5") second_("q2", "q4") STORE("q0")     \
                             third_("q2", "q6") second_("q3", "q5") even_("q2", "q2")           \
                               third_("q3", "q7") NEXT odd_("q2", "q3") bounds_("q2") STORE("q2") \
                   "le lr, 1b\n\t"                                                              \
                   "add %[sums], %[sums], %[sums_back]\n\t"                                     \
                   "add %[y], %[y], %[y_back]\n\t"                                              \
                   "subs %[left], %[left], #8\n\t"                                              \
                   "bgt 0b"                                                                     \
                   : [sums] "+&r"(sums), [own] "+&r"(own), [y] "+&l"(y), [left] "+&r"(left)     \
                   : [pairs] "r"(pairs), [sums_on] "r"(4u * o->pitch), [y_on] "r"(o->y_step),   \
                     [sums_back] "r"(sums_back), [y_back] "r"(y_back), [up] "r"(up),            \
                     [down] "r"(-a->down)                                                       \
                   : "lr", "cc", "memory", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7")

/* An even number of pixels, of two parameters and bounds that narrowing has. */
DORY_M55_ALONE void finish_pairs(const dory_cortex_m55_requant_t *a,
                                 const dory_cortex_m55_outputs_t *o, uint32_t pairs)
{
  const uint32_t sums_back = 32u - 8u * o->pitch * pairs, y_back = 8u - 2u * o->y_step * pairs;
  const int is_float = a->form == DORY_REQUANT_BINARY32;
  const int32_t up = is_float ? a->up : (int32_t)(1u << a->up);
  const int32_t *sums = o->sums;
  const uint8_t *own = a->channels + o->channel * 8u;
  uint8_t *y = o->y;
  int32_t left = (int32_t)o->count;
  if (is_float && a->lo < 0) {
    PAIRS(PLUS, FLOAT, MUL_FLOAT, EVEN_FLOAT, ODD_FLOAT, SIGNED_MORE);
  } else if (is_float) {
    PAIRS(PLUS, FLOAT, MUL_FLOAT, EVEN_FLOAT, ODD_FLOAT, UNSIGNED_MORE);
  } else if (a->down == 16 && a->lo < 0) {
    PAIRS(TIMES, PLUS, MUL, EVEN_16, ODD_16, SIGNED);
  } else if (a->down == 16) {
    PAIRS(TIMES, PLUS, MUL, EVEN_16, ODD_16, UNSIGNED);
  } else if (a->lo < 0) {
    PAIRS(TIMES, PLUS, MUL, EVEN_ANY, ODD_ANY, SIGNED);
  } else {
    PAIRS(TIMES, PLUS, MUL, EVEN_ANY, ODD_ANY, UNSIGNED);
  }
}

#define VECTOR(even_)                                                                           \
  SUMS("q0", "0") UP("q0") OWN("q2", "0") SUMS("q1", "16") UP("q1") OWN("q3", "16")             \
    ADD("q0", "q2") OWN("q2", "32") ADD("q1", "q3") OWN("q3", "48") MUL("q0", "q2")             \
      even_("q0", "q0") MUL("q1", "q3")
/* x is on the line below where x with its bias and addend is less than the addend. */
#define BELOW(x_, add_, below_)                                                                 \
  "vpt.s32 gt, " add_ ", " x_ "\n\tvaddt.i32 " x_ ", " x_ ", " below_ "\n\t"
#define ON_UP(x_, q_) "vmla.s32 " x_ ", " q_ ", %[up]\n\t"
#define TURNED(even_)                                                                           \
  SUMS("q2", "0") OWN("q0", "0") ON_UP("q0", "q2") SUMS("q2", "16") OWN("q1", "16")             \
    OWN("q3", "32") ON_UP("q1", "q2") OWN("q2", "64") BELOW("q0", "q3", "q2") OWN("q2", "96")   \
      OWN("q3", "48") MUL("q0", "q2") OWN("q2", "80") BELOW("q1", "q3", "q2") OWN("q2", "112")  \
        even_("q0", "q0") MUL("q1", "q2")
#define FOUR_SHIFTED(x_, sums_, bias_, below_, add_, mul_, up_)                                 \
  SUMS(x_, sums_) OWN("q2", bias_) "vadd.i32 " x_ ", " x_ ", q2\n\t" OWN("q3", below_)          \
    OWN("q2", up_) "vqshl.s32 " x_ ", " x_ ", q2\n\t" OWN("q2", add_) "vpt.s32 lt, " x_         \
    ", zr\n\tvqaddt.s32 " x_ ", " x_ ", q3\n\t" OWN("q3", mul_) ADD(x_, "q2") MUL(x_, "q3")
#define SHIFTED(even_)                                                                          \
  FOUR_SHIFTED("q0", "0", "0", "32", "64", "96", "128") even_("q0", "q0")                       \
  FOUR_SHIFTED("q1", "16", "16", "48", "80", "112", "144")
#define BINARY32(even_)                                                                         \
  SUMS("q0", "0") OWN("q2", "0") PLUS("q0", "q2") SUMS("q1", "16") OWN("q3", "16")              \
    PLUS("q1", "q3") FLOAT("q0", "q0") OWN("q2", "32") FLOAT("q1", "q1") MUL_FLOAT("q0", "q2")  \
      OWN("q3", "48") MUL_FLOAT("q1", "q3") even_("q0", "q0")

/* Products are rounded by the shift to the right. */
#define EVEN_ROUNDED(y_, x_) "vrshl.s32 " x_ ", %[down]\n\tvqmovnb.s32 " y_ ", " x_ "\n\t"
#define ODD_ROUNDED(y_, x_) "vrshl.s32 " x_ ", %[down]\n\tvqmovnt.s32 " y_ ", " x_ "\n\t"
#define ROUNDED(even_)                                                                          \
  SUMS("q0", "0") OWN("q2", "0") PLUS("q0", "q2") SUMS("q1", "16") OWN("q3", "16")              \
    PLUS("q1", "q3") OWN("q2", "32") UP("q0") OWN("q3", "48") UP("q1") MUL("q0", "q2")          \
      MUL("q1", "q3") even_("q0", "q0")

#define BYTES "vstrbt.16 q0, [%[y]], #8\n\t"
#define HALVES "vstrht.16 q0, [%[y]], #16\n\t"
/* Pixel by pixel, eight channels at once. The register of both bounds becomes what is left. */
#define EIGHTS(form_, parameters_, even_, odd_, bounds_, store_)                                \
  __asm__ volatile("vdup.16 q6, %[left]\n\t"                                                    \
                   "lsr %[left], %[left], #16\n\t"                                              \
                   "vdup.16 q7, %[left]\n"                                                      \
                   "0:\n\t"                                                                     \
                   "add lr, %[count], #7\n\t"                                                   \
                   "mov %[left], %[count]\n\t"                                                  \
                   "lsr lr, lr, #3\n\t"                                                         \
                   "dls lr, lr\n"                                                               \
                   "1:\n\t" form_(even_) "add %[sums], %[sums], #32\n\t"                        \
                   "add %[own], %[own], #" parameters_ "\n\t" odd_("q0", "q1")                  \
                   "vctp.16 %[left]\n\t" bounds_("q0")                                          \
                   "sub %[left], %[left], #8\n\t"                                               \
                   "vpst\n\t" store_                                                            \
                   "le lr, 1b\n\t"                                                              \
                   "add %[sums], %[sums], %[sums_on]\n\t"                                       \
                   "add %[y], %[y], %[y_on]\n\t"                                                \
                   "sub %[own], %[own], %[numbers]\n\t"                                         \
                   "subs %[pixels], %[pixels], #1\n\t"                                          \
                   "bne 0b"                                                                     \
                   : [sums] "+&r"(sums), [own] "+&r"(own), [y] "+&l"(y), [left] "+&r"(left),    \
                     [pixels] "+&r"(pixels)                                                     \
                   : [count] "r"(o->count), [sums_on] "r"(sums_on), [y_on] "r"(y_on),           \
                     [numbers] "r"(numbers), [up] "r"(up), [down] "r"(-a->down)                 \
                   : "lr", "cc", "memory", "q0", "q1", "q2", "q3", "q6", "q7")

/* Pixels from ``first`` on. */
DORY_M55_ALONE void finish_eights(const dory_cortex_m55_requant_t *a,
                                  const dory_cortex_m55_outputs_t *o, uint32_t first)
{
  const uint32_t places = (o->count + 7u) & ~7u, bytes = 4u * dory_m55_parts(a->form);
  const uint32_t numbers = places * bytes, sums_on = 4u * (o->pitch - places);
  const uint32_t y_on = o->y_step - places * o->bytes;
  const int32_t up = a->form == DORY_REQUANT_TURNED ? (int32_t)(1u << a->up) : a->up;
  const int32_t *sums = o->sums + first * o->pitch;
  const uint8_t *own = a->channels + o->channel * bytes;
  uint8_t *y = o->y + first * o->y_step;
  uint32_t left = ((uint32_t)a->lo & 0xFFFFu) | (uint32_t)a->hi << 16;
  uint32_t pixels = o->pixels - first;
  if (a->form == DORY_REQUANT_ROUNDED) {
    EIGHTS(ROUNDED, "64", EVEN_ROUNDED, ODD_ROUNDED, BOUNDS, HALVES);
  } else if (a->form <= DORY_REQUANT_PLAIN) {
    EIGHTS(VECTOR, "64", EVEN_ANY, ODD_ANY, BOUNDS, BYTES);
  } else if (a->form == DORY_REQUANT_BINARY32) {
    EIGHTS(BINARY32, "64", EVEN_FLOAT, ODD_FLOAT, BOUNDS_MORE, BYTES);
  } else if (a->form == DORY_REQUANT_SHIFTED) {
    EIGHTS(SHIFTED, "160", EVEN_ANY, ODD_ANY, BOUNDS, BYTES);
  } else if (a->down == 16 && a->lo == -128 && a->hi == 127) {
    EIGHTS(TURNED, "128", EVEN_16, ODD_16, SIGNED, BYTES);
  } else {
    EIGHTS(TURNED, "128", EVEN_ANY, ODD_ANY, BOUNDS, BYTES);
  }
}

/* The same as finish_form, of each form that has 32 bits. */
static void finish_fast(const dory_cortex_m55_requant_t *a, const dory_cortex_m55_outputs_t *o)
{
  const int is_byte = a->hi - a->lo == 255 && (a->lo == -128 || a->lo == 0);
  const int is_short = a->form == DORY_REQUANT_PLAIN || a->form == DORY_REQUANT_BINARY32;
  const uint32_t pairs = is_short && is_byte ? o->pixels / 2u : 0u;
  if (pairs > 0) {
    finish_pairs(a, o, pairs);
  }
  if (o->pixels > 2u * pairs) {
    finish_eights(a, o, 2u * pairs);
  }
}

#endif

/* Outputs that are sums. */
static void finish_sums(const dory_cortex_m55_requant_t *a, const dory_cortex_m55_outputs_t *o)
{
  for (uint32_t i = 0; i < o->pixels; i++) {
    int32_t *const y = (int32_t *)(void *)(o->y + i * o->y_step);
    for (uint32_t c = 0; c < o->count; c += 4u) {
      const int32x4_t bias = dory_m55_words(a->channels + (o->channel + c) * 4u);
      const int32x4_t sums = vldrwq_s32(o->sums + i * o->pitch + c);
      vst1q_p_s32(y + c, vaddq_s32(sums, bias), vctp32q(o->count - c));
    }
  }
}

/* A step that follows, of bytes where they lie. */
static void by_table(const uint8_t *table, const dory_cortex_m55_outputs_t *o)
{
  uint8_t *y = o->y;
  for (uint32_t i = 0; i < o->pixels; i++, y += o->y_step) {
    for (uint32_t c = 0; c < o->count; c += 16u) {
      const mve_pred16_t lanes = vctp8q(o->count - c);
      const uint8x16_t x = vldrbq_z_u8(y + c, lanes);
      vstrbq_p_u8(y + c, vldrbq_gather_offset_z_u8(table, x, lanes), lanes);
    }
  }
}

/* Outputs of all steps but one by a table. */
static void finish_steps(const dory_cortex_m55_requant_t *a, const dory_cortex_m55_outputs_t *all)
{
  if (a->form == DORY_REQUANT_SUMS) {
    finish_sums(a, all);
    return;
  }
  if (a->form == DORY_REQUANT_SCALAR) {
    finish_form(a, DORY_REQUANT_SCALAR, all);
    return;
  }
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
  finish_fast(a, all);
#else
  finish_form(a, a->form, all);
#endif
}

void dory_cortex_m55_finish(const dory_cortex_m55_requant_t *a, const dory_cortex_m55_outputs_t *all)
{
  const uint8_t *const table = a->table; /* y might lie in *a */
  finish_steps(a, all);
  if (table != NULL) {
    by_table(table, all);
  }
}
