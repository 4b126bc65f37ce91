/* The entry point of a generated network: the same for all networks. */
#ifndef DORY_NETWORK_H
#define DORY_NETWORK_H

#include <stdint.h>

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
   * output lies in L3 is handed out piece by piece, from its first byte to its last. */
  void (*on_layer)(void *user, int layer, const void *data, uint32_t bytes);
  void *user;                 /* handed to on_layer */
  const dory_memory_t *l2_more; /* DORY_L2_MORE of them; NULL where network.h names none */
} dory_network_io_t;

/* Runs the network once. Every core calls it with the same io.
 * Returns DORY_OK or a negative DORY_E* (dory_hal.h), the same on every core. */
int dory_network_run(const dory_network_io_t *io);

#endif
