"""Softmax of bytes in integers: those of TensorFlow Lite, and quotients."""

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
    common = ("mve.h", "divide.h")
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
        kind = layer.op
        assert isinstance(kind, ops.Softmax | ops.Shares)
        table = kind.table.values
        return WeightBlock(table.astype("<i4").tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: the largest channel, the sum, the shares."""
        sums = ceil_div(tile.c_in, 16) * costs.SOFTMAX_LARGEST
        sums += ceil_div(tile.c_in, 4) * costs.SOFTMAX_SUM
        shares = ceil_div(tile.c_out, 4) * costs.SOFTMAX_SHARE
        return costs.CALL + tile.h * tile.w * (costs.SOFTMAX_PIXEL + sums + shares)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        steps, y = layer.op.requants, layer.output
        lo, hi = (steps[0].lo, steps[0].hi) if steps else (None, None)
        members: dict[str, Argument] = {
            **named("x", "y", "x_c", "y_c"),
            "table": Operand("weights", "const int32_t *"),
            "pixels": size("y_h") * size("y_w"),
            "channel": size("y_channel"),
            "x_signed": int(layer.inputs[0].signed),
            "factor": layer.op.factor if isinstance(layer.op, ops.Shares) else 0,
            "add": steps[0].add[0] if steps else 0,
            "lo": y.lo if lo is None else lo,
            "hi": y.hi if hi is None else hi,
        }
        return self.struct_call(layer, members)


class SharesKernel(SoftmaxKernel):
    """Softmax as quotients of integers."""

    name = "dory_cortex_m55_shares"
    summary = "Softmax of bytes as quotients of integers, four channels at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows adds a number and clips."""
        kind = layer.op
        if not isinstance(kind, ops.Shares):
            return Rejection("it computes shares of integers", other_kind=True)
        if len(kind.requants) > 1 or any(step.offset is None for step in kind.requants):
            return Rejection("what follows it is more than a sum and a clip")
        most = int(kind.table.values.max()) * max(kind.factor, layer.inputs[0].channels)
        if most >= 1 << 31:
            return Rejection(f"its sums or products may reach {most}, possible are 31 bits")
        return reject_bytes(layer)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: the largest channel, the sum, the quotients."""
        sums = ceil_div(tile.c_in, 16) * costs.SOFTMAX_LARGEST
        sums += ceil_div(tile.c_in, 4) * costs.SOFTMAX_SUM
        shares = ceil_div(tile.c_out, 4) * costs.SHARES_FOUR
        return costs.CALL + tile.h * tile.w * (costs.SHARES_PIXEL + sums + shares)
