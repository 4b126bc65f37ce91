"""Depthwise convolutions from HWC."""

from __future__ import annotations

from dataclasses import replace

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
    geometry,
    maximum,
    minimum,
    ops,
    requantisation,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.accesses import channel_blocks
from dory_stm32h7.backend.epilogue import epilogue
from dory_stm32h7.backend.instance import (
    Arguments,
    pad_token,
    pad_value,
    step_arguments,
    tile_arguments,
)
from dory_stm32h7.backend.weighted import (
    WeightedKernel,
    in_fours,
    lift_of,
    output_extra,
    weight_bits,
)

# Rows of outputs in a strip of pairs of columns (DORY_STRIP).
_STRIP = 8
# Square filters, and taps of one row, that are computed from pairs of columns.
_SQUARES = (3, 5, 7)
_ROW_TAPS = range(4, 12)


class DepthwiseKernel(WeightedKernel, caches.MemoryAccesses):
    """Convolution of each channel on its own, four channels at a time."""

    name = "dory_stm32h7_depthwise"
    template = "depthwise"
    summary = "Depthwise convolution of four channels at a time"
    features = WeightedKernel.features | {Feature.PAD_VALUE}

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
        if not _planar(layer):
            return 0
        seen, (height, width) = _seen(layer), _sizes(layer, tile)
        rows = (minimum(height, _STRIP) - 1) * seen.strides[0] + seen.kernel[0]
        return 16 * (_taps(seen) + rows * _pairs(width, seen))

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Blocks of four channels; the last one ends with the last channel."""
        weights = layer.of(ops.Conv).weights.values[slice(*c_out)]
        count = len(weights)
        rows = np.zeros((max(count, 4), weights.shape[2] * weights.shape[3]), dtype=np.int16)
        rows[:count] = weights.reshape(count, -1) - lift_of(layer)
        starts = [min(c, len(rows) - 4) for c in range(0, count, 4)]
        bits = weight_bits(layer)
        fours = (in_fours(rows[c : c + 4].T, bits).tobytes() for c in starts)
        return self.block(layer, c_out, b"".join(fours))

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """From pairs of columns, or pixel by pixel."""
        return _from_pairs(layer, tile) if _planar(layer) else _from_pixels(layer, tile)

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """The whole image for every four channels."""
        parameters = epilogue(layer).channel_bytes // 4
        weights = int(self.weight_bytes(layer, tile))
        if not _planar(layer):
            return channel_blocks(layer, tile, weights, parameters, line_bytes)
        blocks = ceil_div(tile.c_out, 4)
        seen, (height, _) = _seen(layer), _sizes(layer, tile)
        rows, strips = int(_laid_rows(seen, height)), ceil_div(height, _STRIP)
        x_h, x_w = (1, tile.x_h) if seen is not layer.window else (tile.x_h, tile.x_w)
        loads = min(rows, x_h * strips) * x_w * blocks * layer.inputs[0].bits // 8
        taps = (seen.taps + seen.kernel[0]) * weight_bits(layer) // 8
        constants = blocks * (taps + 4 * strips * parameters)
        return channel_blocks(layer, tile, weights, parameters, line_bytes, (loads, constants))

    def label(self, layer: Layer) -> str:
        """Filter, types and requantisation."""
        kernel_h, kernel_w = _seen(layer).kernel
        form = f"planar{_planar(layer)}_" if _planar(layer) else ""
        return f"{self.name}_{form}{kernel_h}x{kernel_w}{pad_token(layer)}_{self.types(layer)}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        seen = _seen(layer)
        sizes = tile_arguments("x_h", "x_w", "x_c", "y_h", "y_w", "y_c", "pad_top", "pad_left")
        if seen is not layer.window:
            sizes = _as_row(sizes)
        arguments = (
            *tile_arguments("x", "weights", "y", *(("scratch",) if _planar(layer) else ())),
            *sizes,
            *step_arguments(seen),
            ("lift", (lift_of(layer) & 0xFFFF) * 0x10001),
            ("requant", epilogue(layer).struct()),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        kernel_h, kernel_w = _seen(layer).kernel
        macros = (
            ("DORY_KERNEL_H", kernel_h),
            ("DORY_KERNEL_W", kernel_w),
            ("DORY_TAPS", kernel_w | 1),
            ("DORY_PAD_WORD", _pad_word(layer)),
            ("DORY_PLANAR", _planar(layer)),
            ("DORY_LIFTED", int(lift_of(layer) != 0)),
            *self.macros(layer),
        )
        return macros


def _pad_word(layer: Layer) -> str:
    """Return a word full of padding, in C."""
    bits = layer.inputs[0].bits
    element = f"{pad_value(layer) & ((1 << bits) - 1):0{bits // 4}x}"
    return f"0x{element * (32 // bits)}u"


def _seen(layer: Layer) -> ops.Window:
    """Return the window as the kernel has it: that of an image of one column is one row."""
    window = layer.window
    is_column = layer.output.width == layer.inputs[0].width == window.kernel[1] == 1
    if not is_column or window.kernel[0] not in _ROW_TAPS:
        return window
    top, left, bottom, right = window.pads
    return replace(
        window,
        kernel=window.kernel[::-1],
        strides=window.strides[::-1],
        dilations=window.dilations[::-1],
        pads=(left, top, right, bottom),
    )


def _sizes(layer: Layer, tile: Tile) -> tuple[Number, Number]:
    """Return rows and columns of a tile as the kernel has them."""
    return (tile.h, tile.w) if _seen(layer) is layer.window else (tile.w, tile.h)


def _as_row(sizes: Arguments) -> Arguments:
    """Return sizes of a tile of one column as those of one row."""
    given = dict(sizes)
    turned = {"x_h": "x_w", "y_h": "y_w", "pad_top": "pad_left"}
    turned |= {new: old for old, new in turned.items()}
    return tuple((name, given[turned.get(name, name)]) for name in given)


@requantisation.cached_per_layer
def _planar(layer: Layer) -> int:
    """Return the step along a row where pairs of columns are laid out first, else 0.

    On small images laying them out takes longer than it saves.
    """
    window = _seen(layer)
    (height, width), step = window.kernel, window.strides[1]
    known = (height == width and width in _SQUARES) or (height == 1 and width in _ROW_TAPS)
    if not known or window.dilations != (1, 1) or step not in (1, 2) or layer.output.channels < 4:
        return 0
    if width == 3:
        _, h, w = layer.output.shape
        return step if window.pads[1] <= 2 and min(h, w) >= (3 if step == 1 else 6) else 0
    tile = geometry.make_tile(layer, *layer.output.shape)
    return step if int(_from_pairs(layer, tile)) < int(_from_pixels(layer, tile)) else 0


def _taps(window: ops.Window) -> int:
    """Return the words of taps of a channel."""
    return window.kernel[0] * ((window.kernel[1] | 1) - 1)


def _pairs(width: Number, window: ops.Window) -> Number:
    """Return the pairs of columns that are laid out for a row of outputs."""
    return 2 * ceil_div(width, 4 // window.strides[1]) + window.kernel[1] // 2


def _pairs_seen(layer: Layer, tile: Tile) -> Number:
    """Return the pairs of columns of a row within the image."""
    seen = _seen(layer)
    width = tile.x_w if seen is layer.window else tile.x_h
    return ceil_div(width + seen.pads[1] % 2, 2)


def _laid_rows(window: ops.Window, height: Number) -> Number:
    """Return the rows that are laid out for four channels."""
    strips = ceil_div(height, _STRIP)
    return (height - strips) * window.strides[0] + window.kernel[0] * strips


def _from_pairs(layer: Layer, tile: Tile) -> Number:
    """Return the tenths of cycles from pairs of columns."""
    seen, chosen, (height, width) = _seen(layer), epilogue(layer), _sizes(layer, tile)
    step = seen.strides[1]
    four, two, block = _block_costs(seen)
    if chosen.in_assembly and not chosen.even:
        outputs = 4 * (width // 4) + 2 * ceil_div(width % 4, 2)
        row = costs.PLANAR_ROW + width // 4 * four + two * ceil_div(width % 4, 2)
        row += outputs * costs.PLANAR_TURNED * chosen.turned
    else:
        output = costs.PLANAR_OUTPUT + output_extra(chosen) + costs.PLANAR_TURNED * chosen.turned
        row = costs.PLANAR_ROW + ceil_div(width, 4 // step) * block + width * output
    laid = costs.PLANAR_LAID + _pairs_seen(layer, tile) * costs.PLANAR_PAIR
    strips = ceil_div(height, _STRIP) * costs.PLANAR_STRIP
    taps = costs.PLANAR_TAPS * max(_taps(seen) - 6, 0)
    channels = strips + taps + _laid_rows(seen, height) * laid + 4 * height * row
    return costs.CALL + ceil_div(tile.c_out, 4) * channels


def _block_costs(window: ops.Window) -> tuple[int, int, int]:
    """Return the tenths of cycles of four outputs, of two, and of a block in C."""
    step, (height, width) = window.strides[1], window.kernel
    if width == 3:
        return costs.PLANAR_FOUR[step - 1], costs.PLANAR_TWO[step - 1], costs.PLANAR_BLOCK[step - 1]
    products = height * ((width | 1) + 1) // 2
    block = costs.WIDE_BLOCK + (4 // step) * products * costs.WIDE_PRODUCT_C
    two = costs.WIDE_TWO + products * costs.WIDE_PRODUCT_OF_TWO
    return costs.WIDE_FOUR + products * costs.WIDE_PRODUCT, two, block


def _from_pixels(layer: Layer, tile: Tile) -> Number:
    """Return the tenths of cycles pixel by pixel; fewer than four channels one by one."""
    window, padded = layer.window, pad_value(layer) != 0
    taps = window.taps
    output = output_extra(epilogue(layer)) + costs.DEPTHWISE_TURNED * epilogue(layer).turned
    seen = taps if padded else round(taps * _inside(window, layer, 0) * _inside(window, layer, 1))
    tap = costs.DEPTHWISE_PADDED_TAP if padded else costs.DEPTHWISE_TAP
    pixel = costs.DEPTHWISE_PIXEL + 4 * output + costs.DEPTHWISE_TAP * seen
    border = costs.DEPTHWISE_BORDER + 4 * output + tap * seen
    border += costs.DEPTHWISE_BORDER_ROW * window.kernel[0]
    # Padding with a value also counts above and below the image.
    cut = _at_border(window, 0, tile.h) if padded else 0
    at_border = cut * tile.w + (tile.h - cut) * _at_border(window, 1, tile.w)
    pixels = tile.h * costs.DEPTHWISE_ROW + (tile.h * tile.w - at_border) * pixel
    blocks = tile.c_out // 4 + minimum(tile.c_out % 4, 1) * minimum(tile.c_out // 4, 1)
    narrow = maximum(4 - tile.c_out, 0) * minimum(tile.c_out, 3) * tile.h * tile.w
    one = taps * costs.DEPTHWISE_NARROW + costs.DEPTHWISE_NARROW_OUTPUT + output
    return costs.CALL + blocks * (pixels + at_border * border) + narrow * one


def _at_border(window: ops.Window, axis: int, size: Number) -> Number:
    """Return how many outputs of a tile see padding along an axis."""
    reach = (window.kernel[axis] - 1) * window.dilations[axis]
    seen = min(reach, 2 * ceil_div(window.pads[axis] + window.pads[axis + 2], 2))
    return minimum(size, ceil_div(seen, window.strides[axis]))


def _inside(window: ops.Window, layer: Layer, axis: int) -> float:
    """Return the share of the taps of all outputs along an axis that lie in the image."""
    x, y = layer.inputs[0], layer.output
    length, outputs = (x.height, y.height) if axis == 0 else (x.width, y.width)
    kernel, step, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    inside = sum(
        0 <= n * step - window.pads[axis] + tap * dilation < length
        for n in range(outputs)
        for tap in range(kernel)
    )
    return inside / (outputs * kernel)
