/* Functional model of Diana's driver library: what its parts share, and what it needs from the
 * program that it runs in. Written from docs/contract.md alone. */
#ifndef DORY_DIANA_MODEL_H
#define DORY_DIANA_MODEL_H

#include <stdint.h>

#include "dory_diana_driver.h"

#define DIANA_DIGITAL_WEIGHT_BYTES 65536u
#define DIANA_ROWS 1152 /* of the analog array */
#define DIANA_COLUMNS 512
#define DIANA_LARGEST 65536 /* a size that no field exceeds */

#if defined(__GNUC__)
#define DIANA_NORETURN __attribute__((noreturn))
#define DIANA_FORMAT(text, first) __attribute__((format(printf, text, first)))
#else
#define DIANA_NORETURN
#define DIANA_FORMAT(text, first)
#endif

/* --- what the program supplies --- */

typedef struct {
  uint8_t *l1; /* the first byte of L1 */
  uint32_t l1_bytes;
  int32_t adc_scale; /* accumulators per step of the analog array's converter, at least 1 */
  int late;          /* 0: a job computes when it starts, 1: at its barrier */
} dory_diana_chip_t;

const dory_diana_chip_t *dory_diana_port_chip(void);
/* 1 when these bytes lie in memory of L2 that the program uses; to_write: and may be written. */
int dory_diana_port_in_l2(const void *ptr, uint64_t bytes, int to_write);
/* A job reads these bytes of L1 or L2: faults when nothing wrote them. */
void dory_diana_port_read(const void *ptr, uint32_t bytes);
/* A job wrote these bytes of L1 or L2. */
void dory_diana_port_write(void *ptr, uint32_t bytes);
/* A job begins, or ends, to read and write L1. */
void dory_diana_port_job(int begins);
/* A rule of the contract was broken. Does not return. */
void dory_diana_port_fault(const char *text) DIANA_NORETURN;

/* --- counts, for reports and tests --- */

typedef struct {
  uint64_t jobs; /* driver calls without those of the DMA */
  uint64_t macs; /* products, those of padded channels and columns included */
} dory_diana_counts_t;

/* Of the digital array (0) or the analog one (1) since the program began. */
dory_diana_counts_t dory_diana_counts(int array);

/* --- jobs --- */

enum { DIANA_DIGITAL = 0, DIANA_ANALOG = 1 };

typedef struct diana_job {
  void (*run)(const struct diana_job *job);
  int array;
  Layer_parameters p;
  const uint8_t *x, *x2, *w, *bn; /* w and bn in L2 */
  uint8_t *y;
  uint32_t x_bytes, x2_bytes, w_bytes, bn_bytes, y_bytes;
  uint32_t w_offset; /* in the weight memory */
  uint64_t macs;     /* 0: a copy */
} diana_job_t;

/* Names the call of which faults speak, and checks that no job is in flight. */
void diana_enter(const char *call);
/* Checks that the output overlaps no input and that all inputs were written, and starts the job. */
void diana_start(const diana_job_t *job);
/* Bytes that a correct program does not depend on; others each time. */
void diana_junk(uint8_t *bytes, uint32_t count);

/* --- rules: each faults with the call, the field and the numbers --- */

void diana_fault(const char *format, ...) DIANA_FORMAT(1, 2) DIANA_NORETURN;
void diana_range(const char *field, int value, int low, int high);
void diana_multiple(const char *field, int value, int of); /* and 1 to DIANA_LARGEST */
void diana_equal(const char *field, int value, int expected, const char *why);
uint8_t *diana_l1(const char *argument, uintptr_t address, uint64_t bytes);
const uint8_t *diana_l2(const char *argument, uintptr_t address, uint64_t bytes);
/* Of l2_x, which may be 0. */
void diana_l2_tile(const char *argument, uintptr_t address);

/* The fields that each call of a layer has: output_shift, activation_function, dilation, sizes. */
void diana_common(const Layer_parameters *p);

/* Input and output have one pixel. */
void diana_one_pixel(const Layer_parameters *p);
/* The last window along an axis ends inside the input and its padding. */
void diana_windows(const char *axis, int64_t outputs, int stride, int filter, int before, int inputs,
                   int after);
/* Filters are of 1, 3, 5 or 7 taps, and padding is less than a filter. */
void diana_filter(const char *field, int taps);
void diana_padding(const char *border, int padding, int taps, int most);

/* --- arithmetic --- */

static inline uint32_t diana_round_up(uint32_t n, uint32_t of) { return (n + of - 1) / of * of; }

/* value / 2^shift, rounded down. */
static inline int64_t diana_shift(int64_t value, int shift)
{
  return value >= 0 ? value >> shift : ~(~value >> shift);
}

static inline int diana_clip(int64_t value, int low, int high)
{
  return value < low ? low : value > high ? high : (int)value;
}

/* Little-endian, as the host of the chip stores words. */
static inline uint32_t diana_word(const uint8_t *bytes)
{
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
         (uint32_t)bytes[3] << 24;
}

static inline int32_t diana_signed(uint32_t word)
{
  return word < 0x80000000u ? (int32_t)word : (int32_t)(word - 0x80000000u) + INT32_MIN;
}

#endif
