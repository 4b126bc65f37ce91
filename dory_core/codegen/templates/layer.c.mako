/* Layer ${v.index} ${v.title}
 *
% for line in v.header:
 *   ${line}
% endfor
% if v.who:
 *
 * ${v.who}
% endif
 */
#include "dory_tile.h"
% if v.helper:
#include "dory_copy.h"
% endif
#include "network.h"
% for header in v.headers:
#include "${header}"
% endfor
% for definition in v.text.definitions:

${definition}
% endfor

% for line in v.text.body:
${line}
% endfor
