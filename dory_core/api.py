"""What a plugin for a chip imports: ``from dory_core.api import Kernel, hookimpl``.

Plugins import ``dory_core.api``, ``dory_core.importing`` (what makes a Graph: frontends and passes)
and ``dory_core.tools`` (commands and reports). All other modules of ``dory_core`` are private and
move between versions; tests of plugins also use ``dory_core.testing``. Each name is imported when
it is first asked for, so that a plugin loads what it uses; the stub beside this file has the names
for type checkers.
"""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(
    {
        "dory_core": "simulate",
        "dory_core.codegen.application_record": "Application ApplicationLayer",
        "dory_core.errors": (
            "DoesNotFit DoryError NotSupported ToolMissing UsageError VerificationFailed"
        ),
        "dory_core.expr": "Number ceil_div maximum minimum",
        "dory_core.hardware.code_sizes": "CodeSizes",
        "dory_core.hardware.memories": "Level Link Memory MemoryHierarchy",
        "dory_core.hardware.target": "DmaHal OperatingPoint Option OutputFile Target TargetContext",
        "dory_core.ir": "Graph Layer Requant Tensor geometry ops requantisation",
        "dory_core.ir.features": "Feature",
        "dory_core.ir.geometry": "Tile",
        "dory_core.ir.layout": "Layout",
        "dory_core.kernels": "portable_kernels",
        "dory_core.kernels.call": (
            "Argument FunctionCall Items Local Operand Struct Symbol named size"
        ),
        "dory_core.kernels.kernel": (
            "Constraint Kernel Rejection Term Traits WeightBlock reject_maximum reject_type"
        ),
        "dory_core.passes": "Pass",
        "dory_core.plan": "Place",
        "dory_core.plugins.hooks": "hookimpl",
        "dory_core.schedule": "caches",
    }
)

#: Names that may change in any version; all others change with the version of the API alone.
PROVISIONAL = frozenset(
    {
        "Application",
        "ApplicationLayer",
        "CodeSizes",
        "Feature",
        "Place",
        "caches",
        "requantisation",
        "simulate",
    }
)

__getattr__, __dir__ = namespace(
    __name__, HOMES, moved_to=("dory_core.importing", "dory_core.tools")
)
