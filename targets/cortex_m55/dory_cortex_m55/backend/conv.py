"""Convolutions of any window: sums of 16 products an instruction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    Feature,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Term,
    Tile,
    ceil_div,
    minimum,
    ops,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    by_bytes,
    bytes_of,
    extents,
    flip_of,
    in_blocks,
    pad_value,
    reject_padding,
    turned_window,
    window_members,
)
from dory_cortex_m55.backend.rows import COLUMNS, EIGHT, OVERRUN, SUMS_BYTES, VECTOR, RowsKernel


class ConvKernel(RowsKernel):
    """Convolution of any window with one group."""

    name = "dory_cortex_m55_conv"
    summary = "Convolution, 16 products an instruction, two pixels by two channels"
    features = RowsKernel.features | {Feature.PAD_VALUE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any window, of all channels."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions", other_kind=True)
        if conv.groups != 1:
            return Rejection("it knows no groups")
        if by_bytes(layer):
            return Rejection("it is depthwise")
        return self.reject(layer) or reject_padding(layer)

    def rows(self, layer: Layer) -> npt.NDArray[np.int64]:
        """Taps row by row as the kernel sees them, the channels of each."""
        weights = layer.of(ops.Conv).weights.values.astype(np.int64)
        weights = weights.transpose((0, 3, 2, 1) if _by_columns(layer) else (0, 2, 3, 1))
        return weights.reshape(len(weights), -1)

    def length(self, layer: Layer) -> int:
        """Taps by input channels."""
        return layer.window.taps * layer.inputs[0].channels

    def is_direct(self, layer: Layer) -> bool:
        """Return True when the channels of a pixel are a column as they lie."""
        return _is_direct(layer)

    def columns_bytes(self, layer: Layer) -> int:
        """Return the bytes of what windows of pixels have."""
        x = layer.inputs[0]
        row = _window(layer).kernel[1] * x.channels * bytes_of(x)
        return self.laid(layer, self.pixels(layer)) * row + OVERRUN

    def laid(self, layer: Layer, pixels: int) -> int:
        """Return how many rows of inputs some windows of a line have."""
        window = _window(layer)
        if window.dilations[0] > 1:
            return pixels * window.kernel[0]
        return (pixels - 1) * window.strides[0] + window.kernel[0]

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Whole groups of channels, pairs of pixels, and columns that serve many channels."""
        return (
            Term("CHANNELS_IN_EIGHTS", 1e6, in_blocks(layer, tile, EIGHT)),
            Term("PIXELS_IN_PAIRS", 1e6, (_lines(layer, tile)[1] - 1) % 2),
            Term("COLUMNS_SERVE_MANY", 1e2, tile.c_out),
        )

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Sums, and columns unless pixels are columns where they lie."""
        return SUMS_BYTES + (0 if _is_direct(layer) else self.columns_bytes(layer))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Inputs of windows, then sums of all channels."""
        sums = self.products_cycles(layer, tile.c_out, *_lines(layer, tile))
        return costs.CALL + self.laid_cycles(layer, tile) + sums

    def laid_cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return the cycles of the columns of inputs."""
        if _is_direct(layer):
            return 0
        lines, length = _lines(layer, tile)
        groups = lines * ceil_div(length, self.pixels(layer))
        each, first = self.laid(layer, 2) - self.laid(layer, 1), self.laid(layer, 1)
        rows = lines * length * each + groups * (first - each)
        laid = groups * costs.LAY + rows * _row_cycles(layer)
        return laid + minimum(lines, _beside(layer)) * length * each * costs.BORDER_ROW

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        return self.struct_call(layer, self.conv_members(layer))

    def conv_members(self, layer: Layer) -> dict[str, Argument]:
        """Return the members of a ``dory_cortex_m55_conv_t``."""
        x = layer.inputs[0]
        pixels = size("x_c") * bytes_of(x), size("y_c") * bytes_of(layer.output)
        members: dict[str, Argument] = {
            **self.members(layer),
            "columns": None if _is_direct(layer) else COLUMNS,
            "x_c": pixels[0],
            "y_c": size("y_c"),
            **extents(*pixels, _by_columns(layer)),
            **window_members(_window(layer)),
            "padding": (pad_value(layer) & 0xFF) ^ flip_of(x),
        }
        if _is_flat(layer):
            members |= {"y_h": size("y_h") * size("y_w"), "y_w": 1}
            members |= dict(zip(("x_row", "y_row"), pixels, strict=True))
        return members


def _is_direct(layer: Layer) -> bool:
    window = layer.window
    return window.kernel == (1, 1) and not any(window.pads) and not flip_of(layer.inputs[0])


def _is_flat(layer: Layer) -> bool:
    """Return True when all pixels of a tile are one row of columns."""
    return _is_direct(layer) and layer.window.strides == (1, 1)


def _by_columns(layer: Layer) -> bool:
    """Return True when rows of the kernel are columns of the layer: its columns are short."""
    if _is_flat(layer):
        return False
    return layer.output.height < min(layer.output.width, EIGHT)


def _window(layer: Layer) -> ops.Window:
    """Return the window as the kernel sees it."""
    return turned_window(layer.window) if _by_columns(layer) else layer.window


def _lines(layer: Layer, tile: Tile) -> tuple[Number, Number]:
    """Return the lines of outputs of a tile, and how long they are."""
    if _is_flat(layer):
        return 1, tile.h * tile.w
    return (tile.h, tile.w) if _by_columns(layer) else (tile.w, tile.h)


def _row_cycles(layer: Layer) -> int:
    """Return the cycles of laying what a window has in a row of x."""
    window, x, groups = _window(layer), layer.inputs[0], layer.of(ops.Conv).groups
    is_row = window.dilations[1] == 1 and not _by_columns(layer) and groups == 1
    taps = 1 if window.kernel[1] == 1 or is_row else window.kernel[1]
    length = window.kernel[1] * x.channels // groups * bytes_of(x) // taps
    vectors = -(-length // VECTOR)
    run = costs.RUN_OF_ONE if vectors == 1 else costs.RUN + vectors * costs.COPY_VECTOR
    return run if taps == 1 else costs.ROW_OF_TAPS + taps * run


def _beside(layer: Layer) -> int:
    """Return how many lines of outputs have windows that are partly beside of x."""
    top, left, bottom, right = layer.window.pads
    pads = (top, bottom) if _by_columns(layer) else (left, right)
    return sum(-(-pad // _window(layer).strides[1]) for pad in pads)
