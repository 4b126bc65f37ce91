/* Larger one of two operands. */
#define DORY_PAIR dory_portable_maximum
#define DORY_PAIR_VALUE(a, b) ((a) > (b) ? (a) : (b))
#include "dory_portable_pair_impl.h"
