"""How little L2 a network needs, and what that costs: ``dory check --least``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dory_core.documents import row
from dory_core.driver.compiler import CompileOptions
from dory_core.driver.pipeline import PASSES, TILED, run, widened
from dory_core.driver.setup import Setup
from dory_core.errors import DoesNotFit, DoryError, NotSupported
from dory_core.ir import Graph
from dory_core.plan.budgets import Budgets, Code, least_functions, resolve_budgets
from dory_core.planning.chains.by_rows import refusal
from dory_core.planning.chains.paths import Chain
from dory_core.planning.code_room import l2_after_code, shared
from dory_core.planning.evaluate import evaluate
from dory_core.planning.fitting import Fitted, place_network, problems_of
from dory_core.planning.front.plans import executions, front, not_dominated, price, whole
from dory_core.planning.front.relief import Change, binding, changes
from dory_core.planning.front.streamed import Streamed
from dory_core.planning.placement import placed
from dory_core.planning.planned import Planned
from dory_core.planning.problem import HOME, Problem, is_streamed
from dory_core.plugins.manager import Plugins
from dory_core.tiling.network import TiledGraph

#: Bytes of L2 that every network fits, while tiles are searched.
_UNLIMITED = 1 << 31


@dataclass(frozen=True, slots=True)
class RamPoint:
    """A plan of the front.

    Attributes:
        l2_bytes: Bytes of data in L2: the least ``--l2`` that has the plan.
        code_bytes: Bytes of code in L2, by the rule of the target; 0 where code lies elsewhere.
        l1_bytes: Bytes of L1 that it uses.
        cycles: Estimated cycles of one inference.
        fits: Whether it fits the budget.
        first, last: Indices of the layer, or of the first and the last layer of the fused chain,
            that needs most of L2.
        rows: Rows of a stripe of that layer; 0 outside a chain.
        live_bytes: Bytes that are live then.
        block, block_bytes: The largest block that is live then.
    """

    l2_bytes: int
    code_bytes: int
    l1_bytes: int
    cycles: int
    fits: bool
    first: int
    last: int
    rows: int
    live_bytes: int
    block: str
    block_bytes: int


@dataclass(frozen=True, slots=True)
class RamFront:
    """Plans of a network of which none needs both fewer bytes and fewer cycles than another one.

    Bytes are those of data and code. Where none of these plans fits, there is one more that has
    less data, and more code.

    Attributes:
        network, target: Their names.
        l2_budget: Bytes of L2 for the network: those that were asked for, else those of the chip.
        points: The plans, from the fastest to the smallest.
        changes: Changes of the network that would each make it fit; empty when it fits.
        layers: Names of the layers by index.
    """

    network: str
    target: str
    l2_budget: int
    points: tuple[RamPoint, ...]
    changes: tuple[Change, ...]
    layers: dict[int, str]

    @property
    def fits(self) -> bool:
        """Whether any of the plans fits the budget."""
        return any(point.fits for point in self.points)

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``dory check --least --json``."""
        names = ("l2_bytes", "code_bytes", "l1_bytes", "cycles", "fits", "first", "last", "rows")
        return {
            **row(self, "network", "target", "fits", "l2_budget"),
            "points": [
                {
                    **row(point, *names, "live_bytes", "block", "block_bytes"),
                    "layer": self.layers.get(point.first, ""),
                }
                for point in self.points
            ],
            "changes": [row(one, "kind", "text", "bytes", "macs") for one in self.changes],
        }


def front_network(options: CompileOptions, plugins: Plugins) -> RamFront:
    """Return the front of a network for a target; write nothing.

    Args:
        options: File, target and budgets.
        plugins: Plugins that provide frontend and target.

    Raises:
        UsageError: For a missing file or unknown names.
        NotSupported: The network cannot be computed.
        DoesNotFit: No plan fits the target, however little L2 it uses.
    """
    setup = options.setup(plugins)
    budgets = {**options.budgets, HOME: _UNLIMITED}
    unlimited = replace(setup, budgets=resolve_budgets(setup.ctx.memory, budgets))
    packed: Graph = run(options.source, unlimited.packed, until=PASSES)

    found, refusals = list[RamFront](), list[DoryError]()
    for graph in (packed, widened(packed, setup)):
        if graph is None:
            continue
        try:
            tiled: TiledGraph = run(graph, unlimited, after=PASSES, until=TILED)
            found.append(front_of(tiled, setup))
        except (DoesNotFit, NotSupported) as error:
            refusals.append(error)
    if not found:
        raise refusals[0]
    if len(found) == 1:
        return found[0]
    points = (point for one in found for point in one.points)
    best = not_dominated(points, lambda one: (one.cycles, one.l2_bytes + one.code_bytes))
    return replace(found[0], points=tuple(best))


def front_of(tiled: TiledGraph, setup: Setup) -> RamFront:
    """Return the front of a tiled network. Raises: as :func:`front_network`."""
    refused = [one for one in tiled.problems if isinstance(one, NotSupported)]
    if refusals := (*refused, *tiled.problems):
        raise refusals[0]
    streamed = is_streamed(setup.ctx.memory)
    found = _streamed_front(tiled, setup) if streamed else _resident_front(tiled, setup)
    points = tuple(one for one, *_ in found)
    wanted = tuple[Change, ...]()
    if not any(point.fits for point in points):
        last, problem, planned, edges = found[-1]
        beside = last.l2_bytes - planned.home_bytes
        wanted = changes(problem, planned, setup.budgets.bytes[HOME] - beside, edges)
    return RamFront(
        tiled.graph.name,
        setup.ctx.name,
        setup.budgets.bytes[HOME],
        points,
        wanted,
        {layer.op.index: f"{layer.op.kind} '{layer.op.name}'" for layer in tiled.graph.layers},
    )


#: A plan with the problem that it solves, and the chains of which it may be made.
_Solved = tuple[RamPoint, Problem, Planned, tuple[Chain, ...]]


def _resident_front(tiled: TiledGraph, setup: Setup) -> list[_Solved]:
    """Return the front of a network whose constants and tensors stay where they are."""
    ctx, tiling = setup.ctx, setup.tilings(tiled)
    chip = _whole_chip(setup)
    within = shared(tiling, ctx, chip)
    scratch = chip.bytes[HOME] - within.bytes[HOME]
    code = Code(len(tiled.layers), least_functions(tiled.graph))
    room = l2_after_code(ctx, shared(tiling, ctx, setup.budgets), code).bytes[HOME]
    problems = problems_of(tiling, ctx, l2_after_code(ctx, within, code))
    found = placed(problems[0], evaluate(problems[0], whole(problems[0])))
    if found.static_level != HOME and found.static_bytes > within.bytes[found.static_level]:
        raise found.too_large(tiled.graph.name, within, ctx.memory)
    solved: list[tuple[Problem, Planned, tuple[Chain, ...]]] = []
    for problem in problems:
        ways = executions(problem)
        for planned in front(problem, ways):
            solved.append((problem, planned, ways.edges))
        if not solved and problem.network.by_rows:
            raise refusal(problem, problem.budgets.bytes[HOME])
    plans = not_dominated((planned for _, planned, _ in solved), price)
    points = [next(one for one in solved if one[1] is planned) for planned in plans]
    taken = code.bytes_in(ctx.memory.level(HOME), streamed=False)
    return [(_point(one[0], one[1], scratch, taken, room), *one) for one in points]


def _streamed_front(tiled: TiledGraph, setup: Setup) -> list[_Solved]:
    """Return the front of a network that may be streamed."""
    ctx, tiling, chip = setup.ctx, setup.tilings(tiled), _whole_chip(setup)
    hal = setup.plugins.dma_hal(ctx)
    any_core = hal is not None and hal.any_core and ctx.memory.cores > 1
    first = place_network(tiling, ctx, chip, any_core)
    ways = Streamed.of(tiling, ctx, chip, any_core)
    plans = not_dominated(ways.front(first), lambda one: (one.cycles, one.l2_bytes))
    problem, room = ways.problems[0], setup.budgets.bytes[HOME]
    if all(one.planned.home_bytes > room for one in plans):
        plans.append(_within(ways, room, first))
    return [
        (_point(problem, one.planned, 0, one.code_bytes, room), problem, one.planned, ())
        for one in plans
    ]


def _within(ways: Streamed, room: int, first: Fitted) -> Fitted:
    """Return the fastest plan within some bytes of L2; without one, that with the least data."""
    try:
        return ways.place(room)
    except DoesNotFit:
        return ways.least_data(first)


def _whole_chip(setup: Setup) -> Budgets:
    """Return the budgets with all of L2 that the chip leaves to networks."""
    usable = setup.ctx.memory.level(HOME).usable_bytes - setup.budgets.reserve
    most = max(usable, setup.budgets.bytes[HOME])
    return replace(setup.budgets, bytes={**setup.budgets.bytes, HOME: most})


def _point(
    problem: Problem, planned: Planned, scratch: int, code_bytes: int, room: int
) -> RamPoint:
    """Return a plan as a point of the front.

    Args:
        problem: The problem that it solves.
        planned: The plan.
        scratch: Bytes of L2 that kernels work in.
        code_bytes: Bytes of its code there.
        room: Bytes of L2 that are left to it.
    """
    bound = binding(problem, planned)
    return RamPoint(
        l2_bytes=planned.home_bytes + scratch,
        code_bytes=code_bytes,
        l1_bytes=max(step.l1_bytes for step in planned.steps),
        cycles=planned.cycles,
        fits=planned.home_bytes <= room and not planned.candidate.straddles,
        first=bound.first,
        last=bound.last,
        rows=bound.rows,
        live_bytes=bound.bytes,
        block=bound.block,
        block_bytes=bound.block_bytes,
    )
