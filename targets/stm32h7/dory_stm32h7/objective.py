"""What the kernels of the Cortex-M7 like in tiles."""

from __future__ import annotations

from dory_core.api import Kernel, Layer, Term, Tile, geometry, ops

# Weights after the DORY paper, section 4.2.2: alpha of the memory use, beta of the kernels' wishes.
ALPHA = 0.5
BETA_REUSE = 1e2
BETA_BLOCK = 1e6


def kernel_terms(layer: Layer, tile: Tile) -> list[Term]:
    """Return the terms that rate a tile by the blocks of the kernels.

    Dense convolutions: columns that serve many channels, pixels and channels in pairs. Depthwise:
    channels in fours, and few pixels at borders: wide tiles. Fully connected: outputs in fours.
    """
    kind = layer.op
    if isinstance(kind, ops.Linear):
        return [Term("OUTPUTS_IN_FOURS", BETA_BLOCK, (tile.c_out - 1) % 4)]
    if isinstance(kind, ops.Conv) and kind.is_depthwise:
        return [
            Term("CHANNELS_IN_FOURS", BETA_BLOCK, (tile.c_out - 1) % 4),
            Term("WIDE_TILE", BETA_REUSE, tile.w),
        ]
    if isinstance(kind, ops.Conv):
        return [
            Term("HIDE_COLUMNS", BETA_REUSE, tile.c_out),
            Term("PIXELS_IN_PAIRS", BETA_BLOCK, (tile.h * tile.w - 1) % 2),
            Term("CHANNELS_IN_PAIRS", BETA_BLOCK, (tile.c_out - 1) % 2),
        ]
    return [Term("CHANNELS_IN_FOURS", BETA_BLOCK, (tile.c_out - 1) % 4)]


def terms(layer: Layer, kernel: Kernel, tile: Tile) -> list[Term]:
    """Return the terms of the target: fill the memory, and those of kernels without own terms."""
    used = geometry.tensor_bytes(layer, tile) + kernel.weight_bytes(layer, tile)
    found = [Term("UTILISATION", ALPHA, used)]
    if kernel.terms(layer, tile):
        return found
    found += kernel_terms(layer, tile)
    if tile.last is not None:
        border = kernel_terms(layer, tile.last)
        found += [Term(f"{t.name}_BORDER", t.weight, t.value) for t in border]
    return found
