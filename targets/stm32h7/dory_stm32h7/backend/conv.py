"""Convolutions over columns of 16-bit numbers, any groups but depthwise."""

from __future__ import annotations

import numpy as np

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    OutputFile,
    Rejection,
    Tile,
    WeightBlock,
    caches,
    ops,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.accesses import columns
from dory_stm32h7.backend.epilogue import epilogue
from dory_stm32h7.backend.instance import pad_token, pad_value, step_arguments, tile_arguments
from dory_stm32h7.backend.weighted import (
    WeightedKernel,
    interleaved,
    output_extra,
    vectors,
    weight_bits,
)

# Vectors of four from which the assembly computes pairs of channels (DORY_LEAST_VECTORS).
_LEAST_VECTORS = 3
# Inputs of an output up to which their copies are straight code.
_MOST_INNER = 96


class ConvKernel(WeightedKernel, caches.MemoryAccesses):
    """Convolution: columns of two pixels, then blocks of 2 channels x 2 pixels."""

    name = "dory_stm32h7_conv"
    template = "conv"
    features = WeightedKernel.features | {Feature.PAD_VALUE}
    summary = "Convolution of two pixels and two channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any filter, stride, dilation, padding and groups, but one input channel per group."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return Rejection("it computes convolutions only")
        if conv.groups > 1 and conv.weights.shape[1] == 1:
            return Rejection("it computes no depthwise convolution: one input channel per filter")
        if conv.window.kernel == (1, 1) and any(conv.window.pads):
            return Rejection("it computes 1x1 convolutions without padding only")
        return self.reject(layer)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Columns of two pixels, and one as elements before it is widened."""
        length = int(vectors(_fan_in(layer))) * 4
        cells = length * layer.inputs[0].bits // 8
        return 4 * length + (cells if _odd_runs(layer) else 0)

    def rows_bytes(self, layer: Layer, count: Number) -> Number:
        """Taps and channels of a group, in whole words."""
        return count * vectors(_fan_in(layer)) * 4 * (weight_bits(layer) // 8)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Rows of (tap row, tap column, channel), by pairs within each group."""
        conv = layer.conv
        rows = np.moveaxis(conv.weights.values[slice(*c_out)], 1, 3).reshape(
            c_out[1] - c_out[0], -1
        )
        group = layer.output.channels // conv.groups if conv.groups > 1 else len(rows)
        bits = weight_bits(layer)
        data = b"".join(
            interleaved(rows[g : g + group], 2, bits) for g in range(0, len(rows), group)
        )
        return self.block(layer, c_out, data)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Filling columns, blocks, and the rows and pixels that no block takes."""
        conv = layer.conv
        length = int(vectors(_fan_in(layer)))
        turned, extra = epilogue(layer).turned, output_extra(epilogue(layer))
        if _in_assembly(layer) and length >= _LEAST_VECTORS:
            block = costs.BLOCK_VECTOR * (length // 4 * 4) + costs.BLOCK_REST * (length % 4)
            block += costs.BLOCK + costs.BLOCK_TURNED * turned
            block += costs.BLOCK_EVEN * epilogue(layer).even
        else:
            block = costs.BLOCK_C_VECTOR * length + costs.BLOCK_C
            block += costs.BLOCK_C_TURNED * turned + 4 * extra
        single = costs.SINGLE_VECTOR * length + costs.SINGLE
        single += costs.SINGLE_TURNED * turned + extra
        group = layer.output.channels // conv.groups if conv.groups > 1 else tile.c_out
        column = costs.PIXEL + costs.WIDENED * 4 * length
        if conv.window.kernel != (1, 1):
            merged = conv.groups == 1 and conv.window.dilations[1] == 1
            runs = conv.window.kernel[0] * (1 if merged else conv.window.kernel[1])
            column += (costs.RUN_COPIED if _odd_runs(layer) else costs.RUN) * runs
        if _odd_runs(layer):
            column += costs.COPIED * 4 * length
        if _known_channels(layer):
            inner, total = _inner_outputs(layer)
            known = costs.INNER_PIXEL + costs.INNER_VECTOR * length
            column = (column * (total - inner) + known * inner) // total
        pair = 2 * column + group // 2 * block + group % 2 * 2 * single
        last = column + group * single
        pixels = tile.h * tile.w
        groups = tile.c_out // group if conv.groups > 1 else 1
        each = costs.CONV_GROUP + pixels // 2 * pair + pixels % 2 * last
        return costs.CALL + groups * each

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """Columns of two pixels, then all weights."""
        word = 1 if _odd_runs(layer) else 4
        parameters = epilogue(layer).channel_bytes // 4
        return columns(layer, tile, int(self.weight_bytes(layer, tile)), parameters, word)

    def symbol(self, layer: Layer) -> str:
        """Filter, types and requantisation."""
        kernel_h, kernel_w = layer.window.kernel
        form = "_odd" if _odd_runs(layer) else ""
        form += str(_known_channels(layer) or "")
        form += "_pairs" if _in_assembly(layer) else ""
        pads = pad_token(layer)
        return f"{self.name}{form}_{kernel_h}x{kernel_w}{pads}_{self.types(layer)}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        conv = layer.conv
        grouped = conv.groups > 1
        arguments = (
            *tile_arguments("x", "weights", "y", "scratch"),
            *tile_arguments("x_h", "x_w", "x_c", "y_h", "y_w", "y_c", "pad_top", "pad_left"),
            ("group_in", str(conv.weights.shape[1]) if grouped else "$x_c"),
            ("group_out", str(layer.output.channels // conv.groups) if grouped else "$y_c"),
            *step_arguments(conv.window),
            ("requant", epilogue(layer).initialiser()),
        )
        return self.instance_call(layer, arguments)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The instance and the templates."""
        kernel_h, kernel_w = layer.window.kernel
        macros = (
            ("DORY_KERNEL_H", kernel_h),
            ("DORY_KERNEL_W", kernel_w),
            ("DORY_PAD_VALUE", pad_value(layer)),
            ("DORY_PAIRS", int(_in_assembly(layer))),
            ("DORY_ODD_RUNS", int(_odd_runs(layer))),
            ("DORY_CHANNELS", _known_channels(layer)),
            *self.macros(layer),
        )
        return self.instance(layer, macros)


def _fan_in(layer: Layer) -> int:
    """Return the weights of one output channel."""
    _, channels, kernel_h, kernel_w = layer.conv.weights.shape
    return channels * kernel_h * kernel_w


def _in_assembly(layer: Layer) -> bool:
    """Return True when pairs of channels are computed in assembly on the chip."""
    return weight_bits(layer) == 8 and epilogue(layer).in_assembly


def _odd_runs(layer: Layer) -> bool:
    """Return True when taps do not begin on vectors of four."""
    conv = layer.conv
    return conv.window.kernel != (1, 1) and conv.weights.shape[1] % 4 != 0


def _known_channels(layer: Layer) -> int:
    """Return the input channels where columns of few of them are copied in runs of known size."""
    conv = layer.conv
    few = conv.groups == 1 and conv.window.dilations[1] == 1 and _fan_in(layer) <= _MOST_INNER
    return conv.weights.shape[1] if few and _odd_runs(layer) else 0


def _inner_outputs(layer: Layer) -> tuple[int, int]:
    """Return how many pixels of the output see no padding, and how many there are."""
    window, x, y = layer.window, layer.inputs[0], layer.output
    inner = 1
    for axis, (size, outputs) in enumerate(((x.height, y.height), (x.width, y.width))):
        reach = (window.kernel[axis] - 1) * window.dilations[axis]
        firsts = (n * window.strides[axis] - window.pads[axis] for n in range(outputs))
        inner *= sum(0 <= first < size - reach for first in firsts)
    return inner, y.height * y.width
