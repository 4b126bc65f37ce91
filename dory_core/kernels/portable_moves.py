"""Portable kernels that take elements from elsewhere: moves, concatenation, interpolation."""

from __future__ import annotations

from collections.abc import Mapping

from dory_core.expr import Number
from dory_core.ir import Layer, ops
from dory_core.ir.geometry import Tile
from dory_core.kernels.call import (
    OPERANDS,
    Argument,
    FunctionCall,
    Items,
    Local,
    Operand,
    Symbol,
    named,
)
from dory_core.kernels.kernel import WeightBlock
from dory_core.kernels.portable_base import PLACES, PortableKind, c_type, packed

# Cycles of a division of 32 bits.
_DIVISION = 40


class _Mover(PortableKind):
    """A kernel that copies elements and nothing else."""

    __slots__ = ()

    def _unsuitable(self, layer: Layer) -> str | None:
        return "it has no requantisation behind copies" if layer.op.requants else None

    def _move(self, layer: Layer, type_: str, fields: Mapping[str, Argument]) -> FunctionCall:
        """Return the call of a kernel that takes elements from anywhere in its one input."""
        arguments = {"places": Symbol("&places"), **named("x", "y")}
        return self._call(layer, type_, fields, arguments, (PLACES,))


class PortableMove(_Mover):
    """Slices, padding and transposition: the place of an element is a function of each axis."""

    __slots__ = ()
    name = "dory_portable_move"
    summary = "slices, padding and transposition in plain C, any precision"
    kind = ops.Slice | ops.Pad | ops.Transpose

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return 4 * self.costs.element

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        op = layer.op
        perm, begin, step, value = (0, 1, 2), (0, 0, 0), (1, 1, 1), 0
        if isinstance(op, ops.Slice):
            begin, step = op.begin, op.step
        elif isinstance(op, ops.Pad):
            c, h, w = op.before
            begin, value = (-c, -h, -w), op.value
        else:
            perm = layer.of(ops.Transpose).perm
        axes = {"perm": perm, "begin": begin, "step": step}
        triples = {name: Items(tuple(triple)) for name, triple in axes.items()}
        fields = {**self._io(layer), **triples, "value": value}
        return self._move(layer, "dory_portable_move_t", fields)


class PortableReshape(_Mover):
    """Another shape in the same order."""

    __slots__ = ()
    name = "dory_portable_reshape"
    summary = "another shape in plain C, any precision"
    kind = ops.Reshape

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return 2 * (self.costs.element + _DIVISION)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        y = layer.output
        fields = {**self._io(layer), "width": y.width, "channels": y.channels}
        return self._move(layer, "dory_portable_reshape_t", fields)


class PortableConcat(_Mover):
    """Inputs one after the other along an axis."""

    __slots__ = ()
    name = "dory_portable_concat"
    summary = "inputs one after the other in plain C, any precision"
    kind = ops.Concat

    def _unsuitable(self, layer: Layer) -> str | None:
        if len(layer.inputs) > len(OPERANDS):
            return f"it has {len(layer.inputs)} inputs, at most {len(OPERANDS)} are possible"
        return _Mover._unsuitable(self, layer)

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return 3 * self.costs.element

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        axis, inputs = layer.of(ops.Concat).axis, layer.inputs
        types = Items(tuple(c_type(x) for x in inputs))
        sizes = Items(tuple(x.shape[axis] for x in inputs))
        starts = Items(tuple(Operand(name) for name in OPERANDS[: len(inputs)]))
        fields: dict[str, Argument] = {
            "y": c_type(layer.output),
            "axis": axis,
            "count": len(inputs),
            "x": Symbol("types"),
            "sizes": Symbol("sizes"),
        }
        before = (
            Local("static const dory_portable_type_t", "types[]", types),
            Local("static const uint32_t", "sizes[]", sizes),
            PLACES,
            Local("const uint8_t *const", "inputs[]", starts),
        )
        arguments: dict[str, Argument] = {
            "places": Symbol("&places"),
            "x": Symbol("inputs"),
            "y": Operand("y"),
        }
        return self._call(layer, "dory_portable_concat_t", fields, arguments, before)


class PortableResize(PortableKind):
    """Interpolation between two rows and two columns."""

    __slots__ = ()
    name = "dory_portable_resize"
    summary = "interpolation and nearest neighbours in plain C, any precision"
    kind = ops.Resize

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the steps and of the taps of all rows and columns."""
        y = layer.output
        return self._with_table(layer, tile, 16 * (y.height + y.width))

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the steps as ``mul``, the taps of all rows, then of all columns as ``weights``."""
        taps = layer.of(ops.Resize).taps
        return self._table_block(layer, c_out, packed(taps, 32, True))

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return 4 * (self.costs.element + self.costs.generic_mac)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        fields = self._io_and_steps(layer, height=layer.output.height)
        arguments = {
            "places": Symbol("&places"),
            **named("x", "weights"),
            "steps": self._table(layer),
            "y": Operand("y"),
        }
        return self._call(layer, "dory_portable_resize_t", fields, arguments, (PLACES,))
