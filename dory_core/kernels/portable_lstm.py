"""Portable kernel of long short-term memory."""

from __future__ import annotations

import numpy as np

from dory_core.expr import Number, ceil_div
from dory_core.ir import Layer, Lstm, Requant
from dory_core.ir.geometry import Tile
from dory_core.kernels import constants
from dory_core.kernels.call import Argument, FunctionCall, Operand, Symbol, named
from dory_core.kernels.kernel import Constraint, WeightBlock
from dory_core.kernels.portable_base import KINDS_HEADER, Portable, c_type, packed

_GATES = 4
_TABLE_BYTES = 2 * 256
_BYTE = (-128, 127)


class PortableLstm(Portable):
    """Long short-term memory; every core computes some units, all meet after each row."""

    __slots__ = ()
    name = "dory_portable_lstm"
    summary = "long short-term memory of TensorFlow Lite's integers in plain C"
    kind = Lstm
    parts = (KINDS_HEADER,)

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header of the kernel."""
        return (KINDS_HEADER,)

    def _steps(self, layer: Layer) -> tuple[Requant, ...]:
        return layer.op.steps

    def _unsuitable(self, layer: Layer) -> str | None:
        weights = layer.of(Lstm).weights.values
        lo, hi = int(weights.min()), int(weights.max())
        if lo < _BYTE[0] or _BYTE[1] < hi:
            return f"weights in [{lo}, {hi}] do not fit 8 bits"
        for tensor in (layer.inputs[1], layer.output):
            wanted = f"i{layer.of(Lstm).state_bits}"
            if tensor.type_name != wanted:
                return f"{tensor.name} is stored as {tensor.type_name}, possible is {wanted}"
        return None

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        """Take the layer as a whole: a row needs all units of the row before."""
        y, rows = layer.output, layer.inputs[0].height
        reason = (
            f"its {y.channels} units and {rows} rows need one another: input, state,"
            " weights and output lie in L1 as a whole"
        )
        return (
            Constraint(tile.c_out == y.channels, reason),
            Constraint(tile.h == y.height, reason),
        )

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of steps, biases, the table and weights."""
        op = layer.of(Lstm)
        size = constants.table_bytes(self._steps(layer), layer.output.channels)
        size = size + 4 * op.bias.values.size + _TABLE_BYTES + op.weights.values.size
        return constants.padded(size)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the steps as ``mul``, the biases as ``bias``, table and weights as ``weights``."""
        op = layer.of(Lstm)
        table = op.table.values.astype("<u2").tobytes()
        return constants.block(
            [
                ("mul", constants.table(self._steps(layer), c_out)),
                ("bias", op.bias.values.astype("<i4").tobytes()),
                ("weights", table + packed(np.asarray(op.weights.values), 8, True)),
            ]
        )

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the most units."""
        x, units = layer.inputs[0], layer.output.channels
        costs = self.costs
        near = costs.generic_mac if self.traits(layer).in_place else costs.mac
        mac = near if x.bits == 8 else costs.generic_mac
        products = _GATES * (x.channels * mac + units * near)
        each = products + len(self._steps(layer)) * costs.step + 10 * costs.element
        return costs.call + x.height * (costs.call + ceil_div(units, self.cores) * each)

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return 0

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        fields: dict[str, Argument] = {
            "x": c_type(layer.inputs[0]),
            "hidden": c_type(layer.output),
            "clip": layer.of(Lstm).clip,
            "steps": Symbol("steps"),
        }
        arguments = {
            "x": Operand("x"),
            "state": Operand("x2"),
            **named("weights", "bias"),
            "steps": Operand("mul"),
            "y": Operand("y"),
        }
        return self._call(layer, "dory_portable_lstm_t", fields, arguments)


class PortableLstmInPlace(PortableLstm):
    """Long short-term memory whose weights need not fit L1: a target's cores reach L2."""

    __slots__ = ()
    name = "dory_portable_lstm_in_place"
    summary = "long short-term memory of TensorFlow Lite's integers in L2, in plain C"

    def symbol(self, layer: Layer) -> str:
        """Return the C function, which is that of tiles in L1."""
        return PortableLstm.name
