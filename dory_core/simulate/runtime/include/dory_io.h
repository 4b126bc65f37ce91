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
  void *user;                 /* handed to on_layer */
  const dory_memory_t *l2_more; /* of the number that the header of the network names, else NULL */
  uint32_t l3; /* first byte of L3 that is the network's; 0 where all of it is */
} dory_network_io_t;

#endif
