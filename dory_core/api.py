"""Everything that a plugin imports from dory: ``from dory_core.api import Kernel, hookimpl``.

Other modules of ``dory_core`` are private and move between versions; tests of plugins also use
``dory_core.testing``. Each name is imported when it is first asked for, so that a plugin loads what
it uses; ``api.pyi`` has them for type checkers.
"""

from __future__ import annotations

from dory_core.lazy import homes, namespace

#: The module of each name.
HOMES = homes(
    {
        "dory_core": "cli quoting simulate",
        "dory_core.cli.python": "ApplicationRun CheckedNetwork CompiledNetwork check compile run",
        "dory_core.codegen.application_record": "Application ApplicationLayer",
        "dory_core.driver.application": "read_plan",
        "dory_core.errors": (
            "DoesNotFit DoryError NotSupported ToolMissing UsageError VerificationFailed"
        ),
        "dory_core.expr": "Number ceil_div maximum minimum",
        "dory_core.golden": "desktop",
        "dory_core.golden.layers": "load_arrays",
        "dory_core.hardware.code_sizes": "CodeSizes",
        "dory_core.hardware.memories": "Level Link Memory MemoryHierarchy",
        "dory_core.hardware.target": "DmaHal OperatingPoint Option OutputFile Target TargetContext",
        "dory_core.ir": (
            "Array Graph Layer Requant State Tensor geometry ops ranges requant requantisation"
        ),
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
        "dory_core.plugins.frontend": "Frontend FrontendOptions GoldenRequest ReadOperator",
        "dory_core.plugins.hooks": "hookimpl",
        "dory_core.plugins.manager": "load_plugins",
        "dory_core.schedule": "caches",
    }
)

__getattr__, __dir__ = namespace(__name__, HOMES)
