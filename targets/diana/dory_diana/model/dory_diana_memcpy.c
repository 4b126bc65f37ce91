/* The DMA between L2 and L1, which both arrays offer. */
#include "dory_diana_model.h"

#include <string.h>

#define GRANULE 32u /* bytes; lengths are rounded up to it */

static void copy_run(const diana_job_t *job) { memcpy(job->y, job->x, job->x_bytes); }

static void copy(int array, unsigned int *l2, unsigned int l1, unsigned int bytes,
                 unsigned int direction, unsigned int banks)
{
  diana_job_t job = {.run = copy_run, .array = array, .x_bytes = bytes, .y_bytes = bytes};
  if (bytes == 0 || bytes % GRANULE != 0)
    diana_fault("%u bytes are no multiple of %u: %u would be moved", bytes, GRANULE,
                diana_round_up(bytes, GRANULE));
  if (direction > 1) diana_fault("direction = %u is neither 0 nor 1", direction);
  if (banks != 1) diana_fault("banks = %u is not 1", banks);
  uint8_t *const near = diana_l1("l1", l1, bytes);
  const uint8_t *const far = diana_l2("l2", (uintptr_t)l2, bytes);
  if (direction == 1 && !dory_diana_port_in_l2(l2, bytes, 1))
    diana_fault("%u bytes at l2 are constant", bytes);
  job.x = direction == 0 ? far : near;
  job.y = direction == 0 ? near : (uint8_t *)l2;
  diana_start(&job);
}

void memcpy_dig(unsigned int *l2, unsigned int l1, unsigned int bytes, unsigned int direction,
                unsigned int banks)
{
  diana_enter("memcpy_dig");
  copy(DIANA_DIGITAL, l2, l1, bytes, direction, banks);
}

void memcpy_analog(unsigned int *l2, unsigned int l1, unsigned int bytes, unsigned int direction,
                   unsigned int banks)
{
  diana_enter("memcpy_analog");
  copy(DIANA_ANALOG, l2, l1, bytes, direction, banks);
}
