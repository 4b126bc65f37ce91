/* Layer ${v.index} ${v.title}
 *
% for line in v.header:
 *   ${line}
% endfor
 *
 * Every core of the cluster calls it; core 0 moves the data${" except that each core loads its own channels" if v.spread else ""}.
 */
#include "dory_tile.h"
#include "network.h"
% for header in v.headers:
#include "${header}"
% endfor

% for table in v.tables:
${table}

% endfor
% for function in v.functions:
${function}

% endfor
void ${v.symbol}(${v.parameters})
{
  const uint32_t core = dory_core_id();
% if v.parts:
  const dory_part_t *const part = &parts[number];
  const uint32_t tiles = ${v.tiles};
  dory_index_t t = part->first;
% else:
  const uint32_t tiles = ${v.tiles};
  dory_index_t t = {0, 0, 0, 0};
% endif
% for line in v.slots:
  ${line}
% endfor
% for load in v.loads:
  dory_ticket_t ${load.name}_ticket${f"[{load.tickets}]" if load.spread else " = 0"};
  int ${load.name}_pending = 0;
% endfor
  dory_ticket_t y_ticket[${v.y_copies}] = {${", ".join(["0"] * v.y_copies)}};
  int y_pending[${v.y_copies}] = {${", ".join(["0"] * v.y_copies)}};

  if (core == 0) {
    DORY_SIM_LAYER(${v.index}, ${v.c_name});
  }
  dory_barrier(); /* the layer before has stored its output */

% for load in v.loads:
  ${load.guard}{
    ${load.start("t", load.buffer)}
    ${load.name}_pending = 1;
  }
% endfor
  for (uint32_t n = 0; n < tiles; n++) {
    const dory_index_t next = advance(t${', part' if v.parts else ''});

    /* What this tile reads has arrived, and its output buffer is free again. */
% for load in v.loads:
    ${load.guard_and(f"{load.name}_pending")}{
      ${load.wait("t")}
      ${load.name}_pending = 0;
    }
% endfor
    if (core == 0) {
      if (y_pending[y_slot]) {
        dory_dma_wait(y_ticket[y_slot]);
        y_pending[y_slot] = 0;
      }
      DORY_SIM_TILE(n);
    }
    dory_barrier();
% for load in v.loads:
% if load.copies > 1 and load.changes != "0":

    /* The next tile's ${load.what} travels while this one computes. */
    ${load.guard_and("n + 1 < tiles && (" + load.changes + ")")}{
      ${load.start("next", load.next_buffer)}
      ${load.name}_pending = 1;
    }
% endif
% endfor

    {
% for line in v.locals:
      ${line}
% endfor

      if (core == 0) {
% for line in v.checks:
        ${line}
% endfor
      }
% for line in v.call:
      ${line}
% endfor
    }
    dory_barrier();

    if (core == 0${" && " + v.is_last if v.is_last != "1" else ""}) {
      y_ticket[y_slot] = store_y(${v.y_buffer}, ${v.y_base}, t${', part' if v.parts else ''});
      y_pending[y_slot] = 1;
    }
% for load in v.loads:
% if load.copies == 1 and load.changes != "0":
    ${load.guard_and("n + 1 < tiles && (" + load.changes + ")")}{
      ${load.start("next", load.buffer)}
      ${load.name}_pending = 1;
    }
% endif
% endfor
% for line in v.advance_slots:
    ${line}
% endfor
    t = next;
  }
  if (core == 0) {
    for (uint32_t slot = 0; slot < ${v.y_copies}; slot++) {
      if (y_pending[slot]) {
        dory_dma_wait(y_ticket[slot]);
      }
    }
    DORY_SIM_LAYER_END();
  }
}
