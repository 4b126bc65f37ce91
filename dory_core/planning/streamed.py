"""Networks that are streamed from the level below: ways to do it, and the content of that level."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dory_core.blocks import Block, Packing, Request, align_up, level_alignment, packing
from dory_core.budgets import Budgets
from dory_core.errors import DoesNotFit
from dory_core.estimate.moves import weight_unit
from dory_core.hardware import Link, MemoryHierarchy, TargetContext
from dory_core.ir.layout import HWC
from dory_core.plan import ExtTransfer, LayerStep, LayerWeights, OperandPlan, Place
from dory_core.planning.fit import Fitted, chunk_sizes, fit_network
from dory_core.planning.layouts import LayoutPlan
from dory_core.planning.packing import plan_memory
from dory_core.planning.place import (
    MemoryMap,
    encode_chunks,
    network_conversions,
    place_steps,
    schedule_of,
    table_bytes,
    table_size,
    weight_buffer_bytes,
)
from dory_core.planning.prefetch import prefetch
from dory_core.planning.residence import MOVED, Residency, plan_residency
from dory_core.planning.sequence import Fetch, PartSequence, Sequencer, Store
from dory_core.planning.verify import verify_packing
from dory_core.program.network import lower_network
from dory_core.program.timeline import network_timeline
from dory_core.tiles.schedule import Schedule
from dory_core.tiling.network import TiledGraph, split_is_whole
from dory_core.tiling.tiled import TiledLayer

L3 = 3


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to stream a network.

    program: with early fetches. blocks: of L2 by name, each as a place. below: tensors in L3.
    peak: bytes of L2. steps: without constants. cycles: estimate of one inference.
    """

    fitted: Fitted
    residency: Residency
    program: PartSequence
    blocks: Mapping[str, Place]
    below: Mapping[str, Place]
    peak: int
    steps: tuple[LayerStep, ...]
    cycles: int


def plan_streamed(
    network: Sequencer, tiling: TiledGraph, ctx: TargetContext, budgets: Budgets, room: int
) -> tuple[MemoryMap, tuple[TiledLayer, ...]]:
    """Return the placement of a network that is streamed from L3, and its layers.

    room: bytes of the memory of L2 that data passes through. Raises: DoesNotFit.
    """
    link = ctx.memory.link(2)
    alignment = level_alignment(ctx.memory, 2)
    fitted = fit_network(
        network, tiling.part, room, alignment, link, weight_unit=weight_unit(ctx.memory)
    )
    # What the stack would have needed is free for fetching early: the peak stays below its own.
    arena = max(fitted.packing.peak_bytes, min(fitted.memory.stack_bytes, room))
    moved = Residency(fitted.tiled, (MOVED,) * len(fitted.tiled), frozenset())
    way = _way(network, fitted, moved, arena - arena % alignment, ctx)
    kept = _with_kept(network, tiling, fitted, ctx, budgets, alignment)
    if kept is not None:
        other = _way(network, *kept, way.peak, ctx)
        if other.cycles < way.cycles and other.peak <= way.peak:
            way = other
    return _placement(network, way, ctx, room, budgets.bytes[L3]), way.residency.tiled


def _with_kept(
    network: Sequencer,
    tiling: TiledGraph,
    fitted: Fitted,
    ctx: TargetContext,
    budgets: Budgets,
    alignment: int,
) -> tuple[Fitted, Residency] | None:
    """Return a fitted network that keeps tensors in L1; None when nothing stays."""
    decision = fitted.decision

    def in_one_tile(n: int) -> TiledLayer | None:
        return tiling.in_one_tile(n) if split_is_whole(decision.splits[n]) else None

    def parts(n: int, tiled: TiledLayer) -> tuple[Schedule, ...]:
        found = network.parts_of(n, decision.splits[n])
        if len(found) == 1:
            return (tiled.schedule,)
        return tuple(schedule_of(network.layers[n], tiled, part) for part in found)

    residency = plan_residency(
        network.layers,
        fitted.tiled,
        network.flow,
        ctx.memory,
        budgets.bytes[1],
        in_one_tile,
        parts,
        decision.in_l3 | decision.spilled,
    )
    if residency.stays == (MOVED,) * len(residency.stays):
        return None
    decision = replace(decision, nearer=residency.tensors)
    chunks = tuple(
        chunk_sizes(tiled, layer.output.channels, split.groups, weight_unit(ctx.memory))
        for tiled, layer, split in zip(
            residency.tiled, network.layers, decision.splits, strict=True
        )
    )
    program = network.build(decision, lambda n: chunks[n])
    wanted = tuple(program.requests.values())
    memory = plan_memory(wanted, alignment)
    if memory.chosen.peak_bytes > fitted.packing.peak_bytes:
        # Fewer blocks, none larger: they fit where they lay.
        offsets = {block.name: block.offset for block in fitted.packing.blocks}
        memory = replace(memory, chosen=packing(wanted, offsets, alignment, "as without"))
    return Fitted(decision, program, memory, residency.tiled, chunks), residency


def _way(
    network: Sequencer, fitted: Fitted, residency: Residency, arena: int, ctx: TargetContext
) -> _Way:
    """Return the steps of a fitted network and what they cost, but for the constants themselves.

    arena: bytes of L2 for fetching early.
    """
    alignment, flow = level_alignment(ctx.memory, 2), network.flow
    program, offsets = prefetch(fitted.program, fitted.packing.blocks, arena, alignment)
    blocks = {}
    for name in program.requests:
        form = flow.forms.get(name.removesuffix(".back"))
        tensor = network.layers[0].output if form is None else form.tensor
        blocks[name] = Place(tensor, 2, offsets[name], 0, HWC if form is None else form.layout)
    below = {name: Place(flow.forms[name].tensor, L3, 0) for name in fitted.decision.in_l3}
    steps = place_steps(network, program, residency, blocks, below, ctx.memory)
    transfers = _transfers(program, offsets, lambda _: 0, ctx.memory.link(2))
    peak = max(
        align_up(offsets[name] + request.size_bytes, alignment)
        for name, request in program.requests.items()
    )
    final = network_conversions(flow, len(steps), blocks, ctx.memory)
    operations = lower_network(steps, transfers, final=final)
    cycles = network_timeline(operations, steps, ctx.memory.link(2)).cycles
    return _Way(fitted, residency, program, blocks, below, peak, steps, cycles)


def _placement(
    network: Sequencer, way: _Way, ctx: TargetContext, l2_bytes: int, l3_bytes: int
) -> MemoryMap:
    """Return the placement of the way that was chosen, with constants; l2_bytes, l3_bytes: budgets.

    Raises: DoesNotFit when constants and activations exceed L3.
    """
    program, flow, fitted = way.program, network.flow, way.fitted
    alignment = level_alignment(ctx.memory, L3)
    weights, image = _constants(way, ctx.memory)
    unit = ctx.memory.link(2).alignment_bytes
    l3_requests = _together(program.l3_requests, flow, unit)
    l3_memory = plan_memory(l3_requests, alignment)
    base = align_up(len(image), alignment)
    l3_used = base + l3_memory.chosen.peak_bytes
    constants_apart = 0
    if l3_used > l3_bytes and len(image) <= ctx.memory.level(L3).read_only_bytes:
        constants_apart = base
    if l3_used - constants_apart > l3_bytes:
        raise DoesNotFit(
            f"{network.name} needs {l3_used} B of L3, {l3_bytes} B are available: constants "
            f"{len(image)} B, activations {l3_memory.chosen.peak_bytes} B",
            f"raise --l3 to at least {l3_used} if the chip has it, or make the network smaller",
            l3_used,
        )
    tensors = {request.name for request in program.l3_requests}
    l3_blocks = tuple(
        replace(block, offset=base + block.offset)
        for block in l3_memory.chosen.blocks
        if block.name in tensors
    )
    starts = {block.name: block.offset for block in l3_blocks}
    below = {name: replace(place, offset=starts[name]) for name, place in way.below.items()}
    places = {name: below.get(name) or way.blocks[name] for name in flow.inputs}
    ends = {
        name: below.get(name) or way.blocks.get(f"{name}.back") or way.blocks[name]
        for name in flow.outputs
    }
    l2_blocks = tuple(
        Block(name, way.blocks[name].offset, request.size_bytes, request.first, request.last)
        for name, request in program.requests.items()
    )
    verify_packing(
        program.requests.values(),
        Packing(l2_blocks, way.peak, "prefetch"),
        alignment=level_alignment(ctx.memory, 2),
        capacity_bytes=l2_bytes,
        memory="L2",
    )
    verify_packing(
        l3_requests,
        l3_memory.chosen,
        alignment=alignment,
        capacity_bytes=l3_bytes - (base - constants_apart),
        memory="L3",
    )
    constants = tuple(
        Block(f"weights_{step.index:02d}", w.offset, w.size, -1, program.end)
        for step, w in zip(way.steps, weights, strict=True)
        if w is not None
    )

    def source(event: Fetch | Store) -> int:
        if isinstance(event, Store):
            return starts[event.tensor] + event.offset
        table = weights[event.layer] if event.layer >= 0 else None
        if table is None:
            return starts[event.source] + event.offset
        return table.offset + table.chunks[event.chunk].offset

    offsets = {name: place.offset for name, place in way.blocks.items()}
    return MemoryMap(
        steps=tuple(
            _complete(step, table, below) for step, table in zip(way.steps, weights, strict=True)
        ),
        inputs=tuple(places.values()),
        outputs=tuple(ends[name] for name in flow.outputs),
        arena_bytes=way.peak,
        static_bytes=0,
        l2_blocks=l2_blocks,
        stack_bytes=fitted.memory.stack_bytes,
        packed_bytes=fitted.memory.packed_bytes,
        l3_blocks=(*constants, *l3_blocks),
        l3_bytes=l3_used,
        image=image,
        constants_apart=constants_apart,
        transfers=_transfers(program, offsets, source, ctx.memory.link(2)),
        final_conversions=network_conversions(flow, len(way.steps), way.blocks, ctx.memory),
    )


def _complete(
    step: LayerStep, weights: LayerWeights | None, below: Mapping[str, Place]
) -> LayerStep:
    """Return a step with its constants and with tensors of L3 in their places."""

    def moved(operand: OperandPlan) -> OperandPlan:
        if operand.place.level != L3:
            return operand
        return replace(operand, place=below[operand.place.tensor.name])

    inputs = tuple(moved(operand) for operand in step.inputs)
    return replace(step, weights=weights, inputs=inputs, output=moved(step.output))


def _constants(
    way: _Way, hierarchy: MemoryHierarchy
) -> tuple[tuple[LayerWeights | None, ...], bytes]:
    """Return the constants of each layer and the image that they form in L3."""
    image = bytearray()
    alignment, unit = level_alignment(hierarchy, L3), weight_unit(hierarchy)
    chunk_unit = hierarchy.link(2).alignment_bytes
    tables: list[LayerWeights | None] = []
    for n, (step, tiled) in enumerate(zip(way.steps, way.residency.tiled, strict=True)):
        if not way.fitted.chunk_bytes[n]:
            tables.append(None)
            continue
        groups: dict[int, tuple[int, Schedule]] = {}
        for plan in step.parts:
            part = way.program.runs[plan.position].part
            groups.setdefault(part.group, (part.group_span[0], plan.schedule))
        loops = [groups[g] for g in sorted(groups)]
        most = weight_buffer_bytes(tiled)
        chunks = encode_chunks(step.layer, tiled.kernel, loops, most, unit, chunk_unit)
        assert tuple(len(c.data) for c in chunks) == way.fitted.chunk_bytes[n]
        image += bytes(-len(image) % alignment)
        table = LayerWeights(L3, len(image), table_size(chunks), chunks, linked=False)
        tables.append(table)
        image += table_bytes(table)
    return tuple(tables), bytes(image)


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
            joined.append(replace(request, within=title, at_bytes=size))
            size += align_up(request.size_bytes, unit)
        if mine:
            start, end = min(r.first for r in mine), max(r.last for r in mine)
            joined.append(Request(title, size, start, end))
    return (*joined, *left.values())


def _transfers(
    program: PartSequence,
    offsets: Mapping[str, int],
    source: Callable[[Fetch | Store], int],
    link: Link,
) -> tuple[ExtTransfer, ...]:
    """Return all transfers in order of their start, with a ticket slot each.

    source: byte of L3 at which each one starts or ends.
    """
    events: list[Fetch | Store] = [*program.fetches, *program.stores]
    transfers = [
        ExtTransfer(
            event.block,
            offsets[event.block] + (event.block_offset if isinstance(event, Store) else 0),
            source(event),
            event.size,
            isinstance(event, Fetch),
            event.start,
            event.wait if isinstance(event, Store) else event.use,
        )
        for event in events
    ]
    transfers = [piece for transfer in transfers for piece in _pieces(transfer, link)]
    transfers.sort(key=lambda t: (t.start, t.incoming, t.wait))
    busy: list[int] = []  # per slot: the position at which its transfer is waited for
    placed = []
    for transfer in transfers:
        # A slot may be taken again at the position of its wait: waits come before starts, but a
        # transfer that blocks is waited for after others have started.
        slot = next((i for i, until in enumerate(busy) if until < transfer.start), len(busy))
        busy[slot : slot + 1] = [transfer.wait]
        placed.append(replace(transfer, slot=slot))
    return tuple(placed)


def _pieces(transfer: ExtTransfer, link: Link) -> Iterator[ExtTransfer]:
    """Yield a transfer in pieces that the link can move; one where it has no limit."""
    # Blocks start on multiples of the unit, and what lies behind them up to one is nobody's.
    unit = link.alignment_bytes
    transfer = replace(transfer, size=align_up(transfer.size, unit))
    assert transfer.l2_offset % unit == transfer.l3_offset % unit == 0, transfer
    most = link.piece_bytes or transfer.size
    for at in range(0, transfer.size, most):
        yield replace(
            transfer,
            l2_offset=transfer.l2_offset + at,
            l3_offset=transfer.l3_offset + at,
            size=min(most, transfer.size - at),
        )
