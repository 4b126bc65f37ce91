"""From tiled layers to the Plan: everything in L2 when it fits, else streamed from the level below.

One sequence of parts, one set of blocks with lifetimes over its positions and one function that
makes steps of them serve both; ``ways`` has the decisions, this module places what they leave open:
constants, and tensors in the level below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dory_core.checks.contents import verify_contents
from dory_core.errors import DoesNotFit
from dory_core.hardware.memories import Level
from dory_core.hardware.target import DmaHal, OutputFile, TargetContext
from dory_core.kernels.convert import conversion_files
from dory_core.plan import (
    DEFAULT_PREFIX,
    Plan,
    Roofline,
)
from dory_core.plan.blocks import align_up, level_alignment, with_padding
from dory_core.plan.budgets import (
    Budgets,
    Code,
    check_code,
    least_functions,
    memory_budgets,
)
from dory_core.plan.code import program_bytes
from dory_core.plan.network import lower, lower_network
from dory_core.plan.network_operations import Program
from dory_core.planning.by_rows import refusal
from dory_core.planning.constants import L3_IMAGE
from dory_core.planning.decision import Decision
from dory_core.planning.evaluate import evaluate
from dory_core.planning.front import Executions, executions, fastest, price, shrunk, smallest, whole
from dory_core.planning.memory_map import MemoryMap
from dory_core.planning.moves import fused_chains
from dory_core.planning.moves.stream import streamed
from dory_core.planning.placement import Planned, placed, searched, verify_planned
from dory_core.planning.problem import BELOW, HOME, Problem, is_streamed
from dory_core.planning.search import Trial
from dory_core.schedule.costs import link_name
from dory_core.schedule.moves import l1_dma
from dory_core.tiling.parts import Tilings
from dory_core.tiling.tiled import TiledLayer

#: What begins and ends a network, and what lies elsewhere once, runs functions beyond the least.
_MORE_FUNCTIONS = 8
#: Plans that are made, each with room for the code of the one before. Five do not reach the plan
#: that has the input in the next level as well, where the first ones have only the output there.
_ATTEMPTS = 8


def place_network(
    tiling: Tilings, ctx: TargetContext, budgets: Budgets, any_core: bool, least: bool = False
) -> tuple[Planned, Program]:
    """Place a network within the budgets; return where everything lies, and the operations.

    Constants and activations stay in L2 when they all fit; otherwise they are streamed from the
    next level, where the target has one. Code is counted as if each layer had its own; only where
    that leaves too little room is it asked how many functions the layers run: that is known when
    everything has its place. any_core: each core may start transfers between L2 and L1. least: with
    as few bytes of L2 as possible, where the network is not streamed.

    Raises: NotSupported or DoesNotFit.
    """
    layers, fewest = len(tiling.graph.ops), least_functions(tiling.graph)
    code = Code(layers, layers, _kernel_bytes(tiling.best, ctx.memory.level(HOME)))
    try:
        return _linked(tiling, ctx, budgets, any_core, code, least)
    except DoesNotFit as error:
        functions = min(fewest + fewest // 2 + _MORE_FUNCTIONS, max(fewest, layers - 1))
        sharing = replace(code, functions=functions)
        if not _takes_less(sharing, code, ctx, budgets):
            raise
        refusal = error
    try:
        return _linked(tiling, ctx, budgets, any_core, sharing, least)
    except DoesNotFit as error:
        raise error from refusal


def _linked(
    tiling: Tilings,
    ctx: TargetContext,
    budgets: Budgets,
    any_core: bool,
    code: Code,
    least: bool,
) -> tuple[Planned, Program]:
    """Return a plan that fits together with its own code. code: what is taken for granted at first.

    The code of a plan is known when there is one. Where it is larger than was taken for granted,
    another plan is made with that much less room.

    Raises: NotSupported or DoesNotFit.
    """
    level, alignment = ctx.memory.level(HOME), level_alignment(ctx.memory, HOME)
    for _ in range(_ATTEMPTS):
        planned = _placed(tiling, ctx, budgets, code, least)
        program = _lower(planned.map, alignment, any_core)
        found = replace(code, functions=len(program.functions), measured=None)
        taken = code_bytes(planned, program, level, found.layers)
        needed = planned.map.home_bytes + taken
        if budgets.reason or needed <= level.usable_bytes - budgets.reserve:
            return planned, program
        code = replace(found, measured=max(taken, code.measured or 0))
    raise DoesNotFit(
        f"{code.text(level, bool(planned.map.transfers))}, its data {planned.map.home_bytes} B, "
        f"{level.usable_bytes - budgets.reserve} B are left to networks",
        code.hint(level, budgets),
    )


def code_bytes(planned: Planned, program: Program, level: Level, layers: int) -> int:
    """Return the bytes of code of a plan in the level of home, by the rule of the target."""
    kernels = _kernel_bytes(planned.candidate.residency.tiled, level)
    if level.code is not None:
        return kernels + program_bytes(program, planned.map.steps, level.code)
    code = Code(layers, len(program.functions), kernels)
    return code.bytes_in(level, bool(planned.map.transfers))


def _kernel_bytes(layers: Iterable[TiledLayer], level: Level) -> int:
    """Return the bytes of the kernels that layers call, which lie in a level."""
    if level.code is None:
        return 0
    called = {one.bound.symbol: one.bound for one in layers if not one.view}
    found, shared = 0, dict[str, int]()
    for symbol, bound in called.items():
        size = bound.code_bytes
        found += level.code.kernels.get(symbol, level.code.kernel) if size is None else size
        shared |= bound.shared_code
    return found + sum(shared.values())


def _takes_less(one: Code, other: Code, ctx: TargetContext, budgets: Budgets) -> bool:
    """Return True when one code leaves more of L2 to data than another."""
    ways = (False, True)
    left, least = (
        [l2_after_code(ctx, budgets, code, way).bytes[HOME] for way in ways]
        for code in (one, other)
    )
    return any(a > b for a, b in zip(left, least, strict=True))


def _placed(
    tiling: Tilings, ctx: TargetContext, budgets: Budgets, code: Code, least: bool
) -> Planned:
    """Place a network beside code. Raises: NotSupported or DoesNotFit."""
    within = l2_after_code(ctx, budgets, code)
    limits, name = within.bytes, tiling.graph.name
    problems = problems_of(tiling, ctx, within)
    if problems[0].network.by_rows:
        return _by_rows(problems, limits, least)
    refusals: list[DoesNotFit] = []
    fitting: list[tuple[Problem, Planned]] = []
    for problem in problems:
        if problem.streams and problem.least_static() > limits[HOME]:
            continue
        planned = searched(problem, evaluate(problem, whole(problem)))
        found = planned.map
        constants_fit = found.static_bytes <= limits[found.static_level]
        fits = constants_fit and found.home_bytes <= limits[HOME] and not found.straddles
        if fits and (problem.streams or not least):
            verify_planned(planned, problem)
            return planned
        if constants_fit and fused_chains.NAME not in problem.switched_off:
            most = limits[HOME] if problem.streams else None
            ways = executions(problem, most)
            chosen = smallest(problem, ways, limits[HOME]) if least else None
            chosen = chosen or fastest(problem, ways, limits[HOME])
            if chosen is not None:
                fitting.append((problem, chosen))
            elif not problem.streams:
                refusals.append(_too_large(problem, ways, name))
        elif not problem.streams or (problem.linked_elsewhere and not constants_fit):
            refusals.append(found.too_large(name, problem.budgets))
        if fits:
            fitting.append((problem, planned))
            break
    if refusals and not fitting:
        raise _beside_code(refusals[0], ctx, budgets, code, streamed=False)
    if problems[0].streams and not refusals:
        found_below = _below(problems, ctx, budgets, code, needed=not fitting)
        fitting += [] if found_below is None else [found_below]
    problem, planned = min(fitting, key=lambda one: price(one[1], least))
    verify_planned(planned, problem)
    return planned


def _by_rows(problems: Sequence[Problem], limits: Mapping[int, int], least: bool) -> Planned:
    """Place a network whose inputs or outputs pass by rows. Raises: NotSupported or DoesNotFit."""
    found: list[tuple[Problem, Planned]] = []
    for problem in problems:
        ways = executions(problem, limits[HOME] if problem.streams and not least else None)
        chosen = (smallest if least else fastest)(problem, ways, limits[HOME])
        if chosen is not None:
            found.append((problem, chosen))
    if not found:
        raise refusal(problems[-1], limits[HOME])
    problem, planned = min(found, key=lambda one: price(one[1], least))
    if planned.map.static_bytes > limits[planned.map.static_level]:
        raise planned.map.too_large(problem.network.name, problem.budgets)
    verify_planned(planned, problem)
    return planned


def _below(
    problems: Sequence[Problem], ctx: TargetContext, budgets: Budgets, code: Code, needed: bool
) -> tuple[Problem, Planned] | None:
    """Return the network as it is streamed from the level below, with its problem.

    Args:
        problems: The network with and without views.
        ctx: The target.
        budgets: Bytes of each level.
        code: What lies in home next to the data.
        needed: Whether there is no other plan.

    Raises:
        DoesNotFit: Where it is needed, and what passes through home has no room.
    """
    refusals: list[DoesNotFit] = []
    try:
        check_code(ctx.memory.level(HOME), code, budgets, streamed=True)
        left = l2_after_code(ctx, budgets, code, streamed=True)
        for problem in problems:
            problem = replace(problem, budgets=left)
            try:
                starts = streamed(problem)
            except DoesNotFit as error:
                refusals.append(error)
                continue
            ways, refused = _all_searched(problem, starts)
            refusals += refused
            if ways:
                return problem, min(ways, key=lambda one: one.map.timeline.cycles)
        raise _beside_code(refusals[0], ctx, budgets, code, streamed=True)
    except DoesNotFit:
        if needed:
            raise
    return None


def problems_of(tiling: Tilings, ctx: TargetContext, budgets: Budgets) -> list[Problem]:
    """Return the problem of a network; where it has views, also that without them."""
    problems = [Problem.of(tiling, ctx, budgets)]
    if problems[0].network.views.layers:
        # A block lives as long as any tensor in it: copies may need less memory.
        problems.append(Problem.of(tiling, ctx, budgets, views=False))
    return problems


def _too_large(problem: Problem, ways: Executions, name: str) -> DoesNotFit:
    """Return the error of a network of which no execution fits: what the smallest one needs."""
    needs_least = min(ways.candidates, key=lambda one: one.home_bytes)
    error = placed(problem, needs_least).map.too_large(name, problem.budgets)
    return DoesNotFit(
        error.message, f"{error.hint}; `dory check --least` tells more", error.needed_bytes
    )


def smaller_plans(
    tiling: Tilings,
    ctx: TargetContext,
    budgets: Budgets,
    any_core: bool,
    planned: Planned,
    program: Program,
) -> list[tuple[Planned, Program]]:
    """Return a plan of a network that may be streamed, and plans within ever smaller budgets.

    Args:
        tiling, ctx, budgets, any_core: As for :func:`place_network`.
        planned, program: What that returns.
    """

    def place(room: int) -> tuple[Planned, Program]:
        within = replace(budgets, bytes={**budgets.bytes, HOME: room})
        return place_network(tiling, ctx, within, any_core)

    return shrunk(place, lambda one: one[0].map.home_bytes, (planned, program))


def _all_searched(
    problem: Problem, starts: Iterable[Decision]
) -> tuple[list[Planned], list[DoesNotFit]]:
    """Return decisions after all moves, and the errors of those that do not fit."""
    found, refused = list[Planned](), list[DoesNotFit]()
    for start in starts:
        try:
            found.append(searched(problem, evaluate(problem, start)))
        except DoesNotFit as error:
            refused.append(error)
    return found, refused


def resident_map(tiling: Tilings, ctx: TargetContext, budgets: Budgets) -> MemoryMap:
    """Return where all would lie without transfers, whether it fits or not."""
    budgets = shared(tiling, ctx, budgets)
    graph = tiling.graph
    kernels = _kernel_bytes(tiling.best, ctx.memory.level(HOME))
    code = Code(len(graph.ops), least_functions(graph), kernels)
    within = l2_after_code(ctx, budgets, code)
    problem = Problem.of(tiling, ctx, within)
    return searched(problem, evaluate(problem, whole(problem))).map


def shared(tiling: Tilings, ctx: TargetContext, budgets: Budgets) -> Budgets:
    """Return the budgets with what scratch memory leaves of L2, where both are one memory."""
    if not ctx.memory.one_memory:
        return budgets
    alignment = level_alignment(ctx.memory, HOME)
    scratch = align_up(max(one.l1_bytes for one in tiling.best), alignment)
    left = {1: scratch, HOME: max(0, budgets.bytes[HOME] - scratch)}
    return replace(budgets, bytes={**budgets.bytes, **left})


def l2_after_code(
    ctx: TargetContext, budgets: Budgets, code: Code, streamed: bool = False
) -> Budgets:
    """Return the budgets with no more of L2 than the code of a network leaves.

    Budgets that the chip does not have stay as they are: nothing else will run with them.
    """
    level = ctx.memory.level(HOME)
    room = level.usable_bytes - budgets.reserve - code.bytes_in(level, streamed)
    if budgets.reason or budgets.bytes[HOME] <= room:
        return budgets
    return replace(budgets, bytes={**budgets.bytes, HOME: max(room, 0)})


def _beside_code(
    error: DoesNotFit, ctx: TargetContext, budgets: Budgets, code: Code, streamed: bool
) -> DoesNotFit:
    """Return the error, which says that code takes what is missing where this is so."""
    level = ctx.memory.level(HOME)
    beside = l2_after_code(ctx, budgets, code, streamed)
    too_large_without = error.needed_bytes is not None and error.needed_bytes > budgets.bytes[HOME]
    if level.name not in error.message or too_large_without or beside == budgets:
        return error
    return DoesNotFit(f"{error.message}; {code.text(level, streamed)}", code.hint(level, budgets))


# -- the Plan -----------------------------------------------------------------------------------


def make_plan(
    tiling: Tilings,
    ctx: TargetContext,
    budgets: Budgets,
    frontend: str,
    hal: DmaHal | None,
    prefix: str = DEFAULT_PREFIX,
    missing: str = "",
    show: Callable[[tuple[Trial, ...]], None] | None = None,
    least: bool = False,
) -> Plan:
    """Return the Plan of a network. prefix: of its names in C. missing: as in the Plan. show: is
    told what the moves proposed. least: the plan with the fewest bytes of L2, in place of the
    fastest.

    Raises: NotSupported or DoesNotFit.
    """
    graph = tiling.graph
    budgets = shared(tiling, ctx, budgets)
    any_core = hal is not None and hal.any_core
    several = any_core and ctx.memory.cores > 1
    planned, program = place_network(tiling, ctx, budgets, several, least)
    if least and is_streamed(ctx.memory):
        smaller = smaller_plans(tiling, ctx, budgets, several, planned, program)
        planned, program = smaller[-1]
    if show is not None:
        show(planned.trials)
    found = planned.map
    arenas = memory_budgets(ctx.memory, HOME, budgets.bytes[HOME])
    if not any(found.peaks[1:]):
        arenas = arenas[:1]
    verify_contents(program, found.steps)
    return Plan(
        target=ctx.name,
        frontend=frontend,
        network=graph.name,
        prefix=prefix,
        reference=graph.reference,
        options=ctx.options,
        steps=found.steps,
        inputs=found.inputs,
        outputs=found.outputs,
        levels=found.levels(ctx, budgets),
        arena_bytes=_arena_bytes(found, budgets, arenas[0]),
        static_bytes={found.static_level: found.static_bytes},
        cores=ctx.memory.cores,
        any_core=any_core,
        dma_tickets=hal.tickets if hal is not None else 0,
        dma=l1_dma(ctx.memory),
        ext=ctx.memory.link(HOME) if found.transfers else None,
        files=_files(planned, hal),
        transfers=found.transfers,
        final_conversions=found.final_conversions,
        states=found.states,
        more_l2_bytes=arenas[1:],
        arena_used=found.peaks[0],
        constants_apart=found.constants_apart,
        program=program,
        code_bytes=code_bytes(planned, program, ctx.memory.level(HOME), len(graph.ops)),
        timeline=found.timeline,
        roofline=_roofline(ctx),
        operating_point=ctx.operating_point,
        reason=budgets.reason,
        missing=missing,
        notes=graph.notes,
    )


def _arena_bytes(found: MemoryMap, budgets: Budgets, first: int) -> dict[int, int]:
    """Return the bytes that the caller hands over of each level; first: of home's first memory."""
    sizes = {1: budgets.bytes[1], HOME: first - found.static_in(HOME)}
    if found.transfers:
        sizes[BELOW] = budgets.bytes[BELOW] + found.constants_apart
    return sizes


def _lower(found: MemoryMap, alignment: int, any_core: bool) -> Program:
    """Return the operations of a network with everything in its place.

    alignment: of blocks of home.
    """
    operations = lower_network(
        found.steps,
        found.transfers,
        found.inputs,
        found.outputs,
        found.final_conversions,
        with_padding(found.blocks[HOME], alignment),
        found.states,
    )
    return lower(found.steps, operations, any_core)


def _roofline(ctx: TargetContext) -> Roofline:
    links = {link_name(link): link.bytes_per_cycle for link in ctx.memory.links}
    return Roofline(ctx.memory.peak_macs_per_cycle, links, dict(ctx.memory.engine_peaks))


def _files(planned: Planned, hal: DmaHal | None) -> tuple[OutputFile, ...]:
    files: list[OutputFile] = list(hal.files) if hal is not None else []
    steps = planned.map.steps
    for tiled, step in zip(planned.candidate.residency.tiled, steps, strict=True):
        if not step.is_view:
            files += tiled.bound.sources
    if planned.map.conversions or not all(s.output.place.layout.is_hwc for s in steps):
        files += conversion_files()
    if planned.map.image:
        files.append(OutputFile(L3_IMAGE, planned.map.image))
    return tuple(files)
