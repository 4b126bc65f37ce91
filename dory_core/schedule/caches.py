"""Cycles that cores wait for memory when a layer runs in place, with a data cache or without one.

A kernel states its accesses (``MemoryAccesses.accesses``): loads and stores, distinct bytes, and
the reuse distance of bytes that it touches again. Without a cache every load and store waits for
the bus. With a cache the first use of a line misses, and a later one when the line was replaced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from dory_core.hardware.caches import Cache
from dory_core.hardware.memories import Memory
from dory_core.ir import Layer, pixel_bytes
from dory_core.ir.geometry import Tile
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.kernels.call import OPERANDS
from dory_core.kernels.kernel import Access, MemoryAccesses

__all__ = ["Access", "Cache", "MemoryAccesses", "window_access"]


@lru_cache(maxsize=4096)
def missed_share(distance_bytes: int, cache: Cache) -> float:
    """Return the share of lines that miss when they are used again.

    Replacement is random. Of n lines that were touched in between, a share m missed and replaced
    one way of a set each: m = 1 - (1 - 1 / ways) ** (m * n / sets). Data that is used again and
    again stays in the cache (m = 0) up to some size, and misses more and more beyond it.

    Args:
        distance_bytes: Other bytes that were touched since the last use.
        cache: The cache.
    """
    rate = distance_bytes / cache.line_bytes / cache.sets * -math.log1p(-1 / cache.ways)
    if rate <= 1:
        return 0.0
    share = 1.0
    for _ in range(200):
        share = 1 - math.exp(-rate * share)
    return share


def missed_lines(access: Access, cache: Cache) -> float:
    """Return the number of lines that an access fills."""
    again = sum(size * missed_share(distance, cache) for size, distance in access.again)
    return (access.bytes + again) / cache.line_bytes


def waiting_cycles(
    accesses: Sequence[Access], memories: Mapping[str, Memory], cache: Cache | None
) -> int:
    """Return the cycles that a call of a kernel waits for memory.

    Args:
        accesses: The accesses of the call.
        memories: The memory of each operand; the memory of any other operand never waits.
        cache: The data cache, None for a chip without one.
    """
    total = 0.0
    for access in accesses:
        memory = memories.get(access.operand)
        if memory is None:
            continue
        if cache is None:
            total += access.count * memory.access_cycles
        else:
            total += missed_lines(access, cache) * memory.line_cycles
    return round(total)


def window_access(layer: Layer, tile: Tile, count: int, step_bytes: int) -> Access:
    """Return the access to the input of a kernel that computes pixel after pixel.

    Args:
        layer: The layer.
        tile: The tile, of integers.
        count: Loads of the input.
        step_bytes: Bytes of all operands that one step of the loop over pixels touches: the reuse
            distance of what neighbouring windows share.
    """
    window = layer.window
    kernel_h, kernel_w = window.kernel
    pixel = pixel_bytes(layer.inputs[0].channels, layer.inputs[0].bits)
    first = tile.x_h * tile.x_w * pixel
    rows = max(first, tile.h * min(kernel_h, tile.x_h) * tile.x_w * pixel)
    touched = max(rows, tile.h * tile.w * kernel_h * kernel_w * pixel)
    row_bytes = min(kernel_h, tile.x_h) * tile.x_w * pixel + max(step_bytes, 0)
    row_bytes += tile.w * pixel_bytes(layer.output.channels, layer.output.bits)
    return Access("x", count, first, ((touched - rows, step_bytes), (rows - first, row_bytes)))


def pixel_by_pixel(bound: BoundKernel, tile: Tile) -> tuple[Access, ...]:
    """Return the accesses of a kernel that states none: one output element after the other."""
    layer = bound.layer
    op, x, y = layer.op, layer.inputs[0], layer.output
    outputs = tile.h * tile.w * tile.c_out
    weights = int(bound.weight_bytes(tile))
    loads, again = op.loads(x), tuple[tuple[int, int], ...]()
    if op.reads_vector:
        row = x.size_bytes + weights // tile.c_out
        later = (tile.c_out - 1) * x.size_bytes
        reads = [Access("x", outputs * loads.inputs, x.size_bytes, ((later, row),))]
    elif op.sliding is not None:
        pixels = pixel_bytes(x.channels, x.bits), pixel_bytes(tile.c_out, y.bits)
        step = weights + op.sliding.taps * pixels[0] + pixels[1]
        reads = [window_access(layer, tile, outputs * loads.inputs, step)]
        again = (((tile.h * tile.w - 1) * weights, step),)
    else:
        named = zip(OPERANDS, layer.inputs, strict=False)
        reads = [Access(name, outputs * loads.inputs, one.size_bytes) for name, one in named]
    if weights and loads.constants:
        reads.append(Access("w", outputs * loads.constants, weights, again))
    return (*reads, Access("y", outputs, tile.h * tile.w * pixel_bytes(tile.c_out, y.bits)))
