"""Places of what a candidate leaves open: constants, and tensors in L3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dory_core.checks.verify import verify_bins, verify_packing
from dory_core.errors import DoesNotFit
from dory_core.plan import LayerStep, LayerWeights, OperandPlan, Place
from dory_core.plan.block_ids import BlockId, BlockKind, table_id
from dory_core.plan.blocks import Block, Request, align_up, level_alignment
from dory_core.plan.budgets import for_simulation, memory_budgets
from dory_core.planning.constants import encode_chunks, table_bytes, table_size
from dory_core.planning.evaluate import Candidate, passing
from dory_core.planning.layouts import LayoutPlan
from dory_core.planning.moves import tried
from dory_core.planning.packing.one_memory import plan_memory
from dory_core.planning.planned import Planned
from dory_core.planning.problem import BELOW, HOME, Problem
from dory_core.planning.search import improved
from dory_core.planning.sequence.part_sequence import Fetch, Store
from dory_core.planning.sequence.transfers import transfers
from dory_core.planning.states import ends_of
from dory_core.schedule.copies import weight_unit
from dory_core.schedule.loops import Schedule


def searched(problem: Problem, start: Candidate) -> Planned:
    """Return a first candidate after all moves, with everything in its place."""
    best, trials = improved(problem, start, tried(problem.switched_off))
    return replace(placed(problem, best), trials=trials)


def placed(problem: Problem, candidate: Candidate) -> Planned:
    """Return a way with constants and the level below.

    Whether the other levels are large enough is for the caller to see.

    Args:
        problem: The network.
        candidate: The way.

    Raises:
        DoesNotFit: When the level below is too small.
    """
    program, flow = candidate.program, problem.network.flow
    tables = _constants(problem, candidate)
    held = [(step, table) for step, table in zip(candidate.steps, tables, strict=True) if table]
    image = b"" if not any(candidate.chunks) else _image([table for _, table in held])
    linked = 0 if image else sum(table.size for _, table in held)
    below = _below(problem, candidate, len(image))
    places = {name: replace(at, offset=below.starts[name]) for name, at in candidate.below.items()}
    in_rows = {
        name: passing(problem, name, candidate.places)
        for name in (*flow.inputs, *flow.outputs)
        if name in candidate.decision.fused
    }
    ends = ends_of(flow, candidate.places)

    def source(event: Fetch | Store) -> int:
        if isinstance(event, Store):
            return below.starts[event.tensor] + event.offset
        table = tables[event.layer] if event.layer >= 0 else None
        if table is None:
            return below.starts[event.source] + event.offset
        return table.offset + table.chunks[event.chunk].offset

    return Planned(
        candidate=candidate,
        steps=tuple(map(_completed, candidate.steps, tables, [places] * len(tables))),
        inputs=tuple(
            places.get(name) or in_rows.get(name) or candidate.places[BlockId(name)]
            for name in flow.inputs
        ),
        outputs=tuple(places.get(n) or in_rows.get(n) or ends[n] for n in flow.outputs),
        blocks=_blocks(problem, candidate, below, held),
        static_level=problem.ctx.memory.constants_level,
        static_bytes=problem.state_tables + linked,
        below_bytes=below.used_bytes,
        image=image,
        constants_apart=below.constants_apart,
        transfers=transfers(problem.link, program, candidate.places, source),
    )


def _blocks(
    problem: Problem,
    candidate: Candidate,
    below: _Below,
    held: Sequence[tuple[LayerStep, LayerWeights]],
) -> dict[int, tuple[Block, ...]]:
    """Return the blocks of each level, with the tables of constants and of initial state.

    Args:
        problem: The network.
        candidate: The way.
        below: Where tensors lie in the level below.
        held: The layers that have constants, and their tables.
    """
    end, level = candidate.program.end - 1, problem.ctx.memory.constants_level
    blocks = {HOME: tuple(_numbered(candidate)), BELOW: below.blocks}
    for step, table in held:
        block = Block(table_id(step.index), table.offset, table.size, -1, end, int(table.far))
        blocks[table.level] = (*blocks.get(table.level, ()), block)
    if problem.state_tables:
        near = (b for b in blocks.get(level, ()) if level == HOME or b.memory == 0)
        start = max((b.offset + b.size for b in near), default=0)
        if level == HOME:
            start = max(start, candidate.peak)
        state = BlockId("initial state", BlockKind.STATE)
        block = Block(state, align_up(start, 4), problem.state_tables, -1, end)
        blocks[level] = (*blocks.get(level, ()), block)
    return blocks


def _numbered(candidate: Candidate) -> Iterator[Block]:
    """Yield the blocks of home with the numbers of their memories."""
    for number, packed in enumerate(candidate.packings):
        for block in packed.blocks:
            yield replace(block, memory=number)


def _constants(problem: Problem, candidate: Candidate) -> tuple[LayerWeights | None, ...]:
    """Return the constants of each layer: linked, or in the level below to be fetched."""
    hierarchy, fetched = problem.ctx.memory, any(candidate.chunks)
    unit, link = weight_unit(hierarchy), problem.link
    chunk_unit = link.alignment_bytes if fetched and link is not None else 1
    level = BELOW if fetched else hierarchy.constants_level
    end, alignment = (0, level_alignment(hierarchy, BELOW)) if fetched else (0, 1)
    if level == HOME:
        end = candidate.peak
    room = memory_budgets(hierarchy, level, problem.budgets.bytes[level])[0]
    ends = [end, 0]
    tables: list[LayerWeights | None] = []
    for step, tiled, sizes in zip(
        candidate.steps, candidate.residency.tiled, candidate.chunks, strict=True
    ):
        groups: dict[int, tuple[int, Schedule]] = {}
        for plan in step.parts:
            part = candidate.program.runs[plan.position].part
            groups.setdefault(part.group, (part.group_span[0], plan.schedule))
        loops = [groups[g] for g in sorted(groups)]
        chunks = encode_chunks(tiled, loops, unit, chunk_unit)
        assert not fetched or tuple(len(c.data) for c in chunks) == sizes
        if not chunks:
            tables.append(None)
            continue
        size = table_size(chunks)
        # Tables of tiles may be longer than those of layers: what is left over lies far as well.
        over = ends[0] + size > room - problem.state_tables
        far = hierarchy.far_link is not None and (tiled.bound.far_constants or over)
        start = align_up(ends[far], alignment)
        tables.append(LayerWeights(level, start, size, chunks, not fetched, far))
        ends[far] = start + size
    return tuple(tables)


def _image(tables: Sequence[LayerWeights]) -> bytes:
    """Return the bytes of the level below before the first inference."""
    image = bytearray(tables[-1].offset + tables[-1].size)
    for table in tables:
        image[table.offset : table.offset + table.size] = table_bytes(table)
    return bytes(image)


@dataclass(frozen=True, slots=True)
class _Below:
    """The level below home.

    Attributes:
        starts: Offsets of tensors, in bytes.
        blocks: Those of tensors.
        used_bytes: Bytes with constants.
        constants_apart: Bytes of these that lie in a memory of their own.
    """

    starts: Mapping[str, int]
    blocks: tuple[Block, ...] = ()
    used_bytes: int = 0
    constants_apart: int = 0


def _below(problem: Problem, candidate: Candidate, constants: int) -> _Below:
    """Place tensors in the level below, after bytes of constants.

    Raises:
        DoesNotFit: When the level is too small.
    """
    if not candidate.program.l3_requests and not constants:
        return _Below({})
    hierarchy, budget = problem.ctx.memory, problem.budgets.bytes[BELOW]
    alignment = level_alignment(hierarchy, BELOW)
    assert problem.link is not None
    wanted = _together(
        candidate.program.l3_requests, problem.network.flow, problem.link.alignment_bytes
    )
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
    own = {request.id for request in candidate.program.l3_requests}
    blocks = tuple(replace(b, offset=base + b.offset) for b in packed.blocks if b.id in own)
    return _Below({b.id.tensor: b.offset for b in blocks}, blocks, used, apart)


def _together(requests: Sequence[Request], flow: LayoutPlan, unit: int) -> tuple[Request, ...]:
    """Return the requests for L3 with all network inputs as slices of one block, and all outputs.

    The caller writes and reads them there one after the other, from multiples of ``unit`` bytes.
    """
    left = {request.id.tensor: request for request in requests}
    joined = []
    for title, group in (("network inputs", flow.inputs), ("network outputs", flow.outputs)):
        mine = [left.pop(name) for name in group if name in left]
        border, size = BlockId(title, BlockKind.BORDER), 0
        for request in mine:
            joined.append(request._replace(within=border, at_bytes=size))
            size += align_up(request.size_bytes, unit)
        if mine:
            start, end = min(r.first for r in mine), max(r.last for r in mine)
            joined.append(Request(border, size, start, end))
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


def verify_planned(planned: Planned, problem: Problem) -> None:
    """Raise DoryError (a bug) unless blocks of home lie apart."""
    bins = problem.bins(planned.static_in(HOME))
    packings = {b.name: packed for b, packed in zip(bins, planned.candidate.packings, strict=False)}
    wanted = tuple(planned.candidate.program.requests.values())
    verify_bins(wanted, packings, bins)
