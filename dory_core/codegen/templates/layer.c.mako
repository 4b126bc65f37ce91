<%! from dory_core.quoting import LONGEST, c_comment %>\
<%! from dory_core.codegen.describe import describe_layer, describe_step, who_runs %>\
<%! from dory_core.codegen.copies import copies_by_helper %>\
<% who = who_runs(plan, program) %>\
/* Layer ${step.index} ${c_comment(step.layer.op.name)}: ${describe_layer(step.layer)}
 *
% for line in describe_step(plan, step):
 *   ${c_comment(line, 5 * LONGEST)}
% endfor
% if who:
 *
 * ${who}
% endif
 */
#include "dory_tile.h"
% if copies_by_helper(program):
#include "dory_copy.h"
% endif
#include "network.h"
% for header in step.kernel.headers:
#include "${header}"
% endfor
% for definition in definitions:

${definition}
% endfor

% for line in body:
${line}
% endfor
