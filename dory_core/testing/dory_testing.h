/* What runs kernels under test on this machine. */
#ifndef DORY_TESTING_H
#define DORY_TESTING_H

#include <stdint.h>

typedef void dory_testing_call_t(void *const *pointers, const int32_t *numbers);

/* One function for each case. */
extern dory_testing_call_t *const dory_testing_calls[];

/* Runs `call` on `cores` cores: one after another, or at once where they meet at barriers.
   Returns 0, or -1 where there are too many or a thread cannot be started. */
int dory_testing_run(dory_testing_call_t *call, void *const *pointers, const int32_t *numbers,
                     uint32_t cores, int at_once);

#endif
