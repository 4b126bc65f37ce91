"""The analog array: ternary weights, 7-bit activations, converters of 6 bits."""

from __future__ import annotations

from abc import abstractmethod
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
    ArrayKernel,
    l1,
    l2,
    reject_bytes,
    reject_filter,
    requantisation,
)
from dory_diana.backend.digital import pixel_rows
from dory_diana.backend.forms import analog_form, needed, rejection
from dory_diana.backend.layouts import ANALOG
from dory_diana.objective import BETA_BLOCK, BETA_REUSE
from dory_diana.requant import Adc
from dory_diana.weights import analog as image
from dory_diana.weights.digital import up

ENGINE = "analog"
WEIGHT_MEMORY = "analog weights"
_RANGES = ((0, 127), (-64, 63))
_CHANNELS = 16  # inputs are padded to multiples
_PIXEL = ANALOG.channel_multiple
_MOST_PADDING = 3
_UNROLLS = (1, 2, 4)
# Public cost models of the chip: 8 cycles per row of weights; 70 ns at 260 MHz per operation of
# 512 outputs over 128 inputs, at once for all unrolled columns.
_ROW_CYCLES = 8
_TEN_OPERATION_CYCLES = 182
_OPERATION_INPUTS, _OPERATION_OUTPUTS = 128, 512
_L2_BYTES_PER_CYCLE = 16
_CALL_CYCLES = 70

_OTHER_KIND = Rejection(
    "the analog array computes convolutions and fully connected layers", other_kind=True
)


@dataclass(frozen=True, slots=True)
class AnalogKernel(ArrayKernel):
    """What the calls of the analog array share. adc_scale: accumulators per step of converters."""

    adc_scale: int = 16
    array: ClassVar[str] = ENGINE
    engine = ENGINE

    def reject_layer(self, kind: ops.Conv | ops.Linear, layer: Layer) -> Rejection | None:
        """Reject what is not ternary or not of 7 bits, and what the converters cannot do."""
        values = kind.weights.values
        lo, hi = int(values.min()), int(values.max())
        if lo < -1 or hi > 1:
            return Rejection(f"its weights reach [{lo}, {hi}], those of the array are -1, 0 and 1")
        if self.rows(layer) > image.ROWS:
            return Rejection(
                f"one output sums {self.rows(layer)} products, the array has {image.ROWS} rows"
            )
        if not kind.requants:
            return rejection(analog_form(layer, self.adc_scale))
        tensors = (*layer.inputs, layer.output)
        wide = next((t for t in tensors if not _fits(t)), None)
        if wide is not None:
            return Rejection(
                f"{wide.name} reaches [{wide.lo}, {wide.hi}], activations of the analog array have "
                "7 bits: [0, 127] or [-64, 63]"
            )
        return reject_bytes(tensors) or rejection(analog_form(layer, self.adc_scale))

    @abstractmethod
    def rows(self, layer: Layer) -> int:
        """Return the rows of the array that one output takes."""

    @abstractmethod
    def weight_rows(self, layer: Layer) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Return the weights, shape (K, rows)."""

    def form(self, layer: Layer) -> Adc:
        """Return the requantisation after the converters."""
        return needed(analog_form(layer, self.adc_scale))

    def traits(self, layer: Layer) -> Traits:
        """Pixels padded to 64 channels."""
        return Traits((ANALOG,), ANALOG, fetches=WEIGHT_MEMORY)

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Outputs are columns of the array."""
        return (
            Constraint(
                tile.c_out <= image.COLUMNS, f"the analog array has {image.COLUMNS} columns"
            ),
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The image of the array, then mul and add of every output."""
        columns = ceil_div(tile.c_out, image.COLUMN_UNIT) * image.COLUMN_UNIT
        rows = up(self.rows(layer), image.ROW_UNIT)
        return columns * (rows // 4) + tile.c_out * image.PAIR_BYTES

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the image as ``weights``, the pairs as ``mul``."""
        part, form = slice(*c_out), self.form(layer)
        data = image.encode_image(self.weight_rows(layer)[part])
        pairs = image.encode_pairs(form.mul[part], form.add[part])
        return WeightBlock(data + pairs, {"weights": 0, "mul": len(data)})

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Whole operations of outputs by inputs, and weights that serve many rows."""
        return (
            Term("ALL_COLUMNS", BETA_BLOCK, (tile.c_out - 1) % _OPERATION_OUTPUTS),
            Term("ALL_ROWS", BETA_BLOCK, (tile.c_in - 1) % _OPERATION_INPUTS),
            Term("FEW_WEIGHT_LOADS", BETA_REUSE, tile.h),
        )

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Loading the rows, then an operation per pixel or group of columns."""
        inputs = self.rows(layer)
        operations = ceil_div(tile.c_out, _OPERATION_OUTPUTS) * self.operations(layer, tile)
        pairs = tile.c_out * image.PAIR_BYTES // _L2_BYTES_PER_CYCLE
        computed = operations * _TEN_OPERATION_CYCLES // 10
        return _ROW_CYCLES * inputs + computed + pairs + _CALL_CYCLES

    @abstractmethod
    def operations(self, layer: Layer, tile: Tile) -> Number:
        """Return the operations of up to 512 outputs."""

    @property
    def arguments(self) -> dict[str, Argument]:
        """Return the arguments of the call but its parameters."""
        return {
            "l2_x": l2("l2_x"),
            "l1_x": l1("x"),
            "l2_W": l2("weights"),
            "l2_BN": l2("mul"),
            "l1_W": 0,
            "l1_y": l1("y"),
        }


@dataclass(frozen=True, slots=True)
class AnalogConv(AnalogKernel):
    """Dense convolution."""

    name = "dory_diana_analog_conv"
    summary = "convolution on the analog array"
    function = "analog_conv_2d"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Ternary weights, 7-bit activations, and outputs that the converters can tell apart."""
        conv = layer.op
        if not isinstance(conv, ops.Conv):
            return _OTHER_KIND
        if conv.groups != 1:
            return Rejection(f"it has {conv.groups} groups, the array sums over all inputs")
        if max(conv.window.pads) > _MOST_PADDING:
            return Rejection(f"it pads by {max(conv.window.pads)}, {_MOST_PADDING} are possible")
        return reject_filter(conv) or self.reject_layer(conv, layer)

    def rows(self, layer: Layer) -> int:
        """Channels, padded to 16, times taps."""
        kernel_h, kernel_w = layer.window.kernel
        return _channels(layer) * kernel_h * kernel_w

    def weight_rows(self, layer: Layer) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Rows of (channel, tap row, tap column)."""
        weights = layer.of(ops.Conv).weights.values
        padded = np.zeros((len(weights), _channels(layer), *weights.shape[2:]), dtype=np.int64)
        padded[:, : weights.shape[1]] = weights
        return padded.reshape(len(weights), self.rows(layer))

    def operations(self, layer: Layer, tile: Tile) -> Number:
        """One per pixel and 128 channels, or per group of unrolled columns."""
        unrolled: Number = 1
        for step in _UNROLLS[1:]:
            unrolled = unrolled + (step - step // 2) * _can_unroll(layer, tile.c_out, step)
        steps = ceil_div(_channels(layer), _OPERATION_INPUTS)
        return steps * tile.h * (tile.w // unrolled)

    def call(self, layer: Layer) -> FunctionCall:
        """The public call with the largest unrolling that the tile's outputs leave room for."""
        conv, x, y = layer.of(ops.Conv), layer.inputs[0], layer.output
        kernel_h, kernel_w = conv.window.kernel
        most = max(u for u in _UNROLLS if u == 1 or _can_unroll(layer, 1, u))
        unroll: Number = 1
        for step in _UNROLLS[1:]:
            if step <= most:  # as many columns as the outputs leave room for
                unroll = unroll + (step - step // 2) * (size("y_c") <= image.COLUMNS // step)
        # The right border of the image, whose columns need not all be reached.
        right = (y.width - 1) * conv.window.strides[1] + kernel_w - conv.window.pads[1] - x.width
        padding = size("pad_top") * 4 + size("pad_bottom")
        padding = padding + (max(right, 0) << 4) + (conv.window.pads[1] << 6)
        fields = (
            ("padding", padding),
            ("c", _channels(layer)),
            ("k", size("y_c")),
            ("cx", x.width),
            ("cy", size("x_h")),
            ("fx", kernel_w),
            ("fy", kernel_h),
            ("ox", y.width // unroll),
            ("oy", size("y_h")),
            ("ox_unroll", unroll),
            *requantisation(self.form(layer)),
            ("stride", conv.window.strides[0]),
        )
        return self.driver_call(fields, self.arguments)


@dataclass(frozen=True, slots=True)
class AnalogLinear(AnalogKernel):
    """Fully connected layer."""

    name = "dory_diana_analog_linear"
    summary = "fully connected layer on the analog array"
    function = "analog_fully_connected"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Ternary weights, 7-bit activations, and outputs that the converters can tell apart."""
        linear = layer.op
        if not isinstance(linear, ops.Linear):
            return _OTHER_KIND
        return self.reject_layer(linear, layer)

    def rows(self, layer: Layer) -> int:
        """The bytes of the input; a single pixel needs no more than multiples of 16."""
        x = layer.inputs[0]
        pixels = x.height * x.width
        return _channels(layer) if pixels == 1 else pixels * up(x.channels, _PIXEL)

    def weight_rows(self, layer: Layer) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Weights (K, rows) in the order of the input's bytes."""
        x = layer.inputs[0]
        return pixel_rows(layer, self.rows(layer) // (x.height * x.width))

    def operations(self, layer: Layer, tile: Tile) -> Number:
        """One per 128 inputs."""
        return ceil_div(self.rows(layer), _OPERATION_INPUTS)

    def call(self, layer: Layer) -> FunctionCall:
        """The public call."""
        ones = ("cx", "cy", "fx", "fy", "ox", "oy", "ox_unroll")
        fields = (
            ("c", self.rows(layer)),
            ("k", size("y_c")),
            *((name, 1) for name in ones),
            *requantisation(self.form(layer)),
            ("stride", 1),
        )
        return self.driver_call(fields, self.arguments)


def _channels(layer: Layer) -> int:
    return up(layer.inputs[0].channels, _CHANNELS)


def _fits(tensor: Tensor) -> bool:
    return any(lo <= tensor.lo and tensor.hi <= hi for lo, hi in _RANGES)


def _can_unroll(layer: Layer, outputs: Number, columns: int) -> Number:
    """Return True when the array holds the weights of ``columns`` neighbouring columns."""
    kernel_h, kernel_w = layer.window.kernel
    inputs = _channels(layer) * kernel_h * (kernel_w + columns - 1)
    if inputs > image.ROWS or layer.output.width % columns:
        return 0
    return outputs <= image.COLUMNS // columns
