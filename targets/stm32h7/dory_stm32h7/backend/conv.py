"""Convolutions over columns of 16-bit numbers, any groups but depthwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
    minimum,
    ops,
    requantisation,
    size,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.accesses import columns
from dory_stm32h7.backend.epilogue import epilogue
from dory_stm32h7.backend.instance import pad_token, pad_value, step_arguments, tile_arguments
from dory_stm32h7.backend.weighted import (
    WeightedKernel,
    blocks_tenths,
    lift_of,
    output_extra,
    paired,
    vectors,
    weight_bits,
)

# Outputs of a row whose columns lie next to each other (DORY_STRIP).
_STRIP = 18
# Inputs of an output up to which their copies are straight code.
_MOST_INNER = 96
# What four elements of a column hold of the sum of bytes.
_LIFTED = 4 * 32000


class ConvKernel(WeightedKernel, caches.MemoryAccesses):
    """Convolution: columns of a few pixels, then blocks of 2 channels and these pixels."""

    name = "dory_stm32h7_conv"
    template = "conv"
    features = WeightedKernel.features | {Feature.PAD_VALUE}
    summary = "Convolution of three pixels and two channels at a time"

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
        """Columns of a few pixels, and one as elements before it is widened."""
        window, element = layer.window, 2 * _together(layer)
        if _in_windows(layer):
            columns = (minimum(tile.w, _STRIP) - 1) * window.strides[1] + window.kernel[1]
            return element * columns * window.kernel[0] * layer.of(ops.Conv).weights.shape[1]
        length = _vectors(layer) * 4
        cells = length * layer.inputs[0].bits // 8
        return element * length + (cells if _odd_runs(layer) else 0)

    def rows_bytes(self, layer: Layer, count: Number) -> Number:
        """Taps and channels of a group, in whole words."""
        return count * _vectors(layer) * 4 * (weight_bits(layer) // 8)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Rows of (tap row, tap column, channel), by pairs within each group."""
        conv = layer.of(ops.Conv)
        rows = np.moveaxis(conv.weights.values[slice(*c_out)], 1, 3)
        if _in_windows(layer):
            rows = rows.swapaxes(1, 2)
        if _known_channels(layer):
            rows = _whole_vectors_first(rows)
        rows = _lifted(layer, rows.reshape(c_out[1] - c_out[0], -1))
        group = layer.output.channels // conv.groups if conv.groups > 1 else len(rows)
        bits = weight_bits(layer)
        data = b"".join(paired(rows[g : g + group], bits) for g in range(0, len(rows), group))
        return self.block(layer, c_out, data)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Filling columns, blocks, and the rows and pixels that no block takes."""
        return _from_windows(layer, tile) if _in_windows(layer) else _from_columns(layer, tile)

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """Columns of a few pixels, then all weights."""
        word = 1 if _odd_runs(layer) else 4
        parameters = epilogue(layer).channel_bytes // 4
        loads = _laid_words(layer, tile) if _in_windows(layer) else None
        weights = int(self.weight_bytes(layer, tile))
        together = _together(layer)
        store = 2 if _in_assembly(layer) and layer.output.bits < 32 else 1
        return columns(layer, tile, weights, parameters, word, together, store, loads)

    def label(self, layer: Layer) -> str:
        """Filter, types and requantisation."""
        kernel_h, kernel_w = layer.window.kernel
        form = "_odd" if _odd_runs(layer) else ""
        form += str(_known_channels(layer) or "")
        form += "_window" if _in_windows(layer) else ""
        form += "_pairs" if _in_assembly(layer) else ""
        pads = pad_token(layer)
        return f"{self.name}{form}_{kernel_h}x{kernel_w}{pads}_{self.types(layer)}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        conv = layer.of(ops.Conv)
        grouped = conv.groups > 1
        arguments = (
            *tile_arguments("x", "weights", "y", "scratch"),
            *tile_arguments("x_h", "x_w", "x_c", "y_h", "y_w", "y_c", "pad_top", "pad_left"),
            ("group_in", conv.weights.shape[1] if grouped else size("x_c")),
            ("group_out", layer.output.channels // conv.groups if grouped else size("y_c")),
            *step_arguments(conv.window),
            ("requant", epilogue(layer).struct()),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        kernel_h, kernel_w = layer.window.kernel
        macros = (
            ("DORY_KERNEL_H", kernel_h),
            ("DORY_KERNEL_W", kernel_w),
            ("DORY_PAD_VALUE", pad_value(layer)),
            ("DORY_PAIRS", int(_in_assembly(layer))),
            ("DORY_ODD_RUNS", int(_odd_runs(layer))),
            ("DORY_WINDOW", int(_in_windows(layer))),
            ("DORY_CHANNELS", _known_channels(layer)),
            ("DORY_LIFTS", _lifts(layer)),
            *self.macros(layer),
        )
        return macros


def _from_windows(layer: Layer, tile: Tile) -> Number:
    """Return the tenths of cycles with columns that are windows of strips."""
    group, groups = _groups(layer, tile)
    rows = tile.h * _pixels(layer, group, tile.w)
    return costs.CALL + groups * (_strips(layer, tile) + rows)


def _from_columns(layer: Layer, tile: Tile) -> Number:
    """Return the tenths of cycles with a column for each pixel."""
    group, groups = _groups(layer, tile)
    column = _column(layer, int(vectors(_fan_in(layer)))) + _lift(layer)
    pixels = tile.h * tile.w
    each = pixels * column + _pixels(layer, group, pixels)
    return costs.CALL + groups * (costs.CONV_GROUP + each)


def _groups(layer: Layer, tile: Tile) -> tuple[Number, Number]:
    """Return the output channels of a group, and the groups."""
    if layer.of(ops.Conv).groups == 1:
        return tile.c_out, 1
    group = layer.output.channels // layer.of(ops.Conv).groups
    return group, tile.c_out // group


def _pixels(layer: Layer, channels: Number, pixels: Number) -> Number:
    """Return the tenths of cycles of ``channels`` channels of some pixels, without columns."""
    length = _vectors(layer)
    blocks = blocks_tenths(epilogue(layer), _in_assembly(layer), length, channels, pixels)
    return blocks + channels % 2 * pixels * _single(layer, length)


def _single(layer: Layer, length: int) -> int:
    """Return the tenths of cycles of one channel of one pixel."""
    single = costs.SINGLE_VECTOR * length + costs.SINGLE
    return single + costs.SINGLE_TURNED * epilogue(layer).turned + output_extra(epilogue(layer))


def _column(layer: Layer, length: int) -> Number:
    """Return the tenths of cycles of the column of one pixel that is no window."""
    conv = layer.of(ops.Conv)
    if conv.window.kernel == (1, 1):
        return costs.WIDENED_VECTOR * length
    merged = conv.groups == 1 and conv.window.dilations[1] == 1
    runs = conv.window.kernel[0] * (1 if merged else conv.window.kernel[1])
    if not _odd_runs(layer):
        run = costs.RUN_MERGED if merged else costs.RUN
        return costs.PIXEL + run * runs + costs.WIDENED * 4 * length
    known = _known_channels(layer)
    copied = (costs.RUN_KNOWN if known else costs.RUN_COPIED) * runs + costs.COPIED * 4 * length
    if not known:
        return costs.PIXEL + copied + costs.WIDENED * 4 * length
    inner, total = _inner_outputs(layer)
    within = costs.INNER_PIXEL + costs.INNER_VECTOR * length
    return within + copied * (total - inner) // total


def _strips(layer: Layer, tile: Tile) -> Number:
    """Return the tenths of cycles of laying out the columns of all strips."""
    window = layer.window
    strips, columns = ceil_div(tile.w, _STRIP), _laid_columns(layer, tile)
    run = costs.STRIP_RUN + costs.STRIP_VECTOR * int(vectors(layer.of(ops.Conv).weights.shape[1]))
    rows = window.kernel[0] * (columns * run + strips * costs.STRIP_ROW)
    return tile.h * (rows + strips * costs.STRIP)


def _laid_columns(layer: Layer, tile: Tile) -> Number:
    """Return the columns of the image that are laid out for a row of outputs."""
    strips = ceil_div(tile.w, _STRIP)
    return (tile.w - strips) * layer.window.strides[1] + strips * layer.window.kernel[1]


def _laid_words(layer: Layer, tile: Tile) -> int:
    """Return the words of the image that are laid out; those of the padding are none."""
    strips = ceil_div(int(tile.w), _STRIP)
    columns = min(int(_laid_columns(layer, tile)), strips * int(tile.x_w))
    x = layer.inputs[0]
    return int(tile.h) * layer.window.kernel[0] * columns * x.channels * x.bits // 32


def _fan_in(layer: Layer) -> int:
    """Return the weights of one output channel."""
    _, channels, kernel_h, kernel_w = layer.of(ops.Conv).weights.shape
    return channels * kernel_h * kernel_w


def _lifts(layer: Layer) -> int:
    """Return the vectors after a column whose sum is that of its bytes, negative."""
    return 1 + 255 * _fan_in(layer) // _LIFTED if lift_of(layer) else 0


def _vectors(layer: Layer) -> int:
    """Return the vectors of a column."""
    return int(vectors(_fan_in(layer))) + _lifts(layer)


def _lifted(layer: Layer, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows, shape (C, n), as they are stored, the weights of their lifts after them."""
    lift, more = lift_of(layer), 4 * _lifts(layer)
    lifted = np.pad(rows - lift, ((0, 0), (0, -rows.shape[1] % 4)))
    return np.pad(lifted, ((0, 0), (0, more)), constant_values=-lift)


def _lift(layer: Layer) -> int:
    """Return the tenths of cycles of summing the column of one pixel up."""
    vectors = _vectors(layer) - _lifts(layer)
    return costs.LIFT + costs.LIFT_VECTOR * vectors if lift_of(layer) else 0


def _together(layer: Layer) -> int:
    """Return the pixels that are computed together (DORY_PIXELS)."""
    return 3 if _in_assembly(layer) else 2


def _in_assembly(layer: Layer) -> bool:
    """Return True when pairs of channels are computed in assembly on the chip."""
    return weight_bits(layer) == 8 and epilogue(layer).in_assembly


def _odd_runs(layer: Layer) -> bool:
    """Return True when taps do not begin on vectors of four."""
    conv = layer.of(ops.Conv)
    return conv.window.kernel != (1, 1) and conv.weights.shape[1] % 4 != 0


@requantisation.cached_per_layer
def _in_windows(layer: Layer) -> bool:
    """Return True where the columns of a row of outputs overlap and lie whole in a strip.

    Rows that are no threes of pixels end with a smaller block: on small images that may cost more.
    """
    window = layer.window
    if window.kernel == (1, 1) or _odd_runs(layer) or window.dilations[1] != 1 or lift_of(layer):
        return False
    tile = geometry.make_tile(layer, *layer.output.shape)
    return int(_from_windows(layer, tile)) < int(_from_columns(layer, tile))


def _known_channels(layer: Layer) -> int:
    """Return the input channels where columns of few of them are copied in runs of known size."""
    conv = layer.of(ops.Conv)
    few = conv.groups == 1 and conv.window.dilations[1] == 1 and _fan_in(layer) <= _MOST_INNER
    return conv.weights.shape[1] if few and _odd_runs(layer) else 0


def _whole_vectors_first(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return weights (C, rows, columns, channels) as (C, n) in the order of dory_lay_rows.

    That is the whole vectors of four of each row, then what is left of all rows.
    """
    rows = weights.reshape(*weights.shape[:2], -1)
    whole = rows.shape[2] // 4 * 4
    parts = (rows[:, :, :whole], rows[:, :, whole:])
    return np.concatenate([p.reshape(len(p), -1) for p in parts], axis=1)


def _inner_outputs(layer: Layer) -> tuple[int, int]:
    """Return how many pixels of the output see no padding, and how many there are."""
    window, x, y = layer.window, layer.inputs[0], layer.output
    inner = 1
    for axis, (length, outputs) in enumerate(((x.height, y.height), (x.width, y.width))):
        reach = (window.kernel[axis] - 1) * window.dilations[axis]
        firsts = (n * window.strides[axis] - window.pads[axis] for n in range(outputs))
        inner *= sum(0 <= first < length - reach for first in firsts)
    return inner, y.height * y.width
