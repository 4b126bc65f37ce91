"""The tiling heuristics for PULP-style kernels (DORY paper, section 4.2.2)."""

from __future__ import annotations

from dataclasses import replace

from dory_core.api import (
    Kernel,
    Layer,
    Number,
    Term,
    Tile,
    ceil_div,
    geometry,
    maximum,
    minimum,
    ops,
)
from dory_gap8.backend import LinearBytesKernel
from dory_gap8.backend.block import BlockKernel
from dory_gap8.backend.depthwise_form import LANES, WALK, form_of
from dory_gap8.backend.depthwise_hwc import DepthwiseHwcKernel
from dory_gap8.backend.held import HeldKernel
from dory_gap8.backend.unpacked import UnpackingKernel, wide
from dory_gap8.hardware import TILE_CYCLES

# Weights of the paper: alpha of the memory use, beta of the kernels' wishes.
ALPHA = 0.5
BETA_IM2COL = 1e2
BETA_BALANCE = 1e6

# Strips of a core whose inputs are loaded in the time that a tile takes beside its kernel.
STRIPS_OF_A_TILE = 25

# Bytes per cycle that nothing hides of what the first tile loads and the last one stores.
PORT_BYTES = 4

# Pixels that the block of dory's own dense kernels computes at once.
BLOCK_PIXELS = 4


def utilisation(layer: Layer, kernel: Kernel, tile: Tile) -> Term:
    """Fill the memory: bytes of all tiles."""
    used = geometry.tensor_bytes(layer, tile) + kernel.weight_bytes(layer, tile)
    return Term("UTILISATION", ALPHA, used)


def _whole(size: Number, unit: int, full: int) -> Number:
    """Return unit - 1 for multiples of ``unit`` and for the whole axis, less for other sizes."""
    return maximum((size - 1) % unit, (unit - 1) * (size == full))


def _inside(layer: Layer, kernel: Kernel) -> tuple[Layer, Kernel]:
    """Return the kernel that computes, and the layer as that one sees it."""
    if isinstance(kernel, UnpackingKernel):
        return wide(layer), kernel.inner
    return layer, kernel


def kernel_terms(layer: Layer, kernel: Kernel, tile: Tile, cores: int) -> list[Term]:
    """What the kernels like in one tile.

    Dense convolutions: reuse of im2col, rows that divide among the cores, even widths and channels
    in fours for the 4x2 block; on the 4x4 block pixels in fours that divide among the cores. What
    is left over of a whole axis is no worse: other tiles have it, too. Where inputs are in
    registers: whole strips that divide among the cores.
    Depthwise: channels divide among the cores; on channels last, the channels of all strips do,
    strips are whole and long, and pixels start on a word. Fully connected: outputs in fours, which
    divide among the cores where inputs are bytes. Others share pixels: rows that divide among the
    cores.
    """
    layer, kernel = _inside(layer, kernel)
    kind = layer.op
    if isinstance(kernel, DepthwiseHwcKernel):
        form, full = form_of(layer), geometry.extent(layer)
        along, walk = form.axes(tile.h, tile.w)
        shared = tile.c_out * ceil_div(along, form.strip)
        return [
            Term("PAR_BALANCE", BETA_BALANCE, (shared - 1) % cores),
            Term("STRIP", BETA_BALANCE, _whole(along, form.strip, form.axes(full.h, full.w)[0])),
            Term("WORD", BETA_BALANCE, _whole(tile.c_in, LANES, full.c_in)),
            Term("WALK", BETA_BALANCE, minimum(walk, WALK) // 4),
        ]
    if isinstance(kind, ops.Conv) and kind.groups > 1:
        return [Term("PAR_BALANCE", BETA_BALANCE, (tile.c_out - 1) % cores)]
    if isinstance(kind, ops.Linear):
        unit = 4 * cores if isinstance(kernel, LinearBytesKernel) else 4
        return [
            Term("MATMUL_CH", BETA_BALANCE, _whole(tile.c_out, unit, geometry.extent(layer).c_out))
        ]
    if isinstance(kernel, HeldKernel):
        full, length = geometry.extent(layer), kernel.strip_outputs(layer)
        strips, all_strips = (ceil_div(t.h, length) * t.w for t in (tile, full))
        return [
            Term("PAR_BALANCE", BETA_BALANCE, _whole(strips, cores, all_strips)),
            Term("STRIP", BETA_BALANCE, _whole(tile.h, length, full.h)),
        ]
    if isinstance(kernel, BlockKernel):
        full = geometry.extent(layer)
        pixels = _whole(tile.h * tile.w, BLOCK_PIXELS * cores, full.h * full.w)
        return [
            Term("PAR_BALANCE", BETA_BALANCE, pixels),
            Term("MATMUL_CH", BETA_BALANCE, _whole(tile.c_out, 4, full.c_out)),
            Term("HIDE_IM2COL", BETA_IM2COL, tile.c_out),
        ]
    terms = [Term("PAR_BALANCE", BETA_BALANCE, (tile.h - 1) % cores)]
    if not isinstance(kind, ops.Conv):
        whole = tile.c_out == geometry.extent(layer).c_out
        terms.append(Term("WHOLE_PIXELS", BETA_BALANCE, cores * whole))
    if isinstance(kind, ops.Conv):
        terms += [
            Term("HIDE_IM2COL", BETA_IM2COL, tile.c_out),
            Term("MATMUL_W", BETA_BALANCE, (tile.w - 1) % 2),
            Term("MATMUL_CH", BETA_BALANCE, (tile.c_out - 1) % 4),
        ]
    return terms


def layer_terms(layer: Layer, kernel: Kernel, tile: Tile, cores: int) -> list[Term]:
    """Return what kernels like of all tiles of a layer.

    Where inputs are in registers: few tiles, and channels in few parts, each of which loads inputs.
    """
    layer, kernel = _inside(layer, kernel)
    if not isinstance(kernel, HeldKernel):
        return []
    full = geometry.extent(layer)
    strips = int(ceil_div(full.h, kernel.strip_outputs(layer)) * full.w)
    parts = ceil_div(full.c_out, tile.c_out)
    tiles = parts * ceil_div(full.h, tile.h) * ceil_div(full.w, tile.w)
    reloaded = max(1, strips // (STRIPS_OF_A_TILE * cores))
    return [
        Term("HIDE_LOADS", BETA_BALANCE, -reloaded * parts),
        Term("TILES", BETA_BALANCE, -tiles),
    ]


def _blocks_cycles(layer: Layer, kernel: BlockKernel, tile: Tile, cores: int) -> Number:
    """Return the cycles of all tiles of a dense layer, by blocks of pixels on all cores."""
    assert tile.last is not None
    full, last, unit = geometry.extent(layer), tile.last, BLOCK_PIXELS * cores
    window = layer.window

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
    parts = ceil_div(full.c_out, tile.c_out)
    groups = -(-full.c_out // 4)
    tiles = ceil_div(full.h, tile.h) * ceil_div(full.w, tile.w) * parts
    return tiles * TILE_CYCLES + blocks * (parts * pixels + groups * group)


def cycles_terms(layer: Layer, kernel: Kernel, tile: Tile, cores: int) -> list[Term]:
    """Few cycles of all tiles of a layer, and little to load and store that nothing hides.

    It neglects how often tiles are loaded, and constants, whose first ones may be loaded ahead; it
    counts tiles of depthwise layers as full ones.
    """
    if isinstance(kernel, BlockKernel):
        cycles = _blocks_cycles(layer, kernel, tile, cores)
    elif isinstance(kernel, DepthwiseHwcKernel):
        full = geometry.extent(layer)
        tiles = ceil_div(full.h, tile.h) * ceil_div(full.w, tile.w)
        tiles = tiles * ceil_div(full.c_out, tile.c_out)
        cycles = tiles * (TILE_CYCLES + kernel.cycles(layer, tile))
    else:
        return []
    exposed = geometry.tensor_bytes(layer, tile) // PORT_BYTES
    return [Term("CYCLES", 1, -cycles - exposed, alternative=1)]


def terms(layer: Layer, kernel: Kernel, tile: Tile, cores: int) -> list[Term]:
    """Return all terms; those of the kernels for the border tile too.

    The border tile's terms have the suffix ``_BORDER`` (section 6.1: borders can be half the work).
    Dense layers on blocks and depthwise layers have a second objective: few cycles of all tiles.
    """
    found = [utilisation(layer, kernel, tile), *kernel_terms(layer, kernel, tile, cores)]
    found += layer_terms(layer, kernel, tile, cores)
    if tile.last is None:
        return found
    found += [
        Term(f"{t.name}_BORDER", t.weight, t.value)
        for t in kernel_terms(layer, kernel, tile.last, cores)
    ]
    cycles = cycles_terms(layer, kernel, tile, cores)
    return [*(replace(t, alternative=0) for t in found), *cycles] if cycles else found
