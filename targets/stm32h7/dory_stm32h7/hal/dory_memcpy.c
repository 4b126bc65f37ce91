/* Transfers between DTCM and the other memories by the core, for boards and emulators without an
 * MDMA. A copy is complete when its start returns. */
#include <string.h>

#include "dory_hal.h"
#include "dory_stm32h7_config.h"

DORY_SHARED void dory_dma_init(void) {}

DORY_SHARED int dory_dma_result(void) { return DORY_OK; }

DORY_SHARED dory_ticket_t dory_dma_row(void *dst, const void *src, uint32_t bytes)
{
  memcpy(dst, src, bytes);
  return 1;
}

DORY_SHARED dory_ticket_t dory_dma_box(const dory_copy_t *copy)
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

DORY_SHARED void dory_dma_wait(dory_ticket_t ticket) { (void)ticket; }
