/* Layer ${v.index} ${v.title}
 *
% for line in v.header:
 *   ${line}
% endfor
 *
 * Every core of the cluster calls it; core 0 moves the data${f" except that each core loads its own {v.loop.spread}" if v.loop.spread else ""}.
 */
#include "dory_tile.h"
% if v.loop.helper:
#include "dory_copy.h"
% endif
#include "network.h"
% for header in v.headers:
#include "${header}"
% endfor

% for table in v.loop.tables:
${table}

% endfor
% for function in v.loop.functions:
${function}

% endfor
void ${v.symbol}(${v.parameters})
{
  const uint32_t core = dory_core_id();
% if v.loop.parts:
  const dory_part_t *const part = &parts[number];
  const uint32_t tiles = ${v.loop.tiles};
  dory_index_t t = part->first;
% else:
  const uint32_t tiles = ${v.loop.tiles};
  dory_index_t t = {0, 0, 0, 0};
% endif
% for line in v.loop.slots:
  ${line}
% endfor
% if v.tile.before:
  /* Of the kernel: what is equal for all tiles. The loop sets the rest. */
% endif
% for line in v.tile.before:
  ${line}
% endfor
<%
    y_ticket = "y_ticket" + ("[y_slot]" if v.loop.y_copies > 1 else "")
    part = ", part" if v.loop.parts else ""
%>\
% for load in v.loop.loads:
  dory_ticket_t ${load.name}_ticket = DORY_NO_TICKET;
% endfor
% if v.loop.stores and not v.loop.shared_store:
  dory_ticket_t y_ticket${f"[{v.loop.y_copies}]" if v.loop.y_copies > 1 else ""} = ${"{DORY_NO_TICKET}" if v.loop.y_copies > 1 else "DORY_NO_TICKET"};
% endif

  if (core == 0) {
% for line in v.loop.keeps:
    ${line} /* from a layer before */
% endfor
    DORY_SIM_LAYER(${v.index}, ${v.c_name});
  }
  dory_barrier(); /* the layer before has stored its output */

% for load in v.loop.loads:
  ${load.guard}{
    ${load.start("t", load.buffer)}
  }
% endfor
  for (uint32_t n = 0; n < tiles; n++) {
    const dory_index_t next = advance(t${part});

    /* What this tile reads has arrived, and its output buffer is free again. */
% for load in v.loop.loads:
    if (${load.name}_ticket != DORY_NO_TICKET) {
      dory_dma_wait(${load.name}_ticket);
      ${load.name}_ticket = DORY_NO_TICKET;
    }
% endfor
    if (core == 0) {
% if v.loop.stores and not v.loop.shared_store:
      if (${y_ticket} != DORY_NO_TICKET) {
        dory_dma_wait(${y_ticket});
        ${y_ticket} = DORY_NO_TICKET;
      }
% endif
      DORY_SIM_TILE(n);
    }
    dory_barrier();
% for load in v.loop.loads:
% if load.copies > 1 and load.changes != "0":

    /* The next tile's ${load.what} travels while this one computes. */
    ${load.guard_and("n + 1 < tiles && (" + load.changes + ")")}{
      ${load.start("next", load.next_buffer)}
    }
% endif
% endfor

    if (core == 0) {
% for line in v.tile.checks:
      ${line}
% endfor
    }
% for line in v.tile.call:
    ${line}
% endfor
    dory_barrier();

% if v.loop.shared_store:
    ${f"if ({v.loop.is_last}) " if v.loop.is_last != "1" else ""}{
      (void)store_y(${v.loop.y_buffer}, ${v.loop.y_base}, t, core${part});
    }
% elif v.loop.stores:
    if (core == 0${" && " + v.loop.is_last if v.loop.is_last != "1" else ""}) {
      ${y_ticket} = store_y(${v.loop.y_buffer}, ${v.loop.y_base}, t${part});
    }
% endif
% for load in v.loop.loads:
% if load.copies == 1 and load.changes != "0":
    ${load.guard_and("n + 1 < tiles && (" + load.changes + ")")}{
      ${load.start("next", load.buffer)}
    }
% endif
% endfor
% for line in v.loop.advance_slots:
    ${line}
% endfor
    t = next;
  }
% if v.loop.shared_store:
  dory_barrier(); /* every core has copied its share of the output */
% endif
  if (core == 0) {
% if not v.loop.stores:
    /* The output stays in L1. */
% elif v.loop.shared_store:
% elif v.loop.y_copies > 1:
    for (uint32_t slot = 0; slot < ${v.loop.y_copies}; slot++) {
      if (y_ticket[slot] != DORY_NO_TICKET) {
        dory_dma_wait(y_ticket[slot]);
      }
    }
% else:
    if (y_ticket != DORY_NO_TICKET) {
      dory_dma_wait(y_ticket);
    }
% endif
    DORY_SIM_LAYER_END();
  }
}
