"""Softmax of bytes in the integers of TensorFlow Lite."""

from __future__ import annotations

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
from dory_cortex_m55.backend.base import VectorKernel, reject_bytes

_TABLE = 256


class SoftmaxKernel(VectorKernel):
    """Softmax over the channels of each pixel; exponentials are a table."""

    name = "dory_cortex_m55_softmax"
    file = "softmax"
    common = ("mve.h",)
    summary = "Softmax of bytes in integers, four channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows adds a zero point and clips."""
        kind = layer.op
        if not isinstance(kind, ops.Softmax):
            return Rejection("it computes softmax", other_kind=True)
        steps = kind.requants
        if len(steps) != 1 or steps[0].offset is None or steps[0].lo is None:
            return Rejection("what follows it is more than a sum and a clip")
        return reject_bytes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The exponentials."""
        return 4 * _TABLE

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the exponentials, 32 bits each."""
        table = layer.of(ops.Softmax).table.values
        return WeightBlock(table.astype("<i4").tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: the largest channel, the sum, the shares."""
        sums = ceil_div(tile.c_in, 16) * costs.SOFTMAX_LARGEST
        sums += ceil_div(tile.c_in, 4) * costs.SOFTMAX_SUM
        shares = ceil_div(tile.c_out, 4) * costs.SOFTMAX_SHARE
        return costs.CALL + tile.h * tile.w * (costs.SOFTMAX_PIXEL + sums + shares)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        step = layer.of(ops.Softmax).requants[0]
        assert step.lo is not None and step.hi is not None
        members: dict[str, Argument] = {
            **named("x", "y", "x_c", "y_c"),
            "table": Operand("weights", "const int32_t *"),
            "pixels": size("y_h") * size("y_w"),
            "channel": size("y_channel"),
            "x_signed": int(layer.inputs[0].signed),
            "add": step.add[0],
            "lo": step.lo,
            "hi": step.hi,
        }
        return self.struct_call(layer, members)
