"""Does a network import, which kernels compute it, and does it fit: ``dory check``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dory_core.budgets import Budgets, check_tensors, resolve_budgets
from dory_core.compiler import CompileOptions, import_network, import_with_vectors
from dory_core.errors import DoesNotFit, DoryError, NotSupported
from dory_core.hardware import TargetContext
from dory_core.ir import Graph
from dory_core.kernel import rejection_of
from dory_core.passes.order import order_branches
from dory_core.plan import LevelUse
from dory_core.planning.planner import place_network, place_resident
from dory_core.plugins import Plugins
from dory_core.tiling.network import NetworkTiler
from dory_core.tiling.tiled import CORES, EngineRejection, KernelRejection, passed_over


@dataclass(frozen=True, slots=True)
class LayerCheck:
    """One layer. kernel: the one that computes it, None when none does or no target was given.

    engine: of that kernel. passed_over: engines that were preferred, and why not.
    """

    index: int
    node: str
    op: str
    kernel: str | None = None
    rejections: tuple[KernelRejection, ...] = ()
    engine: str | None = None
    passed_over: tuple[EngineRejection, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The answer. fits: None without a target or for an unsupported network.

    reason, hint: of the first problem, empty without any.
    """

    supported: bool
    fits: bool | None
    layers: tuple[LayerCheck, ...] = ()
    levels: tuple[LevelUse, ...] = ()
    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory check --json``."""
        return {
            "supported": self.supported,
            "fits": self.fits,
            "layers": [
                {
                    "index": layer.index,
                    "node": layer.node,
                    "op": layer.op,
                    "kernel": layer.kernel,
                    "rejections": [
                        {"kernel": r.kernel, "reason": r.reason} for r in layer.rejections
                    ],
                    "engine": layer.engine,
                    "passed_over": [
                        {"engine": p.engine, "reason": p.reason} for p in layer.passed_over
                    ],
                }
                for layer in self.layers
            ],
            "levels": [
                {
                    "name": level.name,
                    "used": level.used,
                    "budget": level.budget,
                    "dominant": level.dominant,
                }
                for level in self.levels
            ],
            "reason": self.reason,
            "hint": self.hint,
            "notes": list(self.notes),
        }


def check_network(options: CompileOptions, plugins: Plugins) -> CheckReport:
    """Import the network and, with a target, bind, tile and place it; write nothing.

    Raises UsageError for a missing file or unknown names; what is wrong with the network is in the
    report, for every layer and not only the first.
    """
    ctx = plugins.context(options.target, options.settings) if options.target else None
    budgets = None if ctx is None else resolve_budgets(ctx.memory, options.budgets)
    try:
        if ctx is None or budgets is None or all(step.exact for step in plugins.passes(ctx)):
            graph = import_network(options, plugins, ctx)
        else:
            graph, _, _ = import_with_vectors(options, plugins, ctx, budgets)
    except NotSupported as error:
        return CheckReport(False, None, reason=error.message, hint=error.hint)
    except DoesNotFit as error:
        return CheckReport(True, False, reason=error.message, hint=error.hint)
    layers = tuple(LayerCheck(n.index, n.name, n.kind) for n in graph.ops)
    if ctx is None or budgets is None:
        return CheckReport(True, None, layers, notes=graph.notes)
    try:
        check_tensors(graph, ctx.memory, budgets)
    except DoesNotFit as error:
        return CheckReport(True, False, layers, (), error.message, error.hint, graph.notes)
    return _check_target(graph, ctx, budgets, plugins)


def _check_target(
    graph: Graph, ctx: TargetContext, budgets: Budgets, plugins: Plugins
) -> CheckReport:
    graph = order_branches(graph)
    tiler = NetworkTiler(graph, ctx, budgets.bytes[1], plugins)
    checks: list[LayerCheck] = []
    problems: list[DoryError] = []
    for n, layer in enumerate(graph.layers):
        head = (layer.op.index, layer.op.name, layer.op.kind)
        try:
            done = tiler.tile(n)
        except (NotSupported, DoesNotFit) as error:
            problems.append(error)
            refused = ((kernel, rejection_of(kernel, layer)) for kernel in tiler.kernels(n))
            reasons = tuple(KernelRejection.of(k, r) for k, r in refused if r is not None)
            engines = passed_over(tiler.kernels(n), None, reasons)
            checks.append(LayerCheck(*head, None, reasons, passed_over=engines))
            continue
        engine = done.kernel.engine or CORES
        checks.append(
            LayerCheck(*head, done.kernel.name, done.rejections, engine, done.passed_over)
        )
    levels: Sequence[LevelUse] = ()
    if not problems:
        try:
            levels = place_network(tiler, ctx, budgets).placement.levels(ctx, budgets)
        except DoesNotFit as error:
            problems.append(error)
            tiled = tiler.tile_all()
            placement, _ = place_resident(graph, tiled, ctx, budgets, tiler.in_one_tile)
            levels = placement.levels(ctx, budgets)
    unsupported = [p for p in problems if isinstance(p, NotSupported)]
    first = (unsupported or problems or [None])[0]
    return CheckReport(
        supported=not unsupported,
        fits=None if unsupported else not problems,
        layers=tuple(checks),
        levels=tuple(levels),
        reason=first.message if first is not None else "",
        hint=first.hint if first is not None else "",
        notes=graph.notes,
    )
