/* Runs the network on GAP8 and compares every layer with vectors/, element by element.
 *
 * For each vector of the flash the network runs twice: once alone, for its cycles and its output,
 * and once handing out every layer, which core 0 compares with the vectors while the others wait.
 * A network with state runs the vectors before it again each time, from the initial state on.
 * Results are printed after each run, one line per layer; the program ends with 0 when all is exact,
 * 5 when values differ, 70 when something else went wrong. */
#include "dory_gap8_ext.h"

#include <stdio.h>
#include <string.h>

#include "dory_gap8_layers.h"
#include "dory_hal.h"
#include "network.h"

#ifndef DORY_GAP8_REPEAT
#define DORY_GAP8_REPEAT 1
#endif

enum { EXIT_EXACT = 0, EXIT_DIFFERS = 5, EXIT_FAILED = 70 };

/* Sets the voltage of the chip in millivolts; the SDK's library has it, its headers do not. */
unsigned int PMU_set_voltage(unsigned int voltage, unsigned int check_frequencies);

/* What the target found out about one layer. */
typedef struct {
  uint32_t cycles;
  uint32_t wrong;        /* elements that differ */
  uint32_t first;        /* number of the first of them, in HWC order */
  int32_t expected, got; /* its values */
  uint32_t done;         /* bytes of the output handed out so far */
} result_t;

/* One run of the network on the cluster. */
typedef struct {
  dory_network_io_t io;
  uint32_t vector;
  uint32_t cycles, last; /* of the whole run, and when the layer before ended */
  int status;
} job_t;

static uint8_t l2_arena[DORY_L2_USED] __attribute__((aligned(DORY_ARENA_ALIGN)));
static uint8_t part[1024] __attribute__((aligned(8))); /* of a golden, and of the input on its way */
static result_t results[DORY_NETWORK_LAYERS];
static struct pi_device cluster;
static pi_fs_file_t *golden, *inputs;
#ifdef DORY_NETWORK_STATES
static pi_fs_file_t *resets; /* a byte per vector: 1 where it begins with the initial state */
#endif
static uint32_t vectors;
static volatile int last_layer;  /* that was handed out, -1: none */
static volatile int has_ended;   /* the run of the cluster */
static volatile int golden_is_lost; /* a file could not be read */

static void fail(const char *what)
{
  printf("dory: error: %s\n", what);
  pmsis_exit(EXIT_FAILED);
}

static void check(const char *error)
{
  if (error != NULL) {
    fail(error);
  }
}

/* --- comparison --- */

/* Reads bytes of the goldens into `part`; works on the fabric controller and on the cluster. */
static void read_golden(uint32_t at, uint32_t bytes)
{
  if (pi_is_fc()) {
    check(dory_gap8_read_file(golden, at, part, bytes));
  } else {
    pi_cl_fs_req_t request;
    pi_cl_fs_copy(golden, at, part, bytes, 1, &request);
    if (pi_cl_fs_wait(&request) < 0) {
      golden_is_lost = 1;
    }
  }
}

/* The element number `k` of those that start at data[0]: one, or several in a byte or in halves. */
static int32_t element(const dory_gap8_layer_t *layer, const uint8_t *data, uint32_t k)
{
  uint32_t raw = data[0];
  if (layer->halves) {
    return (int32_t)data[k] + data[k + 4];
  }
  if (layer->bits < 8) {
    raw = raw >> (k * layer->bits) & ((1u << layer->bits) - 1);
  } else {
    for (uint32_t byte = 1; byte < layer->bits / 8u; byte++) {
      raw |= (uint32_t)data[byte] << 8 * byte;
    }
  }
  if (layer->is_signed && layer->bits < 32 && raw >> (layer->bits - 1)) {
    raw |= ~0u << layer->bits;
  }
  return (int32_t)raw;
}

/* Compares the elements of `bytes` bytes, at byte `at` of the layer's output, with `part`. */
static void compare_part(const dory_gap8_layer_t *layer, result_t *result, const uint8_t *data,
                         uint32_t at, uint32_t bytes)
{
  const uint32_t one = layer->bits < 8 ? 1 : layer->bits / 8u;
  const uint32_t step = layer->halves ? 8 : one;
  const uint32_t per_step = layer->halves ? 4 : layer->bits < 8 ? 8u / layer->bits : 1;
  for (uint32_t i = 0; i < bytes; i += step) {
    for (uint32_t k = 0; k < per_step; k++) {
      const uint32_t pixel = (at + i) / layer->pixel_bytes;
      const uint32_t channel = (at + i - pixel * layer->pixel_bytes) / step * per_step + k;
      const int32_t expected = element(layer, part + i, k);
      const int32_t got = element(layer, data + i, k);
      if (channel < layer->channels && expected != got) {
        if (result->wrong++ == 0) {
          result->first = pixel * layer->channels + channel;
          result->expected = expected;
          result->got = got;
        }
      }
    }
  }
}

/* Compares the next `bytes` bytes of a layer's output with the golden. */
static void compare(uint32_t position, uint32_t vector, const uint8_t *data, uint32_t bytes)
{
  const dory_gap8_layer_t *const layer = &dory_gap8_layers[position];
  result_t *const result = &results[position];
  const uint32_t start = layer->start * vectors + layer->bytes * vector;
  for (uint32_t at = 0; at < bytes; at += sizeof part) {
    const uint32_t size = bytes - at < sizeof part ? bytes - at : sizeof part;
    read_golden(start + result->done, size);
    if (memcmp(part, data + at, size) != 0) {
      compare_part(layer, result, data + at, result->done, size);
    }
    result->done += size;
  }
}

static uint32_t position_of(int layer)
{
  uint32_t position = 0;
  while (dory_gap8_layers[position].index != layer) {
    position++;
  }
  return position;
}

/* --- on the cluster --- */

/* Inputs and outputs that pass by rows: where each begins in its vector, bytes of a row, rows. */
typedef struct {
  uint32_t at, row_bytes, rows;
} rows_t;

#ifdef DORY_NETWORK_INPUT_ROWS
static const rows_t input_rows[] = DORY_NETWORK_INPUT_ROWS;

/* Core 0, when the network needs rows of an input: they come from the flash. */
static int next_rows(void *user, uint32_t input, void *dst, uint32_t first, uint32_t rows)
{
  const job_t *const job = user;
  const rows_t *const one = &input_rows[input];
  const uint32_t start =
      job->vector * DORY_NETWORK_INPUT_BYTES + one->at + first * one->row_bytes;
  const uint32_t bytes = rows * one->row_bytes;
  for (uint32_t at = 0; at < bytes; at += sizeof part) {
    const uint32_t size = bytes - at < sizeof part ? bytes - at : sizeof part;
    pi_cl_fs_req_t request;
    pi_cl_fs_copy(inputs, start + at, part, size, 1, &request);
    if (pi_cl_fs_wait(&request) < 0) {
      return -1;
    }
    memcpy((uint8_t *)dst + at, part, size);
  }
  return 0;
}
#endif

#ifdef DORY_NETWORK_OUTPUT_ROWS
static const rows_t output_rows[] = DORY_NETWORK_OUTPUT_ROWS;
static uint32_t rows_put; /* of all outputs in this run; check_layer compares their values */

static int put_rows(void *user, uint32_t output, const void *src, uint32_t first, uint32_t rows)
{
  (void)user;
  (void)src;
  if (first + rows > output_rows[output].rows) {
    return -1;
  }
  rows_put += rows;
  return 0;
}
#endif

/* Core 0, after each layer of the run that is compared. */
static void check_layer(void *user, int layer, const void *data, uint32_t bytes)
{
  const job_t *const job = user;
  last_layer = layer;
  compare(position_of(layer), job->vector, data, bytes);
}

/* Core 0, after each layer of the run that is measured. */
static void time_layer(void *user, int layer, const void *data, uint32_t bytes)
{
  job_t *const job = user;
  const uint32_t now = dory_cycles();
  (void)data;
  (void)bytes;
  results[position_of(layer)].cycles += now - job->last;
  job->last = dory_cycles();
}

static void run_core(void *argument)
{
  job_t *const job = argument;
  const int status = dory_network_run(&job->io);
  if (dory_core_id() == 0) {
    job->status = status;
  }
}

/* Core 0: one team for the whole network. */
static void run_cluster(void *argument)
{
  job_t *const job = argument;
  pi_perf_conf(1 << PI_PERF_CYCLES);
  pi_perf_reset();
  pi_perf_start();
  const uint32_t start = dory_cycles();
  job->last = start;
  pi_cl_team_fork(DORY_GAP8_CORES, run_core, job);
  job->cycles = dory_cycles() - start;
  has_ended = 1;
}

/* --- on the fabric controller --- */

/* Puts a vector where the network takes its input from. */
static void load_input(const job_t *job)
{
#ifdef DORY_NETWORK_INPUT_ROWS
  (void)job; /* the network asks for rows */
#elif DORY_NETWORK_INPUT_LEVEL == 3
  const uint32_t start = job->vector * DORY_NETWORK_INPUT_BYTES;
  for (uint32_t at = 0; at < DORY_NETWORK_INPUT_BYTES; at += sizeof part) {
    const uint32_t left = DORY_NETWORK_INPUT_BYTES - at;
    const uint32_t size = left < sizeof part ? left : sizeof part;
    check(dory_gap8_read_file(inputs, start + at, part, size));
    dory_gap8_write_l3(job->io.l3 + DORY_NETWORK_INPUT_OFFSET + at, part, size);
  }
#else
  const uint32_t start = job->vector * DORY_NETWORK_INPUT_BYTES;
  check(dory_gap8_read_file(inputs, start, (void *)job->io.input, DORY_NETWORK_INPUT_BYTES));
#endif
}

/* Waits until the cluster has ended its run, for a time that no run takes: a transfer that never
 * ends, or cores that do not meet at a barrier, would be waited for without end. Steps are long: the
 * SDK may lose a request of the cluster that comes when its timer ends. */
static void wait_for_the_end(pi_task_t *end)
{
  enum { STEP_MS = 10 };
  for (uint32_t waited_ms = 0; !has_ended; waited_ms += STEP_MS) {
    if (waited_ms >= DORY_GAP8_TIMEOUT_MS) {
      printf("dory: error: the network has not ended after %u ms; the last layer handed out is %d\n",
             (unsigned)waited_ms, last_layer);
      pmsis_exit(EXIT_FAILED);
    }
    pi_time_wait_us(1000 * STEP_MS);
  }
  pi_task_wait_on(end);
}

static void run(job_t *job, void (*on_layer)(void *, int, const void *, uint32_t))
{
  struct pi_cluster_task task;
  pi_task_t end;
  job->io.on_layer = on_layer;
  job->io.user = job;
#ifdef DORY_NETWORK_INPUT_ROWS
  job->io.next_rows = next_rows;
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
  job->io.put_rows = put_rows;
  rows_put = 0;
#endif
  for (uint32_t position = 0; position < DORY_NETWORK_LAYERS; position++) {
    results[position].done = 0;
  }
  memset(&task, 0, sizeof task);
  pi_cluster_task(&task, run_cluster, job);
  task.stack_size = DORY_GAP8_STACK_CORE0;
  task.slave_stack_size = DORY_GAP8_STACK_CORE;
  task.nb_cores = DORY_GAP8_CORES;
  has_ended = 0;
  last_layer = -1;
  if (pi_cluster_send_task_to_cl_async(&cluster, &task, pi_task_block(&end)) != 0) {
    fail("the stacks do not fit L1");
  }
  wait_for_the_end(&end);
  if (job->status != DORY_OK) {
    printf("dory: error: dory_network_run returns %d\n", job->status);
    pmsis_exit(EXIT_FAILED);
  }
  check(golden_is_lost ? "goldens cannot be read from the flash" : dory_gap8_l3_failure());
}

#ifdef DORY_NETWORK_STATES
/* Whether a vector begins with the initial state. */
static int begins(uint32_t vector)
{
  check(dory_gap8_read_file(resets, vector, part, 1));
  return vector == 0 || part[0] != 0;
}

/* Runs the vectors that the state of a vector comes from. */
static void prepare_state(job_t *job)
{
  const uint32_t vector = job->vector;
  while (!begins(job->vector)) {
    job->vector--;
  }
  dory_network_reset();
  for (; job->vector < vector; job->vector++) {
    load_input(job);
    run(job, NULL);
  }
}
#else
static void prepare_state(job_t *job) { (void)job; }
#endif

/* Prints what the run that is measured gave; its output is compared here. Returns wrong elements. */
static uint32_t report_cycles(const job_t *job)
{
  uint32_t wrong = 0;
  printf("dory: network cycles %u\n", (unsigned)job->cycles);
  for (uint32_t position = 0; DORY_GAP8_PROFILE_LAYERS && position < DORY_NETWORK_LAYERS;
       position++) {
    printf("dory: layer %d cycles %u\n", dory_gap8_layers[position].index,
           (unsigned)results[position].cycles);
    results[position].cycles = 0;
  }
#ifdef DORY_NETWORK_OUTPUT_ROWS
  uint32_t rows = 0;
  for (uint32_t i = 0; i < sizeof output_rows / sizeof output_rows[0]; i++) {
    rows += output_rows[i].rows;
  }
  printf("dory: %u of %u rows of the outputs came\n", (unsigned)rows_put, (unsigned)rows);
  wrong += rows_put != rows;
#elif DORY_NETWORK_OUTPUT_LEVEL != 3
  const uint8_t *output = job->io.output;
  for (uint32_t i = 0; i < sizeof dory_gap8_outputs / sizeof dory_gap8_outputs[0]; i++) {
    const uint32_t position = position_of(dory_gap8_outputs[i]);
    result_t *const result = &results[position];
    compare(position, job->vector, output, dory_gap8_layers[position].bytes);
    printf("dory: output of layer %d %s\n", dory_gap8_outputs[i],
           result->wrong == 0 ? "exact" : "differs");
    wrong += result->wrong;
    result->wrong = 0;
    output += dory_gap8_layers[position].bytes;
  }
#endif
  return wrong;
}

/* Prints how the layers of the run that is compared are. Returns wrong elements. */
static uint32_t report_layers(void)
{
  uint32_t wrong = 0;
  for (uint32_t position = 0; position < DORY_NETWORK_LAYERS; position++) {
    const dory_gap8_layer_t *const layer = &dory_gap8_layers[position];
    result_t *const result = &results[position];
    const unsigned elements = layer->bytes / layer->pixel_bytes * layer->channels;
    if (result->done != layer->bytes) {
      printf("dory: layer %d unchecked: %u of %u bytes came\n", layer->index,
             (unsigned)result->done, (unsigned)layer->bytes);
      wrong++;
    } else if (result->wrong == 0) {
      printf("dory: layer %d exact %u\n", layer->index, elements);
    } else {
      printf("dory: layer %d differs %u of %u elements, first element %u: expected %d, got %d\n",
             layer->index, (unsigned)result->wrong, elements, (unsigned)result->first,
             (int)result->expected, (int)result->got);
    }
    wrong += result->wrong;
    result->wrong = 0;
  }
  return wrong;
}

static void open_all(job_t *job)
{
  check(dory_gap8_open_flash());
#if DORY_GAP8_L3
  check(dory_gap8_open_l3("l3.bin", DORY_L3_IMAGE_BYTES, DORY_L3_USED - DORY_GAP8_L3_RAM_START,
                          l2_arena, sizeof l2_arena, &job->io.l3));
#endif
  golden = dory_gap8_open_file("golden.bin");
  inputs = dory_gap8_open_file("input.bin");
  if (golden == NULL || inputs == NULL) {
    fail("the flash does not hold golden.bin and input.bin");
  }
#ifdef DORY_NETWORK_STATES
  resets = dory_gap8_open_file("resets.bin");
  if (resets == NULL) {
    fail("the flash does not hold resets.bin");
  }
#endif
  vectors = inputs->size / DORY_NETWORK_INPUT_BYTES;
  if (vectors == 0 || golden->size != vectors * DORY_GAP8_GOLDEN_BYTES) {
    fail("the vectors do not have the sizes of the network");
  }

  struct pi_cluster_conf conf;
  pi_cluster_conf_init(&conf);
  conf.id = 0;
  pi_open_from_conf(&cluster, &conf);
  if (pi_cluster_open(&cluster) != 0) {
    fail("the cluster does not open");
  }
  /* The allocator keeps multiples of 8. */
  uint8_t *l1 = pi_cl_l1_malloc(&cluster, DORY_L1_USED + DORY_ARENA_ALIGN - 8);
  if (l1 == NULL) {
    fail("L1 has no room for the arena");
  }
  l1 += (DORY_ARENA_ALIGN - (uintptr_t)l1 % DORY_ARENA_ALIGN) % DORY_ARENA_ALIGN;

  job->io.l1 = l1;
  job->io.l1_size = DORY_L1_USED;
  job->io.l2 = l2_arena;
  job->io.l2_size = DORY_L2_USED;
  /* One input or output is used where the network has it; several have a buffer. */
#if DORY_NETWORK_INPUT_LEVEL == 3 || defined DORY_NETWORK_INPUT_ROWS
  job->io.input = l2_arena;
#elif DORY_GAP8_INPUTS == 1
  job->io.input = l2_arena + DORY_NETWORK_INPUT_OFFSET;
#else
  job->io.input = pi_l2_malloc(DORY_NETWORK_INPUT_BYTES);
#endif
#if DORY_NETWORK_OUTPUT_LEVEL == 3 || defined DORY_NETWORK_OUTPUT_ROWS
  job->io.output = l2_arena;
#elif DORY_GAP8_OUTPUTS == 1
  job->io.output = l2_arena + DORY_NETWORK_OUTPUT_OFFSET;
#else
  job->io.output = pi_l2_malloc(DORY_NETWORK_OUTPUT_BYTES);
#endif
  if (job->io.input == NULL || job->io.output == NULL) {
    fail("L2 has no room for the inputs and outputs");
  }
}

static void application(void)
{
  static job_t job;
  uint32_t wrong = 0;
  open_all(&job);
  for (uint32_t n = 0; n < vectors * DORY_GAP8_REPEAT; n++) {
    job.vector = n % vectors;
    printf("dory: run %u input %u\n", (unsigned)n, (unsigned)job.vector);
    prepare_state(&job);
    load_input(&job);
    run(&job, DORY_GAP8_PROFILE_LAYERS ? time_layer : NULL);
    wrong += report_cycles(&job);
    prepare_state(&job);
    load_input(&job);
    run(&job, check_layer);
    wrong += report_layers();
  }
  printf("dory: %s\n", wrong == 0 ? "exact" : "differs");
  pi_cluster_close(&cluster);
  pmsis_exit(wrong == 0 ? EXIT_EXACT : EXIT_DIFFERS);
}

int main(void)
{
  PMU_set_voltage(DORY_GAP8_MILLIVOLT, 0);
  pi_time_wait_us(10000); /* until the regulator has settled */
  pi_freq_set(PI_FREQ_DOMAIN_FC, DORY_GAP8_FABRIC_HZ);
  pi_time_wait_us(10000);
  pi_freq_set(PI_FREQ_DOMAIN_CL, DORY_GAP8_CLUSTER_HZ);
  pi_time_wait_us(10000);
  return pmsis_kickoff((void *)application);
}
