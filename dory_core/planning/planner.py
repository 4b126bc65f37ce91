"""From tiled layers to the Plan: everything in L2 when it fits, else streamed from the level below.

One sequence of parts, one set of blocks with lifetimes over its positions and one function that
makes steps of them serve both; ``ways`` has the decisions, this module places what they leave open:
constants, and tensors in the level below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dory_core.checks.contents import verify_contents
from dory_core.checks.verify import verify_bins, verify_packing
from dory_core.errors import DoesNotFit, DoryError
from dory_core.hardware.memories import Level
from dory_core.hardware.target import DmaHal, OutputFile, TargetContext
from dory_core.kernels.convert import conversion_files
from dory_core.plan import (
    DEFAULT_PREFIX,
    LayerStep,
    LayerWeights,
    OperandPlan,
    Place,
    Plan,
    Roofline,
    StatePlan,
)
from dory_core.plan.blocks import Block, Request, align_up, level_alignment, with_padding
from dory_core.plan.budgets import (
    Budgets,
    Code,
    check_code,
    for_simulation,
    least_functions,
    memory_budgets,
)
from dory_core.plan.code import program_bytes
from dory_core.plan.network import lower, lower_network
from dory_core.plan.operations import Program
from dory_core.planning.constants import L3_IMAGE, encode_chunks, table_bytes, table_size
from dory_core.planning.layouts import LayoutPlan
from dory_core.planning.memory_map import MemoryMap
from dory_core.planning.packing import plan_memory
from dory_core.planning.sequence import Fetch, Store
from dory_core.planning.ways import BELOW, HOME, Problem, Way
from dory_core.schedule.costs import link_name
from dory_core.schedule.loops import Schedule
from dory_core.schedule.moves import l1_dma, weight_unit
from dory_core.tiling.parts import Tilings
from dory_core.tiling.tiled import TiledLayer


@dataclass(frozen=True, slots=True)
class Planned:
    """The way in which a network runs, and where everything lies."""

    way: Way
    map: MemoryMap


#: What begins and ends a network, and what lies elsewhere once, runs functions beyond the least.
_MORE_FUNCTIONS = 8
#: Plans that are made, each beside the code of the one before.
_ATTEMPTS = 5


def place_network(
    tiling: Tilings, ctx: TargetContext, budgets: Budgets, any_core: bool
) -> tuple[Planned, Program]:
    """Place a network within the budgets; return where everything lies, and the operations.

    Constants and activations stay in L2 when they all fit; otherwise they are streamed from the
    next level, where the target has one. Code is counted as if each layer had its own; only where
    that leaves too little room is it asked how many functions the layers run: that is known when
    everything has its place. any_core: each core may start transfers between L2 and L1.

    Raises: NotSupported or DoesNotFit.
    """
    layers, least = len(tiling.graph.ops), least_functions(tiling.graph)
    code = Code(layers, layers, _kernel_bytes(tiling.best, ctx.memory.level(HOME)))
    try:
        return _linked(tiling, ctx, budgets, any_core, code)
    except DoesNotFit as error:
        functions = min(least + least // 2 + _MORE_FUNCTIONS, max(least, layers - 1))
        sharing = replace(code, functions=functions)
        if not _takes_less(sharing, code, ctx, budgets):
            raise
        refusal = error
    try:
        return _linked(tiling, ctx, budgets, any_core, sharing)
    except DoesNotFit as error:
        raise error from refusal


def _linked(
    tiling: Tilings, ctx: TargetContext, budgets: Budgets, any_core: bool, code: Code
) -> tuple[Planned, Program]:
    """Return a plan that fits beside its own code. code: what is taken for granted at first.

    The code of a plan is known when there is one. Where it is larger than was taken for granted,
    another plan is made beside that much.

    Raises: NotSupported or DoesNotFit.
    """
    level, alignment = ctx.memory.level(HOME), level_alignment(ctx.memory, HOME)
    for _ in range(_ATTEMPTS):
        planned = _placed(tiling, ctx, budgets, code)
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
    kernels = _kernel_bytes(planned.way.residency.tiled, level)
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
    """Return whether more of L2 is left to data beside ``one`` than beside the other."""
    ways = (False, True)
    left, least = (
        [l2_after_code(ctx, budgets, code, way).bytes[HOME] for way in ways]
        for code in (one, other)
    )
    return any(a > b for a, b in zip(left, least, strict=True))


def _placed(tiling: Tilings, ctx: TargetContext, budgets: Budgets, code: Code) -> Planned:
    """Place a network beside code. Raises: NotSupported or DoesNotFit."""
    within = l2_after_code(ctx, budgets, code)
    limits, name = within.bytes, tiling.graph.name
    problems = [Problem.of(tiling, ctx, within)]
    if problems[0].network.views.layers:
        # A block lives as long as any tensor in it: copies may need less memory.
        problems.append(Problem.of(tiling, ctx, within, views=False))
    refusals: list[DoesNotFit] = []
    for problem in problems:
        if problem.streams and problem.least_static() > limits[HOME]:
            continue
        planned = _planned(problem, problem.resident())
        found = planned.map
        constants_fit = found.static_bytes <= limits[found.static_level]
        if constants_fit and found.home_bytes <= limits[HOME] and not found.straddles:
            _verify(planned, problem)
            return planned
        if not problem.streams or (problem.linked_elsewhere and not constants_fit):
            refusals.append(found.too_large(name, problem.budgets))
    if refusals:
        raise _beside_code(refusals[0], ctx, budgets, code, streamed=False)
    check_code(ctx.memory.level(HOME), code, budgets, streamed=True)
    beside = l2_after_code(ctx, budgets, code, streamed=True)
    for problem in problems:
        problem = replace(problem, budgets=beside)
        try:
            planned = _planned(problem, problem.streamed())
        except DoesNotFit as error:
            refusals.append(error)
        else:
            _verify(planned, problem)
            return planned
    raise _beside_code(refusals[0], ctx, budgets, code, streamed=True)


def resident_map(tiling: Tilings, ctx: TargetContext, budgets: Budgets) -> MemoryMap:
    """Return where all would lie without transfers, whether it fits or not."""
    budgets = shared(tiling, ctx, budgets)
    graph = tiling.graph
    kernels = _kernel_bytes(tiling.best, ctx.memory.level(HOME))
    code = Code(len(graph.ops), least_functions(graph), kernels)
    within = l2_after_code(ctx, budgets, code)
    problem = Problem.of(tiling, ctx, within)
    return _planned(problem, problem.resident()).map


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


# -- what a way leaves open -------------------------------------------------------------------


def _planned(problem: Problem, way: Way) -> Planned:
    """Return a way with constants and the level below. Raises: DoesNotFit when that is too small.

    Whether the other levels are large enough is for the caller to see.
    """
    program, flow = way.program, problem.network.flow
    tables = _constants(problem, way)
    held = [(step, table) for step, table in zip(way.steps, tables, strict=True) if table]
    level = problem.ctx.memory.constants_level
    image = b"" if not any(way.chunks) else _image([table for _, table in held])
    below = _below(problem, way, len(image))
    places = {name: replace(at, offset=below.starts[name]) for name, at in way.below.items()}
    ends = {name: way.places[name] for name in flow.sinks if name in way.places}
    ends |= {n: way.places[f"{n}.back"] for n in flow.sinks if f"{n}.back" in way.places}

    def source(event: Fetch | Store) -> int:
        if isinstance(event, Store):
            return below.starts[event.tensor] + event.offset
        table = tables[event.layer] if event.layer >= 0 else None
        if table is None:
            return below.starts[event.source] + event.offset
        return table.offset + table.chunks[event.chunk].offset

    blocks = {HOME: tuple(_numbered(way)), BELOW: below.blocks}
    for step, table in held:
        block = Block(f"weights_{step.index:02d}", table.offset, table.size, -1, program.end - 1)
        blocks[table.level] = (*blocks.get(table.level, ()), block)
    states, tables_size = _states(problem, way, ends), problem.state_tables
    if tables_size:
        start = max((b.offset + b.size for b in blocks.get(level, ())), default=0)
        if level == HOME:
            start = max(start, way.peak)
        block = Block("initial state", align_up(start, 4), tables_size, -1, program.end - 1)
        blocks[level] = (*blocks.get(level, ()), block)
    return Planned(
        way,
        MemoryMap(
            steps=tuple(map(_completed, way.steps, tables, [places] * len(tables))),
            inputs=tuple(places.get(name) or way.places[name] for name in flow.inputs),
            outputs=tuple(places.get(name) or ends[name] for name in flow.outputs),
            timeline=way.timeline,
            home=HOME,
            peaks=tuple(packed.peak_bytes for packed in way.packings),
            blocks=blocks,
            static_level=level,
            static_bytes=tables_size + (0 if image else sum(table.size for _, table in held)),
            stack_bytes=way.memory.stack_bytes,
            packed_bytes=way.memory.packed_bytes,
            below_bytes=below.used_bytes,
            image=image,
            constants_apart=below.constants_apart,
            transfers=problem.transfers(program, way.places, source),
            straddles=way.straddles,
            final_conversions=way.final,
            states=states,
        ),
    )


def _states(problem: Problem, way: Way, ends: Mapping[str, Place]) -> tuple[StatePlan, ...]:
    """Return where state is found and left; first what is copied from elsewhere.

    A copy that moves bytes within its block comes last: others may read what it writes over.
    """
    names = (state.name for state in problem.tiling.graph.states)
    found = [
        StatePlan(name, way.places[read], ends[left], initial)
        for name, (read, left), initial in zip(
            names, problem.network.flow.states, problem.initial_state, strict=True
        )
    ]
    for state in found:
        if state.place.size_bytes != state.left.size_bytes:
            raise DoryError(
                f"state '{state.name}' is read as {state.place.size_bytes} B and left as"
                f" {state.left.size_bytes} B",
                "a pass gave its tensors different storage: this is a bug in it",
            )
    return tuple(sorted(found, key=lambda state: state.overlaps))


def _numbered(way: Way) -> Iterator[Block]:
    """Yield the blocks of home with the numbers of their memories."""
    for number, packed in enumerate(way.packings):
        for block in packed.blocks:
            yield replace(block, memory=number)


def _constants(problem: Problem, way: Way) -> tuple[LayerWeights | None, ...]:
    """Return the constants of each layer: linked, or in the level below to be fetched."""
    hierarchy, fetched = problem.ctx.memory, any(way.chunks)
    unit, link = weight_unit(hierarchy), problem.link
    chunk_unit = link.alignment_bytes if fetched and link is not None else 1
    level = BELOW if fetched else hierarchy.constants_level
    end, alignment = (0, level_alignment(hierarchy, BELOW)) if fetched else (0, 1)
    if level == HOME:
        end = way.peak
    tables: list[LayerWeights | None] = []
    for step, tiled, sizes in zip(way.steps, way.residency.tiled, way.chunks, strict=True):
        groups: dict[int, tuple[int, Schedule]] = {}
        for plan in step.parts:
            part = way.program.runs[plan.position].part
            groups.setdefault(part.group, (part.group_span[0], plan.schedule))
        loops = [groups[g] for g in sorted(groups)]
        chunks = encode_chunks(tiled, loops, unit, chunk_unit)
        assert not fetched or tuple(len(c.data) for c in chunks) == sizes
        if not chunks:
            tables.append(None)
            continue
        end = align_up(end, alignment)
        tables.append(LayerWeights(level, end, table_size(chunks), chunks, linked=not fetched))
        end += table_size(chunks)
    return tuple(tables)


def _image(tables: Sequence[LayerWeights]) -> bytes:
    """Return what the level below holds before the first inference."""
    image = bytearray(tables[-1].offset + tables[-1].size)
    for table in tables:
        image[table.offset : table.offset + table.size] = table_bytes(table)
    return bytes(image)


@dataclass(frozen=True, slots=True)
class _Below:
    """The level below home. starts: offsets of tensors. used_bytes: with constants, of which
    constants_apart bytes lie in a memory of their own."""

    starts: Mapping[str, int]
    blocks: tuple[Block, ...] = ()
    used_bytes: int = 0
    constants_apart: int = 0


def _below(problem: Problem, way: Way, constants: int) -> _Below:
    """Place tensors in the level below, behind bytes of constants. Raises: DoesNotFit."""
    if not way.program.l3_requests and not constants:
        return _Below({})
    hierarchy, budget = problem.ctx.memory, problem.budgets.bytes[BELOW]
    alignment = level_alignment(hierarchy, BELOW)
    assert problem.link is not None
    wanted = _together(way.program.l3_requests, problem.network.flow, problem.link.alignment_bytes)
    packed = plan_memory(wanted, alignment).chosen
    base = align_up(constants, alignment)
    used, apart = base + packed.peak_bytes, 0
    if used > budget and constants <= hierarchy.level(BELOW).read_only_bytes:
        apart = base
    if used - apart > budget:
        raise DoesNotFit(
            f"{problem.network.name} needs {used} B of L{BELOW}, {budget} B are available: "
            f"constants {constants} B, activations {packed.peak_bytes} B",
            f"raise --l{BELOW} to at least {used} if the chip has it, or make the network smaller;"
            f" {for_simulation(BELOW, used)}",
            used,
        )
    verify_packing(
        wanted,
        packed,
        alignment=alignment,
        capacity_bytes=budget - (base - apart),
        memory=f"L{BELOW}",
    )
    tensors = {request.name for request in way.program.l3_requests}
    blocks = tuple(replace(b, offset=base + b.offset) for b in packed.blocks if b.name in tensors)
    return _Below({b.name: b.offset for b in blocks}, blocks, used, apart)


def _together(requests: Sequence[Request], flow: LayoutPlan, unit: int) -> tuple[Request, ...]:
    """Return the requests for L3 with all network inputs as slices of one block, and all outputs.

    The caller writes and reads them there one after the other, from multiples of ``unit`` bytes.
    """
    left = {request.name: request for request in requests}
    joined = []
    for title, group in (("network inputs", flow.inputs), ("network outputs", flow.outputs)):
        mine = [left.pop(name) for name in group if name in left]
        size = 0
        for request in mine:
            joined.append(request._replace(within=title, at_bytes=size))
            size += align_up(request.size_bytes, unit)
        if mine:
            start, end = min(r.first for r in mine), max(r.last for r in mine)
            joined.append(Request(title, size, start, end))
    return (*joined, *left.values())


def _completed(
    step: LayerStep, weights: LayerWeights | None, below: Mapping[str, Place]
) -> LayerStep:
    """Return a step with its constants and with tensors of the level below in their places."""

    def moved(operand: OperandPlan) -> OperandPlan:
        if operand.place.level != BELOW:
            return operand
        return replace(operand, place=below[operand.place.tensor.name])

    inputs = tuple(moved(operand) for operand in step.inputs)
    return replace(step, weights=weights, inputs=inputs, output=moved(step.output))


def _verify(planned: Planned, problem: Problem) -> None:
    """Raise DoryError (a bug) unless blocks of home lie apart."""
    bins = problem.bins(planned.map.static_in(HOME))
    packings = {b.name: packed for b, packed in zip(bins, planned.way.packings, strict=False)}
    wanted = tuple(planned.way.program.requests.values())
    verify_bins(wanted, packings, bins)


# -- the Plan -----------------------------------------------------------------------------------


def make_plan(
    tiling: Tilings,
    ctx: TargetContext,
    budgets: Budgets,
    frontend: str,
    hal: DmaHal | None,
    prefix: str = DEFAULT_PREFIX,
    missing: str = "",
) -> Plan:
    """Return the Plan of a network. prefix: of its names in C. missing: as in the Plan.

    Raises: NotSupported or DoesNotFit.
    """
    graph = tiling.graph
    budgets = shared(tiling, ctx, budgets)
    any_core = hal is not None and hal.any_core
    planned, program = place_network(tiling, ctx, budgets, any_core and ctx.memory.cores > 1)
    found = planned.map
    arenas = memory_budgets(ctx.memory, HOME, budgets.bytes[HOME])
    if not any(found.peaks[1:]):
        arenas = arenas[:1]
    verify_contents(program, found.steps)
    arena_bytes = {1: budgets.bytes[1], HOME: arenas[0] - found.static_in(HOME)}
    if found.transfers:
        arena_bytes[BELOW] = budgets.bytes[BELOW] + found.constants_apart
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
        arena_bytes=arena_bytes,
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
    for tiled, step in zip(planned.way.residency.tiled, steps, strict=True):
        if not step.is_view:
            files += tiled.bound.sources
    if planned.map.conversions or not all(s.output.place.layout.is_hwc for s in steps):
        files += conversion_files()
    if planned.map.image:
        files.append(OutputFile(L3_IMAGE, planned.map.image))
    return tuple(files)
