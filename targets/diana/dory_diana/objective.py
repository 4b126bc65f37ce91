"""What makes a tile good on any engine; the engines state their own terms (``Kernel.terms``)."""

from __future__ import annotations

from dory_core.api import Layer, Term, Tile, geometry

# Weights after the DORY paper, section 4.2.2: alpha of the memory use, beta of the kernels' wishes.
ALPHA = 0.5
BETA_REUSE = 1e2
BETA_BLOCK = 1e6


def terms(layer: Layer, tile: Tile) -> list[Term]:
    """Return that tensors fill the memory."""
    return [Term("UTILISATION", ALPHA, geometry.tensor_bytes(layer, tile))]
