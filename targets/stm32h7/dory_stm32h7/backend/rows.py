"""Layer normalisation in binary32."""

from __future__ import annotations

from math import frexp

import numpy as np

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Symbol,
    Tile,
    WeightBlock,
    ceil_div,
    ops,
    reject_type,
    size,
)
from dory_core.importing import Array
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.instance import BYTES, InstanceKernel, c_type, tile_arguments

_DIGITS = 24  # of binary32


class LayerNormKernel(InstanceKernel):
    """Layer normalisation over the channels of each pixel."""

    name = "dory_stm32h7_layernorm"
    template = "layernorm"
    features = InstanceKernel.features | {Feature.REALS}
    summary = "Layer normalisation of bytes in binary32"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows adds a zero point and clips."""
        op = layer.op
        if not isinstance(op, ops.LayerNorm):
            return Rejection("it computes layer normalisations in binary32 only")
        steps = op.requants
        if len(steps) != 1 or steps[0].offset is None or steps[0].lo is None:
            return Rejection("what follows it is more than a sum and a clip")
        return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
            layer.output, "output", BYTES
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of weights and biases."""
        return ceil_div(4 * len(_constants(layer)) * tile.c_out, 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the weights, then the biases."""
        rows = np.stack([array.values[slice(*c_out)] for array in _constants(layer)])
        data = rows.astype("<i4").tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), {"weights": 0})

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: sums, then outputs."""
        pixel = costs.LAYERNORM_PIXEL + tile.c_in * costs.LAYERNORM_SUM
        return costs.CALL + tile.h * tile.w * (pixel + tile.c_out * costs.LAYERNORM_OUTPUT)

    def label(self, layer: Layer) -> str:
        """Types, and whether there are biases."""
        bias = "_bias" if layer.of(ops.LayerNorm).bias is not None else ""
        return f"{self.name}_{layer.inputs[0].type_name}_{layer.output.type_name}{bias}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the pixels of the tile."""
        op = layer.of(ops.LayerNorm)
        step = op.requants[0]
        fraction, exponent = frexp(op.scale)
        arguments = (
            *tile_arguments("x", "y", "x_c", "y_c"),
            ("weights", Operand("weights")),
            ("pixels", size("y_h") * size("y_w")),
            ("channel", size("y_channel")),
            ("zero_point", op.zero_point),
            ("mantissa", int(fraction * (1 << _DIGITS))),
            ("digits", _DIGITS - exponent),
            ("scale", _real(op.scale)),
            ("epsilon", _real(op.epsilon)),
            ("out_scale", _real(op.out_scale)),
            ("add", step.add[0]),
            ("lo", step.lo),
            ("hi", step.hi),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        return (
            ("DORY_X_T", c_type(layer.inputs[0])),
            ("DORY_Y_T", c_type(layer.output)),
            ("DORY_BIAS", int(layer.of(ops.LayerNorm).bias is not None)),
        )


def _constants(layer: Layer) -> list[Array]:
    """Return the weights, and the biases where there are any."""
    op = layer.of(ops.LayerNorm)
    return [op.weights] if op.bias is None else [op.weights, op.bias]


def _real(value: float) -> Symbol:
    """Return the C constant of a number of binary32, exactly."""
    return Symbol(f"{float(np.float32(value)).hex()}f")
