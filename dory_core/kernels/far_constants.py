"""Which constants lie in the first memory of their level, where it has two."""

from __future__ import annotations

from dataclasses import replace

from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir.geometry import extent, make_tile
from dory_core.kernels.binding import BoundGraph, BoundLayer

#: Part of the first memory that stays free: tables of tiles have a few bytes more than a layer.
_SPARE = 1 / 64
#: Most bytes by which the table of a tile is longer, for each output channel.
_PADDING = 8


def spread_constants(bound: BoundGraph, hierarchy: MemoryHierarchy, room_bytes: int) -> BoundGraph:
    """Return the network with a memory for the constants of each layer.

    Where the first memory has no room for all, it gets those with the fewest MACs for each byte:
    their loads are hidden least.

    Args:
        bound: The network.
        hierarchy: The memories.
        room_bytes: Bytes of the first memory of constants.
    """
    if len(hierarchy.constants_memories) < 2:
        return bound
    sizes = tuple(map(_constants_bytes, bound.layers))
    left = int(room_bytes * (1 - _SPARE))
    if sum(sizes) <= left:
        return bound
    far = set[int]()
    numbers = (n for n, size in enumerate(sizes) if size)
    for n in sorted(numbers, key=lambda n: bound.layers[n].layer.macs / sizes[n]):
        if sizes[n] <= left:
            left -= sizes[n]
        else:
            far.add(n)
    layers = (_far(one) if n in far else one for n, one in enumerate(bound.layers))
    return replace(bound, layers=tuple(layers))


def _constants_bytes(one: BoundLayer) -> int:
    """Return the bytes of the constants of a layer, at most."""
    if not one.kernels:
        return 0
    full = extent(one.layer)
    tile = make_tile(one.layer, full.c_out, full.h, full.w, full.c_in)
    found = max(int(kernel.weight_bytes(tile)) for kernel in one.kernels)
    return found + _PADDING * (full.c_out + 1) if found else 0


def _far(one: BoundLayer) -> BoundLayer:
    kernels = (replace(kernel, far_constants=True) for kernel in one.kernels)
    return replace(one, kernels=tuple(kernels))
