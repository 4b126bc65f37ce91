"""Convolutions and fully connected layers of the library: what is exact, and how it is called."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dory_core.api import (
    Argument,
    Constraint,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Requant,
    Traits,
    WeightBlock,
    ceil_div,
    geometry,
    named,
    ops,
    size,
)
from dory_gap8.pulp_nn import cycles as cost
from dory_gap8.pulp_nn.upstream import INT32, U8_MAX, U16_MAX, UpstreamKernel, first, reject_u8

if TYPE_CHECKING:
    from dory_core.api import Tile


def reject_requant(layer: Layer, bits: int) -> Rejection | None:
    """Return why ``clip((k * acc + lambda) >> d, 0, 255)`` is not the layer's requantisation."""
    steps = layer.op.requants
    if len(steps) != 1:
        return Rejection(f"PULP-NN applies one requantisation, the layer has {len(steps)}")
    step = steps[0]
    if step.div & (step.div - 1):
        return Rejection(f"PULP-NN divides by powers of two, not by {step.div}")
    if (step.lo, step.hi) != (0, U8_MAX):
        return Rejection(f"PULP-NN clips to [0, 255], not to [{step.lo}, {step.hi}]")
    if bits == 32 and layer.ranges.bits > 32:
        return Rejection("its requantisation exceeds 32 bits: the 64bit variant of PULP-NN does it")
    ends = (layer.ranges.value_lo // step.div, layer.ranges.value_hi // step.div)
    if ends[0] < INT32[0] or ends[1] > INT32[1]:
        return Rejection("its quotient exceeds 32 bits before the clip")
    return None


def reject_weights(layer: Layer) -> Rejection | None:
    """Return why the weights are not those of the library."""
    weights = layer.weighted.weights.values
    if weights.size and (int(weights.min()) < -128 or int(weights.max()) > 127):
        return Rejection("its weights exceed 8 bits")
    return None


def reject_window(window: ops.Window) -> Rejection | None:
    """Return why the window is none of the library."""
    if window.dilations != (1, 1):
        return Rejection("PULP-NN has no dilation")
    (kh, kw), (top, left, bottom, right) = window.kernel, window.pads
    if max(top, bottom) >= kh or max(left, right) >= kw:
        return Rejection("its padding is as large as the filter")
    return None


def fold(step: Requant, bias: np.ndarray | None, channels: int) -> tuple[list[int], list[int]]:
    """Return (k, lambda) per channel with the bias in lambda: k * (acc + b) + l = k * acc + l'.

    bias: shape (channels,), or None.
    """
    mul = list(step.mul) * (channels if len(step.mul) == 1 else 1)
    add = list(step.add) * (channels if len(step.add) == 1 else 1)
    if bias is None:
        return mul, add
    return mul, [a + m * int(b) for m, a, b in zip(mul, add, bias, strict=True)]


@dataclass(frozen=True)
class WeightedKernel(UpstreamKernel):
    """Convolutions and linear layers: int8 weights, k and lambda per channel."""

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters and weights of the tile's channels."""
        row = self.row(layer) + 2 * self.library.bits // 8
        return ceil_div(tile.c_out * row, 8) * 8

    @abstractmethod
    def row(self, layer: Layer) -> int:
        """Return the weights of one output channel."""

    def rows(self, layer: Layer) -> np.ndarray:
        """Weights int8 (C, n), a row per output channel, as the library reads them: HWC."""
        weights = layer.weighted.weights.values
        if weights.ndim == 4:
            weights = np.moveaxis(weights, 1, 3)
        return weights.reshape(len(weights), -1).astype(np.int8)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Lambda, k, then the weights; the 64-bit arrays come first for their alignment."""
        bias = layer.bias
        mul, add = fold(
            layer.op.requants[0], None if bias is None else bias.values, layer.output.channels
        )
        dtype = f"<i{self.library.bits // 8}"
        chosen = slice(*c_out)
        parts = {"add": np.array(add[chosen], dtype), "mul": np.array(mul[chosen], dtype)}
        parts["weights"] = self.rows(layer)[chosen]
        return blocks(parts)

    def scales(self, layer: Layer) -> dict[str, Argument]:
        """The arguments of the requantisation: k, lambda, a factor that is not used, d."""
        pointer = f"int{self.library.bits}_t *"
        shift = layer.op.requants[0].div.bit_length() - 1
        k, factor = Operand("mul", pointer), Operand("add", pointer)
        return {"k": k, "lambda": factor, "mult": 0, "shift": shift}

    def convolution(self, layer: Layer, columns: Argument, *unused: str) -> FunctionCall:
        """The call of a convolution with the tile's sizes and padding.

        columns: argument of the im2col buffer. unused: parameters after the weights.
        """
        window = layer.window
        arguments: dict[str, Argument] = {
            "x": Operand("x"),
            "columns": columns,
            "bias": None,
            "y": Operand("y"),
            "weights": Operand("weights", "const int8_t *"),
            **dict.fromkeys(unused),
            **self.scales(layer),
            **named("x_w", "x_h", "x_c", "y_w", "y_h", "y_c"),
            "kernel_w": window.kernel[1],
            "kernel_h": window.kernel[0],
            **named("pad_top", "pad_bottom", "pad_left", "pad_right"),
            "stride_x": window.strides[1],
            "stride_y": window.strides[0],
            "relu": 1,
            "batch_norm": 1,
        }
        return FunctionCall(self.name, arguments)

    def judge_convolution(self, layer: Layer) -> Rejection | None:
        """What every convolution demands."""
        mul, add = fold(*_parameters(layer))
        low, high = INT32 if self.library.bits == 32 else (-(1 << 63), (1 << 63) - 1)
        return first(
            reject_u8(layer.inputs[0], "input"),
            reject_u8(layer.output, "output"),
            reject_weights(layer),
            reject_window(layer.window) if isinstance(layer.op, ops.Conv) else None,
            reject_requant(layer, self.library.bits),
            None
            if all(low <= v <= high for v in (*mul, *add))
            else Rejection(f"its parameters exceed {self.library.bits} bits"),
        )


def _parameters(layer: Layer) -> tuple[Requant, np.ndarray | None, int]:
    bias = layer.bias
    step = layer.op.requants[0] if layer.op.requants else Requant((1,), (0,), 1, None, None)
    return step, None if bias is None else bias.values, layer.output.channels


def blocks(parts: dict[str, np.ndarray]) -> WeightBlock:
    """Return the arrays one after the other, padded to a multiple of 8 bytes."""
    offsets, data = {}, b""
    for name, values in parts.items():
        offsets[name] = len(data)
        data += values.tobytes()
    return WeightBlock(data + bytes(-len(data) % 8), offsets)


@dataclass(frozen=True)
class UpstreamConv(WeightedKernel):
    """Dense convolution with im2col, rows shared by the cores."""

    name = "pulp_nn_conv_Ho_parallel"
    summary = "convolution"

    def rejection_of(self, layer: Layer) -> Rejection | None:
        """Dense filters without dilation, 8 bits everywhere."""
        if not isinstance(layer.op, ops.Conv) or layer.op.groups > 1:
            return Rejection("it computes dense convolutions only")
        return self.judge_convolution(layer)

    def row(self, layer: Layer) -> int:
        """Taps x input channels."""
        return layer.window.taps * layer.inputs[0].channels

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Two columns for each core."""
        return 2 * self.cores * self.row(layer)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Cycles of the core with the most rows."""
        bits = self.library.bits
        return cost.conv(tile.h, tile.w, tile.c_out, self.row(layer), bits, self.cores)

    def call(self, layer: Layer) -> FunctionCall:
        """One call with an im2col buffer."""
        return self.convolution(layer, Operand("scratch"))


@dataclass(frozen=True)
class UpstreamPointwise(UpstreamConv):
    """1x1 filters without im2col; it ignores the stride, so only stride 1 is exact."""

    name = "pulp_nn_pointwise_HoWo_parallel"
    summary = "1x1 convolution"

    def rejection_of(self, layer: Layer) -> Rejection | None:
        """1x1, stride 1, no padding."""
        conv = layer.op
        if not isinstance(conv, ops.Conv) or not conv.is_pointwise:
            return Rejection("it computes 1x1 convolutions only")
        if conv.window.strides != (1, 1):
            return Rejection("the 1x1 kernel of PULP-NN ignores the stride")
        if any(conv.window.pads):
            return Rejection("the 1x1 kernel of PULP-NN ignores padding")
        return super().rejection_of(layer)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """None: pixels are columns already."""
        return 0

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Cycles of the core with the most pixels."""
        bits = self.library.bits
        return cost.pointwise(tile.h, tile.w, tile.c_out, self.row(layer), bits, self.cores)

    def call(self, layer: Layer) -> FunctionCall:
        """One call; there is no im2col buffer."""
        return self.convolution(layer, None)


@dataclass(frozen=True)
class UpstreamDepthwise(WeightedKernel):
    """Depthwise convolution on a CHW tile, channels shared by the cores."""

    name = "pulp_nn_depthwise_generic"
    summary = "depthwise convolution"

    def rejection_of(self, layer: Layer) -> Rejection | None:
        """One filter per channel, at least four taps, an odd width, half of it as left padding."""
        conv = layer.op
        if not isinstance(conv, ops.Conv) or not conv.is_depthwise:
            return Rejection("it computes depthwise convolutions only, one filter per channel")
        (kh, kw), (_, left, _, right) = conv.window.kernel, conv.window.pads
        if kh * kw < 4:
            return Rejection("it computes at least four taps")
        if kw % 2 == 0 or left != kw // 2 or right > kw // 2:
            return Rejection(
                "the depthwise kernel of PULP-NN finds the right border only for filters of odd "
                "width with half of it as padding on the left"
            )
        return self.judge_convolution(layer)

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Whole rows, and at least one pixel between the borders."""
        window = layer.window
        least = ceil_div(window.pads[1], window.strides[1]) + window.pads[3] + 1
        reason = "depthwise kernels of PULP-NN need the full width of the image in one tile"
        return (
            Constraint(tile.w == geometry.extent(layer).w, reason),
            Constraint(tile.w >= least, "and a pixel between left and right border"),
        )

    def traits(self, layer: Layer) -> Traits:
        """A plane per channel."""
        return Traits(planar=True)

    def row(self, layer: Layer) -> int:
        """Taps."""
        return layer.window.taps

    def rows(self, layer: Layer) -> np.ndarray:
        """Filters int8 (C, taps), as they are."""
        weights = layer.weighted.weights.values
        return weights.reshape(len(weights), -1).astype(np.int8)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """A padded column of the image for each core, and the guard after it."""
        window = layer.window
        (_, kw), (top, _, bottom, _) = window.kernel, window.pads
        return self.cores * (kw * (tile.x_h + top + bottom) + kw) + 16

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Cycles of the core with the most channels."""
        window = layer.window
        (kh, kw), (top, _, bottom, _) = window.kernel, window.pads
        wide = cost.DEPTHWISE_WIDE if self.library.bits == 64 else 0
        taps = kh * kw // 4 * cost.DEPTHWISE_WORD + kh * kw % 4 * cost.DEPTHWISE_TAP
        row = cost.DEPTHWISE_ROW + -(-kw // 4) * cost.DEPTHWISE_ROW_WORD
        column = (tile.x_h + top + bottom) * row + tile.h * (cost.DEPTHWISE_OUTPUT + taps + wide)
        return cost.CALL + ceil_div(tile.c_out, self.cores) * tile.w * column

    def call(self, layer: Layer) -> FunctionCall:
        """One call; the buffer for weights is not used."""
        return self.convolution(layer, Operand("scratch"), "unused")


@dataclass(frozen=True)
class UpstreamLinear(WeightedKernel):
    """Fully connected layer with requantisation, outputs shared by the cores."""

    name = "pulp_nn_linear"
    summary = "fully connected layer"

    def rejection_of(self, layer: Layer) -> Rejection | None:
        """8 bits everywhere."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers only")
        if geometry.extent(layer).c_in > U16_MAX:
            return Rejection("PULP-NN counts inputs in 16 bits")
        return self.judge_convolution(layer)

    def row(self, layer: Layer) -> int:
        """All inputs."""
        return geometry.extent(layer).c_in

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Cycles of the core with the most outputs."""
        output = cost.LINEAR_OUTPUT + cost.LINEAR_WORD_TENTHS * -(-self.row(layer) // 4) // 10
        return cost.CALL + ceil_div(tile.c_out, self.cores) * output

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the outputs of the tile."""
        arguments: dict[str, Argument] = {
            "x": Operand("x", "uint8_t *"),
            "bias": None,
            "y": Operand("y"),
            "weights": Operand("weights", "int8_t *"),
            **self.scales(layer),
            "inputs": size("x_c"),
            "outputs": size("y_c"),
            "relu": 1,
            "batch_norm": 1,
        }
        return FunctionCall(self.name, arguments)


@dataclass(frozen=True)
class UpstreamLinear32(UpstreamLinear):
    """The last fully connected layer: 32-bit outputs with a bias."""

    name = "pulp_nn_linear_out_32"
    summary = "fully connected layer with 32-bit outputs"

    def rejection_of(self, layer: Layer) -> Rejection | None:
        """u8 inputs, no requantisation."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers only")
        if layer.op.requants:
            return Rejection("it has no requantisation")
        if geometry.extent(layer).c_in > U16_MAX:
            return Rejection("PULP-NN counts inputs in 16 bits")
        return first(reject_u8(layer.inputs[0], "input"), reject_weights(layer))

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """A bias and the weights of each output."""
        return ceil_div(tile.c_out * (self.row(layer) + 4), 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Biases, then weights."""
        _, bias, channels = _parameters(layer)
        values = np.zeros(channels) if bias is None else bias
        chosen = slice(*c_out)
        return blocks({"bias": values[chosen].astype("<i4"), "weights": self.rows(layer)[chosen]})

    def call(self, layer: Layer) -> FunctionCall:
        """One call; the library reads the 32-bit bias through a pointer to bytes."""
        arguments: dict[str, Argument] = {
            "x": Operand("x", "uint8_t *"),
            "bias": Operand("bias", "int8_t *"),
            "y": Operand("y", "int32_t *"),
            "weights": Operand("weights", "int8_t *"),
            "inputs": size("x_c"),
            "outputs": size("y_c"),
        }
        return FunctionCall(self.name, arguments)
