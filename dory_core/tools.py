"""Commands and reports, and dory from Python: ``import dory_core.tools as dory``."""

from dory_core import quoting as quoting
from dory_core.cli import shared
from dory_core.cli.python import CompiledNetwork as CompiledNetwork
from dory_core.cli.python import check as check
from dory_core.cli.python import compile as compile
from dory_core.cli.python import least_ram as least_ram
from dory_core.cli.python import run as run
from dory_core.cli.results import ApplicationRun as ApplicationRun
from dory_core.cli.results import CheckedNetwork as CheckedNetwork
from dory_core.cli.results import LeastRam as LeastRam
from dory_core.driver.application import read_plan as read_plan
from dory_core.plugins.manager import load_plugins as load_plugins

#: What commands share.
cli = shared

#: Names that may change in any version; all others change only with the version of the API.
PROVISIONAL = frozenset({"cli", "load_plugins", "quoting", "read_plan"})
