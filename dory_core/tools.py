"""Commands and reports, and dory from Python: ``import dory_core.tools as dory``."""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(
    {
        "dory_core": "cli quoting",
        "dory_core.cli.python": "ApplicationRun CheckedNetwork CompiledNetwork check compile run",
        "dory_core.driver.application": "read_plan",
        "dory_core.plugins.manager": "load_plugins",
    }
)

#: Names that may change in any version; all others change with the version of the API alone.
PROVISIONAL = frozenset({"cli", "load_plugins", "quoting", "read_plan"})

__getattr__, __dir__ = namespace(__name__, HOMES)
