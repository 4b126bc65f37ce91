"""What makes a Graph: ``from dory_core.importing import Frontend, State, requant``.

Frontends use it beside ``dory_core.api``, and targets whose passes rewrite the Graph.
"""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(
    {
        "dory_core.golden": "desktop",
        "dory_core.golden.layers": "load_arrays",
        "dory_core.ir": "Array State ranges requant",
        "dory_core.plugins.frontend": "Frontend FrontendOptions GoldenRequest ReadOperator",
    }
)

#: Names that may change in any version; all others change with the version of the API alone.
PROVISIONAL = frozenset({"GoldenRequest", "desktop", "load_arrays", "ranges"})

__getattr__, __dir__ = namespace(__name__, HOMES)
