/* Runs the network on the host simulation and compares every layer with vectors/.
 *
 *   app [--vectors DIR] [--dump DIR] [--dma early|late|random] [--seed N] [--repeat N]
 *       [--l3 FILE] [--timeout SECONDS]
 *
 * vectors/input.bin holds the inputs in storage form one after the other, layer_NN.bin the outputs
 * of layer NN for the same inputs, and resets.bin one byte for each: 1 where the network begins with
 * its initial state. Every repetition begins so. Exit status: 0 exact, 2 wrong usage, 5 values differ,
 * 70 the simulator found a fault. */
#include "sim_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dory_io.h"
#include "network.h"

/* Properties of the target that network.h may state. */
#ifndef DORY_CORES
#define DORY_CORES 1
#endif
#ifndef DORY_L3_SIZE
#define DORY_L3_SIZE 0
#endif
#ifndef DORY_DMA_EACH_CORE
#define DORY_DMA_EACH_CORE 0
#endif
#ifndef DORY_DMA_IN_FLIGHT
#define DORY_DMA_IN_FLIGHT DORY_SIM_MAX_IN_FLIGHT
#endif
#ifndef DORY_DMA_TICKETS
#define DORY_DMA_TICKETS 0
#endif
#ifndef DORY_DMA_ALIGN
#define DORY_DMA_ALIGN 1
#endif
#ifndef DORY_DMA_MAX_BYTES
#define DORY_DMA_MAX_BYTES 0
#endif
#ifndef DORY_DMA_DIMENSIONS
#define DORY_DMA_DIMENSIONS 3
#endif
#ifndef DORY_DMA_NONE
#define DORY_DMA_NONE 0
#endif
#ifndef DORY_EXT_ALIGN
#define DORY_EXT_ALIGN 1
#endif
#ifndef DORY_EXT_MAX_BYTES
#define DORY_EXT_MAX_BYTES 0
#endif

#ifndef DORY_L2_MORE
#define DORY_L2_MORE 0
#endif

/* Where the network's input and output lie: 2, or 3 for L3. */
#ifndef DORY_NETWORK_INPUT_LEVEL
#define DORY_NETWORK_INPUT_LEVEL 2
#endif
#ifndef DORY_NETWORK_OUTPUT_LEVEL
#define DORY_NETWORK_OUTPUT_LEVEL 2
#endif

/* Where inputs and outputs lie in L3: {offset, bytes} of each, one after the other unless said. */
#if DORY_NETWORK_INPUT_LEVEL == 3
#ifndef DORY_NETWORK_INPUT_PARTS
#define DORY_NETWORK_INPUT_PARTS {{DORY_NETWORK_INPUT_OFFSET, DORY_NETWORK_INPUT_BYTES}}
#endif
static const struct { uint32_t offset, bytes; } input_parts[] = DORY_NETWORK_INPUT_PARTS;
#endif
#if DORY_NETWORK_OUTPUT_LEVEL == 3
#ifndef DORY_NETWORK_OUTPUT_PARTS
#define DORY_NETWORK_OUTPUT_PARTS {{DORY_NETWORK_OUTPUT_OFFSET, DORY_NETWORK_OUTPUT_BYTES}}
#endif
static const struct { uint32_t offset, bytes; } output_parts[] = DORY_NETWORK_OUTPUT_PARTS;
#endif

/* Inputs and outputs that pass by rows: where each begins in its file, bytes of a row, rows. */
typedef struct { uint32_t at, row_bytes, rows; } rows_t;
#ifdef DORY_NETWORK_INPUT_ROWS
static const rows_t input_rows[] = DORY_NETWORK_INPUT_ROWS;
#define INPUTS_BY_ROWS (sizeof input_rows / sizeof *input_rows)
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
static const rows_t output_rows[] = DORY_NETWORK_OUTPUT_ROWS;
#define OUTPUTS_BY_ROWS (sizeof output_rows / sizeof *output_rows)
#endif

enum { EXIT_USAGE = 2, EXIT_DIFFERS = 5 };

typedef struct {
  const char *vectors, *dump, *l3;
  const char *dma;
  uint64_t seed;
  uint32_t repeat, timeout;
} options_t;

typedef struct {
  const options_t *options;
  uint32_t inputs;      /* how many there are */
  uint32_t input_index; /* which of them */
  uint32_t run;         /* counts through inputs and repetitions */
  int differs;
  uint32_t layers;      /* reported in this run */
  uint32_t *done;       /* bytes of each layer that were reported, by its index */
  uint32_t room;        /* of done */
#ifdef DORY_NETWORK_INPUT_ROWS
  const uint8_t *input;
  uint32_t given[INPUTS_BY_ROWS]; /* rows of each input in this run */
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
  uint8_t *output;
  uint32_t taken[OUTPUTS_BY_ROWS]; /* rows of each output in this run */
#endif
} progress_t;

/* Bytes of a layer that were reported in this run. */
static uint32_t *done_of(progress_t *progress, int layer) {
  const uint32_t wanted = (uint32_t)layer + 1;
  if (wanted > progress->room) {
    uint32_t *const grown = realloc(progress->done, wanted * sizeof *grown);
    if (grown == NULL) dory_sim_fault(NULL, 0, "no memory for the layers that were reported");
    memset(grown + progress->room, 0, (wanted - progress->room) * sizeof *grown);
    progress->done = grown;
    progress->room = wanted;
  }
  return &progress->done[layer];
}

static void usage(const char *what, const char *value) {
  fprintf(stderr, "app: %s%s\n", what, value);
  fprintf(stderr, "usage: app [--vectors DIR] [--dump DIR] [--dma early|late|random] [--seed N] "
                  "[--repeat N] [--l3 FILE] [--timeout SECONDS]\n");
  exit(EXIT_USAGE);
}

static uint64_t number(const char *option, const char *text) {
  char *end;
  errno = 0;
  const unsigned long long value = strtoull(text, &end, 10);
  if (errno != 0 || *text < '0' || *text > '9' || *end != '\0')
    usage(option, " needs a number that is not negative");
  return value;
}

static options_t parse(int argc, char **argv) {
  options_t options = {"vectors", NULL, "weights/l3.bin", "early", 1, 1, 60};
  for (int i = 1; i < argc; ++i) {
    const char *const name = argv[i];
    if (i + 1 == argc) usage("missing value or unknown option: ", name);
    const char *const value = argv[++i];
    if (strcmp(name, "--vectors") == 0)
      options.vectors = value;
    else if (strcmp(name, "--dump") == 0)
      options.dump = value;
    else if (strcmp(name, "--l3") == 0)
      options.l3 = value;
    else if (strcmp(name, "--dma") == 0)
      options.dma = value;
    else if (strcmp(name, "--seed") == 0)
      options.seed = number(name, value);
    else if (strcmp(name, "--repeat") == 0)
      options.repeat = (uint32_t)number(name, value);
    else if (strcmp(name, "--timeout") == 0)
      options.timeout = (uint32_t)number(name, value);
    else
      usage("unknown option: ", name);
  }
  return options;
}

#define PATH_ROOM 4096

static void path_of(char path[PATH_ROOM], const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(path, PATH_ROOM, format, arguments);
  va_end(arguments);
  if (n < 0 || n >= PATH_ROOM) usage("path too long: ", path);
}

/* Reads bytes [offset, offset + bytes) of a file: 1, or 0 when it does not exist. */
static int read_part(const char *path, uint64_t offset, void *data, uint32_t bytes) {
  FILE *const file = fopen(path, "rb");
  if (file == NULL) return 0;
  if (fseek(file, (long)offset, SEEK_SET) != 0 || fread(data, 1, bytes, file) != bytes)
    usage("file is too short: ", path);
  fclose(file);
  return 1;
}

static void write_file(const char *path, const char *mode, const void *data, uint32_t bytes) {
  FILE *const file = fopen(path, mode);
  if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
    usage("cannot write ", path);
}

static void make_directory(const char *path) {
  if (mkdir(path, 0777) != 0 && errno != EEXIST) usage("cannot create ", path);
}

/* Prints one line on how the bytes compare with the file; 0 when there is no such file. */
static int compare(progress_t *progress, const char *path, const char *what, const uint8_t *got,
                   uint32_t bytes, uint64_t offset) {
  uint8_t *const expected = malloc(bytes ? bytes : 1);
  if (expected == NULL) usage("no memory to compare with ", path);
  const int known = read_part(path, offset, expected, bytes);
  if (known) {
    uint32_t wrong = 0, first = 0;
    for (uint32_t i = bytes; i-- > 0;)
      if (expected[i] != got[i]) ++wrong, first = i;
    if (wrong == 0) {
      printf("%s exact %lu\n", what, (unsigned long)bytes);
    } else {
      progress->differs = 1;
      printf("%s differs %lu of %lu bytes, first at byte %lu: expected %u, got %u\n", what,
             (unsigned long)wrong, (unsigned long)bytes, (unsigned long)first, expected[first],
             got[first]);
    }
  }
  free(expected);
  return known;
}

/* Bytes of all pieces of a layer's output in one run, from its file; 0 when there is none. */
static uint32_t expected_bytes(const progress_t *progress, const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return 0;
  return (uint32_t)(status.st_size / progress->inputs);
}

/* Returns the output of a layer, or some rows of it, as the files have it, HWC: where it has another
 * layout, in memory that the caller frees. */
static uint8_t *as_hwc(int layer, const void *data, uint32_t *bytes) {
#ifdef DORY_NETWORK_LAYOUTS
  static const dory_layout_t hwc = {0, 1, 1, 1};
  for (uint32_t n = 0; n < DORY_NETWORK_LAYOUTS; ++n) {
    const dory_layer_layout_t *const known = &dory_layer_layouts[n];
    if (known->layer != layer) continue;
    const dory_layout_t *const layout = &known->layout;
    const uint32_t whole = dory_layout_bytes(layout, known->c, known->h, known->w);
    /* Rows of all channels follow one another where a layout has no blocks of channels. */
    const uint32_t row = dory_layout_bytes(layout, known->c, 1, known->w);
    const uint32_t rows = *bytes / row;
    if (*bytes != whole && (layout->channel_block || *bytes != rows * row || rows > known->h))
      dory_sim_fault(NULL, 0, "%lu bytes were handed out, the layout has %lu",
                     (unsigned long)*bytes, (unsigned long)whole);
    *bytes = known->c * rows * known->w;
    uint8_t *const values = malloc(*bytes);
    if (values == NULL) usage("no memory for the output of a layer", "");
    dory_convert_layout_rows(values, &hwc, data, layout, known->c, rows, known->w, 0, 1);
    return values;
  }
#endif
  (void)layer, (void)data, (void)bytes;
  return NULL;
}

/* The output of a layer, or the next piece of it. */
static void on_layer(void *user, int layer, const void *data, uint32_t bytes) {
  progress_t *const progress = user;
  char path[PATH_ROOM], what[64];
  uint32_t *const done = done_of(progress, layer);
  if (*done == 0) ++progress->layers;
  dory_sim_read(data, bytes, NULL, 0);
  uint32_t value_bytes = bytes;
  uint8_t *const values = as_hwc(layer, data, &value_bytes);
  path_of(path, "%s/layer_%02d.bin", progress->options->vectors, layer);
  const uint32_t whole = expected_bytes(progress, path);
  if (*done == 0 && value_bytes >= whole)
    snprintf(what, sizeof what, "layer %d", layer);
  else
    snprintf(what, sizeof what, "layer %d from byte %lu", layer, (unsigned long)*done);
  if (!compare(progress, path, what, values ? values : data, value_bytes,
               (uint64_t)progress->input_index * (whole ? whole : value_bytes) + *done))
    printf("%s unchecked %lu\n", what, (unsigned long)value_bytes);
  free(values);
  if (progress->options->dump) {
    path_of(path, "%s/run_%02lu/layer_%02d.bin", progress->options->dump,
            (unsigned long)progress->run, layer);
    write_file(path, *done ? "ab" : "wb", data, bytes);
  }
  *done += value_bytes;
}

/* The same where the layer may lie in an L1 that cores do not reach. */
static void on_layer_anywhere(void *user, int layer, const void *data, uint32_t bytes) {
  dory_sim_l1_begin();
  on_layer(user, layer, data, bytes);
  dory_sim_l1_end();
}

#if defined DORY_NETWORK_INPUT_ROWS || defined DORY_NETWORK_OUTPUT_ROWS
/* Returns where rows stand in the file; they follow those before them. */
static uint32_t place_of_rows(const rows_t *all, uint32_t count, uint32_t *passed,
                              const char *what, uint32_t number, uint32_t first, uint32_t rows) {
  if (number >= count)
    dory_sim_fault(NULL, 0, "%s %lu passes by rows, there is none", what, (unsigned long)number);
  if (first != passed[number] || rows == 0 || rows > all[number].rows - first)
    dory_sim_fault(NULL, 0, "rows %lu to %lu of %s %lu pass behind row %lu of %lu",
                   (unsigned long)first, (unsigned long)(first + rows - 1), what,
                   (unsigned long)number, (unsigned long)passed[number],
                   (unsigned long)all[number].rows);
  passed[number] = first + rows;
  return all[number].at + first * all[number].row_bytes;
}
#endif

#ifdef DORY_NETWORK_INPUT_ROWS
/* Rows of an input, as a sensor would deliver them. */
static int next_rows(void *user, uint32_t input, void *dst, uint32_t first, uint32_t rows) {
  progress_t *const progress = user;
  const uint32_t at = place_of_rows(input_rows, INPUTS_BY_ROWS, progress->given, "input", input,
                                    first, rows);
  const uint32_t bytes = rows * input_rows[input].row_bytes;
  memcpy(dst, progress->input + at, bytes);
  dory_sim_l2_define(dst, bytes, NULL, 0);
  return 0;
}
#endif

#ifdef DORY_NETWORK_OUTPUT_ROWS
static int put_rows(void *user, uint32_t output, const void *src, uint32_t first, uint32_t rows) {
  progress_t *const progress = user;
  const uint32_t bytes = rows * output_rows[output].row_bytes;
  const uint32_t at = place_of_rows(output_rows, OUTPUTS_BY_ROWS, progress->taken, "output", output,
                                    first, rows);
  dory_sim_read(src, bytes, NULL, 0);
  memcpy(progress->output + at, src, bytes);
  return 0;
}
#endif

/* No rows have passed in a run that begins. */
static void begin_rows(progress_t *progress) {
  (void)progress;
#ifdef DORY_NETWORK_INPUT_ROWS
  memset(progress->given, 0, sizeof progress->given);
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
  memset(progress->taken, 0, sizeof progress->taken);
#endif
}

static void write_counts_line(FILE *file, long layer, dory_sim_counts_t c) {
  if (c.transfers == 0 && c.calls == 0) return;
  fprintf(file, "%ld %llu %llu %llu\n", layer, (unsigned long long)c.calls,
          (unsigned long long)c.transfers, (unsigned long long)c.bytes);
}

/* Writes what each layer did: index, calls, transfers, bytes. Index -1 is L3, for all layers. */
static void write_counts(const char *path) {
  FILE *const file = fopen(path, "w");
  if (file == NULL) usage("cannot write ", path);
  for (uint32_t n = 0; n < dory_sim_counted_layers(); ++n)
    write_counts_line(file, (long)n, dory_sim_layer_counts(n));
  write_counts_line(file, -1, dory_sim_external_counts());
  if (fclose(file) != 0) usage("cannot write ", path);
}

#ifdef DORY_NETWORK_FLOAT_IO
/* The inputs of an inference from floats, as the caller converts them; they may be missing. */
static void convert_input(const progress_t *progress, void *input) {
  const uint32_t bytes = DORY_NETWORK_INPUT_VALUES * sizeof(float);
  float *const values = malloc(bytes);
  char path[PATH_ROOM];
  if (values == NULL) usage("no memory for the input as floats", "");
  path_of(path, "%s/input_float.bin", progress->options->vectors);
  if (read_part(path, (uint64_t)progress->input_index * bytes, values, bytes))
    dory_quantize_input(values, input);
  free(values);
}

/* The outputs as floats, compared and dumped. */
static void convert_output(progress_t *progress, const void *output) {
  const uint32_t bytes = DORY_NETWORK_OUTPUT_VALUES * sizeof(float);
  float *const values = malloc(bytes);
  char path[PATH_ROOM];
  if (values == NULL) usage("no memory for the output as floats", "");
  dory_dequantize_output(output, values);
  path_of(path, "%s/output_float.bin", progress->options->vectors);
  compare(progress, path, "output as floats", (const uint8_t *)values, bytes,
          (uint64_t)progress->input_index * bytes);
  if (progress->options->dump) {
    path_of(path, "%s/run_%02lu/output_float.bin", progress->options->dump,
            (unsigned long)progress->run);
    write_file(path, "wb", values, bytes);
  }
  free(values);
}
#endif

#ifdef DORY_NETWORK_STATES
/* Lets an inference begin with the initial state where the vectors say so. */
static void reset_state(const options_t *options, uint32_t input_index) {
  char path[PATH_ROOM];
  uint8_t begins = 0;
  path_of(path, "%s/resets.bin", options->vectors);
  if (!read_part(path, input_index, &begins, 1) || begins || input_index == 0)
    dory_network_reset();
}

static const struct { uint32_t memory, offset, bytes; } state_parts[] = DORY_NETWORK_STATE_PARTS;

static const uint8_t *state_part(const dory_network_io_t *io, uint32_t i) {
  const uint32_t memory = state_parts[i].memory;
  return (const uint8_t *)(memory ? io->l2_more[memory - 1].base : io->l2) + state_parts[i].offset;
}

/* Writes the state that an inference has left. */
static void write_state(const dory_network_io_t *io, const char *path) {
  for (uint32_t i = 0; i < DORY_NETWORK_STATES; ++i)
    write_file(path, i ? "ab" : "wb", state_part(io, i), state_parts[i].bytes);
}
#endif

#if DORY_NETWORK_OUTPUT_LEVEL == 2
static volatile uint8_t seen[DORY_SIM_MAX_CORES]; /* by each core: all bytes of the output */
#endif

/* Core 0 writes the input, and each core that returns finds the whole output: a race with one that
 * copies too early, or still, is a fault of the network, which ThreadSanitizer sees. */
static int run_network(void *argument) {
  const dory_network_io_t *const io = argument;
#if DORY_NETWORK_INPUT_LEVEL == 2
  if (io != NULL && io->input != NULL && dory_core_id() == 0) {
    volatile uint8_t *const input = (uint8_t *)(uintptr_t)io->input;
    for (uint32_t i = 0; i < DORY_NETWORK_INPUT_BYTES; ++i) input[i] = input[i];
  }
#endif
  const int result = dory_network_run(io);
#if DORY_NETWORK_OUTPUT_LEVEL == 2
  const uint8_t *const output = io != NULL && result == DORY_OK ? io->output : NULL;
  uint8_t sum = 0;
  for (uint32_t i = 0; output != NULL && i < DORY_NETWORK_OUTPUT_BYTES; ++i) sum ^= output[i];
  seen[dory_core_id()] = sum;
#endif
  return result;
}

/* Hands over no more of the arenas than the network says it uses, and sees that it refuses less. */
static void hand_over_what_is_used(dory_network_io_t *io, uint32_t more) {
#ifdef DORY_L1_USED
  io->l1_size = DORY_L1_USED;
  io->l2_size = DORY_L2_USED;
  /* NULL where they are not used */
  const int input = DORY_NETWORK_INPUT_LEVEL == 2 && io->input != NULL;
  const int output = DORY_NETWORK_OUTPUT_LEVEL == 2 && io->output != NULL;
  sim_check_refusals(run_network, io, input, output, more);
#endif
  (void)io, (void)more;
}

static void load_l3(const char *path) {
  struct stat status;
  if (DORY_L3_SIZE == 0 || stat(path, &status) != 0) return;
  if ((uint64_t)status.st_size > DORY_L3_SIZE) usage("file is larger than L3: ", path);
#ifdef DORY_L3_IMAGE_BYTES
  if ((uint64_t)status.st_size != DORY_L3_IMAGE_BYTES)
    usage("file does not have the size that network.h states: ", path);
#endif
  read_part(path, 0, dory_sim_l3((uint32_t)status.st_size), (uint32_t)status.st_size);
}

static uint32_t count_inputs(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) usage("no input: ", path);
  if (status.st_size == 0 || status.st_size % DORY_NETWORK_INPUT_BYTES != 0)
    usage("size is no multiple of the network's input: ", path);
  return (uint32_t)(status.st_size / DORY_NETWORK_INPUT_BYTES);
}

int main(int argc, char **argv) {
  const options_t options = parse(argc, argv);
  char path[PATH_ROOM];
  dory_sim_config_t config;
  memset(&config, 0, sizeof config);
  config.cores = DORY_CORES;
  config.l1_size = DORY_L1_SIZE;
  config.l2_size = DORY_L2_SIZE;
  config.l3_size = DORY_L3_SIZE;
#if DORY_L2_MORE > 0
  static const uint32_t more_sizes[DORY_L2_MORE] = DORY_L2_MORE_SIZES;
  memcpy(config.more_l2_size, more_sizes, sizeof more_sizes);
  config.more_l2 = DORY_L2_MORE;
#endif
  config.seed = options.seed;
  config.dma_each_core = DORY_DMA_EACH_CORE;
  config.dma_in_flight = DORY_DMA_IN_FLIGHT;
  config.dma_tickets = DORY_DMA_TICKETS;
  config.dma_align = DORY_DMA_ALIGN;
  config.dma_max_bytes = DORY_DMA_MAX_BYTES;
  config.dma_dimensions = DORY_DMA_DIMENSIONS;
  config.dma_none = DORY_DMA_NONE;
  config.ext_align = DORY_EXT_ALIGN;
  config.ext_max_bytes = DORY_EXT_MAX_BYTES;
  config.barrier_timeout_s = options.timeout;
  if (strcmp(options.dma, "early") == 0)
    config.dma = DORY_SIM_EARLY;
  else if (strcmp(options.dma, "late") == 0)
    config.dma = DORY_SIM_LATE;
  else if (strcmp(options.dma, "random") == 0)
    config.dma = DORY_SIM_RANDOM;
  else
    usage("--dma is early, late or random, not ", options.dma);

  path_of(path, "%s/input.bin", options.vectors);
  const uint32_t inputs = count_inputs(path);
  dory_sim_open(&config);
  load_l3(options.l3);
  for (uint32_t i = 0; i < dory_table_count; ++i)
    dory_sim_const(dory_tables[i].data, dory_tables[i].bytes);
  void *const input = dory_sim_alloc("the input", DORY_NETWORK_INPUT_BYTES);
  void *const output = dory_sim_alloc("the output", DORY_NETWORK_OUTPUT_BYTES);
  dory_sim_const(input, DORY_NETWORK_INPUT_BYTES);
  dory_sim_mutable(output, DORY_NETWORK_OUTPUT_BYTES);

  progress_t progress;
  memset(&progress, 0, sizeof progress);
  progress.options = &options;
  progress.inputs = inputs;
  dory_memory_t more[DORY_SIM_MAX_MORE_L2];
  for (uint32_t i = 0; i < config.more_l2; ++i) {
    more[i].base = dory_sim_more_l2(i);
    more[i].size = config.more_l2_size[i];
  }
  dory_network_io_t io;
  memset(&io, 0, sizeof io);
  io.l1 = dory_sim_l1();
  io.l2 = dory_sim_l2();
  io.l1_size = DORY_L1_SIZE;
  io.l2_size = DORY_L2_SIZE;
  io.input = input;
  io.output = output;
  io.on_layer = on_layer_anywhere;
  io.user = &progress;
  io.l2_more = config.more_l2 ? more : NULL;
#ifdef DORY_NETWORK_INPUT_ROWS
  progress.input = input;
  io.input = NULL;
  io.next_rows = next_rows;
#endif
#ifdef DORY_NETWORK_OUTPUT_ROWS
  progress.output = output;
  io.output = NULL;
  io.put_rows = put_rows;
#endif
  hand_over_what_is_used(&io, config.more_l2);
#ifdef DORY_NETWORK_STATES
  for (uint32_t i = 0; i < DORY_NETWORK_STATES; ++i)
    dory_sim_replaced(state_part(&io, i), state_parts[i].bytes);
#endif
  if (options.dump) make_directory(options.dump);
  for (progress.run = 0; progress.run < inputs * options.repeat; ++progress.run) {
    progress.input_index = progress.run % inputs;
    progress.layers = 0;
    begin_rows(&progress);
    if (progress.done != NULL) memset(progress.done, 0, progress.room * sizeof *progress.done);
    if (inputs * options.repeat > 1) printf("run %lu\n", (unsigned long)progress.run);
    if (options.dump) {
      path_of(path, "%s/run_%02lu", options.dump, (unsigned long)progress.run);
      make_directory(path);
    }
    path_of(path, "%s/input.bin", options.vectors);
    if (!read_part(path, (uint64_t)progress.input_index * DORY_NETWORK_INPUT_BYTES, input,
                   DORY_NETWORK_INPUT_BYTES))
      usage("no input: ", path);
#ifdef DORY_NETWORK_FLOAT_IO
    convert_input(&progress, input);
#endif
    memset(output, SIM_POISON, DORY_NETWORK_OUTPUT_BYTES);
#if DORY_NETWORK_INPUT_LEVEL == 3
    const uint8_t *given = input;
    for (uint32_t i = 0; i < sizeof input_parts / sizeof *input_parts; ++i) {
      dory_sim_l3_input(input_parts[i].offset, given, input_parts[i].bytes);
      given += input_parts[i].bytes;
    }
#endif

#ifdef DORY_NETWORK_STATES
    /* The first inference of all begins with the initial state by itself. */
    if (progress.run > 0) reset_state(&options, progress.input_index);
#endif
    const int result = dory_sim_run(run_network, &io);
    if (result != DORY_OK) dory_sim_fault(NULL, 0, "dory_network_run returns %d", result);
    if (progress.layers != DORY_NETWORK_LAYERS)
      dory_sim_fault(NULL, 0, "%lu layers were reported, the network has %lu",
                     (unsigned long)progress.layers, (unsigned long)DORY_NETWORK_LAYERS);
#if DORY_NETWORK_OUTPUT_LEVEL == 3
    uint8_t *wanted = output;
    for (uint32_t i = 0; i < sizeof output_parts / sizeof *output_parts; ++i) {
      dory_sim_l3_output(output_parts[i].offset, wanted, output_parts[i].bytes);
      wanted += output_parts[i].bytes;
    }
#endif
    path_of(path, "%s/output.bin", options.vectors);
    compare(&progress, path, "output", output, DORY_NETWORK_OUTPUT_BYTES,
            (uint64_t)progress.input_index * DORY_NETWORK_OUTPUT_BYTES);
#ifdef DORY_NETWORK_FLOAT_IO
    convert_output(&progress, output);
#endif
    if (options.dump) {
      path_of(path, "%s/run_%02lu/output.bin", options.dump, (unsigned long)progress.run);
      write_file(path, "wb", output, DORY_NETWORK_OUTPUT_BYTES);
#ifdef DORY_NETWORK_STATES
      path_of(path, "%s/run_%02lu/state.bin", options.dump, (unsigned long)progress.run);
      write_state(&io, path);
#endif
      path_of(path, "%s/run_%02lu/counts.txt", options.dump, (unsigned long)progress.run);
      write_counts(path);
    }
    fflush(stdout);
  }
  free(progress.done);
  return progress.differs ? EXIT_DIFFERS : 0;
}
