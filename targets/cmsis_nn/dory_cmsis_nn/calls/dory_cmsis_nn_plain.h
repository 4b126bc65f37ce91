/* Included before every source of CMSIS-NN. */
#ifndef DORY_CMSIS_NN_PLAIN_H
#define DORY_CMSIS_NN_PLAIN_H

#include <stdint.h>
#include <string.h>

/* A freestanding program would call a function for each word that the library reads. */
#if defined(__GNUC__)
#undef memcpy
#define memcpy(to, from, bytes) __builtin_memcpy((to), (from), (bytes))
#endif

#include "arm_nnsupportfunctions.h"

#endif
