<%def name="at(base, offset)">${base}${f" + {offset}" if offset else ""}</%def>\
/* ${v.title}: runs the layers in order. */
#include "network.h"

#include <stddef.h>
#include <string.h>

#include "${"dory_events.h" if v.body.events else "dory_hal.h"}"
% if v.layouts:

/* Layouts that tensors are converted from or to. */
% for name, definition in v.layouts:
static const dory_layout_t ${name} = ${definition};
% endfor
% endif
% if v.layer_layouts:

const dory_layer_layout_t dory_layer_layouts[DORY_NETWORK_LAYOUTS] = {
% for row in v.layer_layouts:
  ${row}
% endfor
};
% endif

const dory_l2_const_t dory_l2_consts[] = {
% for name, label in v.constant_labels:
  {${label}, ${name}, sizeof ${name}},
% endfor
  {"", NULL, 0},
};
const uint32_t dory_l2_const_count = ${len(v.constant_labels)};

% if v.cores > 1 and (v.inputs or v.outputs):
/* Copies bytes with all cores, each its own part. */
static void copy_bytes(uint8_t *dst, const uint8_t *src, uint32_t bytes) {
  const uint32_t part = (bytes + DORY_CORES - 1) / DORY_CORES;
  const uint32_t start = part * dory_core_id();
  if (start < bytes) {
    memcpy(dst + start, src + start, bytes - start < part ? bytes - start : part);
  }
}

% endif
% if v.body.events:
/* Before each part of a layer, written as layer.part: transfers of L3, outputs for the caller. */
static const dory_event_t events[] = {
% for row in v.body.events[:-1]:
${row}
% endfor
${v.body.events[-1]}};

#ifdef DORY_SIMULATION
static const dory_dead_t dead[] = {
% for row in v.body.dead[:-1]:
${row}
% endfor
${v.body.dead[-1]}};
#define DEAD dead
#else
#define DEAD NULL
#endif
% else:
% if v.cores > 1:
/* Core 0 hands the output of a layer to the caller. The next layer begins with a barrier: another
 * one here would hide its absence from whoever watches the layers. */
% else:
/* Hands the output of a layer to the caller. */
% endif
static void report(const dory_network_io_t *io, int layer, const uint8_t *data, uint32_t bytes) {
  if (io->on_layer != NULL${" && dory_core_id() == 0" if v.cores > 1 else ""}) {
    io->on_layer(io->user, layer, data, bytes);
  }
}
% endif

int dory_network_run(const dory_network_io_t *io) {
<% given = ["l1", "l2"] + ["input"] * bool(v.inputs) + ["output"] * bool(v.outputs) %>\
  if (io == NULL || ${" || ".join(f"io->{name} == NULL" for name in given)}) {
    return DORY_EINVAL;
  }
% if v.l1_used:
  if (io->l1_size < DORY_L1_USED) {
    return DORY_EL1;
  }
% endif
% if v.l2_used:
  if (io->l2_size < DORY_L2_USED) {
    return DORY_EL2;
  }
% endif
  if ((uintptr_t)io->l1 % DORY_ARENA_ALIGN != 0 || (uintptr_t)io->l2 % DORY_ARENA_ALIGN != 0) {
    return DORY_EALIGN;
  }
  if (dory_core_count() != DORY_CORES) {
    return DORY_EINVAL;
  }
% if v.more_l2:
  static const uint32_t more_sizes[DORY_L2_MORE] = DORY_L2_MORE_SIZES;
  if (io->l2_more == NULL) {
    return DORY_EINVAL;
  }
  for (uint32_t k = 0; k < DORY_L2_MORE; k++) {
    if (io->l2_more[k].base == NULL) {
      return DORY_EINVAL;
    }
    if (io->l2_more[k].size < more_sizes[k]) {
      return DORY_EL2;
    }
    if ((uintptr_t)io->l2_more[k].base % DORY_ARENA_ALIGN != 0) {
      return DORY_EALIGN;
    }
  }
% endif
% for name, base in v.arenas:
  uint8_t *const ${name} = ${base};
% endfor
% if v.body.events:
  uint8_t *const memories[] = {${", ".join(v.memories)}};
  dory_ticket_t tickets[${v.tickets}] = {0};
  dory_stream_t stream = {
    .io = io,
    .memories = memories,
    .tickets = tickets,
    .events = events,
    .dead = DEAD,
  };
% endif

% if v.cores > 1:
  dory_barrier(); /* no core still runs the inference before */
% endif
% for line in v.body.before:
  ${line}
% endfor
% if v.inputs:
  const uint8_t *const input = io->input;
% endif
% for place in v.inputs:
  if (${at("input", place.source)} != ${at(place.base, place.offset)}) {
    ${"copy_bytes" if v.cores > 1 else "memcpy"}(${at(place.base, place.offset)}, ${at("input", place.source)}, ${place.bytes});
  }
% endfor
% if v.cores > 1:
  dory_barrier();
% endif
% if v.inputs and v.cores > 1:
  if (dory_core_id() == 0) {
% for place in v.inputs:
    DORY_SIM_L2_DEFINE(${at(place.base, place.offset)}, ${place.bytes});
% endfor
  }
% else:
% for place in v.inputs:
  DORY_SIM_L2_DEFINE(${at(place.base, place.offset)}, ${place.bytes});
% endfor
% endif

% for line in v.body.after:
  ${line}
% endfor

% if v.cores > 1:
  dory_barrier();
% endif
% if v.outputs:
  uint8_t *const output = io->output;
% endif
% for place in v.outputs:
  if (${at("output", place.source)} != ${at(place.base, place.offset)}) {
    ${"copy_bytes" if v.cores > 1 else "memcpy"}(${at("output", place.source)}, ${at(place.base, place.offset)}, ${place.bytes});
  }
% endfor
% if v.cores > 1:
  dory_barrier();
% endif
  return DORY_OK;
}
