"""The stages of the compiler: source -> Graph -> passes -> BoundGraph -> TiledGraph -> Plan.

Every stage is a pure function of the value before it and of a :class:`Setup` that all stages share.
Compiling, checking, comparing, testing and ``--dump-stages`` run this list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from dory_core.documents import json_text
from dory_core.driver.setup import Setup
from dory_core.errors import DoesNotFit, DoryError, NotSupported, UsageError
from dory_core.hardware.options import KEEP_CONSTANT_CHANNELS, STORAGE
from dory_core.hardware.target import DmaHal
from dory_core.ir import Graph
from dory_core.ir.text import graph_text
from dory_core.kernels.binding import BoundGraph, bind, bound_text
from dory_core.kernels.far_constants import spread_constants
from dory_core.passes import Pass, run_passes
from dory_core.passes.constant_channels import remove_constant_channels
from dory_core.passes.float_scales import integer_steps
from dory_core.passes.halves import choose_halves
from dory_core.passes.offsets import choose_offsets
from dory_core.passes.order import order_branches
from dory_core.passes.pools import join_pools
from dory_core.passes.storage import choose_storage, in_bytes
from dory_core.passes.sums import simplify_sums
from dory_core.passes.vectors import connect_vectors
from dory_core.plan import Plan
from dory_core.plan.budgets import check_tensors, memory_budgets
from dory_core.planning.planner import make_plan
from dory_core.planning.search import Trial, trials_text
from dory_core.plugins.frontend import Frontend, FrontendOptions
from dory_core.plugins.manager import Plugins
from dory_core.schedule.loops import Schedule
from dory_core.tiling.network import (
    TiledGraph,
    in_smaller_tiles,
    tile_graph,
    tiled_text,
)

#: Function that receives what the moves of the planner proposed.
Show = Callable[[tuple[Trial, ...]], None]
#: Of the cycles of a plan: where fully connected layers wait for less, none are planned in smaller
#: tiles.
LEAST_WAITS = 0.005
#: Of the cycles of a plan: what packed activations have to save in bytes, which take more memory.
LEAST_GAIN = 0.005


@dataclass(frozen=True, slots=True)
class Source:
    """A network file with its frontend and the options of the frontend."""

    path: Path
    frontend: str
    input_bits: int = 8
    input_signed: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the compiler.

    Attributes:
        name: Name of its result.
        gives: Type of its result.
        run: Pure function from the previous stage's result and the Setup to this stage's result.
    """

    name: str
    gives: str
    summary: str
    run: Callable[[Any, Setup], Any]


def parse(source: Source, plugins: Plugins) -> Graph:
    """Return the network as the frontend reads it; raises NotSupported or UsageError.

    When another frontend was chosen than the one that recognises the file, the error names that
    frontend and the problem that it has with the file.
    """
    frontend = plugins.frontend(source.frontend)
    options = FrontendOptions(source.input_bits, source.input_signed)
    try:
        return frontend.parse(source.path, options)
    except NotSupported as error:
        others = plugins.recognising(source.path)
        if not others or frontend in others:
            raise
        names = " or ".join(other.name for other in others)
        hint = f"it is a file for --frontend {names}, not for {frontend.name}"
        refusal = _refusal(others[0], source.path, options) if len(others) == 1 else None
        if refusal is not None:
            reason = f"--frontend {names} recognises the file and refuses it: {refusal.message}"
            hint = f"{reason}; {refusal.hint}" if refusal.hint else reason
        raise NotSupported(error.message, hint) from error


def _refusal(frontend: Frontend, path: Path, options: FrontendOptions) -> DoryError | None:
    """Return why a frontend does not read a file; None when it does."""
    try:
        frontend.parse(path, options)
    except DoryError as error:
        return error
    return None


def passes_of(setup: Setup) -> tuple[Pass, ...]:
    """Return all passes in order: the target's, and those of the core around them.

    Scales in binary32 become integers first, so that every pass sees integer steps. Channels with
    constant values are removed next, so that later passes see only channels that are computed.
    Storage is chosen late, because it depends on the kernels of the final layers; pools are joined
    later still, with layers that are what they are going to be. Raises DoryError when two passes
    have one name.
    """
    ctx = setup.ctx
    widths = ctx.memory.storage_bits
    multiple = ctx.memory.channel_multiple
    channels = Pass(
        "channels",
        "removes channels that have one value for every input",
        lambda graph: remove_constant_channels(graph, multiple, setup.kernels),
    )
    scales = Pass("scales", "turns scales in binary32 into integers", integer_steps)
    passes = (
        *(() if ctx.memory.keeps_binary32 else (scales,)),
        *(() if ctx.options.get(KEEP_CONSTANT_CHANNELS.name) else (channels,)),
        *setup.plugins.passes(ctx),
        Pass("sums", "rounds residual sums once instead of three times", simplify_sums),
        Pass(
            "vectors",
            "computes convolutions of one window as fully connected layers",
            lambda graph: connect_vectors(graph, setup.kernels),
        ),
        Pass(
            "storage",
            f"stores activations in {', '.join(map(str, widths))} bits",
            lambda graph: choose_storage(
                choose_offsets(graph, setup.kernels), widths, setup.kernels
            ),
        ),
        Pass(
            "halves",
            "stores sums of bytes as two bytes where kernels take them",
            lambda graph: choose_halves(graph, setup.kernels),
        ),
        Pass(
            "pools",
            "computes pools in the convolutions before them where kernels do both",
            lambda graph: join_pools(graph, setup.kernels),
            joins=True,
        ),
        Pass("order", "orders branches for the least memory", order_branches),
        Pass(
            "bytes",
            "stores packed activations in bytes where that is faster, or smaller, and fits",
            lambda graph: _better_in_bytes(graph, setup),
        ),
    )
    passes = tuple(step for step in passes if setup.joins or not step.joins)
    names = [step.name for step in passes]
    for name in names:
        if names.count(name) > 1:
            raise DoryError(f"target {ctx.name} has two passes named {name!r}")
    return passes


def widened(graph: Graph, setup: Setup) -> Graph | None:
    """Return a network with packed activations in bytes; None without any, or to keep them."""
    wide = in_bytes(graph, setup.ctx.memory.storage_bits)
    stays = setup.ctx.options.get(STORAGE.name) == "packed"
    return None if stays or wide is graph else wide


def _better_in_bytes(graph: Graph, setup: Setup) -> Graph:
    """Return a network with packed activations in bytes, where its plan is better then.

    It is faster, or where the least RAM is wanted, data and code take fewer bytes of L2.
    """
    wide = widened(graph, setup)
    if wide is None:
        return graph
    quiet = replace(setup, watch=None, progress=None)

    def cost(one: Graph) -> float:
        try:
            plan: Plan = run(one, quiet, after=PASSES)
        except (DoesNotFit, NotSupported):
            return inf
        if setup.objective != "ram":
            return plan.cycles
        return plan.code_bytes + next(one.used for one in plan.levels if one.name == "L2")

    return wide if cost(wide) < (1 - LEAST_GAIN) * cost(graph) else graph


def _import(source: Source, setup: Setup) -> Graph:
    return parse(source, setup.plugins)


def _passes(graph: Graph, setup: Setup) -> Graph:
    return run_passes(passes_of(setup), graph, setup.show)


def _bind(graph: Graph, setup: Setup) -> BoundGraph:
    check_tensors(graph, setup.ctx.memory, setup.budgets)
    memory, budgets = setup.ctx.memory, setup.budgets.bytes
    level = memory.constants_level
    room = memory_budgets(memory, level, budgets[level])[0]
    return spread_constants(bind(graph, setup.kernels), memory, room)


def _tile(bound: BoundGraph, setup: Setup) -> TiledGraph:
    return tile_graph(bound, setup.tiler, setup.budgets.bytes[1], setup.progress)


def _plan(tiled: TiledGraph, setup: Setup) -> Plan:
    """Return the plan, or a faster one with fully connected layers in smaller tiles."""
    best = _plan_in(tiled, setup, lambda trials: setup.show(MOVED, trials))
    tiler = setup.tiler
    vectors = (step for step in best.steps if step.layer.op.reads_vector)
    waits = sum(step.estimate.stall_cycles for step in vectors) > LEAST_WAITS * best.cycles
    if setup.objective not in ("heuristic", "cycles") or not waits:
        return best
    sizes = [size for size in setup.ctx.memory.smaller_l1 if size < setup.budgets.bytes[1]]
    tried = {_tiles(tiled)}
    for some in (*([size] for size in reversed(sizes)), sizes):
        small = in_smaller_tiles(tiled, tiler, some)
        if _tiles(small) in tried:
            continue
        tried.add(_tiles(small))
        try:
            best = min(best, _plan_in(small, setup), key=lambda plan: plan.cycles)
        except DoesNotFit:
            continue
    return best


def _tiles(tiled: TiledGraph) -> tuple[Schedule, ...]:
    return tuple(one.schedule for one in tiled.best)


def _plan_in(tiled: TiledGraph, setup: Setup, show: Show | None = None) -> Plan:
    hal = setup.plugins.dma_hal(setup.ctx)
    missing = _missing(setup, hal)
    return make_plan(
        setup.tilings(tiled),
        setup.ctx,
        setup.budgets,
        setup.frontend,
        hal,
        setup.prefix,
        missing,
        show,
        least=setup.objective == "ram",
    )


def _missing(setup: Setup, hal: DmaHal | None) -> str:
    """Return the parts of an application that the target lacks, empty when it has all."""
    lacks = []
    if hal is None or not hal.files:
        lacks.append("no HAL (dory_dma_hal returns no files)")
    if not setup.plugins.has_application(setup.ctx):
        lacks.append("no main program (dory_application)")
    target = setup.ctx.name
    return f"target {target} has {' and '.join(lacks)}: simulation alone" if lacks else ""


IMPORTED, PASSES, BOUND, TILED, PLAN = "imported", "passes", "bound", "tiled", "plan"

#: Name under which ``watch`` gets what the moves of the planner proposed, before the plan.
MOVED = "moves"

STAGES = (
    Stage(IMPORTED, "Graph", "the frontend reads the file", _import),
    Stage(PASSES, "Graph", "passes of target and core, each by its name", _passes),
    Stage(BOUND, "BoundGraph", "kernels that accept each layer, and layouts of tensors", _bind),
    Stage(TILED, "TiledGraph", "tilings of each layer in L1", _tile),
    Stage(PLAN, "Plan", "everything placed, operations in order", _plan),
)


def run(value: Any, setup: Setup, *, after: str = "", until: str = PLAN) -> Any:
    """Run the stages from ``after`` (excluded) to ``until`` (included); raises their errors.

    Args:
        value: The result of stage ``after``, or a :class:`Source` when ``after`` is empty.
        setup: The data that all stages share.
        after: Name of the stage that has run, empty for none.
        until: Name of the last stage to run.
    """
    names = [stage.name for stage in STAGES]
    start = names.index(after) + 1 if after else 0
    for stage in STAGES[start : names.index(until) + 1]:
        value = stage.run(value, setup)
        if stage.name != PASSES:
            setup.show(stage.name, value)
    return value


# -- results as text ----------------------------------------------------------------------------


def text_of(value: object) -> tuple[str, str]:
    """Return the file suffix and the text of the result of a stage."""
    if isinstance(value, Plan):
        return "json", json_text(value.to_json())
    if isinstance(value, BoundGraph):
        return "txt", bound_text(value)
    if isinstance(value, TiledGraph):
        return "txt", tiled_text(value)
    if isinstance(value, tuple):
        return "txt", trials_text(value)
    assert isinstance(value, Graph)
    return "txt", graph_text(value)


class Dump:
    """A ``Watch`` that writes one file for each result: ``NN_NAME.txt``, numbered in order."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    def __call__(self, name: str, value: Any) -> None:
        """Write a result. Raises: UsageError when that is not possible."""
        ending, text = text_of(value)
        path = self._directory / f"{self._count:02d}_{name}.{ending}"
        self._count += 1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"cannot write {path}: {error.strerror}", "choose another --dump-stages DIR"
            ) from error
