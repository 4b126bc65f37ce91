"""What cores wait for memory when layers run in place, behind a data cache or without one.

A kernel says how it goes through its operands (``Kernel.accesses``): how many loads and stores, how
many different bytes, and what lies between two uses of the same bytes. Without a cache every load
and store waits for the bus. With one, the first use of a line misses; a later one misses when the
line has been replaced meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from dory_core.hardware.memories import Cache, Memory
from dory_core.ir import Layer, ops, pixel_bytes
from dory_core.ir.geometry import Tile
from dory_core.kernels.binding import BoundKernel
from dory_core.kernels.kernel import OPERANDS, Access, MemoryAccesses

__all__ = ["Access", "Cache", "MemoryAccesses", "window_access"]


@lru_cache(maxsize=4096)
def missed_share(distance_bytes: int, cache: Cache) -> float:
    """Return the share of lines that are gone when they are used again after so many other bytes.

    Replacement is random. Of n lines that were touched meanwhile, a share m missed and took a way
    of a set each: m = 1 - (1 - 1 / ways) ** (m * n / sets). Data that is gone through again and
    again stays in the cache (m = 0) while it is smaller than that, and misses ever more beyond.
    """
    rate = distance_bytes / cache.line_bytes / cache.sets * -math.log1p(-1 / cache.ways)
    if rate <= 1:
        return 0.0
    share = 1.0
    for _ in range(200):
        share = 1 - math.exp(-rate * share)
    return share


def missed_lines(access: Access, cache: Cache) -> float:
    """Return the lines that an access fills."""
    again = sum(size * missed_share(distance, cache) for size, distance in access.again)
    return (access.bytes + again) / cache.line_bytes


def waiting_cycles(
    accesses: Sequence[Access], memories: Mapping[str, Memory], cache: Cache | None
) -> int:
    """Return the cycles that a call of a kernel waits for memory.

    memories: by operand; an operand that is not there lies in a memory without waiting.
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
    """Return how a kernel that goes from pixel to pixel reads its input.

    count: loads. step_bytes: bytes of all operands that it touches for one step of its loop over
    pixels; what neighbouring windows share is used again after so many.
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
    """Return the accesses of a kernel that computes one output after the other.

    Every product loads an input and a weight. For kernels that say nothing else.
    """
    layer = bound.layer
    kind, y = layer.op, layer.output
    outputs = tile.h * tile.w * tile.c_out
    weights = int(bound.weight_bytes(tile))
    stores = Access("y", outputs, tile.h * tile.w * pixel_bytes(tile.c_out, y.bits))
    if not isinstance(kind, (ops.Conv, ops.Linear, ops.MaxPool, ops.AvgPool)):
        operands = zip(OPERANDS, layer.inputs, strict=False)
        tables: tuple[tuple[str, int], ...] = ()
        if weights and not isinstance(kind, ops.Pairwise):
            tables = (("w", weights),)
        loads = (*((name, t.size_bytes) for name, t in operands), *tables)
        return (*(Access(name, outputs, size) for name, size in loads), stores)
    x = layer.inputs[0]
    if isinstance(kind, ops.Linear):
        again = (tile.c_out - 1) * x.size_bytes
        row = x.size_bytes + weights // tile.c_out
        reads = Access("x", tile.c_out * x.elements, x.size_bytes, ((again, row),))
        return (reads, Access("w", tile.c_out * x.elements, weights), stores)
    taps = kind.window.taps
    fan_in = kind.weights.values[0].size if isinstance(kind, ops.Conv) else taps
    step = weights + taps * pixel_bytes(x.channels, x.bits) + pixel_bytes(tile.c_out, y.bits)
    reads = window_access(layer, tile, outputs * fan_in, step)
    if not isinstance(kind, ops.Conv):
        return (reads, stores)
    again = (tile.h * tile.w - 1) * weights
    return (reads, Access("w", outputs * fan_in, weights, ((again, step),)), stores)
