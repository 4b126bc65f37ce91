/* Cores of a cluster for kernels under test: one call of a kernel by each of them. */
#define _POSIX_C_SOURCE 200112L
#include <pthread.h>

#include "dory_hal.h"
#include "dory_testing.h"

#define MOST_CORES 64

typedef struct {
  dory_testing_call_t *call;
  void *const *pointers;
  const int32_t *numbers;
  uint32_t id;
} core_t;

static __thread uint32_t core_id;
static uint32_t core_count;
static pthread_barrier_t barrier;

uint32_t dory_core_id(void) { return core_id; }

uint32_t dory_core_count(void) { return core_count; }

void(dory_barrier)(void) { pthread_barrier_wait(&barrier); }

static void *run_core(void *argument)
{
  const core_t *const core = argument;
  core_id = core->id;
  core->call(core->pointers, core->numbers);
  return NULL;
}

int dory_testing_run(dory_testing_call_t *call, void *const *pointers, const int32_t *numbers,
                     uint32_t cores, int at_once)
{
  pthread_t threads[MOST_CORES];
  core_t state[MOST_CORES];
  if (cores > MOST_CORES) {
    return -1;
  }
  core_count = cores;
  for (uint32_t i = 0; i < cores; i++) {
    state[i] = (core_t){call, pointers, numbers, i};
  }
  if (!at_once) {
    for (uint32_t i = 0; i < cores; i++) {
      run_core(&state[i]);
    }
    return 0;
  }
  pthread_barrier_init(&barrier, NULL, cores);
  for (uint32_t i = 0; i < cores; i++) {
    if (pthread_create(&threads[i], NULL, run_core, &state[i]) != 0) {
      return -1;
    }
  }
  for (uint32_t i = 0; i < cores; i++) {
    pthread_join(threads[i], NULL);
  }
  pthread_barrier_destroy(&barrier);
  return 0;
}
