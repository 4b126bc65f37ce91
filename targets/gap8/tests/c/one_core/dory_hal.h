/* In place of an application's: the calling core is a variable. */
#ifndef DORY_HAL_H
#define DORY_HAL_H

#include <stdint.h>

extern uint32_t dory_test_core;

static inline uint32_t dory_core_id(void) {
  return dory_test_core;
}

static inline uint32_t dory_core_count(void) {
  return 8;
}

#endif
