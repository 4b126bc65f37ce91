/* Jobs of the arrays and of the DMA, and the rules that all calls share. */
#include "dory_diana_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *entered = "";   /* the call that is being checked or computed */
static const char *in_flight = NULL; /* the call whose job was not waited for */
static diana_job_t job_in_flight;
static int computed; /* the job in flight only waits for its barrier */
static dory_diana_counts_t counts[2];
static uint32_t junk_state = 0x2545F491u;

dory_diana_counts_t dory_diana_counts(int array) { return counts[array]; }

void diana_fault(const char *format, ...)
{
  char text[600];
  int used = snprintf(text, sizeof text, "%s: ", entered);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
  va_end(arguments);
  in_flight = NULL;
  dory_diana_port_fault(text);
}

void diana_junk(uint8_t *bytes, uint32_t count)
{
  for (uint32_t i = 0; i < count; ++i) {
    junk_state = junk_state * 1664525u + 1013904223u;
    bytes[i] = (uint8_t)(junk_state >> 24);
  }
}

/* --- jobs --- */

void diana_enter(const char *call)
{
  entered = call;
  if (in_flight != NULL)
    diana_fault("starts before the job of %s was waited for", in_flight);
}

static void apart(const diana_job_t *job, const char *input, const uint8_t *at, uint32_t bytes)
{
  const uintptr_t low = (uintptr_t)at, y = (uintptr_t)job->y;
  if (bytes != 0 && low < y + job->y_bytes && y < low + bytes)
    diana_fault("the output of %lu bytes overlaps %s of %lu bytes", (unsigned long)job->y_bytes,
                input, (unsigned long)bytes);
}

static void compute(const diana_job_t *job)
{
  dory_diana_port_job(1);
  job->run(job);
  dory_diana_port_job(0);
  dory_diana_port_write(job->y, job->y_bytes);
}

/* Until its job is waited for, an output holds nothing useful. */
static void spoil(const diana_job_t *job)
{
  dory_diana_port_job(1);
  diana_junk(job->y, job->y_bytes);
  dory_diana_port_job(0);
}

void diana_start(const diana_job_t *job)
{
  apart(job, "the input", job->x, job->x_bytes);
  apart(job, "the second input", job->x2, job->x2_bytes);
  apart(job, "the weights", job->w, job->w_bytes);
  apart(job, "the requantisation", job->bn, job->bn_bytes);
  dory_diana_port_read(job->x, job->x_bytes);
  dory_diana_port_read(job->x2, job->x2_bytes);
  dory_diana_port_read(job->w, job->w_bytes);
  dory_diana_port_read(job->bn, job->bn_bytes);
  job_in_flight = *job;
  in_flight = entered;
  computed = !dory_diana_port_chip()->late;
  if (computed)
    compute(&job_in_flight);
  else
    spoil(job);
  if (job->macs != 0) {
    ++counts[job->array].jobs;
    counts[job->array].macs += job->macs;
  }
}

static void wait_for(int array)
{
  if (in_flight == NULL || job_in_flight.array != array) return;
  entered = in_flight;
  if (!computed) compute(&job_in_flight);
  in_flight = NULL;
}

void dory_cores_barrier_digital(void) { wait_for(DIANA_DIGITAL); }
void dory_cores_barrier_analog(void) { wait_for(DIANA_ANALOG); }

/* --- rules --- */

void diana_range(const char *field, int value, int low, int high)
{
  if (value < low || value > high)
    diana_fault("%s = %d is not in %d .. %d", field, value, low, high);
}

void diana_multiple(const char *field, int value, int of)
{
  diana_range(field, value, 1, DIANA_LARGEST);
  if (value % of != 0) diana_fault("%s = %d is not a multiple of %d", field, value, of);
}

void diana_equal(const char *field, int value, int expected, const char *why)
{
  if (value != expected) diana_fault("%s = %d is not %d: %s", field, value, expected, why);
}

uint8_t *diana_l1(const char *argument, uintptr_t address, uint64_t bytes)
{
  const dory_diana_chip_t *const chip = dory_diana_port_chip();
  if (address % 16 != 0)
    diana_fault("%s = %llu is not a multiple of 16", argument, (unsigned long long)address);
  if (address > chip->l1_bytes || bytes > chip->l1_bytes - address)
    diana_fault("%llu bytes at %s = %llu do not fit L1 of %lu bytes", (unsigned long long)bytes,
                argument, (unsigned long long)address, (unsigned long)chip->l1_bytes);
  return chip->l1 + address;
}

const uint8_t *diana_l2(const char *argument, uintptr_t address, uint64_t bytes)
{
  if (address % 4 != 0) diana_fault("%s is not a multiple of 4", argument);
  if (!dory_diana_port_in_l2((const void *)address, bytes, 0))
    diana_fault("%llu bytes at %s do not lie in L2", (unsigned long long)bytes, argument);
  return (const uint8_t *)address;
}

void diana_l2_tile(const char *argument, uintptr_t address)
{
  if (address != 0) diana_l2(argument, address, 4);
}

void diana_common(const Layer_parameters *p)
{
  diana_range("c", p->c, 1, DIANA_LARGEST);
  diana_range("k", p->k, 1, DIANA_LARGEST);
  diana_range("cx", p->cx, 1, DIANA_LARGEST);
  diana_range("cy", p->cy, 1, DIANA_LARGEST);
  diana_range("ox", p->ox, 1, DIANA_LARGEST);
  diana_range("oy", p->oy, 1, DIANA_LARGEST);
  diana_range("output_shift", p->output_shift, 0, 31);
  diana_range("activation_function", p->activation_function, 0, 1);
  diana_equal("dilation", p->dilation, 1, "the arrays have no other");
}

void diana_one_pixel(const Layer_parameters *p)
{
  diana_equal("cx", p->cx, 1, "there is one pixel");
  diana_equal("cy", p->cy, 1, "there is one pixel");
  diana_equal("ox", p->ox, 1, "there is one pixel");
  diana_equal("oy", p->oy, 1, "there is one pixel");
}

void diana_windows(const char *axis, int64_t outputs, int stride, int filter, int before, int inputs,
                   int after)
{
  const int64_t end = (outputs - 1) * stride + filter - before;
  if (end > (int64_t)inputs + after)
    diana_fault("the last of %lld output %s needs %lld %s of the input, which has %d and %d of "
                "padding",
                (long long)outputs, axis, (long long)end, axis, inputs, after);
}

void diana_filter(const char *field, int taps)
{
  if (taps != 1 && taps != 3 && taps != 5 && taps != 7)
    diana_fault("%s = %d is not 1, 3, 5 or 7", field, taps);
}

void diana_padding(const char *border, int padding, int taps, int most)
{
  if (padding > most || padding >= taps)
    diana_fault("padding of %d at the %s of a filter of %d taps is not in 0 .. %d", padding, border,
                taps, taps - 1 < most ? taps - 1 : most);
}
