/* What a program hands to a generated network: the same for all networks. */
#ifndef DORY_IO_H
#define DORY_IO_H

#include <stdint.h>

/* Results of a run. */
#define DORY_OK 0
#define DORY_EINVAL (-1) /* a missing pointer or a bad argument */
#define DORY_EL1 (-2)    /* the L1 arena is too small */
#define DORY_EL2 (-3)    /* the L2 arena is too small */
#define DORY_EALIGN (-4) /* an arena does not start on a multiple of DORY_ARENA_ALIGN */
#define DORY_EROWS (-5)  /* the caller had no rows of the input, or took none of the output */
#define DORY_EDMA (-6)   /* a transfer failed: outputs and state are nothing */

/* A transfer that a core has started. */
typedef int32_t dory_ticket_t;

#define DORY_NO_TICKET 0 /* no start gives it */

/* Arenas start on a multiple of this many bytes. */
#define DORY_ARENA_ALIGN 16

/* An arena in a further memory of L2; no tensor straddles two memories. */
typedef struct {
  void *base;    /* aligned to DORY_ARENA_ALIGN */
  uint32_t size; /* bytes */
} dory_memory_t;

typedef struct {
  void *l1, *l2;              /* arenas, owned by the caller, aligned to DORY_ARENA_ALIGN */
  uint32_t l1_size, l2_size;  /* bytes */
  const void *input;          /* in storage form: HWC, sub-byte elements packed along C */
  void *output;               /* in storage form */
  /* Called by core 0 after each layer with its output in storage form; may be NULL. A layer whose
   * output is never whole in L2 is handed out piece by piece, from its first byte to its last;
   * pieces of several layers may alternate. */
  void (*on_layer)(void *user, int layer, const void *data, uint32_t bytes);
  void *user;                 /* handed to on_layer, next_rows and put_rows */
  const dory_memory_t *l2_more; /* of the number that the header of the network names, else NULL */
  uint32_t l3; /* first byte of L3 that is the network's; 0 where all of it is */
  /* For networks whose inputs come by rows, which do not use `input`. Core 0 calls it when it needs
   * the next rows of an input, from the first one on and each once: write them to dst, in storage
   * form. Rows that no layer reads may be left out at the end. Data of height 1 comes by columns.
   * Another result than 0 ends the run with DORY_EROWS; state is to be reset then. */
  int (*next_rows)(void *user, uint32_t input, void *dst, uint32_t first, uint32_t rows);
  /* For networks whose outputs go by rows, which do not use `output`. Core 0 calls it with the next
   * rows, which are gone when it returns; results as of next_rows. */
  int (*put_rows)(void *user, uint32_t output, const void *src, uint32_t first, uint32_t rows);
} dory_network_io_t;

#endif
