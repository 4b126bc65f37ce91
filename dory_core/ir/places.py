"""Which part of an operand a tile takes."""

from __future__ import annotations

from dory_core.ir.graph import Layer


def whole_axes(layer: Layer, operand: int) -> tuple[bool, bool, bool]:
    """Return of which axes (C, H, W) a tile takes all of an operand, whatever the tile is."""
    return layer.whole_axes(operand)


def is_local(layer: Layer, axis: int) -> bool:
    """Return whether stripes along an axis are layers of the same kind with fewer rows."""
    return layer.is_local(axis)
