"""The conformance kit for plugins: subclass its classes in your tests.

:class:`TargetConformance` builds and runs applications, :class:`KernelConformance` single kernels,
:class:`FrontendConformance` reads files.

The kit needs pytest. Tests of plugins import from here what ``dory_core.api`` does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dory_core.plugins.manager import Plugins as Plugins
    from dory_core.testing.conformance import Capabilities as Capabilities
    from dory_core.testing.conformance import TargetConformance as TargetConformance
    from dory_core.testing.frontend_conformance import FrontendConformance as FrontendConformance
    from dory_core.testing.frontend_conformance import NetworkFile as NetworkFile
    from dory_core.testing.kernel_conformance import KernelConformance as KernelConformance

#: Modules of the names, and their names there.
HOMES = {
    "Capabilities": ("dory_core.testing.conformance", "Capabilities"),
    "Case": ("dory_core.testing.cases", "Case"),
    "FrontendConformance": ("dory_core.testing.frontend_conformance", "FrontendConformance"),
    "KernelConformance": ("dory_core.testing.kernel_conformance", "KernelConformance"),
    "NetworkFile": ("dory_core.testing.frontend_conformance", "NetworkFile"),
    "TargetConformance": ("dory_core.testing.conformance", "TargetConformance"),
    # Internals that tests use and that may change; an empty name is the module itself.
    "CompileOptions": ("dory_core.driver.compiler", "CompileOptions"),
    "CompileResult": ("dory_core.driver.compiler", "CompileResult"),
    "Expr": ("dory_core.expr", "Expr"),
    "IMPORTED": ("dory_core.driver.pipeline", "IMPORTED"),
    "INCLUDE_FOLDERS": ("dory_core.simulate.build", "INCLUDE_FOLDERS"),
    "Op": ("dory_core.ir", "Op"),
    "PASSES": ("dory_core.driver.pipeline", "PASSES"),
    "Plan": ("dory_core.plan", "Plan"),
    "Plugins": ("dory_core.plugins.manager", "Plugins"),
    "Setup": ("dory_core.driver.pipeline", "Setup"),
    "TiledLayer": ("dory_core.tiling.tiled", "TiledLayer"),
    "Tiler": ("dory_core.tiling.tiler", "Tiler"),
    "TilingProblem": ("dory_core.tiling.problem", "TilingProblem"),
    "Var": ("dory_core.expr", "Var"),
    "ZIGLANG": ("dory_core.simulate.compiler", "ZIGLANG"),
    "accumulator_bounds": ("dory_core.ir.ranges", "accumulator_bounds"),
    "bind_layer": ("dory_core.kernels.binding", "bind_layer"),
    "check_network": ("dory_core.driver.check", "check_network"),
    "compare_golden": ("dory_core.golden.layers", "compare"),
    "golden_input": ("dory_core.golden.layers", "input_of"),
    "compare_desktop": ("dory_core.golden.desktop", "compare_desktop"),
    "compile_network": ("dory_core.driver.compiler", "compile_network"),
    "event_count": ("dory_core.plan.code", "event_count"),
    "evaluate": ("dory_core.expr", "evaluate"),
    "extract_layer": ("dory_core.passes.extract", "extract_layer"),
    "function_bytes": ("dory_core.plan.code", "function_bytes"),
    "formulate": ("dory_core.tiling.problem", "formulate"),
    "is_channelwise": ("dory_core.ir.geometry", "is_channelwise"),
    "Code": ("dory_core.plan.budgets", "Code"),
    "l2_after_code": ("dory_core.planning.code_room", "l2_after_code"),
    "make_vectors": ("dory_core.driver.compiler", "make_vectors"),
    "make_tile": ("dory_core.ir.geometry", "make_tile"),
    "missed_lines": ("dory_core.schedule.caches", "missed_lines"),
    "parse_network": ("dory_core.driver.pipeline", "parse"),
    "probe_sanitizer": ("dory_core.simulate.compiler", "probe_sanitizer"),
    "random_inputs": ("dory_core.ir.reference", "random_inputs"),
    "read_golden": ("dory_core.golden.layers", "read_golden"),
    "read_graph": ("dory_core.driver.application", "read_graph"),
    "reference": ("dory_core.ir.reference", ""),
    "rejection_of": ("dory_core.kernels.binding", "rejection_of"),
    "resolve_budgets": ("dory_core.plan.budgets", "resolve_budgets"),
    "run_application": ("dory_core.driver.application", "run_application"),
    "run_reference": ("dory_core.ir.reference", "run"),
    "run_stages": ("dory_core.driver.pipeline", "run"),
    "runtime": ("dory_core.simulate.runtime", ""),
    "runtime_files": ("dory_core.simulate.runtime", "runtime_files"),
    "setup_for": ("dory_core.driver.setup", "setup_for"),
    "smallest_tile": ("dory_core.tiling.solve", "smallest_tile"),
    "with_border": ("dory_core.ir.geometry", "with_border"),
}
# Modules with assertions, which pytest rewrites so that they show the compared values.
_ASSERTING = (
    "dory_core.testing.apps",
    "dory_core.testing.conformance",
    "dory_core.testing.frontend_conformance",
    "dory_core.testing.kernel_conformance",
)


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    import sys

    module, attribute = HOMES[name]
    if module in _ASSERTING:
        import pytest

        for asserting in _ASSERTING:
            if asserting not in sys.modules:
                pytest.register_assert_rewrite(asserting)
    home = importlib.import_module(module)
    return getattr(home, attribute) if attribute else home
