"""Does a network import, which kernels compute it, and does it fit: ``dory check``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dory_core.documents import row
from dory_core.driver.compiler import CompileOptions, make_vectors, with_vectors
from dory_core.driver.pipeline import IMPORTED, PASSES, TILED, parse, passes_of, run
from dory_core.driver.setup import Setup
from dory_core.errors import DoesNotFit, NotSupported
from dory_core.golden.layers import GoldenReport
from dory_core.ir.channels import removed_text
from dory_core.kernels.binding import CORES, BoundLayer, EngineRejection, KernelRejection
from dory_core.plan import LevelUse
from dory_core.plan.budgets import Code, least_functions
from dory_core.planning.fitting import resident_plan
from dory_core.planning.problem import HOME
from dory_core.plugins.manager import Plugins
from dory_core.tiling.network import TiledGraph
from dory_core.tiling.tiled import LayerTilings

if TYPE_CHECKING:
    from dory_core.golden.desktop import DesktopReport


@dataclass(frozen=True, slots=True)
class LayerCheck:
    """The check of one layer.

    Attributes:
        kernel: Name of the kernel that computes the layer, None when none does or without a target.
        engine: Engine of that kernel.
        passed_over: Engines that were preferred, each with the reason why it does not compute the
            layer.
        removed: Channels of the output that are not computed, with their values
            (``Tensor.removed``).
    """

    index: int
    node: str
    op: str
    kernel: str | None = None
    rejections: tuple[KernelRejection, ...] = ()
    engine: str | None = None
    passed_over: tuple[EngineRejection, ...] = ()
    removed: tuple[tuple[int, int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """How a file was read.

    Attributes:
        frontend: Name of the frontend.
        summary: Its line for the user.
        dist: Distribution that provides it.
        version: Version of the distribution.
    """

    frontend: str
    summary: str
    dist: str
    version: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of ``dory check``.

    Attributes:
        fits: True when memory suffices; None without a target or for an unsupported network.
        reason: The first problem, empty without one.
        hint: What the user can change, empty when there is nothing to suggest.
        format: How the file was read; None when no file was read.
        desktop: Differences of desktop interpreters, None unless they were asked for.
        golden: Layers that goldens confirmed, None without a golden.
        code_bytes: Bytes of layer functions by level, in addition to ``used``; a lower bound when
            the network does not fit.
    """

    supported: bool
    fits: bool | None
    layers: tuple[LayerCheck, ...] = ()
    levels: tuple[LevelUse, ...] = ()
    reason: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    format: Format | None = None
    desktop: DesktopReport | None = None
    golden: GoldenReport | None = None
    code_bytes: tuple[tuple[str, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory check --json``."""
        columns = ("frontend", "summary", "dist", "version")
        return {
            "format": None if self.format is None else row(self.format, *columns),
            **row(self, "supported", "fits"),
            "layers": [
                {
                    **row(layer, "index", "node", "op", "kernel"),
                    "rejections": [
                        row(r, "kernel", "reason", "other_kind") for r in layer.rejections
                    ],
                    "engine": layer.engine,
                    "passed_over": [row(p, "engine", "reason") for p in layer.passed_over],
                    "removed": removed_text(layer.removed),
                }
                for layer in self.layers
            ],
            "levels": [
                {
                    **row(level, "name", "used", "budget", "dominant"),
                    "code": dict(self.code_bytes).get(level.name, 0),
                }
                for level in self.levels
            ],
            **row(self, "reason", "hint", "notes"),
            **({} if self.desktop is None else {"desktop": self.desktop.to_json()}),
            "golden": None if self.golden is None else self.golden.to_json(),
        }


def check_network(options: CompileOptions, plugins: Plugins) -> CheckReport:
    """Import the network and, with a target, bind, tile and place it; write nothing.

    The report has all other problems of the network, for every layer and not only the first.

    Args:
        options: File, target and budgets.
        plugins: Plugins that provide frontend and target.

    Raises:
        UsageError: For a missing file or unknown names.
        VerificationFailed: When the network differs from a golden.
    """
    frontend = plugins.frontend(options.frontend)
    provider = plugins.provider("frontend", frontend.name)
    read_as = Format(frontend.name, frontend.summary, provider.dist, provider.version)
    return replace(_checked(options, plugins), format=read_as)


def _checked(options: CompileOptions, plugins: Plugins) -> CheckReport:
    layers: tuple[LayerCheck, ...] = ()
    notes: tuple[str, ...] = ()
    golden: GoldenReport | None = None
    try:
        if not options.target:
            graph = parse(options.source, plugins)
            layers = tuple(LayerCheck(n.index, n.name, n.kind) for n in graph.ops)
            golden = make_vectors(graph, options.golden)[1] if options.golden else None
            return CheckReport(True, None, layers, notes=graph.notes, golden=golden)
        setup = options.setup(plugins)
        imported = run(options.source, setup, until=IMPORTED)
        graph = run(imported, setup, after=IMPORTED, until=PASSES)
        layers = tuple(LayerCheck(n.index, n.name, n.kind) for n in imported.ops)
        if options.golden or not all(step.exact for step in passes_of(setup)):
            graph, _, golden = with_vectors(imported, graph, options, setup)
        notes = graph.notes
        tiled = run(graph, setup, after=PASSES, until=TILED)
    except NotSupported as error:
        return CheckReport(False, None, layers, (), error.message, error.hint, notes)
    except DoesNotFit as error:
        return CheckReport(True, False, layers, (), error.message, error.hint, notes, golden=golden)
    return replace(check_tiled(tiled, setup, notes), golden=golden)


def check_tiled(tiled: TiledGraph, setup: Setup, notes: tuple[str, ...]) -> CheckReport:
    """Return the report of a tiled network: its memory, or what is too large.

    Args:
        tiled: The network.
        setup: Target, budgets and objective.
        notes: Notes of the import.
    """
    checks = tuple(
        _layer_check(bound, tilings)
        for bound, tilings in zip(tiled.bound.layers, tiled.layers, strict=True)
    )
    problems = list(tiled.problems)
    levels: Sequence[LevelUse] = ()
    code = least = Code(len(checks), least_functions(tiled.graph))
    if not problems:
        try:
            plan = run(tiled, setup, after=TILED)
            levels = plan.levels
            code = replace(code, measured=plan.code_bytes)
        except DoesNotFit as error:
            problems.append(error)
            ctx, budgets = setup.ctx, setup.budgets
            levels = resident_plan(setup.tilings(tiled), ctx, budgets).levels(ctx, budgets)
    unsupported = [p for p in problems if isinstance(p, NotSupported)]
    first = (unsupported or problems or [None])[0]
    return CheckReport(
        supported=not unsupported,
        fits=None if unsupported else not problems,
        layers=checks,
        levels=tuple(levels),
        reason=first.message if first is not None else "",
        hint=first.hint if first is not None else "",
        notes=notes,
        code_bytes=tuple(
            (one.name, (code if one.number == HOME else least).bytes_in(one, streamed=False))
            for one in setup.ctx.memory.levels
        ),
    )


def _layer_check(bound: BoundLayer, tilings: LayerTilings) -> LayerCheck:
    op = bound.layer.op
    head, removed = (op.index, op.name, op.kind), bound.layer.output.removed
    if tilings.problem is not None:
        engines = bound.passed_over(None, bound.rejections)
        return LayerCheck(*head, None, bound.rejections, passed_over=engines, removed=removed)
    best = tilings.best
    engine = best.kernel.engine or CORES
    return LayerCheck(*head, best.kernel.name, best.rejections, engine, best.passed_over, removed)
