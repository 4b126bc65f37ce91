"""Portable kernels of layers that slide no window over a sum: tables, softmax, moves; all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dory_core.expr import Number, ceil_div
from dory_core.ir import Layer, LogSoftmax, ops
from dory_core.ir.geometry import Tile
from dory_core.kernel import OPERANDS, FunctionCall, Kernel, Traits, WeightBlock
from dory_core.kernels import constants
from dory_core.kernels.portable_base import (
    Accumulating,
    Portable,
    c_type,
    c_window,
    packed,
    steps_of,
    weight_type,
)
from dory_core.kernels.portable_lstm import PortableLstm, PortableLstmInPlace
from dory_core.kernels.portable_pairs import (
    PortableAdd,
    PortableMaximum,
    PortableMinimum,
    PortableMul,
)

_HEADER = "dory_portable_kinds.h"
_PLACES = (
    "const dory_portable_places_t places = {{$x_row, $x_column, $x_channel}, "
    "{$y_row, $y_column, $y_channel}};"
)
# Cycles of a division of 32 bits, and of the reciprocal of a softmax.
_DIVISION, _RECIPROCAL = 40, 400


class _Kind(Portable):
    """What the kernels of ``dory_portable_kinds.h`` share."""

    __slots__ = ()
    parts: ClassVar[tuple[str, ...]] = (_HEADER,)

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header of the kernel."""
        return (_HEADER,)

    def _table_block(self, layer: Layer, c_out: tuple[int, int], data: bytes) -> WeightBlock:
        steps = self._steps(layer)
        parts = [("mul", constants.table(steps, c_out))] if steps else []
        return constants.block([*parts, ("weights", data)])

    def _with_table(self, layer: Layer, tile: Tile, size: Number) -> Number:
        return constants.padded(constants.table_bytes(self._steps(layer), tile.c_out) + size)

    def _io(self, layer: Layer) -> tuple[str, ...]:
        return f".x = {c_type(layer.inputs[0])}", f".y = {c_type(layer.output)}"


class PortableLut(_Kind):
    """Function of one byte by a table."""

    __slots__ = ()
    name = "dory_portable_lut"
    summary = "function of one byte by a table in plain C"
    kind = ops.Lut

    def _entry(self, layer: Layer) -> tuple[int, bool]:
        """Return (bits, signed) of the elements of the table."""
        return max(layer.output.bits, 8), layer.output.signed

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the tables of the tile's channels."""
        rows = tile.c_out if len(layer.of(ops.Lut).table.shape) == 2 else 1
        return rows * (256 * self._entry(layer)[0] // 8)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the table, or those of the channels, as ``weights``."""
        table = layer.of(ops.Lut).table.values
        rows = table[slice(*c_out)] if table.ndim == 2 else table
        # Bytes that the input never has may stand for anything.
        lo, hi = layer.output.lo, layer.output.hi
        return constants.block([("weights", packed(np.clip(rows, lo, hi), *self._entry(layer)))])

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return self.costs.element

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        bits, signed = self._entry(layer)
        fields = (
            *self._io(layer),
            f".entry = {{{bits}, {int(signed)}}}",
            f".per_channel = {int(len(layer.of(ops.Lut).table.shape) == 2)}",
        )
        return self._call(
            layer, "dory_portable_lut_t", fields, {"x": "$x", "weights": "$weights", "y": "$y"}
        )


class PortableSoftmax(_Kind):
    """Softmax over the channels of each pixel."""

    __slots__ = ()
    name = "dory_portable_softmax"
    summary = "softmax of TensorFlow Lite's integers, or in binary32, in plain C"
    kind: ClassVar[type[ops.Op]] = ops.Softmax
    parts = (_HEADER, "dory_portable_fixed.h")

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the steps and of the exponentials."""
        return self._with_table(layer, tile, 4 * 256)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the steps as ``mul``, the exponentials as ``weights``."""
        return self._table_block(layer, c_out, packed(layer.of(ops.Softmax).table.values, 32, True))

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return self.costs.step

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the most pixels."""
        steps = len(self._steps(layer))
        each = self.costs.output + (1 + steps) * self.costs.step
        pixel = tile.c_in * 2 * self.costs.element + tile.c_out * each + _RECIPROCAL
        return self.costs.call + ceil_div(tile.h * tile.w, self.cores) * pixel

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        return self._pixelwise(layer, (f".factor = {layer.of(ops.Softmax).factor}",))

    def _pixelwise(self, layer: Layer, more: tuple[str, ...]) -> FunctionCall:
        fields = (
            *self._io(layer),
            *more,
            f".steps = {steps_of(0, len(layer.op.requants))}",
        )
        arguments = {
            "channel": "$y_channel",
            "x": "$x",
            "weights": "$weights",
            "steps": self._table(layer),
            "y": "$y",
        }
        return self._call(layer, "dory_portable_pixelwise_t", fields, arguments)


class PortableLogSoftmax(PortableSoftmax):
    """Logarithm of the softmax over the channels of each pixel."""

    __slots__ = ()
    name = "dory_portable_log_softmax"
    summary = "logarithm of the softmax of TensorFlow Lite's integers in plain C"
    kind = LogSoftmax

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the steps, the exponentials and the differences."""
        return self._with_table(layer, tile, 2 * 4 * 256)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the steps as ``mul``, exponentials and differences as ``weights``."""
        rows = layer.of(LogSoftmax).table.values.reshape(-1)
        return self._table_block(layer, c_out, packed(rows, 32, True))

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        return self._pixelwise(layer, ())


class PortableArgMax(_Kind):
    """Number of the largest channel."""

    __slots__ = ()
    name = "dory_portable_argmax"
    summary = "number of the largest channel in plain C"
    kind = ops.ArgMax

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return tile.c_in * self.costs.element

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        fields = (*self._io(layer), f".steps = {steps_of(0, len(layer.op.requants))}")
        arguments = {"x": "$x", "steps": self._table(layer), "y": "$y"}
        return self._call(layer, "dory_portable_pixelwise_t", fields, arguments)


class _Mover(_Kind):
    """A kernel that copies elements and nothing else."""

    __slots__ = ()

    def _unsuitable(self, layer: Layer) -> str | None:
        return "it has no requantisation behind copies" if layer.op.requants else None


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
        fields = (
            *self._io(layer),
            *(
                f".{name} = {{{', '.join(str(n) for n in triple)}}}"
                for name, triple in (("perm", perm), ("begin", begin), ("step", step))
            ),
            f".value = {value}",
        )
        arguments = {"places": "&places", "x": "$x", "y": "$y"}
        return self._call(layer, "dory_portable_move_t", fields, arguments, (_PLACES,))


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
        fields = (*self._io(layer), f".width = {y.width}", f".channels = {y.channels}")
        arguments = {"places": "&places", "x": "$x", "y": "$y"}
        return self._call(layer, "dory_portable_reshape_t", fields, arguments, (_PLACES,))


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
        types = ", ".join(c_type(x) for x in inputs)
        sizes = ", ".join(str(x.shape[axis]) for x in inputs)
        names = ", ".join(f"${name}" for name in OPERANDS[: len(inputs)])
        fields = (
            f".y = {c_type(layer.output)}",
            f".axis = {axis}",
            f".count = {len(inputs)}",
            ".x = types",
            ".sizes = sizes",
        )
        before = (
            f"static const dory_portable_type_t types[] = {{{types}}};",
            f"static const uint32_t sizes[] = {{{sizes}}};",
            _PLACES,
            f"const uint8_t *const inputs[] = {{{names}}};",
        )
        arguments = {"places": "&places", "x": "inputs", "y": "$y"}
        return self._call(layer, "dory_portable_concat_t", fields, arguments, before)


class PortableResize(_Kind):
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
        fields = (
            *self._io(layer),
            f".height = {layer.output.height}",
            f".steps = {steps_of(0, len(layer.op.requants))}",
        )
        arguments = {
            "places": "&places",
            "x": "$x",
            "weights": "$weights",
            "steps": self._table(layer),
            "y": "$y",
        }
        return self._call(layer, "dory_portable_resize_t", fields, arguments, (_PLACES,))


class PortableConvTranspose(Accumulating):
    """Transposed convolution."""

    __slots__ = ()
    name = "dory_portable_conv_transpose"
    summary = "transposed convolution in plain C, any precision"
    kind = ops.ConvTranspose
    parts = (_HEADER,)

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header of the kernel."""
        return (_HEADER,)

    def traits(self, layer: Layer) -> Traits:
        """All input channels in one tile."""
        return Traits(in_place=self.in_place)

    def _weight_rows(self, layer: Layer, tile: Tile) -> tuple[int, Number]:
        return layer.of(ops.ConvTranspose).window.taps, layer.inputs[0].channels

    def _rows(self, layer: Layer, c_out: slice, c_in: slice) -> npt.NDArray[Any]:
        return layer.of(ops.ConvTranspose).weights.values[c_out].transpose(0, 2, 3, 1)

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        window = layer.of(ops.ConvTranspose).window
        strides = window.strides[0] * window.strides[1]
        products = self._fan_in(layer, tile) * self.costs.generic_mac // strides
        return window.taps * self.costs.tap + products

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        op = layer.of(ops.ConvTranspose)
        bits, signed = weight_type(layer)
        fields = (
            f".x = {c_type(layer.inputs[0])}",
            f".w = {{{bits}, {int(signed)}}}",
            f".y = {c_type(layer.output)}",
            f".window = {c_window(op.window)}",
            f".pad_top = {op.window.pads[0]}",
            f".pad_left = {op.window.pads[1]}",
            f".zero_point = {op.zero_point}",
            f".steps = {steps_of(0, len(op.requants))}",
        )
        bias = "$bias" if op.bias is not None else "NULL"
        arguments = {
            "places": "&places",
            "x": "$x",
            "weights": "$weights",
            "bias": bias,
            "steps": self._table(layer),
            "y": "$y",
        }
        return self._call(layer, "dory_portable_conv_transpose_t", fields, arguments, (_PLACES,))


#: The kernel of each kind.
KERNELS: tuple[Callable[..., Kernel], ...] = (
    PortableAdd,
    PortableMul,
    PortableMaximum,
    PortableMinimum,
    PortableLut,
    PortableSoftmax,
    PortableLogSoftmax,
    PortableLstm,
    PortableArgMax,
    PortableMove,
    PortableReshape,
    PortableConcat,
    PortableResize,
    PortableConvTranspose,
)

#: Those that have another name where they work in place, since a target may offer both.
IN_PLACE: dict[Callable[..., Kernel], Callable[..., Kernel]] = {PortableLstm: PortableLstmInPlace}
