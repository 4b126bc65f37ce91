"""The digital array: convolutions, fully connected layers and sums of signed bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dory_core.api import (
    Argument,
    Constraint,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Tensor,
    Term,
    Tile,
    Traits,
    WeightBlock,
    ceil_div,
    ops,
    size,
)
from dory_diana.backend.array import (
    Arguments,
    ArrayKernel,
    l1,
    l2,
    reject_bytes,
    reject_filter,
    requantisation,
)
from dory_diana.backend.forms import (
    INT8,
    digital_form,
    needed,
    rejection,
    sum_form,
)
from dory_diana.backend.layouts import DIGITAL, DIGITAL_CLEAN, DIGITAL_VECTOR
from dory_diana.objective import BETA_BLOCK, BETA_REUSE
from dory_diana.weights import digital as blocks

ENGINE = "digital"
WEIGHT_MEMORY = "digital weights"
_UNIT = 16
_MOST_PADDING = 15
_PIXELS = 16  # fill the pipeline
# Public cost models of the chip: 16 outputs x 16 columns per cycle, the memory of activations
# moves 64 bytes per cycle, L2 16; a call or transfer starts in 70 cycles.
_CALL_CYCLES = 70
_L2_BYTES_PER_CYCLE = 16
_L1_BYTES_PER_CYCLE = 64

#: Arguments of calls with weights, except the parameters.
_WEIGHTED: dict[str, Argument] = {
    "l2_x": l2("l2_x"),
    "l1_x": l1("x"),
    "l2_W": l2("weights"),
    "l1_W": 0,
    "l1_y": l1("y"),
}
_OTHER_KIND = Rejection(
    "the digital array computes convolutions, fully connected layers and sums", other_kind=True
)


@dataclass(frozen=True, slots=True)
class DigitalKernel(ArrayKernel):
    """What the calls of the digital array share."""

    array: ClassVar[str] = ENGINE
    engine = ENGINE

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Whole blocks of outputs by columns, a full pipeline, and weights that serve many rows."""
        return (
            Term("COLUMNS_IN_SIXTEENS", BETA_BLOCK, (tile.w - 1) % _UNIT),
            Term("OUTPUTS_IN_SIXTEENS", BETA_BLOCK, (tile.c_out - 1) % _UNIT),
            Term("SIXTEEN_PIXELS", BETA_BLOCK * _UNIT, tile.h * tile.w >= _PIXELS),
            Term("FEW_WEIGHT_LOADS", BETA_REUSE, tile.h),
        )

    def reject_tensors(self, layer: Layer) -> Rejection | None:
        """Reject what is not stored in signed bytes."""
        if layer.output.bits == 32 and not layer.op.requants:
            return rejection(digital_form(layer))
        tensors = (*layer.inputs, layer.output)
        found = reject_bytes(tensors)
        wide = next((t for t in tensors if t.lo < INT8[0] or t.hi > INT8[1]), None)
        if found is None and wide is not None:
            return Rejection(
                f"{wide.name} reaches [{wide.lo}, {wide.hi}], activations of the digital array are "
                "signed bytes in [-128, 127]"
            )
        return found


@dataclass(frozen=True, slots=True)
class DigitalConv(DigitalKernel):
    """Dense convolution."""

    name = "dory_diana_digital_conv"
    summary = "convolution on the digital array"
    function = "digital_conv_2d"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Filters of 1, 3, 5 and 7, strides 1 and 2, signed bytes, a right shift."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return _OTHER_KIND
        return (
            self.reject_groups(conv)
            or reject_filter(conv)
            or self.reject_tensors(layer)
            or _reject_weights(conv)
            or _reject_columns(conv, layer.inputs[0], layer.output)
            or rejection(digital_form(layer))
        )

    def reject_groups(self, conv: ops.Conv) -> Rejection | None:
        """Dense ones only."""
        if conv.groups == 1:
            return None
        return Rejection(f"it has {conv.groups} groups, the array knows one or one per channel")

    def traits(self, layer: Layer) -> Traits:
        """Planes, with columns of zeros after the image where a window reaches them.

        All padded columns of the output are computed.
        """
        conv, x = layer.of(ops.Conv), layer.inputs[0]
        reach = _reach(conv, layer.output)
        planes = DIGITAL_CLEAN if x.width <= reach and x.width % _UNIT else DIGITAL
        return Traits((planes,), DIGITAL, fetches=WEIGHT_MEMORY)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Blocks of 16 outputs."""
        size = blocks.conv_block_bytes(layer.inputs[0].channels, layer.window.taps)
        return ceil_div(tile.c_out, blocks.OUTPUTS) * size

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Weights times their channels' factors, and biases."""
        part, form = slice(*c_out), needed(digital_form(layer))
        weights = layer.of(ops.Conv).weights.values[part].astype(np.int64)
        factor = form.factor[part, None, None, None]
        return WeightBlock(blocks.encode_conv(weights * factor, form.bias[part]), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """16 outputs times 16 columns per cycle, then moving in and out, and fetching weights."""
        channels = _up(layer.inputs[0].channels)
        rows = ceil_div(tile.c_out, _UNIT) * channels
        return self._cycles(layer, tile, rows, channels)

    def _cycles(self, layer: Layer, tile: Tile, rows: Number, channels: Number) -> Number:
        columns = ceil_div(tile.w, _UNIT)
        moved = tile.h * columns * _UNIT * (ceil_div(tile.c_out, _UNIT) * _UNIT + channels) // 8
        fetched = self.weight_bytes(layer, tile) // _L2_BYTES_PER_CYCLE
        return rows * columns * tile.h * layer.window.taps + moved + fetched + _CALL_CYCLES

    def call(self, layer: Layer) -> FunctionCall:
        """The public call on padded sizes; only rows differ from tile to tile."""
        conv = layer.of(ops.Conv)
        kernel_h, kernel_w = conv.window.kernel
        fields = (
            ("padding", size("pad_bottom") * 4096 + size("pad_top") * 256 + conv.window.pads[1]),
            *self.channel_fields(layer),
            ("cx", _up(layer.inputs[0].width)),
            ("cy", size("x_h")),
            ("fx", kernel_w),
            ("fy", kernel_h),
            ("ox", _up(layer.output.width)),
            ("oy", size("y_h")),
            *requantisation(needed(digital_form(layer))),
            ("stride", conv.window.strides[0] - 1),
        )
        return self.driver_call(fields, _WEIGHTED)

    def channel_fields(self, layer: Layer) -> Arguments:
        """All input channels, and the outputs of the tile."""
        return (("c", _up(layer.inputs[0].channels)), ("k", _outputs()))


@dataclass(frozen=True, slots=True)
class DigitalDepthwise(DigitalConv):
    """Depthwise convolution: blocks of four channels with companions of zeros."""

    name = "dory_diana_digital_depthwise"
    summary = "depthwise convolution on the digital array"
    function = "digital_depthwise_conv_2d"

    def reject_groups(self, conv: ops.Conv) -> Rejection | None:
        """One filter per channel only."""
        if conv.is_depthwise and conv.weights.shape[0] == conv.groups:
            return None
        return Rejection(f"it has {conv.groups} groups, the array knows one or one per channel")

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Four blocks for every 16 channels."""
        per_block = blocks.depthwise_block_bytes(layer.window.taps)
        count = blocks.CHANNELS // blocks.DEPTHWISE_OUTPUTS
        return ceil_div(tile.c_out, blocks.CHANNELS) * (count * per_block)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Weights times their channels' factors, and biases."""
        part, form = slice(*c_out), needed(digital_form(layer))
        weights = layer.of(ops.Conv).weights.values[part, 0].astype(np.int64)
        data = blocks.encode_depthwise(weights * form.factor[part, None, None], form.bias[part])
        return WeightBlock(data, {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Four channels at a time."""
        channels = ceil_div(tile.c_out, blocks.CHANNELS) * blocks.CHANNELS
        return self._cycles(layer, tile, channels // blocks.DEPTHWISE_OUTPUTS, channels)

    def channel_fields(self, layer: Layer) -> Arguments:
        """The channels of the tile, without companions."""
        return (("c", _outputs()), ("k", _outputs()))


@dataclass(frozen=True, slots=True)
class DigitalLinear(DigitalKernel):
    """Fully connected layer, 16 outputs at a time."""

    name = "dory_diana_digital_linear"
    summary = "fully connected layer on the digital array"
    function = "digital_fully_connected"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Signed bytes and a right shift."""
        linear = layer.op
        if not isinstance(linear, ops.Linear):
            return _OTHER_KIND
        return (
            self.reject_tensors(layer) or _reject_weights(linear) or rejection(digital_form(layer))
        )

    def traits(self, layer: Layer) -> Traits:
        """Pixels, each padded to 16 channels."""
        return Traits((DIGITAL_VECTOR,), DIGITAL_VECTOR, fetches=WEIGHT_MEMORY)

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """The call has 16 outputs."""
        return (
            Constraint(
                tile.c_out <= blocks.OUTPUTS, "the digital array takes 16 outputs at a time"
            ),
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Blocks of 16 outputs."""
        return ceil_div(tile.c_out, blocks.OUTPUTS) * blocks.linear_block_bytes(_inputs(layer))

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Weights in the order of the input's bytes times their channels' factors, and biases."""
        part, form, x = slice(*c_out), needed(digital_form(layer)), layer.inputs[0]
        rows = pixel_rows(layer, _up(x.channels))[part]
        data = blocks.encode_linear(rows * form.factor[part, None], form.bias[part])
        return WeightBlock(data, {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """16 inputs times 16 outputs per cycle, then fetching the weights."""
        fetched = self.weight_bytes(layer, tile) // _L2_BYTES_PER_CYCLE
        return ceil_div(tile.c_out, _UNIT) * (_inputs(layer) // _UNIT) + fetched + _CALL_CYCLES

    def call(self, layer: Layer) -> FunctionCall:
        """The public call."""
        ones = tuple((name, 1) for name in ("cx", "cy", "fx", "fy", "ox", "oy"))
        fields = (
            ("c", _inputs(layer)),
            ("k", blocks.OUTPUTS),
            *ones,
            *requantisation(needed(digital_form(layer))),
        )
        return self.driver_call(fields, _WEIGHTED)


@dataclass(frozen=True, slots=True)
class DigitalSum(DigitalKernel):
    """Sum of two tensors."""

    name = "dory_diana_element_wise_sum"
    summary = "sum of two tensors on the digital array"
    function = "element_wise_sum"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Plain sums of signed bytes with a right shift."""
        if not isinstance(layer.op, ops.Add):
            return _OTHER_KIND
        return self.reject_tensors(layer) or rejection(sum_form(layer))

    def traits(self, layer: Layer) -> Traits:
        """Planes."""
        return Traits((DIGITAL, DIGITAL), DIGITAL)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Three tensors through the memory of activations."""
        size = ceil_div(tile.c_out, _UNIT) * _UNIT * tile.h * ceil_div(tile.w, _UNIT) * _UNIT
        return ceil_div(3 * size, _L1_BYTES_PER_CYCLE) + _CALL_CYCLES

    def call(self, layer: Layer) -> FunctionCall:
        """The public call on padded sizes."""
        width = _up(layer.output.width)
        fields = (
            ("c", _outputs()),
            ("k", _outputs()),
            ("cx", width),
            ("cy", size("y_h")),
            ("fx", 1),
            ("fy", 1),
            ("ox", width),
            ("oy", size("y_h")),
            *requantisation(needed(sum_form(layer))),
        )
        arguments: dict[str, Argument] = {
            "l2_x": l2("l2_x"),
            "l1_x": l1("x"),
            "l2_x2": l2("l2_x2"),
            "l1_x2": l1("x2"),
            "l1_y": l1("y"),
        }
        return self.driver_call(fields, arguments)


def _outputs() -> Number:
    """Return the output channels of the tile, padded to whole units."""
    return (size("y_c") + (_UNIT - 1)) // _UNIT * _UNIT


def pixel_rows(layer: Layer, pixel: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the weights of a Linear, int64 (K, N), for pixels padded to ``pixel`` channels."""
    linear, x = layer.of(ops.Linear), layer.inputs[0]
    rows = np.zeros((linear.weights.shape[0], x.height * x.width, pixel), dtype=np.int64)
    rows[:, :, : x.channels] = linear.weights.values.reshape(len(rows), -1, x.channels)
    return rows.reshape(len(rows), x.height * x.width * pixel)


def _up(value: int) -> int:
    return blocks.up(value, _UNIT)


def _inputs(layer: Layer) -> int:
    """Return the bytes of a Linear's input."""
    x = layer.inputs[0]
    return x.height * x.width * _up(x.channels)


def _reach(conv: ops.Conv, y: Tensor) -> int:
    """Return the last column that a window of the output reads."""
    return (y.width - 1) * conv.window.strides[1] + conv.window.kernel[1] - 1 - conv.window.pads[1]


def _reject_weights(kind: ops.Conv | ops.Linear) -> Rejection | None:
    lo, hi = kind.weights.bounds
    if lo < INT8[0] or hi > INT8[1]:
        return Rejection(f"its weights reach [{lo}, {hi}], those of the array are signed bytes")
    return None


def _reject_columns(conv: ops.Conv, x: Tensor, y: Tensor) -> Rejection | None:
    """Return why padding is refused: the array pads both sides equally, after padded columns."""
    if max(conv.window.pads) > _MOST_PADDING:
        return Rejection(f"it pads by {max(conv.window.pads)}, {_MOST_PADDING} are possible")
    left = conv.window.pads[1]
    if _reach(conv, y) >= _up(x.width) + left:
        return Rejection(
            f"its padding is {left} on the left and more on the right, the array pads both sides "
            "alike"
        )
    return None
