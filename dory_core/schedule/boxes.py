"""Tiles of tensors in the layouts of a kernel: their bytes in L1, and where they may be cut."""

from __future__ import annotations

from math import gcd, lcm

from dory_core.expr import Number
from dory_core.hardware.memories import MemoryHierarchy
from dory_core.ir import Layer
from dory_core.ir.geometry import (
    Tile,
    channel_granule,
    extent,
    input_bytes,
    is_channelwise,
    make_tile,
    output_bytes,
    output_granule,
)
from dory_core.ir.layout import Layout
from dory_core.kernels.bound_kernel import BoundKernel
from dory_core.kernels.call import OPERANDS
from dory_core.kernels.kernel import Constraint, Traits


def tile_bytes(layer: Layer, name: str, layout: Layout, tile: Tile) -> Number:
    """Return the bytes of a tile of an operand in L1.

    Args:
        layer: The layer.
        name: The operand, ``y`` or one of OPERANDS.
        layout: The layout of its tensor.
        tile: The tile; its sizes are numbers or expressions.
    """
    if name == "y":
        if layout.is_hwc:
            return output_bytes(layer, tile)
        return layout.box_bytes(layer.output, tile.c_out, tile.h)
    operand = OPERANDS.index(name)
    if layout.is_hwc:
        return input_bytes(layer, tile, operand)
    tensor = layer.inputs[operand]
    if layer.op.reads_vector:
        return layout.size_bytes(tensor)
    return layout.box_bytes(tensor, tile.c_in, tile.x_h)


def tile_granule(layer: Layer, traits: Traits) -> int:
    """Return the granule of output channels: every tile but the last is a multiple of it.

    Slices of inputs and output then start where their layouts can be cut.
    """
    granule = lcm(output_granule(layer), _slice(traits.output))
    if not is_channelwise(layer):
        return granule
    together = channel_granule(layer)
    per_group = extent(layer).c_in * together // extent(layer).c_out
    for layout in traits.inputs:
        channels = _slice(layout)
        granule = lcm(granule, together * (channels // gcd(channels, per_group)))
    return granule


def _slice(layout: Layout) -> int:
    """Return the granule of slices of channels in a layout."""
    if layout.channel_block:
        return layout.channel_multiple
    return lcm(layout.channel_multiple, layout.reversed_bytes)


def fetch_constraints(
    layer: Layer, bound: BoundKernel, tile: Tile, hierarchy: MemoryHierarchy
) -> tuple[Constraint, ...]:
    """Return the constraint that the constants of a tile fit the memory they are fetched into.

    There is none for a kernel that does not fetch its constants, or reads them where they are.

    Args:
        layer: The layer.
        bound: Its kernel.
        tile: Sizes as expressions.
        hierarchy: The memories of the target.

    Raises:
        ValueError: Level 1 has no such memory.
    """
    role = bound.traits.fetches
    if role in ("", Traits.LINKED):
        return ()
    memory = hierarchy.level(1).memory_for(role)
    if memory is None:
        raise ValueError(
            f"kernel {bound.kernel.name} fetches its constants into a memory for {role}, "
            "which level 1 does not have"
        )
    full = extent(layer)
    least = min(tile_granule(layer, bound.traits), full.c_out)
    smallest = bound.weight_bytes(make_tile(layer, least, full.h, full.w, full.c_in))
    return (
        Constraint(
            bound.weight_bytes(tile) <= memory.usable_bytes,
            f"the constants of a tile, {smallest} B or more, lie in {memory.name} of "
            f"{memory.usable_bytes} B",
        ),
    )
