"""Portable kernels of functions by straight pieces: of elements, and the softmax of 16 bits."""

from __future__ import annotations

import numpy as np

from dory_core.expr import Number, ceil_div
from dory_core.ir import Layer, Requant, ops
from dory_core.ir.geometry import Tile
from dory_core.kernels.call import FunctionCall, Operand, named, size
from dory_core.kernels.kernel import WeightBlock
from dory_core.kernels.portable_base import KINDS_HEADER, PortableKind, packed, steps_of


class PortablePiecewise(PortableKind):
    """Function of one element by straight pieces."""

    __slots__ = ()
    name = "dory_portable_piecewise"
    summary = "function of one element by straight pieces in plain C"
    kind = ops.Piecewise

    def _steps(self, layer: Layer) -> tuple[Requant, ...]:
        return layer.op.steps

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the steps and of the table."""
        return self._with_table(layer, tile, 4 * layer.of(ops.Piecewise).table.values.size)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the steps as ``mul``, beginnings and slopes as ``weights``."""
        rows = layer.of(ops.Piecewise).table.values.reshape(-1)
        return self._table_block(layer, c_out, packed(rows, 32, True))

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return 2 * self.costs.element

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        op = layer.of(ops.Piecewise)
        fields = {
            **self._io(layer),
            "count": op.table.shape[1],
            "piece_bits": op.piece_bits,
            "argument": steps_of(0, 1),
            "steps": steps_of(1, len(op.requants)),
        }
        arguments = {**named("x", "weights"), "steps": self._table(layer), "y": Operand("y")}
        return self._call(layer, "dory_portable_piecewise_t", fields, arguments)


class PortableWideSoftmax(PortableKind):
    """Softmax over the channels of each pixel of 16 bits."""

    __slots__ = ()
    name = "dory_portable_wide_softmax"
    summary = "softmax of TensorFlow Lite's integers of 16 bits in plain C"
    kind = ops.WideSoftmax
    parts = (KINDS_HEADER, "dory_portable_fixed.h")

    def _steps(self, layer: Layer) -> tuple[Requant, ...]:
        return layer.op.steps

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the steps and of both tables."""
        return self._with_table(layer, tile, 2 * layer.of(ops.WideSoftmax).exps.values.size * 2)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the steps as ``mul``, exponentials and inverses as ``weights``."""
        op = layer.of(ops.WideSoftmax)
        rows = np.concatenate([op.exps.values, op.inverses.values])
        return self._table_block(layer, c_out, packed(rows, 16, True))

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return self.costs.step

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the most pixels."""
        each = self.costs.output + len(self._steps(layer)) * self.costs.step
        power = self.costs.step + 2 * self.costs.element
        pixel = tile.c_in * (power + self.costs.element) + tile.c_out * (each + power)
        return self.costs.call + ceil_div(tile.h * tile.w, self.cores) * pixel

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        fields = {
            **self._io(layer),
            "argument": steps_of(0, 1),
            "steps": steps_of(1, len(layer.op.requants)),
        }
        arguments = {
            "channel": size("y_channel"),
            **named("x", "weights"),
            "steps": self._table(layer),
            "y": Operand("y"),
        }
        return self._call(layer, "dory_portable_wide_softmax_t", fields, arguments)
