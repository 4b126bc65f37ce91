"""From tiled layers to the Plan: everything in L2 when it fits, else streamed from L3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dory_core.blocks import Block, Packing, Request, level_alignment
from dory_core.budgets import Budgets, memory_budgets
from dory_core.errors import DoesNotFit
from dory_core.estimate.moves import l1_dma, weight_unit
from dory_core.estimate.timeline import link_name
from dory_core.hardware import DmaHal, MemoryHierarchy, OutputFile, TargetContext
from dory_core.ir import Graph, Layer
from dory_core.kernels.convert import conversion_files
from dory_core.memory.contents import verify_contents
from dory_core.plan import (
    LayerWeights,
    Place,
    Plan,
    Roofline,
    WeightChunk,
)
from dory_core.plan.operations import Program
from dory_core.planning.bins import Bin, BinPlan, pack_bins
from dory_core.planning.layouts import plan_layouts
from dory_core.planning.packing import MemoryPlan, plan_memory
from dory_core.planning.place import (
    L3_IMAGE,
    MemoryMap,
    encode_chunks,
    network_conversions,
    place_steps,
    table_size,
    weight_buffer_bytes,
)
from dory_core.planning.residence import plan_residency
from dory_core.planning.sequence import Decision, Sequencer
from dory_core.planning.streamed import plan_streamed
from dory_core.planning.verify import verify_bins
from dory_core.program.network import lower, lower_network
from dory_core.program.timeline import network_timeline
from dory_core.tiling.network import TiledGraph
from dory_core.tiling.outer import Split
from dory_core.tiling.tiled import TiledLayer

L2 = 2
L3 = 3


@dataclass(frozen=True, slots=True)
class Planned:
    """A placement and the layers that it places."""

    placement: MemoryMap
    tiled: tuple[TiledLayer, ...]


def place_network(tiling: TiledGraph, ctx: TargetContext, budgets: Budgets) -> Planned:
    """Tile and place a network within the budgets.

    Constants and activations stay in L2 when they all fit; otherwise they are streamed from the
    next level, where the target has one. Raises: NotSupported or DoesNotFit.
    """
    graph, tiled = tiling.graph, tiling.best
    given, budgets = budgets, l2_after_code(ctx, budgets, len(graph.ops))
    network = sequencer(tiling, ctx.memory)
    resident, kept = place_resident(tiling, network, ctx, budgets)
    linked = resident.static_level
    if linked > L2 and resident.static_in(linked) > budgets.bytes[linked]:
        raise constants_too_large(graph, resident, linked, budgets.bytes[linked])
    if resident.l2_bytes <= budgets.bytes[L2] and not resident.straddles:
        _verify(resident, ctx, budgets)
        return Planned(resident, kept)
    if linked > L2 or L3 not in budgets.bytes or not all(_can_stream(one) for one in tiled):
        raise too_large(graph, resident, budgets.bytes[L2])
    budgets = l2_after_code(ctx, given, len(graph.ops), streamed=True)
    # Streamed data passes through the first memory of L2, which is the one that the DMA of the
    # level below reaches.
    room = memory_budgets(ctx.memory, L2, budgets.bytes[L2])[0]
    placement, tiled = plan_streamed(network, tiling, ctx, budgets, room)
    return Planned(placement, tiled)


def sequencer(tiling: TiledGraph, hierarchy: MemoryHierarchy) -> Sequencer:
    """Return what makes the sequences of a network."""
    outer = [link for link in hierarchy.links if link.upper == L2]
    unit = max((link.alignment_bytes for link in outer), default=1)
    bound = [(one.layer, one.traits) for one in tiling.best]
    return Sequencer(tiling.graph, plan_layouts(tiling.graph, bound), unit)


def _can_stream(tiled: TiledLayer) -> bool:
    """Return whether a layer can be computed in parts: its tiles are all that it has in L1."""
    return not tiled.in_place and not tiled.traits.fetches and tiled.traits.is_hwc


def l2_after_code(
    ctx: TargetContext, budgets: Budgets, layers: int, streamed: bool = False
) -> Budgets:
    """Return the budgets with no more of L2 than the code of so many layers leaves.

    Budgets that the chip does not have stay as they are: nothing else will run with them.
    """
    room = ctx.memory.level(L2).room_bytes(layers, streamed)
    if budgets.reason or budgets.bytes[L2] <= room:
        return budgets
    return Budgets({**budgets.bytes, L2: max(room, 0)})


def place_resident(
    tiling: TiledGraph, network: Sequencer, ctx: TargetContext, budgets: Budgets
) -> tuple[MemoryMap, tuple[TiledLayer, ...]]:
    """Place activations in L2 and link constants; layers run in the order of the graph.

    Returns the layers, too: some may be in one tile, so that tensors stay in L1.
    """
    level, tiled = ctx.memory.constants_level, tiling.best
    residency = plan_residency(
        network.layers, tiled, network.flow, ctx.memory, budgets.bytes[1], tiling.in_one_tile
    )
    unit = weight_unit(ctx.memory)
    tables = [_encode(a, b, unit) for a, b in zip(network.layers, residency.tiled, strict=True)]
    static = sum(table_size(chunks) for chunks in tables if chunks)
    program = network.build(Decision((Split(),) * len(tiled), nearer=residency.tensors))
    wanted = tuple(program.requests.values())
    memory = plan_memory(wanted, level_alignment(ctx.memory, L2))
    packings, straddles = _pack(wanted, memory, ctx, budgets, static if level == L2 else 0)
    blocks = tuple(
        replace(block, memory=number)
        for number, packed in enumerate(packings)
        for block in packed.blocks
    )
    flow = network.flow
    places = {
        b.name: Place(flow.forms[b.name].tensor, L2, b.offset, b.memory, flow.forms[b.name].layout)
        for b in blocks
    }
    steps = list(place_steps(network, program, residency, places, {}, ctx.memory))
    constants = []
    end = packings[0].peak_bytes if level == L2 else 0
    for n, chunks in enumerate(tables):
        if chunks:
            weights = LayerWeights(level, end, table_size(chunks), chunks, linked=True)
            steps[n] = replace(steps[n], weights=weights)
            name = f"weights_{steps[n].index:02d}"
            constants.append(Block(name, end, weights.size, -1, len(steps) - 1))
            end += weights.size
    placement = MemoryMap(
        steps=tuple(steps),
        inputs=tuple(places[name] for name in flow.inputs),
        outputs=tuple(places[name] for name in flow.outputs),
        arena_bytes=packings[0].peak_bytes,
        static_bytes=static,
        l2_blocks=(*blocks, *constants) if level == L2 else blocks,
        stack_bytes=memory.stack_bytes,
        packed_bytes=memory.packed_bytes,
        l3_blocks=tuple(constants) if level == L3 else (),
        more_l2_bytes=tuple(packed.peak_bytes for packed in packings[1:]),
        static_level=level,
        straddles=straddles,
        wanted=wanted,
        final_conversions=network_conversions(flow, len(steps), places, ctx.memory),
    )
    return placement, residency.tiled


def _encode(layer: Layer, tiled: TiledLayer, unit: int) -> tuple[WeightChunk, ...]:
    """Return the constants of a layer, blocks padded to multiples of unit; empty without any."""
    most = weight_buffer_bytes(tiled)
    if not tiled.schedule.has_weights and not (tiled.traits.fetches and most):
        return ()
    return encode_chunks(layer, tiled.kernel, [(0, tiled.schedule)], most, unit)


def _bins(ctx: TargetContext, budgets: Budgets, static: int) -> tuple[Bin, ...]:
    """Return the memories of L2; constants that are linked into it take room of the first one."""
    sizes = list(memory_budgets(ctx.memory, L2, budgets.bytes[L2]))
    sizes[0] = max(0, sizes[0] - static)
    memories = ctx.memory.level(L2).memories
    links = max(link.alignment_bytes for link in ctx.memory.links if link.upper <= L2)
    return tuple(
        Bin(m.name, size, max(m.alignment_bytes, links), m.holds)
        for m, size in zip(memories, sizes, strict=True)
    )


def _pack(
    wanted: Sequence[Request],
    memory: MemoryPlan,
    ctx: TargetContext,
    budgets: Budgets,
    static: int,
) -> tuple[tuple[Packing, ...], str]:
    """Return the packing of each memory of L2, and why there is none that keeps to the memories.

    Several memories are used only when the first is too small.
    """
    bins = _bins(ctx, budgets, static)
    room = memory_budgets(ctx.memory, L2, budgets.bytes[L2])[0]
    if len(bins) > 1 and static > room:
        why = f"constants of {static} B lie in {bins[0].name}, which has {room}"
        return (memory.chosen,), why
    if len(bins) == 1 or memory.chosen.peak_bytes <= bins[0].usable_bytes:
        return (memory.chosen,), ""
    try:
        plan = pack_bins(wanted, bins)
    except DoesNotFit as error:
        return (memory.chosen,), error.message
    return tuple(plan.packings[b.name] for b in bins), ""


def make_plan(
    tiling: TiledGraph,
    ctx: TargetContext,
    budgets: Budgets,
    frontend: str,
    hal: DmaHal | None,
) -> Plan:
    """Return the Plan of a network. Raises: NotSupported or DoesNotFit."""
    graph = tiling.graph
    planned = place_network(tiling, ctx, budgets)
    placement = planned.placement
    link = ctx.memory.link(L2) if placement.transfers else None
    arenas = memory_budgets(ctx.memory, L2, budgets.bytes[L2])
    if not any(placement.more_l2_bytes):
        arenas = arenas[:1]
    any_core = hal is not None and hal.any_core
    program = _lower(placement, any_core and ctx.memory.cores > 1)
    verify_contents(program, placement.steps)
    return Plan(
        target=ctx.name,
        frontend=frontend,
        network=graph.name,
        reference=graph.reference,
        options=ctx.options,
        steps=placement.steps,
        inputs=placement.inputs,
        outputs=placement.outputs,
        levels=placement.levels(ctx, budgets),
        arena_bytes={
            1: budgets.bytes[1],
            L2: arenas[0] - placement.static_in(L2),
            **({L3: budgets.bytes[L3] + placement.constants_apart} if placement.transfers else {}),
        },
        static_bytes={placement.static_level: placement.static_bytes},
        cores=ctx.memory.cores,
        any_core=any_core,
        dma_tickets=hal.tickets if hal is not None else 0,
        dma=l1_dma(ctx.memory),
        ext=link,
        files=_files(planned, hal),
        transfers=placement.transfers,
        final_conversions=placement.final_conversions,
        more_l2_bytes=arenas[1:],
        arena_used=placement.arena_bytes,
        constants_apart=placement.constants_apart,
        program=program,
        timeline=network_timeline(program.operations, placement.steps, link),
        roofline=_roofline(ctx),
        operating_point=ctx.operating_point,
        reason=budgets.reason,
        notes=graph.notes,
    )


def _lower(placement: MemoryMap, any_core: bool) -> Program:
    """Return the operations of a network with everything in its place."""
    operations = lower_network(
        placement.steps,
        placement.transfers,
        placement.inputs,
        placement.outputs,
        placement.final_conversions,
        placement.l2_blocks,
    )
    return lower(placement.steps, operations, any_core)


def _roofline(ctx: TargetContext) -> Roofline:
    links = {link_name(link): link.bytes_per_cycle for link in ctx.memory.links}
    return Roofline(ctx.memory.peak_macs_per_cycle, links, dict(ctx.memory.engine_peaks))


def _verify(placement: MemoryMap, ctx: TargetContext, budgets: Budgets) -> None:
    names = {request.name for request in placement.wanted}
    bins = _bins(ctx, budgets, placement.static_in(L2))
    peaks = (placement.arena_bytes, *placement.more_l2_bytes)
    packings = {}
    for number, (memory, peak) in enumerate(zip(bins, peaks, strict=False)):
        blocks = tuple(b for b in placement.l2_blocks if b.name in names and b.memory == number)
        packings[memory.name] = Packing(blocks, peak, "resident")
    verify_bins(placement.wanted, BinPlan(packings), bins)


def constants_too_large(graph: Graph, placement: MemoryMap, level: int, budget: int) -> DoesNotFit:
    """Return the error that says which constants take the room in the level they are linked to."""
    tables = sorted(
        (step for step in placement.steps if step.weights is not None),
        key=lambda step: -step.weights.size if step.weights is not None else 0,
    )
    texts = ", ".join(
        f"layer {step.index} {step.weights.size} B" for step in tables[:3] if step.weights
    )
    return DoesNotFit(
        f"{graph.name} has {placement.static_bytes} B of constants, {budget} B of L{level} are "
        f"available for them (largest: {texts})",
        f"raise --l{level} if the chip has more, or make the network smaller",
        placement.static_bytes,
    )


def too_large(graph: Graph, placement: MemoryMap, budget: int) -> DoesNotFit:
    """Return the error that says what of ``graph`` takes the room in L2."""
    needed: dict[int, list[Block]] = {}
    names = {request.name for request in placement.wanted}
    for block in placement.l2_blocks:
        if block.name in names:
            for step in range(block.first, block.last + 1):
                needed.setdefault(step, []).append(block)
    step = max(needed, key=lambda s: sum(b.size for b in needed[s]))
    live = sorted(needed[step], key=lambda b: -b.size)
    texts = ", ".join(f"{b.name} {b.size} B" for b in live)
    where = f"layer {graph.ops[step].index}" if step >= 0 else "the network input"
    arena, static = placement.arena_bytes, placement.static_in(L2)
    if placement.straddles and arena + static <= budget:
        return DoesNotFit(
            f"{graph.name} needs {arena + static} B of L2, {budget} B are available but not in one "
            f"memory: {placement.straddles}",
            "raise --l2 if the chip has more, or make the network smaller",
        )
    return DoesNotFit(
        f"{graph.name} needs {arena + static} B of L2, {budget} B are available: "
        f"constants {static} B, activations {arena} B (largest at {where}: {texts})",
        "raise --l2 if the chip has more, or make the network smaller",
        arena + static,
    )


def _files(planned: Planned, hal: DmaHal | None) -> tuple[OutputFile, ...]:
    files: list[OutputFile] = list(hal.files) if hal is not None else []
    for tiled, step in zip(planned.tiled, planned.placement.steps, strict=True):
        files += tiled.kernel.sources(step.layer)
    steps = planned.placement.steps
    if planned.placement.conversions or not all(s.output.place.layout.is_hwc for s in steps):
        files += conversion_files()
    if planned.placement.image:
        files.append(OutputFile(L3_IMAGE, planned.placement.image))
    return tuple(files)
