"""From tiled layers to the Plan: everything in L2 when it fits, else streamed from L3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dory_core.budgets import Budgets
from dory_core.errors import DoesNotFit
from dory_core.estimate.program import run_program
from dory_core.estimate.timeline import link_name
from dory_core.hardware import DmaHal, OutputFile, TargetContext
from dory_core.ir import Graph
from dory_core.memory import Block, Packing, plan_memory, requests, verify_packing
from dory_core.placement import (
    L3_IMAGE,
    Placement,
    encode_chunks,
    level_alignment,
    make_step,
    table_size,
    weight_buffer_bytes,
)
from dory_core.plan import LayerWeights, PartPlan, Place, Plan, Roofline
from dory_core.streaming.fit import fit_network
from dory_core.streaming.placement import place_streamed
from dory_core.tiling.network import NetworkTiler
from dory_core.tiling.tiler import TiledLayer

L2 = 2
L3 = 3


@dataclass(frozen=True, slots=True)
class Planned:
    """A placement and the layers that it places."""

    placement: Placement
    tiled: tuple[TiledLayer, ...]


def place_network(tiler: NetworkTiler, ctx: TargetContext, budgets: Budgets) -> Planned:
    """Tile and place a network within the budgets.

    Constants and activations stay in L2 when they all fit; otherwise they are streamed from the
    next level, where the target has one. Raises: NotSupported or DoesNotFit.
    """
    graph = tiler.graph
    tiled = tiler.tile_all()
    resident = place_resident(graph, tiled, ctx)
    budget = budgets.bytes[L2]
    if resident.l2_bytes <= budget:
        _verify(graph, resident, ctx, budget)
        return Planned(resident, tiled)
    if L3 not in budgets.bytes:
        raise too_large(graph, resident, budget)
    fitted = fit_network(graph, tiler.tile, budget, level_alignment(ctx.memory, L2))
    placement = place_streamed(graph, fitted, ctx, budget, budgets.bytes[L3])
    return Planned(placement, fitted.tiled)


def place_resident(graph: Graph, tiled: Sequence[TiledLayer], ctx: TargetContext) -> Placement:
    """Place activations and constants in L2; layers run in the order of the graph."""
    alignment = level_alignment(ctx.memory, L2)
    memory = plan_memory(requests(graph, range(len(graph.layers))), alignment)
    arena = memory.chosen.peak_bytes
    places = {b.name: Place(graph.tensors[b.name], L2, b.offset) for b in memory.chosen.blocks}
    steps, constants = [], []
    end = arena
    for position, (layer, one) in enumerate(zip(graph.typed_layers, tiled, strict=True)):
        weights = None
        if one.schedule.has_weights:
            chunks = encode_chunks(layer, one.kernel, [(0, one.schedule)], weight_buffer_bytes(one))
            weights = LayerWeights(L2, end, table_size(chunks), chunks)
            name = f"weights_{layer.layer.index:02d}"
            constants.append(Block(name, end, weights.size, -1, len(tiled) - 1))
            end += weights.size
        output = places[layer.output.name]
        part = PartPlan(
            position,
            one.schedule,
            tuple(places[t.name].offset for t in layer.inputs),
            output.offset,
            report=(output.offset, layer.output.size_bytes),
        )
        steps.append(make_step(layer, one, (part,), places, weights, ctx.memory))
    return Placement(
        steps=tuple(steps),
        inputs=tuple(places[name] for name in graph.inputs),
        outputs=tuple(places[name] for name in graph.outputs),
        arena_bytes=arena,
        static_bytes=end - arena,
        l2_blocks=(*memory.chosen.blocks, *constants),
        stack_bytes=memory.stack_bytes,
        packed_bytes=memory.packed_bytes,
    )


def make_plan(
    tiler: NetworkTiler,
    ctx: TargetContext,
    budgets: Budgets,
    frontend: str,
    hal: DmaHal | None,
) -> Plan:
    """Return the Plan of a network. Raises: NotSupported or DoesNotFit."""
    graph = tiler.graph
    planned = place_network(tiler, ctx, budgets)
    placement = planned.placement
    link = ctx.memory.link(L2) if placement.transfers else None
    return Plan(
        target=ctx.name,
        frontend=frontend,
        network=graph.name,
        options=ctx.options,
        steps=placement.steps,
        inputs=placement.inputs,
        outputs=placement.outputs,
        levels=placement.levels(ctx, budgets),
        arena_bytes={
            1: budgets.bytes[1],
            L2: budgets.bytes[L2] - placement.static_bytes,
            **({L3: budgets.bytes[L3]} if placement.transfers else {}),
        },
        static_bytes={L2: placement.static_bytes},
        cores=ctx.memory.cores,
        any_core=hal.any_core if hal is not None else False,
        dma_alignment=ctx.memory.link(1).alignment_bytes,
        ext_alignment=link.alignment_bytes if link is not None else 1,
        files=_files(planned, hal),
        transfers=placement.transfers,
        program=run_program(placement.steps, placement.transfers, link),
        roofline=_roofline(ctx),
        operating_point=ctx.operating_point,
        reason=budgets.reason,
        notes=graph.notes,
    )


def _roofline(ctx: TargetContext) -> Roofline:
    links = {link_name(link): link.bytes_per_cycle for link in ctx.memory.links}
    return Roofline(ctx.memory.peak_macs_per_cycle, links)


def _verify(graph: Graph, placement: Placement, ctx: TargetContext, budget: int) -> None:
    names = set(graph.tensors)
    blocks = tuple(b for b in placement.l2_blocks if b.name in names)
    verify_packing(
        requests(graph, range(len(graph.layers))),
        Packing(blocks, placement.arena_bytes, "resident"),
        alignment=level_alignment(ctx.memory, L2),
        capacity_bytes=budget - placement.static_bytes,
        memory="L2",
    )


def too_large(graph: Graph, placement: Placement, budget: int) -> DoesNotFit:
    """Return the error that says what of ``graph`` takes the room in L2."""
    needed: dict[int, list[Block]] = {}
    for block in placement.l2_blocks:
        if block.name in graph.tensors:
            for step in range(block.first, block.last + 1):
                needed.setdefault(step, []).append(block)
    step = max(needed, key=lambda s: sum(b.size for b in needed[s]))
    live = sorted(needed[step], key=lambda b: -b.size)
    texts = ", ".join(f"{b.name} {b.size} B" for b in live)
    where = f"layer {graph.layers[step].index}" if step >= 0 else "the network input"
    arena, static = placement.arena_bytes, placement.static_bytes
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
    if planned.placement.image:
        files.append(OutputFile(L3_IMAGE, planned.placement.image))
    return tuple(files)
