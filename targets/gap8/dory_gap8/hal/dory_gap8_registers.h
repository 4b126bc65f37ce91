/* The cluster's private peripherals as each core sees them: event unit, DMA, timer.
 *
 * The event unit and the DMA answer at the same address on every core, through a port of its own
 * (the demultiplexer beside the core), in one or two cycles and without arbitration. Nothing else in
 * an application accesses a register of the cluster.
 */
#ifndef DORY_GAP8_REGISTERS_H
#define DORY_GAP8_REGISTERS_H

#include <stdint.h>

/* Event unit: masks of the events that wake the core, and the barrier of the team. */
#define DORY_GAP8_EU 0x00204000u
#define DORY_GAP8_EU_MASK_CLEAR (DORY_GAP8_EU + 0x04u) /* bits written as 1 are taken out */
#define DORY_GAP8_EU_MASK_SET (DORY_GAP8_EU + 0x08u)
#define DORY_GAP8_EU_WAIT_CLEAR (DORY_GAP8_EU + 0x3Cu) /* the load sleeps until an event */
#define DORY_GAP8_EU_BARRIER (DORY_GAP8_EU + 0x21Cu)   /* the load sleeps until all have come */

/* DMA (MCHAN version 6). A read of the first register takes one of 16 counters, which counts the
 * bytes of all commands that the core writes there from then on. */
#define DORY_GAP8_DMA_COMMAND 0x00204400u
#define DORY_GAP8_DMA_STATUS 0x00204404u /* read: bits of busy counters; write: counters to free */
#define DORY_GAP8_DMA_COUNTERS 16u

/* First word of a command; address in L1 and address in L2 follow, and for 2-D the word below. */
#define DORY_GAP8_DMA_BYTES_MAX 0xFFFFu
#define DORY_GAP8_DMA_TO_L1 (1u << 16)
#define DORY_GAP8_DMA_INCREMENT (1u << 17)
#define DORY_GAP8_DMA_2D (1u << 18)    /* rows in L2, dense in L1 */
#define DORY_GAP8_DMA_EVENT (1u << 19) /* to the core that wrote the command, when the counter is 0 */
#define DORY_GAP8_DMA_ROWS(bytes, stride) ((uint32_t)(stride) << 16 | (uint32_t)(bytes))
#define DORY_GAP8_DMA_ROW_MAX 0x7FFFu /* bytes and stride */

#define DORY_GAP8_EVENT_DMA (1u << 8)

/* An address as a command takes it. */
#define DORY_GAP8_ADDRESS(pointer) ((uint32_t)(uintptr_t)(pointer))

/* The cluster's timer, which the main program starts. */
#define DORY_GAP8_TIMER_COUNT 0x00200408u

static inline uint32_t dory_gap8_read(uint32_t address)
{
  return *(volatile uint32_t *)(uintptr_t)address;
}

static inline void dory_gap8_write(uint32_t address, uint32_t value)
{
  *(volatile uint32_t *)(uintptr_t)address = value;
}

/* Loads from the event unit; the core sleeps until the answer comes. What other cores and the DMA
 * wrote meanwhile is seen behind it. */
static inline uint32_t dory_gap8_sleep(uint32_t address)
{
  uint32_t value;
  __asm__ volatile("p.elw %0, 0(%1)" : "=r"(value) : "r"(address) : "memory");
  return value;
}

static inline uint32_t dory_gap8_core(void)
{
  uint32_t hart;
  __asm__("csrr %0, 0xF14" : "=r"(hart));
  return hart & 0x1Fu;
}

#endif
