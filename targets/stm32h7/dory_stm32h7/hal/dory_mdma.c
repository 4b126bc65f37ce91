/* Transfers between DTCM and the other memories by the MDMA.
 *
 * Every copy takes a channel, so that long ones to a memory outside of the chip hold up no other. It becomes a chain of repeated blocks: the first stands in the
 * channel's registers, the others in a linked list, and one software request starts all of them.
 * A copy of more blocks than the list has room for continues in dory_dma_wait. A ticket is the
 * number of its first channel plus one; other copies may join it.
 *
 * Rules of the MDMA that decide the code (RM0433, section 14): the port to DTCM is 32 bits wide; a
 * block has at most 65536 bytes and 4096 repetitions; addresses, block and offsets between blocks
 * are multiples of the width; offsets count from the end of a block; a burst is shorter than a
 * buffer of at most 128 bytes; registers are written while the channel is disabled; flags are
 * cleared before it is enabled; a list lies in memory on AXI, at multiples of 8. */
#include "dory_hal.h"
#include "dory_stm32h7_config.h"
#include "dory_stm32h7_part.h"
#include "dory_stm32h7_registers.h"

#define NODES 24u /* of each channel's list */
#define MOST_BLOCK 65536u
#define MOST_BLOCKS 4096u
#define MOST_OFFSET 65535
#define MOST_BUFFER 128u
#define LINE 32u /* of the D-cache */

/* What the MDMA loads into the registers of a channel at the end of a block. */
typedef struct {
  uint32_t tcr, bndtr, sar, dar, brur, lar, tbr, reserved, mar, mdr;
} node_t;

/* A copy of planes of rows, and how far it has been handed to the MDMA. */
typedef struct {
  uint32_t dst, src;
  uint32_t bytes, rows, planes; /* bytes of a row */
  int32_t dst_row, dst_plane, src_row, src_plane;
  uint32_t plane, row, byte; /* the next block starts here */
} job_t;

typedef struct {
  job_t job;
  uint32_t tcr, tbr;
  uint8_t active;
} channel_t;

static node_t nodes[MDMA_CHANNELS][NODES] __attribute__((section(DORY_MDMA_SECTION), aligned(8)));
static channel_t channels[MDMA_CHANNELS];
static uint32_t members[MDMA_CHANNELS]; /* of the ticket that a channel stands for, as bits */
static uint32_t next_channel;

#if (DORY_MDMA_CHANNELS & 0xFFFFu) == 0
#error "DORY_MDMA_CHANNELS names no channel of the MDMA"
#endif

/* The channel that the network takes after another one; the others are the program's. */
static uint32_t channel_after(uint32_t number)
{
  do {
    number = (number + 1u) % MDMA_CHANNELS;
  } while (!(DORY_MDMA_CHANNELS >> number & 1u));
  return number;
}

__attribute__((weak)) void dory_stm32h7_wait(void) {}

void dory_dma_init(void)
{
  for (uint32_t n = 0; n < MDMA_CHANNELS; n++) {
    channels[n].active = 0;
    members[n] = 0;
  }
  next_channel = channel_after(MDMA_CHANNELS - 1u);
}

static void finish(uint32_t number);

/* Returns a channel without a copy. When all are busy it finishes one; the wait for that one will
 * find it done. */
static uint32_t free_channel(void)
{
  uint32_t number = next_channel;
  do {
    if (!channels[number].active) {
      return number;
    }
    number = channel_after(number);
  } while (number != next_channel);
  finish(number);
  return number;
}

static void swap_axes(job_t *job)
{
  const uint32_t rows = job->rows;
  const int32_t dst = job->dst_row, src = job->src_row;
  job->rows = job->planes;
  job->dst_row = job->dst_plane;
  job->src_row = job->src_plane;
  job->planes = rows;
  job->dst_plane = dst;
  job->src_plane = src;
}

/* Joins what is contiguous, and makes rows the longer axis: the MDMA repeats blocks by itself. */
static void simplify(job_t *job)
{
  if (job->planes > 1 && job->dst_plane == (int32_t)job->rows * job->dst_row &&
      job->src_plane == (int32_t)job->rows * job->src_row) {
    job->rows *= job->planes;
    job->planes = 1;
  }
  if (job->rows > 1 && job->dst_row == (int32_t)job->bytes && job->src_row == (int32_t)job->bytes) {
    job->bytes *= job->rows;
    job->rows = 1;
  }
  if (job->planes > job->rows) {
    swap_axes(job);
  }
  if (job->rows > 1 && job->dst_row == (int32_t)job->bytes && job->src_row == (int32_t)job->bytes) {
    job->bytes *= job->rows;
    job->rows = 1;
    swap_axes(job);
  }
}

static int at_end(const job_t *job) { return job->plane == job->planes; }

/* Rows of one plane can be blocks of one repetition when the offsets fit their fields. */
static int repeats(const job_t *job)
{
  const int32_t bytes = (int32_t)job->bytes;
  return job->rows > 1 && job->bytes <= MOST_BLOCK && job->dst_row >= bytes &&
         job->src_row >= bytes && job->dst_row - bytes <= MOST_OFFSET &&
         job->src_row - bytes <= MOST_OFFSET;
}

/* Takes the next block of a job, repeated over as many rows as possible. */
static node_t next_node(const channel_t *channel, job_t *job)
{
  node_t node = {0};
  const uint32_t row = (uint32_t)((int32_t)job->plane * job->dst_plane +
                                  (int32_t)job->row * job->dst_row);
  const uint32_t from = (uint32_t)((int32_t)job->plane * job->src_plane +
                                   (int32_t)job->row * job->src_row);
  node.tcr = channel->tcr;
  node.tbr = channel->tbr;
  node.dar = job->dst + row + job->byte;
  node.sar = job->src + from + job->byte;
  if (repeats(job)) {
    const uint32_t left = job->rows - job->row;
    const uint32_t blocks = left < MOST_BLOCKS ? left : MOST_BLOCKS;
    const uint32_t dst_offset = (uint32_t)job->dst_row - job->bytes;
    const uint32_t src_offset = (uint32_t)job->src_row - job->bytes;
    node.bndtr = job->bytes | MDMA_BNDTR_BRC(blocks - 1u);
    node.brur = dst_offset << 16 | src_offset;
    job->row += blocks;
  } else {
    const uint32_t left = job->bytes - job->byte;
    const uint32_t block = left < MOST_BLOCK ? left : MOST_BLOCK;
    node.bndtr = block;
    job->byte += block;
    if (job->byte == job->bytes) {
      job->byte = 0;
      job->row++;
    }
  }
  if (job->row == job->rows) {
    job->row = 0;
    job->plane++;
  }
  return node;
}

#if DORY_ARENAS_CACHED
/* Cleans and invalidates the lines of the D-cache that hold a range of addresses. */
static void flush(uint32_t at, uint32_t bytes)
{
  for (uint32_t address = at & ~(LINE - 1u); address < at + bytes; address += LINE) {
    SCB_DCCIMVAC = address;
  }
}
#else
static void flush(uint32_t at, uint32_t bytes)
{
  (void)at;
  (void)bytes;
}
#endif

/* Writes as much of the channel's job as the list holds, and starts it. */
static void start(uint32_t number)
{
  channel_t *const channel = &channels[number];
  mdma_channel_t *const mdma = MDMA_CHANNEL(number);
  node_t first = next_node(channel, &channel->job);
  uint32_t *link = &first.lar;
  uint32_t used = 0;
  for (; used < NODES && !at_end(&channel->job); used++) {
    const uint32_t n = used;
    nodes[number][n] = next_node(channel, &channel->job);
    *link = (uint32_t)(uintptr_t)&nodes[number][n];
    link = &nodes[number][n].lar;
  }
  flush((uint32_t)(uintptr_t)nodes[number], used * (uint32_t)sizeof(node_t));
  mdma->ifcr = MDMA_IFCR_ALL;
  mdma->tcr = first.tcr;
  mdma->bndtr = first.bndtr;
  mdma->sar = first.sar;
  mdma->dar = first.dar;
  mdma->brur = first.brur;
  mdma->lar = first.lar;
  mdma->tbr = first.tbr;
  mdma->mar = 0;
  mdma->mdr = 0;
  /* Tiles go first: copies to a slow memory outside of the chip fill the gaps between them. */
  const uint32_t enable = MDMA_CR_EN | (channel->tbr != 0u ? MDMA_CR_PL_MEDIUM : 0u);
  mdma->cr = enable;
  dsb(); /* the list and what is to be moved have reached their memories */
  mdma->cr = enable | MDMA_CR_SWRQ;
}

static int in_tcm(uint32_t address) { return address - DORY_DTCM_ADDRESS < DORY_DTCM_BYTES; }

/* log2 of the widest element, at most `most`, that divides all of them. */
static uint32_t width(uint32_t address, const job_t *job, int32_t row, int32_t plane, uint32_t most)
{
  uint32_t all = address | job->bytes;
  all |= job->rows > 1 ? (uint32_t)row : 0u;
  all |= job->planes > 1 ? (uint32_t)plane : 0u;
  uint32_t log2 = 0;
  while (log2 < most && !(all >> log2 & 1u)) {
    log2++;
  }
  return log2;
}

/* log2 of the beats of a burst, which is shorter than the buffer. */
static uint32_t burst(uint32_t log2, uint32_t buffer)
{
  uint32_t beats = 0;
  while (beats < 4u && (2u << beats << log2) < buffer) {
    beats++;
  }
  return beats;
}

static void configure(channel_t *channel)
{
  const job_t *const job = &channel->job;
  const int to_tcm = in_tcm(job->dst), from_tcm = in_tcm(job->src);
  const uint32_t ssize = width(job->src, job, job->src_row, job->src_plane, from_tcm ? 2u : 3u);
  const uint32_t dsize = width(job->dst, job, job->dst_row, job->dst_plane, to_tcm ? 2u : 3u);
  const uint32_t buffer = job->bytes < MOST_BUFFER ? job->bytes : MOST_BUFFER;
  channel->tcr = MDMA_TCR_SINC_UP | MDMA_TCR_DINC_UP | MDMA_TCR_SSIZE(ssize) |
                 MDMA_TCR_DSIZE(dsize) | MDMA_TCR_SINCOS(ssize) | MDMA_TCR_DINCOS(dsize) |
                 MDMA_TCR_SBURST(from_tcm ? 0u : burst(ssize, buffer)) |
                 MDMA_TCR_DBURST(to_tcm ? 0u : burst(dsize, buffer)) | MDMA_TCR_TLEN(buffer) |
                 (ssize != dsize ? MDMA_TCR_PKE : 0u) | MDMA_TCR_TRGM_ALL | MDMA_TCR_SWRM;
  channel->tbr = (from_tcm ? MDMA_TBR_SBUS : 0u) | (to_tcm ? MDMA_TBR_DBUS : 0u);
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

/* The program's, if it has one; nothing goes on behind a transfer that failed. */
__attribute__((weak)) void dory_stm32h7_fault(uint32_t channel, uint32_t status);

static void fail(uint32_t number, uint32_t status)
{
  if (dory_stm32h7_fault) {
    dory_stm32h7_fault(number, status);
  }
  for (;;) {
  }
}

/* Waits until a channel has ended. */
static void wait_for(uint32_t number)
{
  mdma_channel_t *const mdma = MDMA_CHANNEL(number);
  uint32_t looks = 0, flags;
  while (!((flags = mdma->isr) & (MDMA_ISR_CTCIF | MDMA_ISR_TEIF))) {
    if (++looks == DORY_MDMA_POLLS) {
      fail(number, DORY_STM32H7_TIMEOUT);
    }
    dory_stm32h7_wait();
  }
  if (flags & MDMA_ISR_TEIF) {
    fail(number, mdma->esr);
  }
}

static void finish(uint32_t number)
{
  channel_t *const channel = &channels[number];
  mdma_channel_t *const mdma = MDMA_CHANNEL(number);
  if (!channel->active) {
    return;
  }
  while (channel->active) {
    wait_for(number);
    mdma->ifcr = MDMA_IFCR_ALL;
    if (at_end(&channel->job)) {
      channel->active = 0;
    } else {
      clean(&channel->job); /* the core has worked in the meantime */
      start(number);
    }
  }
  dsb();
  invalidate(&channel->job);
}

/* Starts a copy on the next channel and returns its number. */
static uint32_t begin(const dory_copy_t *copy)
{
  const uint32_t number = free_channel();
  channel_t *const channel = &channels[number];
  next_channel = channel_after(number);
  const job_t job = {
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
  channel->job = job;
  simplify(&channel->job);
  configure(channel);
  clean(&channel->job);
  channel->active = 1;
  start(number);
  return number;
}

dory_ticket_t dory_dma_start(const dory_copy_t *copy)
{
  const uint32_t number = begin(copy);
  members[number] |= 1u << number; /* a ticket of this number that is still open keeps its own */
  return (dory_ticket_t)number + 1;
}

dory_ticket_t dory_dma_join(dory_ticket_t ticket, const dory_copy_t *copy)
{
  if (ticket == DORY_NO_TICKET) {
    return dory_dma_start(copy);
  }
  members[ticket - 1] |= 1u << begin(copy);
  return ticket;
}

void dory_dma_wait(dory_ticket_t ticket)
{
  for (uint32_t number = 0; number < MDMA_CHANNELS; number++) {
    if (members[ticket - 1] >> number & 1u) {
      finish(number);
    }
  }
  members[ticket - 1] = 0;
}
