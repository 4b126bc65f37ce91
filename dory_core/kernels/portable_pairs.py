"""Portable kernels of two operands: sum, product, quotient, maximum, minimum."""

from __future__ import annotations

from typing import ClassVar

from dory_core.expr import Number
from dory_core.ir import Array, Layer, Requant, ops
from dory_core.ir.geometry import Tile
from dory_core.ir.packing import pack_rows
from dory_core.ir.tensor import storage_for
from dory_core.kernels import constants
from dory_core.kernels.call import Argument, FunctionCall, Items, Local, Operand, Symbol, size
from dory_core.kernels.kernel import WeightBlock
from dory_core.kernels.portable_base import (
    KINDS_HEADER,
    Portable,
    c_type,
    steps_of,
    type_items,
)

# Cycles of a quotient in binary32, by integers.
_QUOTIENT = 1500


class PortablePair(Portable):
    """Two tensors, or a tensor and a constant, element by element."""

    __slots__ = ()
    parts: ClassVar[tuple[str, ...]] = ("dory_portable_pair_impl.h",)
    layer_type: ClassVar[str] = "dory_portable_pair_t"

    def _operands(self, layer: Layer) -> tuple[tuple[Requant, ...], tuple[Requant, ...]]:
        a, b = layer.of(ops.Pairwise).operand_requants
        return (() if a is None else (a,)), (() if b is None else (b,))

    def _steps(self, layer: Layer) -> tuple[Requant, ...]:
        return layer.op.steps

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of tables and of a constant operand."""
        size = constants.table_bytes(self._steps(layer), tile.c_out)
        constant = layer.of(ops.Pairwise).constant
        if constant is not None:
            channels, height, width = constant.shape
            count = tile.c_out if channels > 1 else 1
            size = size + height * width * count * (_storage(constant)[0] // 8)
        return constants.padded(size)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the tables as ``mul``, all rows of a constant operand as ``weights``, HWC."""
        constant, steps = layer.of(ops.Pairwise).constant, self._steps(layer)
        parts = [("mul", constants.table(steps, c_out))] if steps else []
        if constant is not None:
            rows = constant.values[slice(*c_out)] if constant.shape[0] > 1 else constant.values
            packed = pack_rows(rows.transpose(1, 2, 0), *_storage(constant))
            parts.append(("weights", packed.tobytes()))
        return constants.block(parts) if parts else None

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return 2 * self.costs.element

    def _more_fields(self, layer: Layer) -> dict[str, Argument]:
        """Return the fields of the constants beyond those of all pairs."""
        return {}

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        a, b = (len(steps) for steps in self._operands(layer))
        constant = layer.of(ops.Pairwise).constant
        if constant is None:
            shared, x2_type = layer.whole_axes(1), c_type(layer.inputs[1])
            width, channels = 1 if shared[2] else size("x_w"), 1 if shared[0] else size("x_c")
            place = Items((0, 0, 0, width, channels))
        else:
            c, h, w = (size == 1 for size in constant.shape)
            shared = (c, h, w)
            x2_type = type_items(*_storage(constant))
            channels = 1 if c else size("y_c")
            place = Items((size("y_row"), size("y_column"), 0, constant.shape[2], channels))
        fields: dict[str, Argument] = {
            "x": c_type(layer.inputs[0]),
            "x2": x2_type,
            "y": c_type(layer.output),
            "one_row": int(shared[1]),
            "one_column": int(shared[2]),
            "one_channel": int(shared[0]),
            "x_steps": steps_of(0, a),
            "x2_steps": steps_of(a, b),
            "steps": steps_of(a + b, len(layer.op.requants)),
            **self._more_fields(layer),
        }
        arguments: dict[str, Argument] = {
            "second": Symbol("&second"),
            "x": Operand("x"),
            "x2": Operand("weights" if constant is not None else "x2"),
            "steps": self._table(layer),
            "y": Operand("y"),
        }
        local = Local("const dory_portable_second_t", "second", place)
        return self._call(layer, self.layer_type, fields, arguments, (local,))


class PortableAdd(PortablePair):
    """Element-wise sum of two requantised operands."""

    __slots__ = ()
    name = "dory_portable_add"
    summary = "sum in plain C, any precision"
    kind = ops.Add


class PortableMul(PortablePair):
    """Element-wise product."""

    __slots__ = ()
    name = "dory_portable_mul"
    summary = "product in plain C, any precision"
    kind = ops.Mul


class PortableQuotient(PortablePair):
    """Quotient in binary32."""

    __slots__ = ()
    name = "dory_portable_quotient"
    summary = "quotient in binary32, by integers in plain C"
    kind = ops.Quotient
    parts = (*PortablePair.parts, KINDS_HEADER)
    layer_type: ClassVar[str] = "dory_portable_quotient_t"

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header of the kernel."""
        return (KINDS_HEADER,)

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return _QUOTIENT

    def _more_fields(self, layer: Layer) -> dict[str, Argument]:
        op = layer.of(ops.Quotient)
        scales = {"scale": op.scale, "scale2": op.scale2, "out_scale": op.out_scale}
        found = {name: Items(constants.mantissa(value)) for name, value in scales.items()}
        return {**found, "is_turned": int(op.turned)}


class PortableMaximum(PortablePair):
    """The larger one of two operands."""

    __slots__ = ()
    name = "dory_portable_maximum"
    summary = "larger one of two operands in plain C, any precision"
    kind = ops.Maximum


class PortableMinimum(PortablePair):
    """The smaller one of two operands."""

    __slots__ = ()
    name = "dory_portable_minimum"
    summary = "smaller one of two operands in plain C, any precision"
    kind = ops.Minimum


def _storage(constant: Array) -> tuple[int, bool]:
    """Return (bits, signed) of a constant operand in memory, at least a byte."""
    lo, hi = constant.bounds
    bits, signed = storage_for(lo, hi)
    return max(bits, 8), signed
