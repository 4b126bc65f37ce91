/* Transfers between L2 and L1 by the DMA of the driver library.
 *
 * The DMA copies contiguous bytes, in multiples of 32: it rounds lengths up. Rows of a network are
 * multiples of 16 bytes, so what is left over is copied in ways that touch nothing else. A transfer
 * is complete when its start returns. */
#include <string.h>

#include "dory_diana_driver.h"
#include "dory_diana_hal.h"
#include "dory_hal.h"

#define GRANULE 32u /* bytes that the DMA moves at least */
#define HALF 16u    /* rows are multiples of it */

/* Where sixteen bytes meet others; in L2. */
static uint32_t bounce[GRANULE / sizeof(uint32_t)];

uintptr_t dory_diana_l1(const void *pointer) { return (uintptr_t)pointer - DORY_DIANA_L1_WINDOW; }

__attribute__((weak)) void dory_diana_fault(const char *reason)
{
  (void)reason;
  for (;;) {
  }
}

/* One command of the DMA; bytes is a multiple of GRANULE. */
static void run(uint8_t *l2, uint32_t l1, uint32_t bytes, uint8_t dir)
{
  memcpy_dig((unsigned int *)(void *)l2, l1, bytes, dir == DORY_L2_TO_L1 ? 0u : 1u, 1u);
  dory_cores_barrier_digital();
}

/* Sixteen bytes: the 32 of L1 that they are half of make a detour through the buffer in L2, so that
 * the other half stays as it is. */
static void half_run(uint8_t *l2, uint32_t l1, uint8_t dir)
{
  uint8_t *const whole = (uint8_t *)bounce;
  uint8_t *const half = whole + l1 % GRANULE;
  const uint32_t l1_whole = l1 - l1 % GRANULE;
  run(whole, l1_whole, GRANULE, DORY_L1_TO_L2);
  if (dir == DORY_L1_TO_L2) {
    memcpy(l2, half, HALF);
  } else {
    memcpy(half, l2, HALF);
    run(whole, l1_whole, GRANULE, DORY_L2_TO_L1);
  }
}

/* Contiguous bytes, a multiple of HALF. */
static void contiguous(uint8_t *l2, uint32_t l1, uint32_t bytes, uint8_t dir)
{
  if (bytes == HALF) {
    half_run(l2, l1, dir);
    return;
  }
  run(l2, l1, bytes / GRANULE * GRANULE, dir);
  if (bytes % GRANULE != 0) { /* the last 32 once more, half of them again */
    const uint32_t last = bytes - GRANULE;
    run(l2 + last, l1 + last, GRANULE, dir);
  }
}

dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  const int inbound = copy->dir == DORY_L2_TO_L1;
  /* The DMA reads L2 or writes it; both are bytes of the program. */
  uint8_t *const l2 = (uint8_t *)(uintptr_t)(inbound ? copy->src : copy->dst);
  const uint32_t l1 = (uint32_t)dory_diana_l1(inbound ? copy->dst : copy->src);
  const int32_t l2_s1 = inbound ? copy->src_s1 : copy->dst_s1;
  const int32_t l2_s2 = inbound ? copy->src_s2 : copy->dst_s2;
  const int32_t l1_s1 = inbound ? copy->dst_s1 : copy->src_s1;
  const int32_t l1_s2 = inbound ? copy->dst_s2 : copy->src_s2;
  uint32_t bytes = copy->n0 * copy->elem, rows = copy->n1, planes = copy->n2;

  if (bytes % HALF != 0) dory_diana_fault("a row is no multiple of 16 bytes");
  if (l1 % HALF != 0 || (rows > 1 && l1_s1 % (int32_t)HALF != 0) ||
      (planes > 1 && l1_s2 % (int32_t)HALF != 0))
    dory_diana_fault("a row does not start on a multiple of 16 bytes of L1");
  if ((uintptr_t)l2 % 4 != 0 || (rows > 1 && l2_s1 % 4 != 0) || (planes > 1 && l2_s2 % 4 != 0))
    dory_diana_fault("a row does not start on a multiple of 4 bytes of L2");

  /* Rows, then planes, that follow one another on both sides are one. */
  if (rows == 1 || (l2_s1 == (int32_t)bytes && l1_s1 == (int32_t)bytes)) {
    bytes *= rows;
    rows = 1;
    if (planes == 1 || (l2_s2 == (int32_t)bytes && l1_s2 == (int32_t)bytes)) {
      bytes *= planes;
      planes = 1;
    }
  }
  for (uint32_t plane = 0; plane < planes; plane++) {
    for (uint32_t row = 0; row < rows; row++) {
      const int32_t l2_at = (int32_t)plane * l2_s2 + (int32_t)row * l2_s1;
      const int32_t l1_at = (int32_t)plane * l1_s2 + (int32_t)row * l1_s1;
      contiguous(l2 + l2_at, l1 + (uint32_t)l1_at, bytes, copy->dir);
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
