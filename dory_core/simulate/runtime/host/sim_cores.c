/* The cores as threads: identity, barrier with a deadlock check, the lock. */
#include "sim_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#ifdef SIM_TSAN
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void AnnotateHappensBefore(const char *file, int line, const volatile void *address);
void AnnotateHappensAfter(const char *file, int line, const volatile void *address);
#endif

static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;

/* Locks and unlocks what orders nothing for ThreadSanitizer, which does not see what lies between. */
static void lock_unseen(pthread_mutex_t *mutex) {
#ifdef SIM_TSAN
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
  pthread_mutex_lock(mutex);
}

static void unlock_unseen(pthread_mutex_t *mutex) {
  pthread_mutex_unlock(mutex);
#ifdef SIM_TSAN
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
#endif
}

void sim_lock(void) { lock_unseen(&books); }

void sim_unlock(void) { unlock_unseen(&books); }

static __thread uint32_t core_id;
/* Whether this core met the others since its layer began. Its own: it orders no threads. */
static __thread int met = 1;

uint32_t (dory_core_id)(void) { return core_id; }

uint32_t (dory_core_count)(void) { return sim_config.cores; }

/* The host has no cycle counter that means anything for the chip. */
uint32_t (dory_cycles)(void) { return 0; }

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t released;
  uint32_t waiting, ended, generation;
  sim_source_t place[DORY_SIM_MAX_CORES]; /* where each core waits; file NULL: it does not */
  int arrived[DORY_SIM_MAX_CORES], gone[DORY_SIM_MAX_CORES];
} barrier = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, {{NULL, 0}}, {0}, {0}};

static void list_cores(char *text, size_t room, int missing) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t core = 0; core < sim_config.cores && used + 32 < room; ++core) {
    if (barrier.arrived[core] == missing) continue;
    const char *const file = barrier.place[core].file;
    int n;
    if (missing)
      n = snprintf(text + used, room - used, "%s%lu%s", used ? ", " : "", (unsigned long)core,
                   barrier.gone[core] ? " (ended)" : "");
    else
      n = snprintf(text + used, room - used, "%s%lu (%s:%d)", used ? ", " : "",
                   (unsigned long)core, file ? sim_basename(file) : "?", barrier.place[core].line);
    if (n < 0 || (size_t)n >= room - used) break;
    used += (size_t)n;
  }
}

static void deadlock(void) {
  char waiting[600], missing[300];
  list_cores(waiting, sizeof waiting, 0);
  list_cores(missing, sizeof missing, 1);
  const sim_source_t place = barrier.place[dory_core_id()];
  dory_sim_fault(place.file, place.line,
                 "deadlock at a barrier: waiting are cores %s; missing are cores %s", waiting,
                 missing);
}

uint32_t sim_meetings(void) {
  pthread_mutex_lock(&barrier.mutex);
  const uint32_t meetings = barrier.generation;
  pthread_mutex_unlock(&barrier.mutex);
  return meetings;
}

void sim_part(void) { met = 0; }

int sim_has_met(void) { return met || sim_config.cores == 1; }

void dory_sim_barrier(const char *file, int line) {
  sim_progress();
  met = 1;
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += (time_t)sim_config.barrier_timeout_s;

  /* A core that wakes late finds that others went on, and arrived at the next barrier or ended: that
   * must not order what they did since. Only what came before this barrier does. */
  lock_unseen(&barrier.mutex);
  const uint32_t generation = barrier.generation;
  unlock_unseen(&barrier.mutex);
#ifdef SIM_TSAN
  static const char meeting[2];
  AnnotateHappensBefore(__FILE__, __LINE__, &meeting[generation % 2]);
#endif
  lock_unseen(&barrier.mutex);
  barrier.place[core_id].file = file;
  barrier.place[core_id].line = line;
  barrier.arrived[core_id] = 1;
  if (++barrier.waiting == sim_config.cores) {
    sim_meet();
    barrier.waiting = 0;
    ++barrier.generation;
    memset(barrier.arrived, 0, sizeof barrier.arrived);
    pthread_cond_broadcast(&barrier.released);
  } else {
    if (barrier.waiting + barrier.ended == sim_config.cores) deadlock();
    while (generation == barrier.generation)
      if (pthread_cond_timedwait(&barrier.released, &barrier.mutex, &deadline) == ETIMEDOUT &&
          generation == barrier.generation)
        deadlock();
  }
  unlock_unseen(&barrier.mutex);
#ifdef SIM_TSAN
  AnnotateHappensAfter(__FILE__, __LINE__, &meeting[generation % 2]);
#endif
}

void (dory_barrier)(void) { dory_sim_barrier(NULL, 0); }

typedef struct {
  uint32_t core;
  int (*entry)(void *);
  void *arg;
  int result;
} task_t;

static void *core_main(void *argument) {
  task_t *const task = argument;
  core_id = task->core;
  task->result = task->entry(task->arg);
  lock_unseen(&barrier.mutex);
  ++barrier.ended;
  barrier.gone[core_id] = 1;
  if (barrier.waiting > 0 && barrier.waiting + barrier.ended == sim_config.cores) {
    for (uint32_t core = 0; core < sim_config.cores; ++core)
      if (barrier.arrived[core]) barrier.place[core_id] = barrier.place[core];
    deadlock();
  }
  unlock_unseen(&barrier.mutex);
  return NULL;
}

int dory_sim_run(int (*entry)(void *arg), void *arg) {
  pthread_t threads[DORY_SIM_MAX_CORES];
  task_t tasks[DORY_SIM_MAX_CORES];
  sim_forget_arenas();
  sim_expect_all();
  sim_transfers_reset();
  sim_report_reset();
  sim_counts_reset();
  barrier.ended = 0;
  memset(barrier.gone, 0, sizeof barrier.gone);
  for (uint32_t core = 0; core < sim_config.cores; ++core) {
    tasks[core].core = core;
    tasks[core].entry = entry;
    tasks[core].arg = arg;
    tasks[core].result = 0;
    if (pthread_create(&threads[core], NULL, core_main, &tasks[core]) != 0)
      dory_sim_fault(NULL, 0, "cannot start a thread for core %lu", (unsigned long)core);
  }
  for (uint32_t core = 0; core < sim_config.cores; ++core) pthread_join(threads[core], NULL);
  dory_sim_layer_end(NULL, 0);
  sim_require_idle(1, 0, NULL, 0);
  sim_check_canaries(NULL, 0);
  for (uint32_t core = 1; core < sim_config.cores; ++core)
    if (tasks[core].result != tasks[0].result)
      dory_sim_fault(NULL, 0, "core 0 returns %d, core %lu returns %d", tasks[0].result,
                     (unsigned long)core, tasks[core].result);
  return tasks[0].result;
}
