"""What the kernels of the 4x4 block like in tiles: two objectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import Layer, Number, Term, Tile, ceil_div, geometry
from dory_gap8.objective import BETA_BALANCE, BETA_IM2COL, by_cycles, whole_units

if TYPE_CHECKING:
    from dory_gap8.backend.instance import ClusterKernel

# Pixels that the block computes at once.
BLOCK_PIXELS = 4


def block_terms(kernel: ClusterKernel, layer: Layer, tile: Tile) -> tuple[Term, ...]:
    """Return the terms of a tile; of a tile with a border tile, those of the second objective too.

    First objective: pixels in fours that divide among the cores, channels in fours, columns that
    serve many channels. What is left over of a whole axis is no worse: other tiles have it as well.
    Second objective: few cycles of all tiles.
    """
    full = geometry.extent(layer)
    pixels = whole_units(tile.h * tile.w, BLOCK_PIXELS * kernel.cores, full.h * full.w)
    found = (
        Term("PAR_BALANCE", BETA_BALANCE, pixels, alternative=0),
        Term("MATMUL_CH", BETA_BALANCE, whole_units(tile.c_out, 4, full.c_out), alternative=0),
        Term("HIDE_IM2COL", BETA_IM2COL, tile.c_out, alternative=0),
    )
    if tile.last is None:
        return found
    return (*found, by_cycles(layer, tile, _calls_cycles(kernel, layer, tile, tile.last)))


def _calls_cycles(kernel: ClusterKernel, layer: Layer, tile: Tile, last: Tile) -> Number:
    """Return the cycles of all calls, by blocks of pixels on all cores."""
    full, unit, window = geometry.extent(layer), BLOCK_PIXELS * kernel.cores, layer.window

    def call(pixels: int, channels: int) -> int:
        x_w = (pixels - 1) * window.strides[1] + window.kernel[1]
        row = Tile(channels, 1, pixels, full.c_in, window.kernel[0], x_w)
        return int(kernel.cycles(layer, row))

    # What another block costs with one and with two groups of four channels.
    one, two = (call(2 * unit, c) - call(unit, c) for c in (4, 8))
    pixels, group = max(0, 2 * one - two), max(1, two - one)
    rows, columns = full.h // tile.h, full.w // tile.w
    more_rows, more_columns = full.h % tile.h != 0, full.w % tile.w != 0
    blocks = (
        rows * columns * ceil_div(tile.h * tile.w, unit)
        + more_rows * columns * ceil_div(last.h * tile.w, unit)
        + rows * more_columns * ceil_div(tile.h * last.w, unit)
        + more_rows * more_columns * ceil_div(last.h * last.w, unit)
    )
    parts, groups = ceil_div(full.c_out, tile.c_out), -(-full.c_out // 4)
    return blocks * (parts * pixels + groups * group)
