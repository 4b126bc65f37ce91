/* A board whose driver library is the functional model: L1 is memory that the program has no address
 * for, a broken rule ends the program. */
#include <stdio.h>
#include <stdlib.h>

#include "dory_diana_config.h"
#include "dory_diana_model.h"
#include "network.h"

static uint8_t l1[DORY_L1_SIZE];

const dory_diana_chip_t *dory_diana_port_chip(void)
{
  static const dory_diana_chip_t chip = {l1, DORY_L1_SIZE, DORY_DIANA_ADC_SCALE, 1};
  return &chip;
}

static int in_l1(const void *ptr)
{
  return (uintptr_t)ptr >= (uintptr_t)l1 && (uintptr_t)ptr < (uintptr_t)(l1 + sizeof l1);
}

int dory_diana_port_in_l2(const void *ptr, uint64_t bytes, int to_write)
{
  (void)bytes, (void)to_write;
  return (uintptr_t)ptr > DORY_L2_SIZE && !in_l1(ptr); /* not an offset that went astray */
}

void dory_diana_port_read(const void *ptr, uint32_t bytes) { (void)ptr, (void)bytes; }

void dory_diana_port_write(void *ptr, uint32_t bytes) { (void)ptr, (void)bytes; }

void dory_diana_port_job(int begins) { (void)begins; }

void dory_diana_port_fault(const char *text)
{
  fprintf(stderr, "%s\n", text);
  exit(70);
}
