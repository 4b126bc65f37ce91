/* Transfers between DTCM and the other memories by the core: complete when their start returns.
 *
 * All three functions are weak: a program whose DMA reaches DTCM defines them with its driver. The
 * contract stands in dory_hal.h; data that the DMA reads or writes behind the data cache is for the
 * driver to clean and invalidate. */
#include "dory_hal.h"

#if defined(__ARM_FEATURE_MVE)
static void copy_row(void *dst, const void *src, uint32_t bytes)
{
  __asm__ volatile("wlstp.8 lr, %2, 2f\n"
                   "1:\n\t"
                   "vldrb.8 q0, [%1], #16\n\t"
                   "vstrb.8 q0, [%0], #16\n\t"
                   "letp lr, 1b\n"
                   "2:"
                   : "+r"(dst), "+r"(src)
                   : "r"(bytes)
                   : "lr", "q0", "memory");
}
#else
#include <string.h>

static void copy_row(void *dst, const void *src, uint32_t bytes) { memcpy(dst, src, bytes); }
#endif

__attribute__((weak)) dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  const uint32_t bytes = copy->n0 * copy->elem;
  for (uint32_t p = 0; p < copy->n2; p++) {
    uint8_t *dst = (uint8_t *)copy->dst + (int32_t)p * copy->dst_s2;
    const uint8_t *src = (const uint8_t *)copy->src + (int32_t)p * copy->src_s2;
    for (uint32_t r = 0; r < copy->n1; r++) {
      copy_row(dst, src, bytes);
      dst += copy->dst_s1;
      src += copy->src_s1;
    }
  }
  return 1;
}

__attribute__((weak)) dory_ticket_t dory_dma_join(dory_ticket_t ticket, const dory_copy_t *copy)
{
  (void)ticket;
  return dory_dma_start(copy);
}

__attribute__((weak)) void dory_dma_wait(dory_ticket_t ticket) { (void)ticket; }
