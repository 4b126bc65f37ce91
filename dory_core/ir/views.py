"""Which layers only name bytes: where their tensors lie in one another."""

from __future__ import annotations

from dory_core.ir.graph import Layer


def offsets_of(layer: Layer) -> tuple[int, ...] | None:
    """Return where the smaller tensors of a layer begin in the larger one, in bytes."""
    return layer.byte_offsets
