/* Counts of what each layer does in one run: calls of its kernel, transfers and their bytes. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

static dory_sim_counts_t *layers;
static uint32_t room;
static dory_sim_counts_t external;

/* Called with the lock. */
static dory_sim_counts_t *of_layer(int layer) {
  if (layer < 0) return NULL;
  if ((uint32_t)layer >= room) {
    const uint32_t wanted = (uint32_t)layer + 64;
    dory_sim_counts_t *const grown = realloc(layers, wanted * sizeof *grown);
    if (grown == NULL) dory_sim_fault(NULL, 0, "no memory to count");
    memset(grown + room, 0, (wanted - room) * sizeof *grown);
    layers = grown;
    room = wanted;
  }
  return &layers[layer];
}

void sim_counts_reset(void) {
  if (layers != NULL) memset(layers, 0, room * sizeof *layers);
  memset(&external, 0, sizeof external);
}

void sim_count_call(int layer) {
  dory_sim_counts_t *const counts = of_layer(layer);
  if (counts != NULL) ++counts->calls;
}

void sim_count_transfer(int layer, uint64_t bytes) {
  dory_sim_counts_t *const counts = layer == SIM_EXTERNAL ? &external : of_layer(layer);
  if (counts == NULL) return;
  ++counts->transfers;
  counts->bytes += bytes;
}

uint32_t dory_sim_counted_layers(void) { return room; }

dory_sim_counts_t dory_sim_layer_counts(uint32_t layer) {
  const dory_sim_counts_t none = {0, 0, 0};
  return layer < room ? layers[layer] : none;
}

dory_sim_counts_t dory_sim_external_counts(void) { return external; }
