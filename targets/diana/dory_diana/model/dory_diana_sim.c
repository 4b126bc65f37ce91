/* The model in the host simulation: L1 is its arena, and a broken rule is a fault of the run, with
 * layer and tile. */
#include "dory_diana_config.h"
#include "dory_diana_model.h"
#include "dory_hal.h"
#include "dory_sim.h"
#include "network.h"

#include <stddef.h>

/* The host of the chip has no address for L1. */
__attribute__((constructor)) static void hide_l1(void) { dory_sim_hide_l1(); }

void dory_diana_port_job(int begins)
{
  if (begins)
    dory_sim_l1_begin();
  else
    dory_sim_l1_end();
}

const dory_diana_chip_t *dory_diana_port_chip(void)
{
  static dory_diana_chip_t chip = {
      .l1_bytes = DORY_L1_SIZE, .adc_scale = DORY_DIANA_ADC_SCALE, .late = 1};
  chip.l1 = dory_sim_l1();
  return &chip;
}

int dory_diana_port_in_l2(const void *ptr, uint64_t bytes, int to_write)
{
  return dory_sim_in_l2(ptr, bytes, to_write);
}

void dory_diana_port_read(const void *ptr, uint32_t bytes) { dory_sim_read(ptr, bytes, NULL, 0); }

void dory_diana_port_write(void *ptr, uint32_t bytes) { dory_sim_write(ptr, bytes, NULL, 0); }

void dory_diana_port_fault(const char *text) { dory_sim_fault(NULL, 0, "%s", text); }

uintptr_t dory_diana_l1(const void *pointer)
{
  const uintptr_t low = (uintptr_t)dory_sim_l1(), at = (uintptr_t)pointer;
  if (at < low || at - low > DORY_L1_SIZE)
    dory_sim_fault(NULL, 0, "dory_diana_l1 is given a pointer that is not into L1");
  return at - low;
}
