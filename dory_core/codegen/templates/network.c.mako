/* ${v.title}: runs the layers in order. */
#include "network.h"

#include <stddef.h>
#include <string.h>

#include "dory_hal.h"
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

% if v.inputs or v.outputs:
/* Copies bytes with all cores, each its own part. */
static void copy_bytes(uint8_t *dst, const uint8_t *src, uint32_t bytes)
{
  const uint32_t part = (bytes + DORY_CORES - 1) / DORY_CORES;
  const uint32_t start = part * dory_core_id();
  if (start < bytes) {
    memcpy(dst + start, src + start, bytes - start < part ? bytes - start : part);
  }
}
% endif

/* Core 0 hands the output of a layer, or the next piece of it, to the caller. The next layer begins
 * with a barrier: another one here would hide its absence from whoever watches the layers. */
static void report(const dory_network_io_t *io, int layer, const uint8_t *data, uint32_t bytes)
{
  if (io->on_layer != NULL && dory_core_id() == 0) {
    io->on_layer(io->user, layer, data, bytes);
  }
}

int dory_network_run(const dory_network_io_t *io)
{
  if (io == NULL || io->l1 == NULL || io->l2 == NULL) {
    return DORY_EINVAL;
  }
% if v.inputs:
  if (io->input == NULL) {
    return DORY_EINVAL;
  }
% endif
% if v.outputs:
  if (io->output == NULL) {
    return DORY_EINVAL;
  }
% endif
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
  const uint32_t core = dory_core_id();
  uint8_t *const l1 = io->l1;
% for name, base in v.arenas:
  uint8_t *const ${name} = ${base};
% endfor
% if v.tickets:
  dory_ticket_t tickets[${v.tickets}] = {0}; /* transfers of L3, core 0's */
% endif

  dory_barrier(); /* no core still runs the inference before */
<%def name="events(lines)">
% if lines:
  if (core == 0) {
% for line in lines:
    ${line}
% endfor
  }
% endif
</%def>\
<%def name="convert(conversions)">
% for conversion in conversions:
  dory_barrier(); /* what is converted has been stored */
  if (core == 0) {
% for line in conversion.marks:
    ${line}
% endfor
  }
  dory_barrier();
% for line in conversion.call:
  ${line}
% endfor
% endfor
</%def>\
${events(v.prologue)}\
% if v.inputs:
  const uint8_t *const input = io->input;
% endif
% for place in v.inputs:
  if (input + ${place.source} != ${place.base} + ${place.offset}) {
    copy_bytes(${place.base} + ${place.offset}, input + ${place.source}, ${place.bytes});
  }
% endfor
  dory_barrier();
% if v.inputs:
  if (core == 0) {
% for place in v.inputs:
    DORY_SIM_L2_DEFINE(${place.base} + ${place.offset}, ${place.bytes});
% endfor
  }
% endif
% for call in v.calls:
${events(call.events)}\
% if call.conversions:
${convert(call.conversions)}\
% endif
  ${call.call}
% if call.report:
  report(io, ${call.report[0]}, ${call.report[1]} + ${call.report[2]}, ${call.report[3]});
% endif
% endfor
% if v.epilogue:
${events(v.epilogue)}\
% endif
% if v.final_conversions:
${convert(v.final_conversions)}\
% endif

  dory_barrier();
% if v.outputs:
  uint8_t *const output = io->output;
% endif
% for place in v.outputs:
  if (output + ${place.source} != ${place.base} + ${place.offset}) {
    copy_bytes(output + ${place.source}, ${place.base} + ${place.offset}, ${place.bytes});
  }
% endfor
  dory_barrier();
  return DORY_OK;
}
