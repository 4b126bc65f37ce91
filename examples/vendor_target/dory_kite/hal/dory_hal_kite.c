/* Transfers between SRAM and TCM.
 *
 * The DMA has four registers. Writing the length starts a command; busy reads 1 until it has ended.
 * Addresses and length are multiples of 4, a length is at most 4092: the link in hardware.py says so,
 * and generated code keeps to it. */
#include "dory_hal.h"

typedef struct {
  volatile uint32_t source;
  volatile uint32_t destination;
  volatile uint32_t length;
  volatile uint32_t busy;
} kite_dma_t;

/* Section 7 of the manual that Kite would have. */
#define DMA ((kite_dma_t *)0x40001000u)

static void start_row(const uint8_t *src, uint8_t *dst, uint32_t bytes)
{
  while (DMA->busy) {
  }
  DMA->source = (uint32_t)(uintptr_t)src;
  DMA->destination = (uint32_t)(uintptr_t)dst;
  DMA->length = bytes;
}

/* There is one queue of one command: all rows but the last have ended when it returns. */
dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  for (uint32_t plane = 0; plane < copy->n2; plane++) {
    const uint8_t *src = (const uint8_t *)copy->src + (int32_t)plane * copy->src_s2;
    uint8_t *dst = (uint8_t *)copy->dst + (int32_t)plane * copy->dst_s2;
    for (uint32_t row = 0; row < copy->n1; row++) {
      start_row(src, dst, copy->n0 * copy->elem);
      src += copy->src_s1;
      dst += copy->dst_s1;
    }
  }
  return 1;
}

dory_ticket_t dory_dma_join(dory_ticket_t ticket, const dory_copy_t *copy)
{
  (void)ticket;
  return dory_dma_start(copy);
}

void dory_dma_wait(dory_ticket_t ticket)
{
  (void)ticket;
  while (DMA->busy) {
  }
  __asm__ volatile("fence" ::: "memory");
}
