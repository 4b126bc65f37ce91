/* Layer ${v.index} ${v.title}
 *
% for line in v.header:
 *   ${line}
% endfor
 *
 * Every core of the cluster calls it. Nothing is moved.
 */
#include "dory_tile.h"
#include "network.h"
% for header in v.headers:
#include "${header}"
% endfor

void ${v.symbol}(${v.parameters})
{
  (void)l1;
  if (dory_core_id() == 0) {
    DORY_SIM_LAYER(${v.index}, ${v.c_name});
  }
  dory_barrier(); /* the layer before has computed its output */
  if (dory_core_id() == 0) {
    DORY_SIM_TILE(0);
% for line in v.tile.checks:
    ${line}
% endfor
  }
  dory_barrier();
  {
% for line in v.tile.before:
    ${line}
% endfor
% for line in v.tile.call:
    ${line}
% endfor
  }
  dory_barrier();
  if (dory_core_id() == 0) {
    DORY_SIM_LAYER_END();
  }
}
