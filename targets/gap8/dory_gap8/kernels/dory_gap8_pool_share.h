/* How cores share the pixels and channels of a pool; included by its templates. DORY_CORES: cores of
 * the cluster. */
#include "dory_gap8_share.h"

/* Pixels and groups of four channels of one core. */
typedef struct {
  dory_gap8_range_t pixels, groups;
} dory_share_t;

/* Cores share pixels, or pixels and channels, as is least work for the busiest of them. A pixel
 * costs as much as a group of channels, whatever their number. */
static inline dory_share_t dory_share(int32_t pixels, int32_t groups) {
  const uint32_t core = dory_core_id();
  int32_t best = INT32_MAX, rows = 0, columns = 0;
  uint32_t row = 0, column = 0;
  dory_share_t share;
#define DORY_TRY(ways)                                               \
  {                                                                  \
    const uint32_t per = DORY_CORES / (ways);                        \
    const int32_t r = (int32_t)(((uint32_t)pixels + per - 1) / per); \
    const int32_t c = (int32_t)(((uint32_t)groups + (ways)-1) / (ways)); \
    if (r * (c + 1) < best) {                                        \
      best = r * (c + 1);                                            \
      rows = r;                                                      \
      columns = c;                                                   \
      row = core % per;                                              \
      column = core / per;                                           \
    }                                                                \
  }
  DORY_TRY(1)
#if DORY_CORES >= 2
  DORY_TRY(2)
#endif
#if DORY_CORES >= 4
  DORY_TRY(4)
#endif
#if DORY_CORES >= 8
  DORY_TRY(8)
#endif
  share.pixels.first = dory_gap8_min((int32_t)row * rows, pixels);
  share.pixels.end = dory_gap8_min(share.pixels.first + rows, pixels);
  share.groups.first = dory_gap8_min((int32_t)column * columns, groups);
  share.groups.end = dory_gap8_min(share.groups.first + columns, groups);
  return share;
}
