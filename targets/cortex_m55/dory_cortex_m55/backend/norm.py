"""Normalisation of the channels of each pixel in integers."""

from __future__ import annotations

import numpy as np

from dory_core.api import (
    Argument,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Tile,
    WeightBlock,
    ceil_div,
    named,
    ops,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import VectorKernel, reject_bytes, whole

_WORD = 32
_LANES = 4


class NormKernel(VectorKernel):
    """Layer normalisation in integers, and its form without a mean."""

    name = "dory_cortex_m55_norm"
    file = "norm"
    common = ("mve.h", "divide.h")
    summary = "Layer normalisation of bytes in integers, four channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows is a shift and a clip."""
        op = layer.op
        if not isinstance(op, ops.Norm):
            return Rejection("it computes layer normalisations in integers", other_kind=True)
        steps = op.requants
        plain = len(steps) == 1 and (steps[0].mul, steps[0].add) == ((1,), (0,))
        if not plain or steps[0].shift is None or steps[0].shift >= _WORD - _up(op):
            return Rejection("what follows it is more than a shift and a clip")
        return reject_bytes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Weights and biases, each in whole vectors."""
        return 2 * 4 * whole(tile.c_out, _LANES)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return weights, then biases."""
        op, channels = layer.of(ops.Norm), c_out[1] - c_out[0]
        rows = np.zeros((2, int(whole(channels, _LANES))), "<i4")
        rows[0, :channels] = op.weights.values[slice(*c_out)]
        if op.bias is not None:
            rows[1, :channels] = op.bias.values[slice(*c_out)]
        return WeightBlock(rows.tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: sums, the root, then outputs."""
        sums = ceil_div(tile.c_in, 16) * costs.NORM_SUM
        outputs = ceil_div(tile.c_out, _LANES) * costs.NORM_FOUR
        return costs.CALL + tile.h * tile.w * (costs.NORM_PIXEL + sums + outputs)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        op, y = layer.of(ops.Norm), layer.output
        step, up = op.requants[0], _up(op)
        assert step.shift is not None
        members: dict[str, Argument] = {
            **named("x", "y", "x_c", "y_c"),
            "weights": Operand("weights", "const int32_t *"),
            "pixels": size("y_h") * size("y_w"),
            "channel": size("y_channel"),
            "x_signed": int(layer.inputs[0].signed),
            "centred": int(op.centred),
            "up": up,
            "down": up + step.shift,
            "lo": y.lo if step.lo is None else step.lo,
            "hi": y.hi if step.hi is None else step.hi,
        }
        return self.struct_call(layer, members)


def _up(op: ops.Norm) -> int:
    """Return by how many bits a wrapped accumulator is shifted to the top of a word."""
    return _WORD - op.wrap_bits if op.wrap_bits else 0
