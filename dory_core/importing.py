"""What makes a Graph: ``from dory_core.importing import Frontend, State, requant``.

Frontends use it in addition to ``dory_core.api``, and targets whose passes rewrite the Graph.
"""

from dory_core.golden import desktop as desktop
from dory_core.golden.arrays import load_arrays as load_arrays
from dory_core.ir import Array as Array
from dory_core.ir import State as State
from dory_core.ir import ranges as ranges
from dory_core.ir import rearrange as rearrange
from dory_core.ir import requant as requant
from dory_core.plugins.frontend import Frontend as Frontend
from dory_core.plugins.frontend import FrontendOptions as FrontendOptions
from dory_core.plugins.frontend import GoldenRequest as GoldenRequest
from dory_core.plugins.frontend import ReadOperator as ReadOperator

#: Names that may change in any version; all others change only with the version of the API.
PROVISIONAL = frozenset({"GoldenRequest", "desktop", "load_arrays", "ranges", "rearrange"})
