/* Host simulation, as the main program sees it: arenas, constant tables, running the cores. */
#ifndef DORY_SIM_H
#define DORY_SIM_H

#include <stdint.h>

#define DORY_SIM_EXIT_FAULT 70 /* exit status of a process that the simulator stopped */
#define DORY_SIM_MAX_CORES 32
#define DORY_SIM_MAX_MORE_L2 4 /* further memories of L2 */
#define DORY_SIM_MAX_IN_FLIGHT 256 /* tickets open per core that the simulator can follow */

/* When the bytes of a transfer really move. Every mode is a behaviour that hardware may show, so a
 * correct program gives the same results in all of them. */
typedef enum {
  DORY_SIM_EARLY, /* at its start */
  DORY_SIM_LATE,  /* at its wait */
  DORY_SIM_RANDOM /* at some HAL call of its core in between, in random order */
} dory_sim_dma_t;

typedef struct {
  uint32_t cores;
  uint32_t l1_size, l2_size, l3_size; /* bytes, exact; l3_size may be 0 */
  uint32_t more_l2;                   /* how many further memories L2 has */
  uint32_t more_l2_size[DORY_SIM_MAX_MORE_L2];
  dory_sim_dma_t dma;
  uint64_t seed;               /* of the random mode */
  uint32_t dma_each_core;      /* 0: core 0 alone may start L2 <-> L1 transfers */
  uint32_t dma_in_flight;      /* most tickets open per core, at most DORY_SIM_MAX_IN_FLIGHT */
  uint32_t dma_tickets;        /* most tickets of L2 <-> L1 open in all, 0: no limit */
  uint32_t dma_align;          /* bytes: start of every row on both sides, and its length; 1: none */
  uint32_t dma_max_bytes;      /* largest transfer, 0: no limit */
  uint32_t dma_dimensions;     /* 1: a transfer is one row, 2: rows at one pitch, 3 or 0: planes */
  uint32_t dma_none;           /* 1: there is no DMA between L2 and L1, the cores copy */
  uint32_t ext_align;          /* bytes: address, offset and length of L3 <-> L2; 1: none */
  uint32_t ext_max_bytes;      /* largest L3 <-> L2 transfer, 0: no limit */
  uint32_t barrier_timeout_s;  /* a core that waits longer at a barrier is a deadlock */
} dory_sim_config_t;

/* For chips whose cores have no address for L1: only transfers and models of devices reach it, and
 * a core that touches it is a fault. Called before dory_sim_open; for one core. */
void dory_sim_hide_l1(void);
/* A model of a device, or the main program, reads or writes L1 between these two. They nest. */
void dory_sim_l1_begin(void);
void dory_sim_l1_end(void);

/* Creates the arenas between guard pages, poisoned. One simulation per process. */
void dory_sim_open(const dory_sim_config_t *config);

/* Memory of exactly `bytes` bytes between guard pages, aligned to 16, poisoned. Freed at exit. */
void *dory_sim_alloc(const char *name, uint32_t bytes);

/* Names memory outside the L2 arena that transfers may read as L2: constant tables, the input. */
void dory_sim_const(const void *ptr, uint32_t bytes);
/* The same for memory that may be written: the output. */
void dory_sim_mutable(void *ptr, uint32_t bytes);

/* 1 when these bytes lie in an arena of L2 or in memory named by one of the two calls above;
 * to_write: and may be written. For models of devices that find their data in L2. */
int dory_sim_in_l2(const void *ptr, uint64_t bytes, int to_write);

/* L2 has an owner: a transfer that writes bytes which were written and not given up since is a
 * fault. Not in this range, where the tensor of one inference is replaced by that for the next. */
void dory_sim_replaced(const void *ptr, uint32_t bytes);

void *dory_sim_l1(void);
void *dory_sim_l2(void);
void *dory_sim_more_l2(uint32_t number); /* from 0 */
/* The first `bytes` bytes of L3, to be filled in before the first run; they count as written. */
void *dory_sim_l3(uint32_t bytes);

/* A network input in L3, written before each run, and an output, read behind it. */
void dory_sim_l3_input(uint32_t offset, const void *data, uint32_t bytes);
void dory_sim_l3_output(uint32_t offset, void *data, uint32_t bytes);

/* Runs entry(arg) once on every core and returns core 0's result; it is a fault when another core
 * returns something else or a ticket is left. Nothing in L1 and L2 counts as written at the start,
 * but the arenas keep the bytes of the run before. */
int dory_sim_run(int (*entry)(void *arg), void *arg);

/* What one layer did in the last run: calls of its kernel, transfers between L2 and L1 that were
 * started, and bytes that they moved; and the same of transfers between L3 and L2, of all layers. */
typedef struct {
  uint64_t calls, transfers, bytes;
} dory_sim_counts_t;
uint32_t dory_sim_counted_layers(void); /* one more than the largest index, or larger */
dory_sim_counts_t dory_sim_layer_counts(uint32_t layer);
dory_sim_counts_t dory_sim_external_counts(void);

/* Reports a fault in the current layer and tile, and ends the process. */
void dory_sim_fault(const char *file, int line, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4), noreturn))
#endif
    ;

#endif
