/* Maximum over a window. */
#define DORY_POOL dory_portable_maxpool
#define DORY_POOL_START INT64_MIN
#define DORY_POOL_FOLD(layer, value, element) ((element) > (value) ? (element) : (value))
#define DORY_POOL_BESIDE(layer, value) (value)
#define DORY_POOL_END(layer, value, n) ((void)(layer), (void)(n), (value))
#include "dory_portable_pool_impl.h"
