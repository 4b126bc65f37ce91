"""What the engines like in tiles."""

from __future__ import annotations

from dory_core.api import Kernel, Layer, Term, Tile, geometry

# Weights after the DORY paper, section 4.2.2: alpha of the memory use, beta of the kernels' wishes.
ALPHA = 0.5
BETA_REUSE = 1e2
BETA_BLOCK = 1e6
# The digital array computes blocks of 16 outputs by 16 columns, and its pipeline is filled by 16
# pixels; the analog one has 512 columns of outputs over operations of 128 inputs.
_SIDE = 16
_PIXELS = 16
_ANALOG_OUTPUTS, _ANALOG_INPUTS = 512, 128


def engine_terms(engine: str, tile: Tile) -> list[Term]:
    """Return what an engine likes in one tile."""
    if engine == "digital":
        return [
            Term("COLUMNS_IN_SIXTEENS", BETA_BLOCK, (tile.w - 1) % _SIDE),
            Term("OUTPUTS_IN_SIXTEENS", BETA_BLOCK, (tile.c_out - 1) % _SIDE),
            Term("SIXTEEN_PIXELS", BETA_BLOCK * _SIDE, tile.h * tile.w >= _PIXELS),
            Term("FEW_WEIGHT_LOADS", BETA_REUSE, tile.h),
        ]
    if engine == "analog":
        return [
            Term("ALL_COLUMNS", BETA_BLOCK, (tile.c_out - 1) % _ANALOG_OUTPUTS),
            Term("ALL_ROWS", BETA_BLOCK, (tile.c_in - 1) % _ANALOG_INPUTS),
            Term("FEW_WEIGHT_LOADS", BETA_REUSE, tile.h),
        ]
    return []


def terms(layer: Layer, kernel: Kernel, tile: Tile) -> list[Term]:
    """Return all terms; those of the engines for the border tile too."""
    found = [Term("UTILISATION", ALPHA, geometry.tensor_bytes(layer, tile))]
    found += engine_terms(kernel.engine, tile)
    if tile.last is not None:
        found += [
            Term(f"{t.name}_BORDER", t.weight, t.value)
            for t in engine_terms(kernel.engine, tile.last)
        ]
    return found
