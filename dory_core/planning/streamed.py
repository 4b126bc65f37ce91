"""From a fitted network to steps, transfers and the content of L3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from dory_core.blocks import Block, Packing, Request, align_up, level_alignment
from dory_core.errors import DoesNotFit
from dory_core.estimate.moves import weight_unit
from dory_core.hardware import Link, MemoryHierarchy, TargetContext
from dory_core.ir import Graph
from dory_core.plan import ExtTransfer, LayerStep, LayerWeights, PartPlan, Place
from dory_core.planning.fit import Fitted
from dory_core.planning.packing import plan_memory
from dory_core.planning.place import (
    MemoryMap,
    encode_chunks,
    make_step,
    table_bytes,
    table_size,
    weight_buffer_bytes,
)
from dory_core.planning.prefetch import prefetch
from dory_core.planning.sequence import PartSequence, Run
from dory_core.planning.verify import verify_packing
from dory_core.tiles.schedule import Schedule
from dory_core.tiling.outer import part_schedule

L3 = 3


def place_streamed(
    graph: Graph, fitted: Fitted, ctx: TargetContext, l2_bytes: int, l3_bytes: int
) -> MemoryMap:
    """Return the placement of a fitted network; l2_bytes, l3_bytes: budgets.

    Raises: DoesNotFit when constants and activations exceed L3.
    """
    alignment = level_alignment(ctx.memory, 2)
    # What the stack would have needed is free for fetching early: the peak stays below its own.
    room = max(fitted.packing.peak_bytes, min(fitted.memory.stack_bytes, l2_bytes))
    program, offsets = prefetch(
        fitted.program, fitted.packing.blocks, room - room % alignment, alignment
    )
    schedules = _schedules(graph, fitted)
    weights, image = _constants(graph, fitted, schedules, ctx.memory)
    unit = ctx.memory.link(2).alignment_bytes
    l3_requests = _together(program.l3_requests, graph, unit)
    l3_memory = plan_memory(l3_requests, level_alignment(ctx.memory, L3))
    base = align_up(len(image), level_alignment(ctx.memory, L3))
    l3_used = base + l3_memory.chosen.peak_bytes
    constants_apart = 0
    if l3_used > l3_bytes and len(image) <= ctx.memory.level(L3).read_only_bytes:
        constants_apart = base
    if l3_used - constants_apart > l3_bytes:
        raise DoesNotFit(
            f"{graph.name} needs {l3_used} B of L3, {l3_bytes} B are available: constants "
            f"{len(image)} B, activations {l3_memory.chosen.peak_bytes} B",
            f"raise --l3 to at least {l3_used} if the chip has it, or make the network smaller",
            l3_used,
        )
    l3_blocks = _apart(l3_memory.chosen.blocks, program.l3_requests, graph, base, unit)
    l3_places = {block.name: block.offset for block in l3_blocks}
    places = {
        name: Place(tensor, L3, l3_places[name])
        if name in fitted.decision.in_l3
        else Place(tensor, 2, offsets[name])
        for name, tensor in graph.tensors.items()
    }
    ends = {
        name: replace(places[name], offset=offsets[f"{name}.back"])
        if name in fitted.decision.spilled and f"{name}.back" in offsets
        else places[name]
        for name in graph.outputs
    }
    l2_blocks = tuple(
        Block(name, offsets[name], request.size_bytes, request.first, request.last)
        for name, request in program.requests.items()
    )
    peak = max(align_up(block.end, alignment) for block in l2_blocks)
    verify_packing(
        program.requests.values(),
        Packing(l2_blocks, peak, "prefetch"),
        alignment=alignment,
        capacity_bytes=l2_bytes,
        memory="L2",
    )
    verify_packing(
        l3_requests,
        l3_memory.chosen,
        alignment=level_alignment(ctx.memory, L3),
        capacity_bytes=l3_bytes - (base - constants_apart),
        memory="L3",
    )
    constants = tuple(
        Block(f"weights_{graph.ops[n].index:02d}", w.offset, w.size, -1, program.end)
        for n, w in enumerate(weights)
        if w is not None
    )
    return MemoryMap(
        steps=_steps(graph, fitted, program, schedules, offsets, weights, places, ctx),
        inputs=tuple(places[name] for name in graph.inputs),
        outputs=tuple(ends[name] for name in graph.outputs),
        arena_bytes=peak,
        static_bytes=0,
        l2_blocks=l2_blocks,
        stack_bytes=fitted.memory.stack_bytes,
        packed_bytes=fitted.memory.packed_bytes,
        l3_blocks=(*constants, *l3_blocks),
        l3_bytes=l3_used,
        image=image,
        constants_apart=constants_apart,
        transfers=_transfers(program, offsets, weights, l3_places, ctx.memory.link(2)),
    )


def _schedules(graph: Graph, fitted: Fitted) -> tuple[Schedule, ...]:
    """Return the tile loop of the part at each position."""
    layers = graph.layers
    return tuple(
        part_schedule(
            layers[run.layer],
            run.part,
            tiled.tiling.tile,
            tiled.schedule.buffering,
            tiled.schedule.order,
            tiled.schedule.has_weights,
        )
        for run in fitted.program.runs
        for tiled in (fitted.tiled[run.layer],)
    )


def _constants(
    graph: Graph, fitted: Fitted, schedules: Sequence[Schedule], hierarchy: MemoryHierarchy
) -> tuple[tuple[LayerWeights | None, ...], bytes]:
    """Return the constants of each layer and the image that they form in L3."""
    image = bytearray()
    alignment, unit = level_alignment(hierarchy, L3), weight_unit(hierarchy)
    tables: list[LayerWeights | None] = []
    for n, (layer, tiled) in enumerate(zip(graph.layers, fitted.tiled, strict=True)):
        if not fitted.chunk_bytes[n]:
            tables.append(None)
            continue
        groups: dict[int, tuple[int, Schedule]] = {}
        for position in range(fitted.program.first[n], fitted.program.last[n] + 1):
            part = fitted.program.runs[position].part
            groups.setdefault(part.group, (part.group_span[0], schedules[position]))
        chunks = encode_chunks(
            layer,
            tiled.kernel,
            [groups[g] for g in sorted(groups)],
            weight_buffer_bytes(tiled),
            unit,
            hierarchy.link(2).alignment_bytes,
        )
        assert tuple(len(c.data) for c in chunks) == fitted.chunk_bytes[n]
        image += bytes(-len(image) % alignment)
        table = LayerWeights(L3, len(image), table_size(chunks), chunks, linked=False)
        tables.append(table)
        image += table_bytes(table)
    return tuple(tables), bytes(image)


def _together(requests: Sequence[Request], graph: Graph, unit: int) -> tuple[Request, ...]:
    """Return the requests for L3 with all network inputs in one block, and all outputs.

    The caller writes and reads them there one after the other, from multiples of ``unit`` bytes.
    """
    left = {request.name: request for request in requests}
    joined = []
    for group in (graph.inputs, graph.outputs):
        mine = [left.pop(name) for name in group if name in left]
        if mine:
            size = sum(align_up(request.size_bytes, unit) for request in mine)
            start, end = min(r.first for r in mine), max(r.last for r in mine)
            joined.append(Request(mine[0].name, size, start, end))
    return (*joined, *left.values())


def _apart(
    blocks: Sequence[Block], requests: Sequence[Request], graph: Graph, base: int, unit: int
) -> tuple[Block, ...]:
    """Return one block of L3 per tensor; base: where those of activations start."""
    offsets = {block.name: base + block.offset for block in blocks}
    sizes = {request.name: request.size_bytes for request in requests}
    for group in (graph.inputs, graph.outputs):
        mine = [name for name in group if name in sizes]
        for before, name in pairwise(mine):
            offsets[name] = align_up(offsets[before] + sizes[before], unit)
    return tuple(Block(r.name, offsets[r.name], r.size_bytes, r.first, r.last) for r in requests)


def _steps(
    graph: Graph,
    fitted: Fitted,
    program: PartSequence,
    schedules: Sequence[Schedule],
    offsets: dict[str, int],
    weights: tuple[LayerWeights | None, ...],
    places: dict[str, Place],
    ctx: TargetContext,
) -> tuple[LayerStep, ...]:
    parts: list[list[PartPlan]] = [[] for _ in graph.ops]
    layers = graph.layers
    for position, run in enumerate(program.runs):
        report = run.report
        parts[run.layer].append(
            PartPlan(
                position=position,
                schedule=schedules[position],
                inputs=tuple(offsets[block] + at for block, at in run.inputs),
                output=_output_offset(layers[run.layer].output.bits, run, offsets),
                chunk=run.part.group if run.weights is not None else 0,
                weights=offsets[run.weights] if run.weights is not None else None,
                report=None if report is None else (offsets[report[0]] + report[1], report[2]),
            )
        )
    return tuple(
        make_step(layer, tiled, tuple(split), places, constants, ctx.memory)
        for layer, tiled, split, constants in zip(layers, fitted.tiled, parts, weights, strict=True)
    )


def _output_offset(bits: int, run: Run, offsets: dict[str, int]) -> int:
    block, at = run.output
    return offsets[block] + at + run.part.group_span[0] * bits // 8


def _transfers(
    program: PartSequence,
    offsets: dict[str, int],
    weights: tuple[LayerWeights | None, ...],
    l3_places: dict[str, int],
    link: Link,
) -> tuple[ExtTransfer, ...]:
    """Return all transfers in order of their start, with a ticket slot each."""
    transfers = []
    for fetch in program.fetches:
        if fetch.layer >= 0:
            table = weights[fetch.layer]
            assert table is not None
            source = table.offset + table.chunks[fetch.chunk].offset
        else:
            source = l3_places[fetch.source] + fetch.offset
        transfers.append(
            ExtTransfer(
                fetch.block, offsets[fetch.block], source, fetch.size, True, fetch.start, fetch.use
            )
        )
    for store in program.stores:
        transfers.append(
            ExtTransfer(
                store.block,
                offsets[store.block] + store.block_offset,
                l3_places[store.tensor] + store.offset,
                store.size,
                False,
                store.start,
                store.wait,
            )
        )
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
