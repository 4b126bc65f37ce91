"""Layers in place: kernels work on tensors and constants where they lie, without tiles.

It is for memories with a cache, and the baseline that tiling is compared with. Scratch memory of
the kernel lies in L1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dory_core.errors import DoesNotFit, NotSupported
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Layer
from dory_core.ir.geometry import Tile, extent, make_tile
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.kernels.call import OPERANDS
from dory_core.schedule.boxes import fetch_constraints
from dory_core.schedule.caches import pixel_by_pixel, waiting_cycles
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import Buffering, L1Buffer, Schedule, l1_buffers, make_schedule
from dory_core.schedule.tiling import Tiling
from dory_core.schedule.timeline import Event, LayerEstimate, PartTimeline, Traffic
from dory_core.tiling.tiled import TiledLayer

_SINGLE = Buffering()
#: ``LayerEstimate.bound`` of a layer in place that waits longer than it computes.
MEMORY_BOUND = "memory"


def whole_tile(layer: Layer) -> Tile:
    """Return the tile of a layer in place; its input includes rows that no window reads."""
    full = extent(layer)
    tile = make_tile(layer, full.c_out, full.h, full.w, full.c_in)
    if layer.op.reads_vector:
        return tile
    x = layer.inputs[0]
    return replace(tile, x_h=x.height, x_w=x.width)


def _part_tile(layer: Layer, part: Schedule) -> Tile:
    """Return the tile of a part of a layer in place."""
    full, (o, h, w) = whole_tile(layer), (part.c_out[0], part.h[0], part.w[0])
    c_in = o.size if part.is_channelwise else full.c_in
    return replace(full, c_out=o.size, h=h.size, w=w.size, c_in=c_in, x_h=h.x_size)


def scratch_buffers(layer: Layer, bound: BoundKernel, tile: Tile) -> tuple[L1Buffer, ...]:
    """Return the buffers in L1 of a layer that is computed in place."""
    return tuple(b for b in l1_buffers(layer, bound, tile, _SINGLE) if b.name == "scratch")


def whole_layer(
    layer: Layer, candidate: BoundKernel, budget_bytes: int, hierarchy: MemoryHierarchy
) -> TiledLayer:
    """Return the layer in one piece on a kernel that accepts it.

    Args:
        layer: The layer.
        candidate: The kernel.
        budget_bytes: The budget of L1, for scratch memory.
        hierarchy: The memories.

    Raises:
        NotSupported: The kernel does not compute the layer in one piece.
        DoesNotFit: It needs more scratch memory.
    """
    tile = whole_tile(layer)
    what = f"{layer.op.kind} '{layer.op.name}' on {candidate.kernel.name}"
    fetched = fetch_constraints(layer, candidate, tile, hierarchy)
    broken = [c.reason for c in (*candidate.constraints(tile), *fetched) if not c.condition]
    if candidate.traits.planar:
        broken.append("it reads another layout than that of tensors in L2")
    if broken:
        raise NotSupported(f"{what}: not in one piece: {broken[0]}", "let the layer be tiled")
    buffers = scratch_buffers(layer, candidate, tile)
    used = sum(int(b.total) for b in buffers)
    if used > budget_bytes:
        raise DoesNotFit(
            f"{what} needs {used} B of L1 for scratch memory, {budget_bytes} are available",
            "raise --l1 if the chip has more, or make the layer smaller",
            used,
        )
    has_weights = candidate.weight_bytes(tile) > 0
    schedule = make_schedule(layer, tile, _SINGLE, has_weights=has_weights)
    tiling = Tiling(tile, _SINGLE, buffers, budget_bytes, (), "whole")
    estimate = whole_timeline(layer, candidate, hierarchy).estimate
    costs = LayerCosts.of(layer, candidate, hierarchy)
    return TiledLayer(layer, candidate, tiling, schedule, estimate, costs, in_place=True)


def whole_timeline(
    layer: Layer,
    bound: BoundKernel,
    hierarchy: MemoryHierarchy,
    memories: Mapping[str, int] = MappingProxyType({}),
    part: Schedule | None = None,
) -> PartTimeline:
    """Return the timeline of a layer in place: the kernel, and its waits for memory.

    Args:
        layer: The layer.
        bound: Its kernel.
        hierarchy: The memories.
        memories: Number of the memory of L2 of each operand (``x``, ``x2``, ``y``); 0 for others.
        part: The one tile of a part of the layer, None for the whole layer.
    """
    tile = whole_tile(layer) if part is None else _part_tile(layer, part)
    compute = int(bound.cycles(tile))
    places = {name: hierarchy.level(2).memories[memories.get(name, 0)] for name in (*OPERANDS, "y")}
    places["w"] = hierarchy.constants_memories[int(bound.far_constants)]
    waiting = 0
    if any(memory.access_cycles or memory.line_cycles for memory in places.values()):
        line_bytes = hierarchy.cache.line_bytes if hierarchy.cache is not None else 1
        accesses = bound.accesses(tile, line_bytes)
        if accesses is None:
            accesses = pixel_by_pixel(bound, tile)
        waiting = waiting_cycles(accesses, places, hierarchy.cache)
    cycles = compute + waiting
    estimate = LayerEstimate(
        cycles,
        compute,
        0,
        waiting,
        layer.macs / cycles if cycles and part is None else 0.0,
        MEMORY_BOUND if waiting > compute else "compute",
    )
    events = [Event("cores", "compute", 0, 0.0, float(compute))]
    if waiting:
        events.append(Event("cores", "wait for memory", 0, float(compute), float(cycles)))
    return PartTimeline(estimate, Traffic(1, 0, 0), tuple(events))
