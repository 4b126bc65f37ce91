/* Transfers between DTCM and the other memories by the MDMA.
 *
 * Every copy takes a channel, so that long ones to a memory outside of the chip hold up no other. It
 * becomes a chain of repeated blocks: the first stands in the channel's registers, the others in a
 * linked list, and one software request starts all of them. Most copies are one block. A copy of more
 * blocks than the list has room for continues in dory_dma_wait. A ticket is its channels as bits.
 *
 * When a transfer fails, all are stopped and no other one starts: the run of the network comes to its
 * end at once and tells it. */
#include "dory_hal.h"
#include "dory_mdma_blocks.h"
#include "dory_stm32h7_config.h"
#include "dory_stm32h7_part.h"
#include "dory_stm32h7_registers.h"

#define LINE 32u /* of the D-cache */

#if DORY_MDMA_NODES > 0
#define LISTS (DORY_MDMA_CHANNELS > 0xFFu ? 16u : 8u)
static node_t nodes[LISTS][DORY_MDMA_NODES] __attribute__((section(DORY_MDMA_SECTION), aligned(8)));
#endif
static job_t jobs[MDMA_CHANNELS];
static uint32_t busy; /* channels with a copy, as bits */
static uint32_t more; /* of them, those whose copy has blocks that the MDMA has not got yet */
static uint32_t failed;

#if (DORY_MDMA_CHANNELS & 0xFFFFu) == 0
#error "DORY_MDMA_CHANNELS names no channel of the MDMA"
#endif

DORY_SHARED void dory_stm32h7_wait(void) {}

DORY_SHARED void dory_dma_init(void)
{
  busy = 0;
  more = 0;
  failed = 0;
  for (uint32_t left = DORY_MDMA_CHANNELS & 0xFFFFu; left != 0u; left &= left - 1u) {
    mdma_channel_t *const mdma = MDMA_CHANNEL(lowest(left));
    mdma->mar = 0; /* at the end of a copy nothing is written anywhere */
    mdma->mdr = 0;
  }
}

DORY_SHARED int dory_dma_result(void)
{
  const int result = failed != 0u ? DORY_EDMA : DORY_OK;
  failed = 0;
  return result;
}

static void finish(uint32_t number);

/* Returns a channel without a copy. When all are busy it finishes one; the wait for that one will
 * find it done, or waits for what has taken its place. */
static uint32_t free_channel(void)
{
  if ((DORY_MDMA_CHANNELS & 0xFFFFu & ~busy) == 0u) {
    finish(lowest(busy));
  }
  return lowest(DORY_MDMA_CHANNELS & 0xFFFFu & ~busy);
}

#if DORY_ARENAS_CACHED
/* Cleans and invalidates the lines of the D-cache that hold a range of addresses. */
static void flush(uint32_t at, uint32_t bytes)
{
  for (uint32_t address = at & ~(LINE - 1u); address < at + bytes; address += LINE) {
    SCB_DCCIMVAC = address;
  }
}
#endif

/* Puts the blocks behind the first one into the channel's list, as far as it has room. */
static void put_list(uint32_t number, job_t *job)
{
#if DORY_MDMA_NODES > 0
  volatile uint32_t *link = &MDMA_CHANNEL(number)->lar;
  uint32_t used = 0;
  for (; used < DORY_MDMA_NODES && !at_end(job); used++) {
    node_t *const node = &nodes[number % LISTS][used];
    put_block(job, node);
    node->mar = 0;
    node->mdr = 0;
    *link = (uint32_t)(uintptr_t)node;
    link = &node->lar;
  }
#if DORY_ARENAS_CACHED
  flush((uint32_t)(uintptr_t)nodes[number % LISTS], used * (uint32_t)sizeof(node_t));
#endif
#else
  (void)number;
  (void)job;
#endif
}

/* Enables a channel whose registers are written, and requests all of its copy. */
static void request(mdma_channel_t *mdma, uint32_t tbr)
{
  /* Tiles go first: copies to a slow memory outside of the chip fill the gaps between them. */
  const uint32_t enable = MDMA_CR_EN | (tbr != 0u ? MDMA_CR_PL_MEDIUM : 0u);
  mdma->cr = enable;
  dsb(); /* the list and what is to be moved have reached their memories */
  mdma->cr = enable | MDMA_CR_SWRQ;
}

/* Hands as much of the channel's job to the MDMA as registers and list hold, and starts it. */
static void start(uint32_t number)
{
  job_t *const job = &jobs[number];
  mdma_channel_t *const mdma = MDMA_CHANNEL(number);
  mdma->ifcr = MDMA_IFCR_ALL;
  put_block(job, (node_t *)(uintptr_t)&mdma->tcr);
  if (!at_end(job)) {
    put_list(number, job);
  }
  more = at_end(job) ? more & ~(1u << number) : more | 1u << number;
  request(mdma, job->way.tbr);
}

#if DORY_ARENAS_CACHED
/* Cleans and invalidates every line of the D-cache that a box outside of DTCM touches. */
static void flush_box(uint32_t base, const job_t *job, int32_t row, int32_t plane)
{
  for (uint32_t p = 0; p < job->planes; p++) {
    for (uint32_t r = 0; r < job->rows; r++) {
      flush(base + (uint32_t)((int32_t)p * plane + (int32_t)r * row), job->bytes);
    }
  }
}

/* What the core wrote reaches the memory, and no dirty line overwrites what the MDMA writes. */
static void clean(const job_t *job)
{
  if (!in_tcm(job->src)) {
    flush_box(job->src, job, job->src_row, job->src_plane);
  }
  if (!in_tcm(job->dst)) {
    flush_box(job->dst, job, job->dst_row, job->dst_plane);
  }
}

/* The core reads what the MDMA wrote. */
static void invalidate(const job_t *job)
{
  if (!in_tcm(job->dst)) {
    flush_box(job->dst, job, job->dst_row, job->dst_plane);
    dsb();
  }
}
#else
static void clean(const job_t *job) { (void)job; }
static void invalidate(const job_t *job) { (void)job; }
#endif

/* The program's, if it has one. */
__attribute__((weak)) void dory_stm32h7_fault(uint32_t channel, uint32_t status);

/* Returns the flags of a channel that has ended, waiting for it as long as is allowed; then 0. */
static uint32_t ended(const mdma_channel_t *mdma)
{
  uint32_t looks = 0, flags;
  while (!((flags = mdma->isr) & (MDMA_ISR_CTCIF | MDMA_ISR_TEIF))) {
    if (++looks == DORY_MDMA_POLLS) {
      return 0;
    }
    dory_stm32h7_wait();
  }
  return flags;
}

/* Tells the program, stops all copies, and starts no other one before the end of the run. */
static void fail(uint32_t number, uint32_t status)
{
  failed = 1;
  if (dory_stm32h7_fault) {
    dory_stm32h7_fault(number, status);
  }
  for (uint32_t left = busy; left != 0u; left &= left - 1u) {
    mdma_channel_t *const mdma = MDMA_CHANNEL(lowest(left));
    if (!(mdma->isr & (MDMA_ISR_CTCIF | MDMA_ISR_TEIF))) {
      mdma->cr = 0; /* the MDMA ends with the current buffer, and says so */
      (void)ended(mdma);
    }
    mdma->ifcr = MDMA_IFCR_ALL;
  }
  busy = 0;
  more = 0;
}

/* Waits until the copy of a channel has ended, or has failed. */
static void finish(uint32_t number)
{
  mdma_channel_t *const mdma = MDMA_CHANNEL(number);
  for (;;) {
    const uint32_t flags = ended(mdma);
    if (flags == 0u || (flags & MDMA_ISR_TEIF) != 0u) {
      fail(number, flags == 0u ? DORY_STM32H7_TIMEOUT : mdma->esr);
      return;
    }
    mdma->ifcr = MDMA_IFCR_ALL;
    if (!(more >> number & 1u)) {
      break;
    }
    clean(&jobs[number]); /* the core has worked in the meantime */
    start(number);
  }
  busy &= ~(1u << number);
  dsb();
  invalidate(&jobs[number]);
}

#if DORY_ARENAS_CACHED
/* Keeps what is to be cleaned and invalidated. */
static void keep_row(uint32_t number, uint32_t dst, uint32_t src, uint32_t bytes)
{
  const job_t job = {.dst = dst, .src = src, .bytes = bytes, .rows = 1, .planes = 1};
  jobs[number] = job;
  clean(&jobs[number]);
}
#else
static inline void keep_row(uint32_t number, uint32_t dst, uint32_t src, uint32_t bytes)
{
  (void)number, (void)dst, (void)src, (void)bytes;
}
#endif

/* Most copies are one block: the shortest way. */
DORY_SHARED dory_ticket_t dory_dma_row(void *dst, const void *src, uint32_t bytes)
{
  if (bytes > MOST_BLOCK) {
    const dory_copy_t copy = {.dst = dst, .src = src, .n0 = bytes, .n1 = 1, .n2 = 1, .elem = 1};
    return dory_dma_box(&copy);
  }
  const uint32_t number = free_channel();
  if (failed != 0u) {
    return DORY_NO_TICKET;
  }
  const uint32_t from = (uint32_t)(uintptr_t)src, to = (uint32_t)(uintptr_t)dst;
  const way_t way = choose_way(from, to, from, to, bytes);
  mdma_channel_t *const mdma = MDMA_CHANNEL(number);
  keep_row(number, to, from, bytes);
  mdma->ifcr = MDMA_IFCR_ALL;
  mdma->tcr = way.tcr;
  mdma->bndtr = bytes;
  mdma->sar = from;
  mdma->dar = to;
  mdma->lar = 0;
  mdma->tbr = way.tbr;
  busy |= 1u << number;
  request(mdma, way.tbr);
  return (dory_ticket_t)(1u << number);
}

DORY_SHARED dory_ticket_t dory_dma_box(const dory_copy_t *copy)
{
  const uint32_t number = free_channel();
  if (failed != 0u) {
    return DORY_NO_TICKET;
  }
  job_t *const job = &jobs[number];
  const job_t given = {
    .dst = (uint32_t)(uintptr_t)copy->dst,
    .src = (uint32_t)(uintptr_t)copy->src,
    .bytes = copy->n0 * copy->elem,
    .rows = copy->n1,
    .planes = copy->n2,
    .dst_row = copy->dst_s1,
    .dst_plane = copy->dst_s2,
    .src_row = copy->src_s1,
    .src_plane = copy->src_s2,
  };
  *job = given;
  simplify(job);
  uint32_t from = job->src, to = job->dst;
  if (job->rows > 1) {
    from |= (uint32_t)job->src_row;
    to |= (uint32_t)job->dst_row;
  }
  if (job->planes > 1) {
    from |= (uint32_t)job->src_plane;
    to |= (uint32_t)job->dst_plane;
  }
  job->way = choose_way(job->src, job->dst, from, to, job->bytes);
  clean(job);
  busy |= 1u << number;
  start(number);
  return (dory_ticket_t)(1u << number);
}

DORY_SHARED void dory_dma_wait(dory_ticket_t ticket)
{
  for (uint32_t left = (uint32_t)ticket & busy; left != 0u; left &= busy & (left - 1u)) {
    finish(lowest(left));
  }
}
