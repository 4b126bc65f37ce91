"""What the kernels of the 4x4 block like in tiles, and the cycles of a core's share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import Layer, Number, Term, Tile, ceil_div, geometry, minimum
from dory_gap8 import calibration as cal
from dory_gap8.objective import BETA_BALANCE, BETA_IM2COL, whole_units

if TYPE_CHECKING:
    from dory_gap8.backend.instance import ClusterKernel

# Pixels that the block computes at once.
BLOCK_PIXELS = 4


def shared_cycles(
    cores: int, blocks: Number, pixel: Number, groups: Number, group: Number
) -> Number:
    """Return the cycles of the core with the largest share of a tile's blocks.

    A share may begin and end within a block, where the largest share has fewer groups then.

    Args:
        cores: The cores that share the tile.
        blocks: Blocks of pixels.
        pixel: Cycles of a block without its groups.
        groups: Groups of four channels of a block.
        group: Cycles of one of them.
    """
    share = ceil_div(blocks * groups, cores)
    within = minimum(ceil_div(blocks, cores) * groups - share, 1)
    return share * group + ceil_div(share, groups) * pixel + within * (pixel + cal.BLOCK_PART)


def block_terms(kernel: ClusterKernel, layer: Layer, tile: Tile) -> tuple[Term, ...]:
    """Return the terms of a tile.

    Pixels in fours that divide among the cores, channels in fours, columns that serve many
    channels. What is left over of a whole axis is no worse: other tiles have it as well.
    """
    full = geometry.extent(layer)
    pixels = whole_units(tile.h * tile.w, BLOCK_PIXELS * kernel.cores, full.h * full.w)
    return (
        Term("PAR_BALANCE", BETA_BALANCE, pixels),
        Term("MATMUL_CH", BETA_BALANCE, whole_units(tile.c_out, 4, full.c_out)),
        Term("HIDE_IM2COL", BETA_IM2COL, tile.c_out),
    )
