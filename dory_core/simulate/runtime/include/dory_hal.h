/* Hardware abstraction of a generated network: transfers, cores, barrier.
 *
 * A target supplies `dory_hal_impl.h` on the include path. It is included below and may define any
 * of the functions as `static inline`; what it does not define is an external function. The
 * declarations that follow it check either kind against the contract.
 *
 * Execution is SPMD: every core runs the network. Core 0 alone issues transfers,
 * unless the HAL declares that each core may. Each start gives one ticket, which the core that
 * started the transfer waits for exactly once; further copies may join the ticket that the core
 * took last. Between start and wait nobody may read or write the destination, nor write the source.
 */
#ifndef DORY_HAL_H
#define DORY_HAL_H

#include <stdint.h>

#include "dory_io.h"

/* dory_copy_t.dir */
#define DORY_L2_TO_L1 0
#define DORY_L1_TO_L2 1

/* dir of dory_ext_start */
#define DORY_L3_TO_L2 0
#define DORY_L2_TO_L3 1

/* A copy between L2 and L1 of n2 planes of n1 rows of n0 contiguous elements; none of them is 0.
 * Row r of plane p starts at base + p * s2 + r * s1. */
typedef struct {
  void *dst;
  const void *src;
  uint32_t n0, n1, n2;      /* elements per row, rows per plane, planes */
  int32_t dst_s1, dst_s2;   /* bytes from row to row, from plane to plane */
  int32_t src_s1, src_s2;
  uint32_t elem;            /* bytes per element */
  uint8_t dir;              /* DORY_L2_TO_L1 or DORY_L1_TO_L2 */
} dory_copy_t;

#include "dory_hal_impl.h"

/* The names stand in parentheses because a HAL may wrap them in macros. */

/* Starts a copy between L2 and L1; the descriptor may be reused at once. */
dory_ticket_t (dory_dma_start)(const dory_copy_t *copy);
/* Starts a copy that the wait for `ticket` waits for too; it is the last one that the calling core
 * took. With DORY_NO_TICKET it is a start. Returns the ticket. There is no limit to the copies of a
 * ticket: a HAL whose DMA queues few commands waits inside until there is room for one. */
dory_ticket_t (dory_dma_join)(dory_ticket_t ticket, const dory_copy_t *copy);
void (dory_dma_wait)(dory_ticket_t ticket);

/* Starts a copy of contiguous bytes between L3 and L2. */
dory_ticket_t (dory_ext_start)(void *l2, uint32_t l3_offset, uint32_t bytes, int dir);
void (dory_ext_wait)(dory_ticket_t ticket);

uint32_t (dory_core_id)(void);    /* 0 .. dory_core_count() - 1 */
uint32_t (dory_core_count)(void);
void (dory_barrier)(void);        /* every core */
uint32_t (dory_cycles)(void);     /* free-running counter, for profiles; 0 where there is none */

/* What a run returns when it has come to its end: another HAL may say that a transfer has failed,
 * DORY_EDMA. */
#ifndef DORY_RUN_RESULT
#define DORY_RUN_RESULT() DORY_OK
#endif

/* Core 0 moves bytes of L2 towards its start; the two ranges may overlap. A HAL defines it where a core
 * waits long for L2. */
#ifndef DORY_MOVE
#define DORY_MOVE(dst, src, bytes) ((void)memmove(dst, src, bytes))
#endif

/* The ticket of a copy that the next layer waits for: it brings constants of that layer into L1. */
#ifndef DORY_AHEAD
#define DORY_AHEAD(ticket) (ticket)
#endif

#endif
