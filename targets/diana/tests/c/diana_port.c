/* The functional model in a test: memories are given by the test, a broken rule is a text that
 * try_call returns. Not for concurrent use. */
#include "diana_port.h"

#include "dory_diana_hal.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#define MAX_REGIONS 32

static dory_diana_chip_t chip;
static uint8_t *written; /* per byte of L1 */
static struct {
  uintptr_t base;
  uint64_t bytes;
  int writable;
} regions[MAX_REGIONS];
static int region_count;
static jmp_buf back;
static char reason[700];

void port_open(uint8_t *l1, uint8_t *l1_written, uint32_t l1_bytes, int32_t adc_scale, int late)
{
  dory_cores_barrier_digital();
  dory_cores_barrier_analog();
  chip.l1 = l1;
  chip.l1_bytes = l1_bytes;
  chip.adc_scale = adc_scale;
  chip.late = late;
  written = l1_written;
  region_count = 0;
}

int port_l2(void *base, uint64_t bytes, int writable)
{
  if (region_count == MAX_REGIONS) return -1;
  regions[region_count].base = (uintptr_t)base;
  regions[region_count].bytes = bytes;
  regions[region_count++].writable = writable;
  return 0;
}

const dory_diana_chip_t *dory_diana_port_chip(void) { return &chip; }

int dory_diana_port_in_l2(const void *ptr, uint64_t bytes, int to_write)
{
  const uintptr_t at = (uintptr_t)ptr;
  for (int i = 0; i < region_count; ++i)
    if (at >= regions[i].base && at - regions[i].base <= regions[i].bytes &&
        bytes <= regions[i].bytes - (at - regions[i].base) && (regions[i].writable || !to_write))
      return 1;
  return 0;
}

static int in_l1(const void *ptr)
{
  const uintptr_t at = (uintptr_t)ptr, low = (uintptr_t)chip.l1;
  return at >= low && at < low + chip.l1_bytes;
}

void dory_diana_port_read(const void *ptr, uint32_t bytes)
{
  if (bytes == 0 || !in_l1(ptr)) return;
  const uint32_t offset = (uint32_t)((const uint8_t *)ptr - chip.l1);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (written[offset + i]) continue;
    char text[80];
    snprintf(text, sizeof text, "byte %lu of L1 is read but was not written",
             (unsigned long)(offset + i));
    dory_diana_port_fault(text);
  }
}

void dory_diana_port_write(void *ptr, uint32_t bytes)
{
  if (in_l1(ptr)) memset(written + ((uint8_t *)ptr - chip.l1), 1, bytes);
}

void dory_diana_port_job(int begins) { (void)begins; }

void dory_diana_port_fault(const char *text)
{
  snprintf(reason, sizeof reason, "%s", text);
  longjmp(back, 1);
}

void dory_diana_fault(const char *text) { dory_diana_port_fault(text); }

const char *port_try(void (*function)(const void *argument), const void *argument)
{
  if (setjmp(back) != 0) return reason;
  function(argument);
  return NULL;
}

const char *try_call(int function, const uintptr_t *a, Layer_parameters *p)
{
  if (setjmp(back) != 0) return reason;
  switch (function) {
    case 0: digital_conv_2d(a[0], a[1], a[2], a[3], a[4], p); break;
    case 1: digital_depthwise_conv_2d(a[0], a[1], a[2], a[3], a[4], p); break;
    case 2: digital_fully_connected(a[0], a[1], a[2], a[3], a[4], p); break;
    case 3: element_wise_sum(a[0], a[1], a[2], a[3], a[4], p); break;
    case 4: analog_conv_2d(a[0], a[1], a[2], a[3], a[4], a[5], p); break;
    case 5: analog_fully_connected(a[0], a[1], a[2], a[3], a[4], a[5], p); break;
    case 6: dory_cores_barrier_digital(); break;
    case 7: dory_cores_barrier_analog(); break;
    case 8:
      memcpy_dig((unsigned int *)a[0], (unsigned int)a[1], (unsigned int)a[2], (unsigned int)a[3],
                 (unsigned int)a[4]);
      break;
    case 9:
      memcpy_analog((unsigned int *)a[0], (unsigned int)a[1], (unsigned int)a[2],
                    (unsigned int)a[3], (unsigned int)a[4]);
      break;
    default: return "no such call";
  }
  return NULL;
}
