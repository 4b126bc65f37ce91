"""Commands and reports, and dory from Python: ``import dory_core.tools as dory``.

Functions of plugins (the hook ``dory_functions``) stand here under their names, such as
``dory.compare`` of dory-report and ``dory.quantize`` of dory-qdq.
"""

from collections.abc import Callable
from typing import Any

from dory_core import quoting as quoting
from dory_core.cli import shared
from dory_core.cli.evaluation import EvaluatedNetwork as EvaluatedNetwork
from dory_core.cli.frames import Picture as Picture
from dory_core.cli.python import check as check
from dory_core.cli.python import compile as compile
from dory_core.cli.python import evaluate as evaluate
from dory_core.cli.python import least_ram as least_ram
from dory_core.cli.python import run as run
from dory_core.cli.results import ApplicationRun as ApplicationRun
from dory_core.cli.results import CheckedNetwork as CheckedNetwork
from dory_core.cli.results import CompiledNetwork as CompiledNetwork
from dory_core.cli.results import LeastRam as LeastRam
from dory_core.driver.application import read_plan as read_plan
from dory_core.plugins.manager import load_plugins as load_plugins

#: What commands share.
cli = shared

#: Names that may change in any version; all others change only with the version of the API.
PROVISIONAL = frozenset({"cli", "load_plugins", "quoting", "read_plan"})

#: Packages of this repository, by the functions that they add.
_PACKAGES = {"compare": "dory-report", "pictures": "dory-report", "quantize": "dory-qdq"}


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function of a plugin by its name."""
    function = None if name.startswith("_") else load_plugins().functions().get(name)
    if function is not None:
        return function
    missing = _PACKAGES.get(name)
    hint = f": it comes with the package {missing}, see `dory plugins`" if missing else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
