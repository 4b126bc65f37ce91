"""The portable kernel of products of two tensors of matrices."""

from __future__ import annotations

from dory_core.expr import Number
from dory_core.ir import Layer, ops
from dory_core.ir.geometry import Tile
from dory_core.kernels.call import Argument, FunctionCall, named
from dory_core.kernels.portable_base import PortableKind, c_type, steps_of


class PortableMatMul(PortableKind):
    """Sums of products of a row of the second input with the columns of the first one."""

    __slots__ = ()
    name = "dory_portable_matmul"
    summary = "product of two tensors of matrices in plain C, any precision"
    kind = ops.MatMul

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return tile.x_w * self.costs.generic_mac

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        x, factors = layer.inputs
        zeros = layer.of(ops.MatMul).zero_points
        height = layer.output.height
        fields: dict[str, Argument] = {
            "x": c_type(x),
            "x2": c_type(factors),
            "y": c_type(layer.output),
            "x_zero": zeros[0],
            "x2_zero": zeros[1],
            "one_x": int(x.height < height),
            "one_x2": int(factors.height < height),
            "steps": steps_of(0, len(layer.op.requants)),
        }
        arguments: dict[str, Argument] = {
            **named("x", "x2"),
            "steps": self._table(layer),
            **named("y"),
        }
        return self._call(layer, "dory_portable_matmul_t", fields, arguments)
