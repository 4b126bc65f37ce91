"""Maximum and average pooling of bytes, four channels at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dory_core.api import (
    Feature,
    Layer,
    Number,
    Rejection,
    ceil_div,
    minimum,
    ops,
    reject_type,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import (
    BYTE_TYPES,
    Instance,
    c_type,
    vector_macros,
)
from dory_gap8.backend.pool import AvgPoolKernel, MaxPoolKernel
from dory_gap8.backend.requant import epilogue

if TYPE_CHECKING:
    from dory_core.api import Tile


# Rows of a window at most whose pixels are computed in runs: each has a register.
RUN_ROWS = 4


def reject_window(layer: Layer) -> Rejection | None:
    """Windows are cut at borders by arithmetic, not tap by tap."""
    window = layer.window
    if layer.inputs[0].bits != 8:
        return Rejection(f"its input is {layer.inputs[0].type_name}, possible are u8, i8")
    for size, dilation in zip(window.kernel, window.dilations, strict=True):
        if size > 1 and dilation > 1:
            return Rejection("its window is dilated")
    top, left, bottom, right = window.pads
    if max(top, bottom) >= window.kernel[0] or max(left, right) >= window.kernel[1]:
        return Rejection("its padding is as wide as its window, which may see nothing else")
    return None


def pool_cycles(cores: int, tile: Tile, group: int) -> Number:
    """Return the cycles of a call; group: those of four channels of a pixel."""
    groups = ceil_div(tile.c_out, 4)
    ways = [
        ceil_div(tile.h * tile.w, cores // n) * (cal.POOL_BYTES_PIXEL + ceil_div(groups, n) * group)
        for n in (1, 2, 4, 8)
        if n <= cores
    ]
    return cal.POOL_BYTES_CALL + (ways[0] if len(ways) == 1 else minimum(*ways))


def _run_tenths(window: ops.Window) -> int:
    """Return tenths of a cycle of four channels of a pixel in a run, by counting instructions.

    A column that the window before does not have is loaded and compared; those in common are moved.
    """
    (rows, columns), stride = window.kernel, window.strides[1]
    new = min(columns, stride)
    loads_and_maxima = new * (2 * rows - 1) + columns - 1
    moves = columns - new + (rows if stride > columns else 0)
    return cal.MAXPOOL_BYTES_TENTHS * (loads_and_maxima + moves + cal.MAXPOOL_BYTES_STORE)


def _padding(layer: Layer) -> int:
    """Return the value that padding adds to a sum; 0 where there is none."""
    return layer.window.pad_value if any(layer.window.pads) else 0


@dataclass(frozen=True)
class MaxPoolBytesKernel(MaxPoolKernel):
    """Maximum over a window of bytes."""

    name = "dory_gap8_maxpool_bytes"
    summary = "maximum pooling of bytes"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Windows of neighbouring taps."""
        if not isinstance(layer.op, ops.MaxPool):
            return Rejection("it computes maximum pooling only")
        return reject_window(layer) or super().accepts(layer)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Runs of pixels in a row, and the pixels between them one by one."""
        window, groups = layer.window, ceil_div(tile.c_out, 4)
        alone = cal.MAXPOOL_BYTES_GROUP + window.kernel[0] * (
            cal.POOL_BYTES_ROW + window.kernel[1] * cal.MAXPOOL_BYTES_TAP
        )
        if window.kernel[0] > RUN_ROWS:
            return pool_cycles(self.cores, tile, alone)
        at_border = (window.pads[1] > 0) + (window.pads[3] > 0)
        ways = []
        for n in (n for n in (1, 2, 4, 8) if n <= self.cores):
            mine, share = ceil_div(groups, n), ceil_div(tile.h * tile.w, self.cores // n)
            runs = minimum(tile.h, ceil_div(share, tile.w) + 1)
            border = at_border * (cal.POOL_BYTES_PIXEL + mine * alone)
            run = cal.MAXPOOL_BYTES_RUN + mine * cal.MAXPOOL_BYTES_RUN_GROUP + border
            ways.append(runs * run + share * mine * _run_tenths(window) // 10)
        return cal.POOL_BYTES_CALL + (ways[0] if len(ways) == 1 else minimum(*ways))

    def label(self, layer: Layer) -> str:
        """Window and element type."""
        window = layer.window
        shape = "x".join(map(str, (*window.kernel, f"s{window.strides[1]}")))
        return f"{self.name}_{shape}_{layer.inputs[0].type_name}"

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x = layer.inputs[0].type_name
        macros = (
            *vector_macros(x),
            ("DORY_MAX4", f"dory_gap8_max4_{x}"),
            ("DORY_LOWEST", "0x80808080u" if x == "i8" else "0"),
            ("DORY_KERNEL_H", str(layer.window.kernel[0])),
            ("DORY_KERNEL_W", str(layer.window.kernel[1])),
            ("DORY_STRIDE_W", str(layer.window.strides[1])),
            ("DORY_RUN_ROWS", str(RUN_ROWS)),
            ("DORY_CORES", str(self.cores)),
        )
        purpose = f"Maximum pooling of {x}, four channels at once."
        return Instance("maxpool_bytes", self.label(layer), purpose, macros)


@dataclass(frozen=True)
class AvgPoolBytesKernel(AvgPoolKernel):
    """Sum over a window of bytes; the division is part of the requantisation."""

    name = "dory_gap8_avgpool_bytes"
    summary = "average pooling of bytes"
    features = AvgPoolKernel.features | {Feature.PAD_VALUE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Windows of neighbouring taps."""
        if not isinstance(layer.op, ops.AvgPool):
            return Rejection("it computes average pooling only")
        return (
            reject_window(layer)
            or reject_type(layer.output, "output", (*BYTE_TYPES, "i32"))
            or super().accepts(layer)
        )

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Rows of a window, their taps, and the requantisation of four channels."""
        kernel_h, kernel_w = layer.window.kernel
        row = cal.POOL_BYTES_ROW + kernel_w * cal.AVGPOOL_BYTES_TAP
        done = cal.AVGPOOL_BYTES_GROUP + 4 * epilogue(layer).step_cycles
        return pool_cycles(self.cores, tile, done + kernel_h * row)

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        pad = _padding(layer)
        token = f"_pad{pad}".replace("-", "m") if pad else ""
        return f"{self.name}_{x}_{y}{token}{epilogue(layer).suffix}"

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        macros = (
            *vector_macros(x),
            ("DORY_Y_T", c_type(y)),
            ("DORY_Y_BYTES", str(layer.output.bits // 8)),
            ("DORY_POOL_PAD", f"({_padding(layer)})"),
            ("DORY_CORES", str(self.cores)),
            *epilogue(layer).macros,
        )
        purpose = f"Average pooling, {x} to {y}, four channels at once."
        return Instance("pool_bytes", self.label(layer), purpose, macros)
