/* Transfers between DTCM and the other memories by the core, for boards and emulators without an
 * MDMA. A copy is complete when its start returns. */
#include <string.h>

#include "dory_hal.h"
#include "dory_stm32h7_config.h"

void dory_dma_init(void) {}

dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  const uint32_t bytes = copy->n0 * copy->elem;
  for (uint32_t p = 0; p < copy->n2; p++) {
    uint8_t *dst = (uint8_t *)copy->dst + (int32_t)p * copy->dst_s2;
    const uint8_t *src = (const uint8_t *)copy->src + (int32_t)p * copy->src_s2;
    for (uint32_t r = 0; r < copy->n1; r++) {
      memcpy(dst, src, bytes);
      dst += copy->dst_s1;
      src += copy->src_s1;
    }
  }
  return 1;
}

dory_ticket_t dory_dma_join(dory_ticket_t ticket, const dory_copy_t *copy)
{
  (void)ticket;
  return dory_dma_start(copy);
}

void dory_dma_wait(dory_ticket_t ticket) { (void)ticket; }
