<%! from dory_core.quoting import c_comment, c_string %>\
<%! from dory_core.codegen.conversions import layer_layouts, layout_symbols %>\
<%! from dory_core.codegen.names import weights_symbol %>\
<%! from dory_core.codegen.network import by_rows, copied, copy_function, l2_bases, linked_steps, required, ticket_count, used_arenas %>\
<%! from dory_core.codegen.state import initial_lines, is_filled, kept_lines, table_rows, through_l1 %>\
<%
linked = linked_steps(plan)
inputs, outputs = list(copied("input", plan.inputs)), list(copied("output", plan.outputs))
symbols, others = layout_symbols(plan), layer_layouts(plan)
copy_bytes = copy_function(plan)
pass_by_rows = by_rows(plan.inputs) or by_rows(plan.outputs)
%>\
/* Network ${c_comment(plan.network)}: runs the layers in order. */
#include "network.h"

#include <stddef.h>
#include <string.h>

#include "dory_events.h"
% if through_l1(plan):
#include "dory_tile.h"
% endif
% if symbols:

/* Layouts that tensors are converted from or to. */
% for definition, name in symbols.items():
static const dory_layout_t ${name} = ${definition};
% endfor
% endif
% if others:

const dory_layer_layout_t dory_layer_layouts[DORY_NETWORK_LAYOUTS] = {
% for row in others:
  ${row}
% endfor
};
% endif

const dory_table_t dory_tables[] = {
% for step in linked:
  {${weights_symbol(plan.prefix, step)}, sizeof ${weights_symbol(plan.prefix, step)}},
% endfor
% if not linked:
  {NULL, 0},
% endif
};
const uint32_t dory_table_count = ${len(linked)};

% if plan.cores > 1 and (inputs or outputs or plan.states):
/* Copies bytes with all cores, each its own part, which is a number of words. */
static void copy_bytes(uint8_t *dst, const uint8_t *src, uint32_t bytes) {
  const uint32_t part = (bytes + 4 * DORY_CORES - 1) / (4 * DORY_CORES) * 4;
  const uint32_t next = part * dory_core_id();
  const uint32_t start = next < bytes ? next : bytes;
  memcpy(dst + start, src + start, bytes - start < part ? bytes - start : part);
}

% endif
% if is_filled(plan):
/* A word of bytes. */
typedef uint32_t __attribute__((may_alias)) word_t;

/* Fills bytes with all cores, each its own part, which is a number of words. */
static void fill_bytes(uint8_t *dst, uint8_t value, uint32_t bytes) {
  const uint32_t part = (bytes + 4 * DORY_CORES - 1) / (4 * DORY_CORES) * 4;
  const uint32_t next = part * dory_core_id();
  const uint32_t start = next < bytes ? next : bytes;
  const uint32_t count = bytes - start < part ? bytes - start : part;
  uint8_t *const to = dst + start;
  uint32_t filled = 0;
  if ((uintptr_t)to % 4 == 0) {
    for (; filled + 4 <= count; filled += 4) {
      *(word_t *)(void *)(to + filled) = value * 0x01010101u;
    }
  }
  memset(to + filled, value, count - filled);
}

% endif
% if through_l1(plan):
/* Core 0 moves bytes within L2, through L1: no layer uses it any more. */
static void move_bytes(uint8_t *l1, uint8_t *dst, const uint8_t *src, uint32_t bytes) {
  dory_dma_wait(dory_dma_start(DORY_LOAD_ROW(l1, src, bytes)));
  dory_dma_wait(dory_dma_start(DORY_STORE_ROW(dst, l1, bytes)));
}

% endif
% if body.events:
/* Before each part of a layer, written as layer.part: transfers of L3, rows that move, rows that the
 * caller hands over or takes, outputs for the caller. */
static const dory_event_t events[] = {
% for row in body.events[:-1]:
${row}
% endfor
${body.events[-1]}};
% if pass_by_rows and plan.cores > 1:

/* Whether rows have passed so far in the run. */
static volatile int rows_status;
% endif

% endif
% if body.names:
/* Where outputs of layers begin, in bytes from the start of the memory. */
enum {
% for row in body.names:
  ${row}
% endfor
};

% endif
% if plan.states:
% for number, state in enumerate(plan.states):
% if state.table_bytes:
/* Initial values of state ${c_comment(state.name)}. */
static const uint8_t initial_${number}[${len(state.initial)}] = {
% for row in table_rows(state.initial):
${row}
% endfor
};

% endif
% endfor
/* Whether state is what the inference before has left. */
static uint8_t state_is_set;

void ${plan.prefix}_network_reset(void) {
  state_is_set = 0;
}

% endif
int ${plan.prefix}_network_run(const dory_network_io_t *io) {
  if (io == NULL || ${" || ".join(f"io->{name} == NULL" for name in required(plan))}) {
    return DORY_EINVAL;
  }
% if plan.levels[0].used:
  if (io->l1_size < DORY_L1_USED) {
    return DORY_EL1;
  }
% endif
% if plan.arena_used:
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
% if plan.more_l2_bytes:
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
% for name, base in used_arenas(plan):
  uint8_t *const ${name} = ${base};
% endfor
% if any(step.hands_on for step in plan.steps):
  dory_ticket_t ahead = DORY_NO_TICKET; /* of constants that the layer before loads */
% endif
% if body.events:
  uint8_t *const memories[] = {${", ".join(("io->l1", *l2_bases(plan)))}};
% if plan.transfers:
  static dory_ticket_t tickets[${ticket_count(plan)}]; /* of core 0; stacks are small */
% endif
% if pass_by_rows and plan.cores > 1:
  if (dory_core_id() == 0) {
    rows_status = DORY_OK;
  }
% elif pass_by_rows:
  volatile int rows_status = DORY_OK;
% endif
  dory_stream_t stream = {
    .io = io,
    .memories = memories,
% if plan.transfers:
    .tickets = tickets,
% endif
    .events = events,
% if pass_by_rows:
    .status = &rows_status,
% endif
  };
% endif

% if plan.cores > 1:
  dory_barrier(); /* core 0 has written the input */
% endif
% for line in body.before:
  ${line}
% endfor
% if inputs:
  const uint8_t *const input = io->input;
% endif
% for buffer, place, bytes in inputs:
  if (${buffer} != ${place}) {
    ${copy_bytes}(${place}, ${buffer}, ${bytes});
  }
% endfor
% if plan.states:
  if (!state_is_set) {
% for number, state in enumerate(plan.states):
% for line in initial_lines(state, number, plan.cores):
    ${line}
% endfor
% endfor
  }
% endif
% if plan.cores > 1:
  dory_barrier();
% endif
% if plan.states:
% if plan.cores > 1:
  if (dory_core_id() == 0) {
    state_is_set = 1;
  }
% else:
  state_is_set = 1;
% endif
% endif

% for line in body.after:
  ${line}
% endfor

% if plan.cores > 1:
  dory_barrier();
% endif
% if outputs:
  uint8_t *const output = io->output;
% endif
% for buffer, place, bytes in outputs:
  if (${buffer} != ${place}) {
    ${copy_bytes}(${buffer}, ${place}, ${bytes});
  }
% endfor
% if plan.states:
% if plan.cores > 1 and outputs and any(state.copied for state in plan.states):
  dory_barrier(); /* outputs may lie where the new state goes */
% endif
% for line in kept_lines(plan):
  ${line}
% endfor
% endif
% if plan.cores > 1:
  dory_barrier();
% endif
  return DORY_RUN_RESULT();
}
