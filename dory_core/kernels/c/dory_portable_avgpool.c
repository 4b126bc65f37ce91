/* Sum over a window. */
#define DORY_POOL dory_portable_avgpool
#define DORY_POOL_START 0
#define DORY_POOL_FOLD(value, element) ((value) + (element))
#include "dory_portable_pool_impl.h"
