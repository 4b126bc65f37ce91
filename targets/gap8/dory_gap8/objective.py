"""The tiling heuristics for PULP-style kernels (DORY paper, section 4.2.2).

Kernels that want other tiles state so next to their code (``Kernel.terms``), with the weights and
functions of this module.
"""

from __future__ import annotations

from dory_core.api import Kernel, Layer, Number, Term, Tile, ceil_div, geometry, maximum, ops

# Weights of the paper: alpha of the memory use, beta of the kernels' wishes.
ALPHA = 0.5
BETA_IM2COL = 1e2
BETA_BALANCE = 1e6


def whole_units(size: Number, unit: int, full: int) -> Number:
    """Return unit - 1 for multiples of ``unit`` and for the whole axis, less for other sizes."""
    return maximum((size - 1) % unit, (unit - 1) * (size == full))


def tiles_of(layer: Layer, tile: Tile) -> Number:
    """Return the number of tiles of a layer."""
    full = geometry.extent(layer)
    places = ceil_div(full.h, tile.h) * ceil_div(full.w, tile.w)
    return places * ceil_div(full.c_out, tile.c_out)


def tile_terms(layer: Layer, tile: Tile, cores: int) -> list[Term]:
    """Return the terms that rate a tile for the paper's kernels.

    Dense convolutions: reuse of im2col, rows that divide among the cores, even widths and channels
    in fours for the 4x2 block. Depthwise: channels divide among the cores. Fully connected: outputs
    in fours. Others share pixels: rows that divide among the cores.
    """
    kind = layer.op
    if isinstance(kind, ops.Conv) and kind.groups > 1:
        return [Term("PAR_BALANCE", BETA_BALANCE, (tile.c_out - 1) % cores)]
    full = geometry.extent(layer)
    if isinstance(kind, ops.Linear):
        return [Term("MATMUL_CH", BETA_BALANCE, whole_units(tile.c_out, 4, full.c_out))]
    balance = Term("PAR_BALANCE", BETA_BALANCE, (tile.h - 1) % cores)
    if not isinstance(kind, ops.Conv):
        whole = tile.c_out == full.c_out
        return [balance, Term("WHOLE_PIXELS", BETA_BALANCE, cores * whole)]
    return [
        balance,
        Term("HIDE_IM2COL", BETA_IM2COL, tile.c_out),
        Term("MATMUL_W", BETA_BALANCE, (tile.w - 1) % 2),
        Term("MATMUL_CH", BETA_BALANCE, (tile.c_out - 1) % 4),
    ]


def terms(layer: Layer, kernel: Kernel, tile: Tile, cores: int) -> list[Term]:
    """Return the terms of the target: fill the memory, and the paper's for kernels without own.

    Those for the border tile have the suffix ``_BORDER`` (section 6.1: borders can be half the
    work).
    """
    own = kernel.terms(layer, tile)
    used = geometry.tensor_bytes(layer, tile) + kernel.weight_bytes(layer, tile)
    found = [Term("UTILISATION", ALPHA, used)]
    if own:
        return found
    found += tile_terms(layer, tile, cores)
    if tile.last is not None:
        border = tile_terms(layer, tile.last, cores)
        found += [Term(f"{t.name}_BORDER", t.weight, t.value) for t in border]
    return found
