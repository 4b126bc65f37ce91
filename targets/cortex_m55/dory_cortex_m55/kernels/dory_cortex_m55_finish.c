#include "dory_cortex_m55_finish.h"

/* Outputs of eight channels. */
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
  for (uint32_t pixel = 0; pixel < o.pixels; pixel++) {
    const int32_t *sums = o.sums + pixel * o.pitch;
    uint8_t *const y = o.y + pixel * o.y_step;
    uint32_t c = 0, at = o.channel;
    for (; c + 8u < o.count; c += 16u, at += 16u, sums += 16) {
      const int16x8_t even = eight(&own, form, sums, at);
      const int16x8_t odd = eight(&own, form, sums + 8, at + 8u);
      vstrbq_p_u8(y + c, bytes_of(even, odd), vctp8q(o.count - c));
    }
    if (c < o.count) {
      vstrbq_p_s16((int8_t *)y + c, eight(&own, form, sums, at), vctp16q(o.count - c));
    }
  }
}

#if defined(__ARM_FEATURE_MVE)

#define SUMS(q_) "vldrw.u32 " q_ ", [%[sums]], #16\n\t"
#define OWN(q_) "vldrw.u32 " q_ ", [%[own]], #16\n\t"
#define UP(q_) "vqshl.s32 " q_ ", %[up]\n\t"
#define ADD(x_, q_) "vqadd.s32 " x_ ", " x_ ", " q_ "\n\t"
#define MUL(x_, q_) "vmulh.s32 " x_ ", " x_ ", " q_ "\n\t"
/* The shift to the right and half the bits: a shift by 16 leaves the upper half, which need not
 * saturate (and Binutils 2.40 takes vqshrn for vqrshrn); any shift. */
#define EVEN_16(y_, x_) "vshrnb.i32 " y_ ", " x_ ", #16\n\t"
#define ODD_16(y_, x_) "vshrnt.i32 " y_ ", " x_ ", #16\n\t"
#define EVEN_ANY(y_, x_) "vshl.s32 " x_ ", %[down]\n\tvqmovnb.s32 " y_ ", " x_ "\n\t"
#define ODD_ANY(y_, x_) "vshl.s32 " x_ ", %[down]\n\tvqmovnt.s32 " y_ ", " x_ "\n\t"
/* Bounds, and the bytes of q4 and q5 joined in q4; where bounds are those of a byte with a sign,
 * narrowing has them. */
#define LOWER(y_) "vmax.s16 " y_ ", " y_ ", q6\n\t"
#define UPPER(y_) "vmin.s16 " y_ ", " y_ ", q7\n\t"
#define NO_BOUND(y_) ""
#define JOIN "vmovnt.i16 q4, q5\n\t"
#define JOIN_SIGNED "vqmovnb.s16 q4, q4\n\tvqmovnt.s16 q4, q5\n\t"

/* Loads, products and the rest alternate where they can. */
#define FIRST_EIGHT                                                                             \
  SUMS("q0") SUMS("q1") UP("q0") OWN("q2") UP("q1") OWN("q3") ADD("q0", "q2") OWN("q2")         \
    ADD("q1", "q3") OWN("q3") MUL("q0", "q2")
#define EIGHT_OF_VECTOR(even_, odd_)                                                            \
  FIRST_EIGHT MUL("q1", "q3") even_("q4", "q0") odd_("q4", "q1")
#define SIXTEEN_OF_VECTOR(even_, odd_, lower_, upper_)                                          \
  FIRST_EIGHT SUMS("q2") MUL("q1", "q3") SUMS("q3") UP("q2") even_("q4", "q0") OWN("q0")        \
    odd_("q4", "q1") OWN("q1") UP("q3") ADD("q2", "q0") OWN("q0") ADD("q3", "q1") OWN("q1")     \
      MUL("q2", "q0") lower_("q4") MUL("q3", "q1") upper_("q4") even_("q5", "q2")               \
        odd_("q5", "q3") lower_("q5") upper_("q5")

#define FOUR_WITH_BIAS(x_, up_)                                                                 \
  SUMS(x_) OWN("q2") "vadd.i32 " x_ ", " x_ ", q2\n\tvldrw.u32 q3, [%[own], #16]\n\t" up_       \
  "vldrw.u32 q2, [%[own], #48]\n\tvpt.s32 lt, " x_ ", zr\n\tvqaddt.s32 " x_ ", " x_ ", q3\n\t"   \
  "vldrw.u32 q3, [%[own], #80]\n\t" ADD(x_, "q2") MUL(x_, "q3")
#define OWN_UP(x_) "vldrw.u32 q2, [%[own], #112]\n\tvqshl.s32 " x_ ", " x_ ", q2\n\t"
#define EIGHT_WITH_BIAS(y_, up_, bytes_, even_, odd_)                                           \
  FOUR_WITH_BIAS("q0", up_("q0")) FOUR_WITH_BIAS("q1", up_("q1"))                               \
  "add %[own], %[own], #" bytes_ "\n\t" even_(y_, "q0") odd_(y_, "q1")
#define TURNED_AS(y_, even_, odd_) EIGHT_WITH_BIAS(y_, UP, "96", even_, odd_)
#define SHIFTED_AS(y_, even_, odd_) EIGHT_WITH_BIAS(y_, OWN_UP, "128", even_, odd_)
#define SIXTEEN_WITH_BIAS(eight_, even_, odd_, lower_, upper_)                                  \
  eight_("q4", even_, odd_) lower_("q4") upper_("q4") eight_("q5", even_, odd_) lower_("q5")    \
    upper_("q5")
#define EIGHT_OF_TURNED(even_, odd_) TURNED_AS("q4", even_, odd_)
#define SIXTEEN_OF_TURNED(even_, odd_, lower_, upper_)                                          \
  SIXTEEN_WITH_BIAS(TURNED_AS, even_, odd_, lower_, upper_)
#define EIGHT_OF_SHIFTED(even_, odd_) SHIFTED_AS("q4", even_, odd_)
#define SIXTEEN_OF_SHIFTED(even_, odd_, lower_, upper_)                                         \
  SIXTEEN_WITH_BIAS(SHIFTED_AS, even_, odd_, lower_, upper_)

/* All outputs: of a pixel sixteens while more than eight are left, then eight. The register of both
 * bounds becomes what is left of a pixel. */
#define ALL(sixteen_, join_, eight_)                                                            \
  __asm__ volatile("vdup.16 q6, %[left]\n\t"                                                    \
                   "lsr %[left], %[left], #16\n\t"                                              \
                   "vdup.16 q7, %[left]\n"                                                      \
                   "0:\n\t"                                                                     \
                   "add lr, %[count], #7\n\t"                                                   \
                   "mov %[left], %[count]\n\t"                                                  \
                   "lsr lr, lr, #4\n\t"                                                         \
                   "wls lr, lr, 2f\n"                                                           \
                   "1:\n\t" sixteen_                                                            \
                   "vctp.8 %[left]\n\t" join_                                                   \
                   "sub %[left], %[left], #16\n\t"                                              \
                   "vpst\n\t"                                                                   \
                   "vstrbt.8 q4, [%[y]], #16\n\t"                                               \
                   "le lr, 1b\n"                                                                \
                   "2:\n\t"                                                                     \
                   "cmp %[left], #0\n\t"                                                        \
                   "ble 3f\n\t" eight_ LOWER("q4") UPPER("q4")                                  \
                   "vctp.16 %[left]\n\t"                                                        \
                   "vpst\n\t"                                                                   \
                   "vstrbt.16 q4, [%[y]]\n"                                                     \
                   "3:\n\t"                                                                     \
                   "add %[sums], %[sums], %[sums_on]\n\t"                                       \
                   "add %[y], %[y], %[y_on]\n\t"                                                \
                   "sub %[own], %[own], %[numbers]\n\t"                                         \
                   "subs %[pixels], %[pixels], #1\n\t"                                          \
                   "bne 0b"                                                                     \
                   : [sums] "+&r"(sums), [own] "+&r"(own), [y] "+&l"(y), [left] "+&r"(left),    \
                     [pixels] "+&r"(pixels)                                                     \
                   : [count] "r"(o->count), [sums_on] "r"(sums_on), [y_on] "r"(y_on),           \
                     [numbers] "r"(numbers), [up] "r"(a->up), [down] "r"(-a->down)              \
                   : "lr", "cc", "memory", "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7")
#define ALL_OF(form_, even_, odd_)                                                              \
  ALL(SIXTEEN_OF_##form_(even_, odd_, LOWER, UPPER), JOIN, EIGHT_OF_##form_(even_, odd_))
#define ALL_SIGNED(form_, even_, odd_)                                                          \
  ALL(SIXTEEN_OF_##form_(even_, odd_, NO_BOUND, NO_BOUND), JOIN_SIGNED,                         \
      EIGHT_OF_##form_(even_, odd_))

/* The same as finish_form, of each form that has 32 bits. */
DORY_M55_ALONE void finish_fast(const dory_cortex_m55_requant_t *a,
                                const dory_cortex_m55_outputs_t *o)
{
  const uint32_t places = (o->count + 7u) & ~7u, bytes = 4u * dory_m55_parts(a->form);
  const uint32_t numbers = places * bytes, sums_on = 4u * (o->pitch - places);
  const uint32_t y_on = o->y_step - ((o->count + 7u) & ~15u);
  const int is_signed = a->lo == -128 && a->hi == 127;
  const int32_t *sums = o->sums;
  const uint8_t *own = a->channels + o->channel * bytes;
  uint8_t *y = o->y;
  uint32_t left = ((uint32_t)a->lo & 0xFFFFu) | (uint32_t)a->hi << 16;
  uint32_t pixels = o->pixels;
  if (a->form == DORY_REQUANT_VECTOR && a->down == 16) {
    if (is_signed) {
      ALL_SIGNED(VECTOR, EVEN_16, ODD_16);
    } else {
      ALL_OF(VECTOR, EVEN_16, ODD_16);
    }
  } else if (a->form == DORY_REQUANT_VECTOR) {
    ALL_OF(VECTOR, EVEN_ANY, ODD_ANY);
  } else if (a->form == DORY_REQUANT_SHIFTED) {
    ALL_OF(SHIFTED, EVEN_ANY, ODD_ANY);
  } else if (a->down == 16 && is_signed) {
    ALL_SIGNED(TURNED, EVEN_16, ODD_16);
  } else {
    ALL_OF(TURNED, EVEN_ANY, ODD_ANY);
  }
}

#endif

void dory_cortex_m55_finish(const dory_cortex_m55_requant_t *a, const dory_cortex_m55_outputs_t *all)
{
  if (a->form == DORY_REQUANT_SCALAR) {
    finish_form(a, DORY_REQUANT_SCALAR, all);
    return;
  }
#if defined(__ARM_FEATURE_MVE)
  finish_fast(a, all);
#else
  finish_form(a, a->form, all);
#endif
}
