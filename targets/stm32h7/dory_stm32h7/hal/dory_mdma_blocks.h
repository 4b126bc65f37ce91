/* Copies as blocks of the MDMA: what stands in the registers of a channel.
 *
 * Rules of the MDMA that decide the code (RM0433, section 14): the port to DTCM is 32 bits wide; a
 * block has at most 65536 bytes and 4096 repetitions; addresses, block and offsets between blocks
 * are multiples of the width; offsets count from the end of a block; a burst is shorter than a
 * buffer of at most 128 bytes; registers are written while the channel is disabled; flags are
 * cleared before it is enabled; a list lies in memory on AXI, at multiples of 8. */
#ifndef DORY_MDMA_BLOCKS_H
#define DORY_MDMA_BLOCKS_H

#include <stdint.h>

#include "dory_stm32h7_part.h"
#include "dory_stm32h7_registers.h"

#define MOST_BLOCK 65536u
#define MOST_BLOCKS 4096u
#define MOST_OFFSET 65535
#define MOST_BUFFER 128u

/* What the MDMA loads into the registers of a channel at the end of a block; registers from tcr on. */
typedef struct {
  volatile uint32_t tcr, bndtr, sar, dar, brur, lar, tbr, reserved, mar, mdr;
} node_t;

/* Widths and bursts of a copy, and its buses. */
typedef struct {
  uint32_t tcr, tbr;
} way_t;

/* A copy of planes of rows, and how far it has been handed to the MDMA. */
typedef struct {
  uint32_t dst, src;
  uint32_t bytes, rows, planes; /* bytes of a row */
  int32_t dst_row, dst_plane, src_row, src_plane;
  uint32_t plane, row, byte; /* the next block starts here */
  way_t way;
} job_t;

/* The number of the lowest bit that is set. */
static inline uint32_t lowest(uint32_t bits) { return (uint32_t)__builtin_ctz(bits); }

static inline void swap_axes(job_t *job)
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
static inline void simplify(job_t *job)
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

static inline int at_end(const job_t *job) { return job->plane == job->planes; }

/* Rows of one plane can be blocks of one repetition when the offsets fit their fields. */
static inline int repeats(const job_t *job)
{
  const int32_t bytes = (int32_t)job->bytes;
  return job->rows > 1 && job->bytes <= MOST_BLOCK && job->dst_row >= bytes &&
         job->src_row >= bytes && job->dst_row - bytes <= MOST_OFFSET &&
         job->src_row - bytes <= MOST_OFFSET;
}

/* Writes the next block of a job, repeated over as many rows as possible. */
static inline void put_block(job_t *job, node_t *node)
{
  const uint32_t row = (uint32_t)((int32_t)job->plane * job->dst_plane +
                                  (int32_t)job->row * job->dst_row);
  const uint32_t from = (uint32_t)((int32_t)job->plane * job->src_plane +
                                   (int32_t)job->row * job->src_row);
  node->tcr = job->way.tcr;
  node->sar = job->src + from + job->byte;
  node->dar = job->dst + row + job->byte;
  node->lar = 0;
  node->tbr = job->way.tbr;
  if (repeats(job)) {
    const uint32_t left = job->rows - job->row;
    const uint32_t blocks = left < MOST_BLOCKS ? left : MOST_BLOCKS;
    const uint32_t dst_offset = (uint32_t)job->dst_row - job->bytes;
    const uint32_t src_offset = (uint32_t)job->src_row - job->bytes;
    node->bndtr = job->bytes | MDMA_BNDTR_BRC(blocks - 1u);
    node->brur = dst_offset << 16 | src_offset;
    job->row += blocks;
  } else {
    const uint32_t left = job->bytes - job->byte;
    const uint32_t block = left < MOST_BLOCK ? left : MOST_BLOCK;
    node->bndtr = block;
    node->brur = 0;
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
}

static inline int in_tcm(uint32_t address) { return address - DORY_DTCM_ADDRESS < DORY_DTCM_BYTES; }

/* log2 of the widest element, at most `most`, that divides all of which the bits are set. */
static inline uint32_t width(uint32_t bits, uint32_t most) { return lowest(bits | 1u << most); }

/* log2 of the beats of a burst, which is shorter than the buffer. */
static inline uint32_t burst(uint32_t log2, uint32_t buffer)
{
  const uint32_t below = 31u - (uint32_t)__builtin_clz((buffer - 1u) | 1u);
  const uint32_t beats = below > log2 ? below - log2 : 0u;
  return beats < 4u ? beats : 4u;
}

/* Chooses widths and bursts. from, to: addresses, with the bits of all that is added to them. */
static inline way_t choose_way(uint32_t src, uint32_t dst, uint32_t from, uint32_t to, uint32_t bytes)
{
  const int to_tcm = in_tcm(dst), from_tcm = in_tcm(src);
  const uint32_t ssize = width(from | bytes, from_tcm ? 2u : 3u);
  const uint32_t dsize = width(to | bytes, to_tcm ? 2u : 3u);
  const uint32_t buffer = bytes < MOST_BUFFER ? bytes : MOST_BUFFER;
  const way_t way = {
    MDMA_TCR_SINC_UP | MDMA_TCR_DINC_UP | MDMA_TCR_SSIZE(ssize) | MDMA_TCR_DSIZE(dsize) |
      MDMA_TCR_SINCOS(ssize) | MDMA_TCR_DINCOS(dsize) |
      MDMA_TCR_SBURST(from_tcm ? 0u : burst(ssize, buffer)) |
      MDMA_TCR_DBURST(to_tcm ? 0u : burst(dsize, buffer)) | MDMA_TCR_TLEN(buffer) |
      (ssize != dsize ? MDMA_TCR_PKE : 0u) | MDMA_TCR_TRGM_ALL | MDMA_TCR_SWRM,
    (from_tcm ? MDMA_TBR_SBUS : 0u) | (to_tcm ? MDMA_TBR_DBUS : 0u),
  };
  return way;
}

#endif
