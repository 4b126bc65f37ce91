"""Depthwise convolutions from HWC."""

from __future__ import annotations

import numpy as np

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Tile,
    WeightBlock,
    caches,
    ceil_div,
    maximum,
    minimum,
    ops,
    requantisation,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.accesses import channel_blocks
from dory_stm32h7.backend.epilogue import epilogue
from dory_stm32h7.backend.instance import (
    BYTES,
    pad_token,
    pad_value,
    step_arguments,
    tile_arguments,
)
from dory_stm32h7.backend.weighted import WeightedKernel, in_fours, output_extra, weight_bits

# Rows of outputs in a strip of pairs of columns (DORY_STRIP).
_STRIP = 8


class DepthwiseKernel(WeightedKernel, caches.MemoryAccesses):
    """Convolution of each channel on its own, four channels at a time."""

    name = "dory_stm32h7_depthwise"
    template = "depthwise"
    summary = "Depthwise convolution of four channels at a time"
    features = WeightedKernel.features | {Feature.PAD_VALUE}
    inputs = BYTES

    def accepts(self, layer: Layer) -> Rejection | None:
        """One filter per input channel."""
        kind = layer.op
        if not isinstance(kind, ops.Conv) or kind.groups == 1 or kind.weights.shape[1] != 1:
            return Rejection("it computes depthwise convolutions only")
        if layer.output.channels != kind.groups:
            return Rejection(
                f"it computes one filter per channel, not {layer.output.channels // kind.groups}"
            )
        return self.reject(layer)

    def rows_bytes(self, layer: Layer, count: Number) -> Number:
        """Blocks of four channels with a word per tap."""
        return 4 * ceil_div(count, 4) * layer.window.taps * (weight_bits(layer) // 8)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Weights and the rows of a strip."""
        step = _planar(layer)
        if not step:
            return 0
        rows = (minimum(tile.h, _STRIP) - 1) * layer.window.strides[0] + 3
        return 4 * (24 + 4 * rows * _pairs(tile.w, step))

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Blocks of four channels; the last one ends with the last channel."""
        weights = layer.of(ops.Conv).weights.values[slice(*c_out)]
        count = len(weights)
        rows = np.zeros((max(count, 4), weights.shape[2] * weights.shape[3]), dtype=np.int16)
        rows[:count] = weights.reshape(count, -1)
        starts = [min(c, len(rows) - 4) for c in range(0, count, 4)]
        bits = weight_bits(layer)
        fours = (in_fours(rows[c : c + 4].T, bits).tobytes() for c in starts)
        return self.block(layer, c_out, b"".join(fours))

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """From pairs of columns, or pixel by pixel."""
        return _from_pairs(layer, tile) if _planar(layer) else self._pixels(layer, tile)

    def _pixels(self, layer: Layer, tile: Tile) -> Number:
        """Rows of pixels, those at borders apart; fewer than four channels one by one."""
        window = layer.window
        _, kernel_w = window.kernel
        taps = window.taps
        output = output_extra(epilogue(layer)) + costs.DEPTHWISE_TURNED * epilogue(layer).turned
        pixel = costs.DEPTHWISE_PIXEL + 4 * output + costs.DEPTHWISE_TAP * taps
        border = costs.DEPTHWISE_BORDER + 4 * output + costs.DEPTHWISE_TAP * taps
        reach = (kernel_w - 1) * window.dilations[1] + 1
        columns = min(reach - 1, 2 * ceil_div(window.pads[1] + window.pads[3], 2))
        at_border = minimum(tile.w, ceil_div(columns, window.strides[1]))
        row = costs.DEPTHWISE_ROW + (tile.w - at_border) * pixel + at_border * border
        blocks = tile.c_out // 4 + minimum(tile.c_out % 4, 1) * minimum(tile.c_out // 4, 1)
        narrow = maximum(4 - tile.c_out, 0) * minimum(tile.c_out, 3) * tile.h * tile.w
        one = taps * costs.DEPTHWISE_NARROW + costs.DEPTHWISE_NARROW_OUTPUT + output
        return costs.CALL + blocks * tile.h * row + narrow * one

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """The whole image for every four channels."""
        parameters = epilogue(layer).channel_bytes // 4
        weights = int(self.weight_bytes(layer, tile))
        if not _planar(layer):
            return channel_blocks(layer, tile, weights, parameters, line_bytes)
        blocks = ceil_div(tile.c_out, 4)
        rows, strips = int(_laid_rows(layer, tile)), ceil_div(tile.h, _STRIP)
        loads = min(rows, tile.x_h * strips) * tile.x_w * blocks
        taps = 12 * weight_bits(layer) // 8
        constants = blocks * (taps + 4 * strips * parameters)
        return channel_blocks(layer, tile, weights, parameters, line_bytes, (loads, constants))

    def label(self, layer: Layer) -> str:
        """Filter, types and requantisation."""
        kernel_h, kernel_w = layer.window.kernel
        form = f"planar{_planar(layer)}_" if _planar(layer) else ""
        return f"{self.name}_{form}{kernel_h}x{kernel_w}{pad_token(layer)}_{self.types(layer)}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        arguments = (
            *tile_arguments("x", "weights", "y", *(("scratch",) if _planar(layer) else ())),
            *tile_arguments("x_h", "x_w", "x_c", "y_h", "y_w", "y_c", "pad_top", "pad_left"),
            *step_arguments(layer.window),
            ("requant", epilogue(layer).struct()),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        kernel_h, kernel_w = layer.window.kernel
        macros = (
            ("DORY_KERNEL_H", kernel_h),
            ("DORY_KERNEL_W", kernel_w),
            ("DORY_PAD_WORD", f"0x{(pad_value(layer) & 255) * 0x01010101:08x}u"),
            ("DORY_PLANAR", _planar(layer)),
            *self.macros(layer),
        )
        return macros


@requantisation.cached_per_layer
def _planar(layer: Layer) -> int:
    """Return the step along a row where pairs of columns are laid out first, else 0.

    For 3x3 filters; on small images laying them out takes longer than it saves.
    """
    window = layer.window
    step = window.strides[1]
    if window.kernel != (3, 3) or window.dilations != (1, 1) or step not in (1, 2):
        return 0
    c, h, w = layer.output.shape
    if c < 4 or window.pads[1] > 2:
        return 0
    return step if min(h, w) >= (3 if step == 1 else 6) else 0


def _pairs(width: Number, step: int) -> Number:
    """Return the pairs of columns that are laid out for a row of outputs."""
    return 2 * ceil_div(width, 4 // step) + 1


def _laid_rows(layer: Layer, tile: Tile) -> Number:
    """Return the rows that are laid out for four channels."""
    strips = ceil_div(tile.h, _STRIP)
    return (tile.h - strips) * layer.window.strides[0] + 3 * strips


def _from_pairs(layer: Layer, tile: Tile) -> Number:
    """Return the tenths of cycles from pairs of columns."""
    step, chosen = _planar(layer), epilogue(layer)
    if chosen.in_assembly and not chosen.turned and not chosen.even:
        rest = costs.PLANAR_TWO[step - 1] * ceil_div(tile.w % 4, 2)
        row = costs.PLANAR_ROW + tile.w // 4 * costs.PLANAR_FOUR[step - 1] + rest
    else:
        output = costs.PLANAR_OUTPUT + output_extra(chosen) + costs.PLANAR_TURNED * chosen.turned
        blocks = ceil_div(tile.w, 4 // step) * costs.PLANAR_BLOCK[step - 1]
        row = costs.PLANAR_ROW + blocks + tile.w * output
    laid = costs.PLANAR_LAID + _pairs(tile.w, step) * costs.PLANAR_PAIR
    strips = ceil_div(tile.h, _STRIP) * costs.PLANAR_STRIP
    four = strips + _laid_rows(layer, tile) * laid + 4 * tile.h * row
    return costs.CALL + ceil_div(tile.c_out, 4) * four
