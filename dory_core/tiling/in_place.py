"""Layers that are not tiled: kernels work on tensors and constants where they lie.

For memories behind a cache, and as the baseline that tiling is compared with. The kernel's scratch
memory stays in L1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from dory_core.binding import BoundKernel, BoundLayer, KernelRejection
from dory_core.errors import DoesNotFit, NotSupported
from dory_core.estimate.cache import pixel_by_pixel, waiting_cycles
from dory_core.estimate.timeline import Event, LayerEstimate, PartTimeline, Traffic
from dory_core.hardware import MemoryHierarchy
from dory_core.ir import Layer
from dory_core.ir.geometry import Tile, extent, make_tile, window_of
from dory_core.kernel import OPERANDS, Kernel, MemoryAccesses
from dory_core.tiles.boxes import fetch_constraints
from dory_core.tiles.schedule import Buffering, L1Buffer, Schedule, l1_buffers, make_schedule
from dory_core.tiles.tiling import Tiling
from dory_core.tiling.tiled import TiledLayer

_SINGLE = Buffering()
#: ``LayerEstimate.bound`` of a layer in place that waits longer than it computes.
MEMORY_BOUND = "memory"


@dataclass(frozen=True, slots=True)
class Refused(Exception):
    """Why a kernel cannot compute a layer in one piece.

    needed_bytes: of L1, when that is too small; 0 for other reasons.
    """

    reason: str
    needed_bytes: int = 0


def tile_whole(bound: BoundLayer, budget_bytes: int, hierarchy: MemoryHierarchy) -> TiledLayer:
    """Return the layer in one piece, in place, on the first kernel that takes it so.

    budget_bytes: of L1, for scratch memory. Raises: NotSupported when every kernel rejects the
    layer, DoesNotFit when those that accept it need more scratch memory.
    """
    layer, refusals = bound.layer, list(bound.rejections)
    needed: list[int] = []
    for candidate in bound.kernels:
        try:
            whole = whole_layer(layer, candidate, budget_bytes, hierarchy)
        except Refused as refused:
            refusals.append(KernelRejection.of(candidate.kernel, refused.reason))
            if refused.needed_bytes:
                needed.append(refused.needed_bytes)
            continue
        asked = bound.before(candidate.kernel.name)
        return whole.explained(bound, (r for r in refusals if r.kernel in asked))
    rejections = bound.sorted(refusals)
    reasons = "; ".join(f"{r.kernel}: {r.reason}" for r in rejections)
    what = f"{layer.op.kind} '{layer.op.name}'"
    if needed:
        raise DoesNotFit(
            f"{what} needs {min(needed)} B of L1 for scratch memory, {budget_bytes} are available "
            f"({reasons})",
            "raise --l1 if the chip has more, or let the layer be tiled",
            min(needed),
        )
    raise NotSupported(
        f"{what}: no kernel computes it in one piece ({reasons})",
        "let the layer be tiled, or add a kernel as a plugin",
    )


def whole_tile(layer: Layer) -> Tile:
    """Return the tile of a layer in place; its input includes what no window reaches."""
    full = extent(layer)
    tile = make_tile(layer, full.c_out, full.h, full.w, full.c_in)
    if window_of(layer) is None:
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

    budget_bytes: of L1, for scratch memory. Raises: Refused.
    """
    kernel = candidate.kernel
    if candidate.traits.planar:
        raise Refused("it reads another layout than that of tensors in L2")
    tile = whole_tile(layer)
    fetched = fetch_constraints(layer, candidate, tile, hierarchy)
    for constraint in (*kernel.constraints(layer, tile), *fetched):
        if not constraint.condition:
            raise Refused(f"not in one piece: {constraint.reason}")
    buffers = scratch_buffers(layer, candidate, tile)
    used = sum(int(b.total) for b in buffers)
    if used > budget_bytes:
        raise Refused(f"it needs {used} B of scratch memory", used)
    has_weights = int(kernel.weight_bytes(layer, tile)) > 0
    schedule = make_schedule(layer, tile, _SINGLE, has_weights=has_weights)
    tiling = Tiling(tile, _SINGLE, buffers, budget_bytes, (), "whole")
    estimate = whole_timeline(layer, kernel, hierarchy).estimate
    return TiledLayer(layer, candidate, tiling, schedule, estimate, in_place=True)


def whole_timeline(
    layer: Layer,
    kernel: Kernel,
    hierarchy: MemoryHierarchy,
    memories: Mapping[str, int] = MappingProxyType({}),
    part: Schedule | None = None,
) -> PartTimeline:
    """Return the timeline of a layer in place: the kernel, and what it waits for memory.

    memories: number of the memory of L2 by operand (``x``, ``x2``, ``y``), 0 unless it is there.
    part: the one tile of a part of the layer, None for all of it.
    """
    tile = whole_tile(layer) if part is None else _part_tile(layer, part)
    compute = int(kernel.cycles(layer, tile))
    places = {name: hierarchy.level(2).memories[memories.get(name, 0)] for name in (*OPERANDS, "y")}
    places["w"] = hierarchy.level(hierarchy.constants_level).memories[0]
    waiting = 0
    if any(memory.access_cycles or memory.line_cycles for memory in places.values()):
        line_bytes = hierarchy.cache.line_bytes if hierarchy.cache is not None else 1
        accesses = (
            kernel.accesses(layer, tile, line_bytes)
            if isinstance(kernel, MemoryAccesses)
            else pixel_by_pixel(kernel, layer, tile)
        )
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
