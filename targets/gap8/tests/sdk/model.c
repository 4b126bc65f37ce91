/* Models of what an application meets on GAP8: event unit, cluster DMA, cluster, clocks.
 *
 * A transfer moves its bytes as late as the program allows: when somebody sleeps until it is done.
 * Everything that would hang or go wrong on the chip ends the program with status 71. */
#include "model.h"

#include <pthread.h>
#include <string.h>

#include "pmsis.h"

#ifndef STUB_L1_BYTES
#define STUB_L1_BYTES 65536
#endif

enum { CORES = 8, COUNTERS = DORY_GAP8_DMA_COUNTERS, QUEUE = 1024 };

enum { STACK = 1024 }; /* what a function of the HAL has in L1, behind what the program takes */

uint8_t model_l1[STUB_L1_BYTES + STACK] __attribute__((aligned(16)));
model_command_t model_commands[4096];
uint32_t model_command_count;
int model_early, model_alone;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int on_cluster;
static __thread uint32_t this_core;

void model_fail(const char *what)
{
  fprintf(stderr, "model: core %u: %s\n", (unsigned)this_core, what);
  fflush(stdout);
  _Exit(71);
}

uint32_t model_address(const void *pointer)
{
  return (uint32_t)((const uint8_t *)pointer - model_l1);
}

static uint8_t *pointer_of(uint32_t address)
{
  return model_l1 + (int32_t)address;
}

static int in_l1(uint32_t address, uint32_t bytes)
{
  return address < sizeof model_l1 && bytes <= sizeof model_l1 - address;
}

uint32_t *model_stack(uint32_t bytes)
{
  if (bytes > STACK) model_fail("a function of the HAL takes too much of the stack");
  return (uint32_t *)(void *)(model_l1 + STUB_L1_BYTES);
}

/* --- cluster DMA --- */

typedef struct {
  uint32_t word[4], counter, core;
} command_t;

typedef struct {
  uint32_t word[4], words; /* of the command that is being written */
  int counter;             /* taken last, -1: none */
  uint32_t own;            /* commands under way */
  int event;               /* that a transfer of the core ended, until it wakes the core */
  uint32_t mask;           /* events that wake the core */
  uint32_t spins;          /* reads of the status since the core did something else */
} port_t;

static port_t ports[CORES] = {{.counter = -1}, {.counter = -1}, {.counter = -1}, {.counter = -1},
                              {.counter = -1}, {.counter = -1}, {.counter = -1}, {.counter = -1}};
static command_t queue[QUEUE];
static uint32_t queued, taken, pending[COUNTERS];

static void perform(const command_t *command)
{
  const uint32_t bytes = command->word[0] & DORY_GAP8_DMA_BYTES_MAX;
  const int two = (command->word[0] & DORY_GAP8_DMA_2D) != 0;
  const uint32_t row = two ? command->word[3] & 0xFFFFu : bytes;
  const uint32_t stride = two ? command->word[3] >> 16 : 0;
  uint8_t *l1 = pointer_of(command->word[1]), *l2 = pointer_of(command->word[2]);
  for (uint32_t at = 0; at < bytes; at += row, l2 += stride) {
    const uint32_t size = bytes - at < row ? bytes - at : row;
    if (command->word[0] & DORY_GAP8_DMA_TO_L1) {
      memcpy(l1 + at, l2, size);
    } else {
      memcpy(l2, l1 + at, size);
    }
  }
  pending[command->counter] -= bytes;
  ports[command->core].event = 1;
}

static void perform_all(void)
{
  for (uint32_t i = 0; i < queued; i++) {
    perform(&queue[i]);
  }
  queued = 0;
  for (uint32_t i = 0; i < CORES; i++) ports[i].own = 0;
}

static void check(const command_t *command)
{
  const uint32_t bytes = command->word[0] & DORY_GAP8_DMA_BYTES_MAX;
  if (bytes == 0) model_fail("the DMA gets a command of no bytes");
  if (!(command->word[0] & DORY_GAP8_DMA_INCREMENT)) model_fail("the command's address stands still");
  if (!(command->word[0] & DORY_GAP8_DMA_EVENT)) model_fail("no event would tell the command's end");
  if (!in_l1(command->word[1], bytes)) model_fail("the command's first address is not in L1");
  if (in_l1(command->word[2], 1)) model_fail("the command's second address is in L1");
  if (command->word[0] & DORY_GAP8_DMA_2D) {
    const uint32_t row = command->word[3] & 0xFFFFu, stride = command->word[3] >> 16;
    if (row == 0 || row > DORY_GAP8_DMA_ROW_MAX || stride > DORY_GAP8_DMA_ROW_MAX)
      model_fail("row or stride of a command has more than 15 bits");
    if (bytes % row) model_fail("the rows of a command are no whole rows");
  }
}

static void write_command(port_t *port, uint32_t value)
{
  if (port->counter < 0) model_fail("a command is written without a counter");
  port->word[port->words++] = value;
  if (port->words < (port->word[0] & DORY_GAP8_DMA_2D ? 4u : 3u)) return;
  port->words = 0;
  command_t command;
  memcpy(command.word, port->word, sizeof command.word);
  command.counter = (uint32_t)port->counter;
  command.core = this_core;
  check(&command);
  pending[command.counter] += command.word[0] & DORY_GAP8_DMA_BYTES_MAX;
  if (model_command_count < sizeof model_commands / sizeof model_commands[0]) {
    const int two = (command.word[0] & DORY_GAP8_DMA_2D) != 0;
    model_commands[model_command_count++] = (model_command_t){
        command.word[0] & DORY_GAP8_DMA_BYTES_MAX, two ? command.word[3] & 0xFFFFu : 0,
        two ? command.word[3] >> 16 : 0, (command.word[0] & DORY_GAP8_DMA_TO_L1) != 0};
  }
  if (model_alone && port->own > 0) model_fail("a command of the DMA is not alone");
  port->own++;
  queue[queued++] = command;
  if (model_early || queued == QUEUE) perform_all();
}

uint32_t dory_gap8_core(void)
{
  return this_core;
}

int model_on_cluster(void)
{
  return on_cluster;
}

uint32_t dory_gap8_read(uint32_t address)
{
  static uint32_t timer;
  port_t *const port = &ports[this_core];
  uint32_t value = 0;
  if (!on_cluster) model_fail("the fabric controller reads a register of the cluster");
  pthread_mutex_lock(&lock);
  if (address == DORY_GAP8_TIMER_COUNT) {
    value = timer += 7;
  } else if (address == DORY_GAP8_DMA_STATUS) {
    for (uint32_t i = 0; i < COUNTERS; i++) value |= (pending[i] != 0) << i;
    if (value != 0 && ++port->spins > 4) model_fail("it polls the DMA and does not sleep");
  } else if (address == DORY_GAP8_DMA_COMMAND) {
    if (port->words) model_fail("a counter is taken in the middle of a command");
    while (value < COUNTERS && taken >> value & 1) value++;
    if (value == COUNTERS) model_fail("no counter of the DMA is left: the core hangs");
    taken |= 1u << value;
    port->counter = (int)value;
  } else {
    model_fail("an unknown register is read");
  }
  pthread_mutex_unlock(&lock);
  return value;
}

void dory_gap8_write(uint32_t address, uint32_t value)
{
  port_t *const port = &ports[this_core];
  if (!on_cluster) model_fail("the fabric controller writes a register of the cluster");
  pthread_mutex_lock(&lock);
  if (address == DORY_GAP8_DMA_COMMAND || address == DORY_GAP8_DMA_STATUS) port->spins = 0;
  if (address == DORY_GAP8_EU_MASK_SET) {
    port->mask |= value;
  } else if (address == DORY_GAP8_EU_MASK_CLEAR) {
    port->mask &= ~value;
  } else if (address == DORY_GAP8_DMA_COMMAND) {
    write_command(port, value);
  } else if (address == DORY_GAP8_DMA_STATUS) {
    for (uint32_t i = 0; i < COUNTERS; i++) {
      if (!(value >> i & 1)) continue;
      if (!(taken >> i & 1)) model_fail("a counter is freed that is not taken");
      if (pending[i]) model_fail("a counter is freed whose transfers are under way");
    }
    taken &= ~value;
  } else {
    model_fail("an unknown register is written");
  }
  pthread_mutex_unlock(&lock);
}

/* --- cores --- */

static pthread_barrier_t team;
static int team_cores;

uint32_t dory_gap8_sleep(uint32_t address)
{
  port_t *const port = &ports[this_core];
  if (!on_cluster) model_fail("the fabric controller sleeps in the cluster");
  if (address == DORY_GAP8_EU_BARRIER) {
    pthread_mutex_lock(&lock);
    if (port->mask) model_fail("it comes to a barrier while other events would wake it");
    pthread_mutex_unlock(&lock);
    pthread_barrier_wait(&team);
  } else if (address == DORY_GAP8_EU_WAIT_CLEAR) {
    pthread_mutex_lock(&lock);
    if (!(port->mask & DORY_GAP8_EVENT_DMA)) model_fail("it sleeps and no event would wake it");
    perform_all();
    if (!port->event) model_fail("it sleeps although nothing of its own is under way");
    port->event = 0;
    port->spins = 0;
    pthread_mutex_unlock(&lock);
  } else {
    model_fail("it sleeps on an unknown register");
  }
  return 0;
}

typedef struct {
  void (*entry)(void *);
  void *argument;
  uint32_t core;
} start_t;

static void *run_core(void *argument)
{
  const start_t *const start = argument;
  on_cluster = 1;
  this_core = start->core;
  start->entry(start->argument);
  return NULL;
}

void pi_cl_team_barrier(int id)
{
  (void)id;
  (void)dory_gap8_sleep(DORY_GAP8_EU_BARRIER);
}

uint32_t pi_core_id(void)
{
  return this_core;
}

void pi_cl_team_fork(int cores, void (*entry)(void *), void *argument)
{
  pthread_t threads[CORES];
  start_t starts[CORES];
  if (cores != team_cores) model_fail("the team has other cores than the task");
  pthread_barrier_init(&team, NULL, (unsigned)cores);
  for (int core = 1; core < cores; core++) {
    starts[core] = (start_t){entry, argument, (uint32_t)core};
    pthread_create(&threads[core], NULL, run_core, &starts[core]);
  }
  entry(argument);
  for (int core = 1; core < cores; core++) pthread_join(threads[core], NULL);
  pthread_barrier_destroy(&team);
}

void model_run(int cores, void (*entry)(void *), void *argument)
{
  on_cluster = 1;
  team_cores = cores;
  pi_cl_team_fork(cores, entry, argument);
  on_cluster = 0;
}

void model_finish(void)
{
  if (queued) model_fail("a transfer was never waited for");
  if (taken) model_fail("a counter of the DMA was never freed");
}

/* --- cluster as the fabric controller sees it --- */

static uint32_t l1_used, stacks;

static void *l1_take(uint32_t size)
{
  size = (size + 7u) & ~7u;
  if (size > STUB_L1_BYTES - l1_used) return NULL;
  l1_used += size;
  return model_l1 + l1_used - size;
}

void pi_cluster_conf_init(struct pi_cluster_conf *conf) { conf->id = 0; }
int pi_cluster_open(struct pi_device *device) { return device->config == NULL; }
int pi_cluster_close(struct pi_device *device) { return device->config == NULL; }

void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size)
{
  (void)device;
  return l1_take(size);
}

struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *),
                                        void *arg)
{
  memset(task, 0, sizeof *task);
  task->entry = entry;
  task->arg = arg;
  return task;
}

static pthread_t cluster;
static pthread_cond_t cluster_has_ended = PTHREAD_COND_INITIALIZER;
static int cluster_runs;

static void *run_task(void *argument)
{
  const struct pi_cluster_task *const task = argument;
  on_cluster = 1;
  task->entry(task->arg);
  model_finish();
  pthread_mutex_lock(&lock);
  cluster_runs = 0;
  pthread_cond_signal(&cluster_has_ended);
  pthread_mutex_unlock(&lock);
  return NULL;
}

pi_task_t *pi_task_block(pi_task_t *task)
{
  task->ready = 1;
  return task;
}

void pi_task_wait_on(pi_task_t *task)
{
  if (task->ready != 2) model_fail("nothing was started with the task");
  pthread_join(cluster, NULL);
  task->ready = 0;
}

/* Where nothing hangs, time stands still until the cluster has ended. */
void pi_time_wait_us(int microseconds)
{
  (void)microseconds;
  pthread_mutex_lock(&lock);
  while (cluster_runs && getenv("MODEL_HANGS") == NULL)
    pthread_cond_wait(&cluster_has_ended, &lock);
  pthread_mutex_unlock(&lock);
}

int pi_cluster_send_task_to_cl_async(struct pi_device *device, struct pi_cluster_task *task,
                                     pi_task_t *end)
{
  const uint32_t size =
      task->stack_size + task->slave_stack_size * (uint32_t)(task->nb_cores - 1);
  (void)device;
  if (task->stack_size > 1348 || task->stack_size < 1300 || task->slave_stack_size != 1140)
    model_fail("the stacks are not those of the memory hierarchy");
  if (stacks != size) {
    if (stacks) model_fail("the stacks change their size");
    if (l1_take(size) == NULL) return -1;
    stacks = size;
  }
  if (end->ready != 1) model_fail("the task of the end is not prepared");
  end->ready = 2;
  team_cores = task->nb_cores;
  cluster_runs = 1;
  pthread_create(&cluster, NULL, run_task, task);
  return 0;
}

uint32_t pi_is_fc(void) { return !on_cluster; }
void pi_perf_conf(unsigned events)
{
  if (!(events >> PI_PERF_CYCLES & 1)) model_fail("the cycles are not counted");
}
void pi_perf_reset(void) {}
void pi_perf_start(void) {}

/* --- chip --- */

static uint32_t millivolt, hertz[2];

unsigned int PMU_set_voltage(unsigned int voltage, unsigned int check);
unsigned int PMU_set_voltage(unsigned int voltage, unsigned int check)
{
  (void)check;
  millivolt = voltage;
  return 0;
}
int32_t pi_freq_set(int domain, uint32_t frequency)
{
  if (millivolt == 0) model_fail("a clock is set before the voltage");
  hertz[domain] = frequency;
  return 0;
}
void pi_open_from_conf(struct pi_device *device, void *conf) { device->config = conf; }

void *pi_l2_malloc(int size)
{
  if (getenv("MODEL_NO_HEAP") != NULL) return NULL;
  static uint8_t heap[1 << 20];
  static uint32_t used;
  used = (used + 7u) & ~7u;
  if ((uint32_t)size > sizeof heap - used) return NULL;
  used += (uint32_t)size;
  return heap + used - size;
}

void pi_l2_free(void *chunk, int size)
{
  (void)chunk;
  (void)size;
}

/* The program starts with the paths of the flash's files. */
__attribute__((constructor)) static void start(int argc, char **argv)
{
  model_early = getenv("MODEL_EARLY") != NULL;
  model_alone = getenv("MODEL_ALONE") != NULL;
  for (int i = 1; i < argc; i++)
    if (strchr(argv[i], '/') != NULL) model_load_file(argv[i]);
}

int pmsis_kickoff(void *entry)
{
  void (*run)(void) = (void (*)(void))entry;
  if (hertz[PI_FREQ_DOMAIN_FC] == 0 || hertz[PI_FREQ_DOMAIN_CL] == 0)
    model_fail("a clock was not set");
  fprintf(stderr, "model: %u mV, fabric %u Hz, cluster %u Hz\n", (unsigned)millivolt,
          (unsigned)hertz[PI_FREQ_DOMAIN_FC], (unsigned)hertz[PI_FREQ_DOMAIN_CL]);
  run();
  return 0;
}

void pmsis_exit(int status)
{
  if (millivolt == 0) model_fail("the voltage was not set");
  fprintf(stderr, "model: stacks %u B, L1 %u B in all\n", (unsigned)stacks, (unsigned)l1_used);
  exit(status);
}
