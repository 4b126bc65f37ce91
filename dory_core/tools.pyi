"""The names of ``dory_core.tools``, as type checkers see them."""

from dory_core import cli as cli
from dory_core import quoting as quoting
from dory_core.cli.python import ApplicationRun as ApplicationRun
from dory_core.cli.python import CheckedNetwork as CheckedNetwork
from dory_core.cli.python import CompiledNetwork as CompiledNetwork
from dory_core.cli.python import check as check
from dory_core.cli.python import compile as compile
from dory_core.cli.python import run as run
from dory_core.driver.application import read_plan as read_plan
from dory_core.plugins.manager import load_plugins as load_plugins
