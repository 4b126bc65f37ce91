"""Portable kernels of single elements or pixels: tables, softmax, the largest channel."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dory_core.expr import Number, ceil_div
from dory_core.ir import Layer, LogSoftmax, ops
from dory_core.ir.geometry import Tile
from dory_core.kernels import constants
from dory_core.kernels.call import Argument, FunctionCall, Operand, named, size
from dory_core.kernels.kernel import WeightBlock
from dory_core.kernels.portable_base import KINDS_HEADER, PortableKind, packed, type_items

# Cycles of the reciprocal of a softmax.
_RECIPROCAL = 400


class PortableLut(PortableKind):
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
        fields = {
            **self._io(layer),
            "entry": type_items(*self._entry(layer)),
            "per_channel": int(len(layer.of(ops.Lut).table.shape) == 2),
        }
        return self._call(layer, "dory_portable_lut_t", fields, named("x", "weights", "y"))


class PortableSoftmax(PortableKind):
    """Softmax over the channels of each pixel."""

    __slots__ = ()
    name = "dory_portable_softmax"
    summary = "softmax of TensorFlow Lite's integers, or in binary32, in plain C"
    kind: ClassVar[type[ops.Op]] = ops.Softmax
    parts: ClassVar[tuple[str, ...]] = (KINDS_HEADER, "dory_portable_fixed.h")

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
        op = layer.of(ops.Softmax)
        return self._pixelwise(layer, factor=op.factor, share_bits=op.share_bits)

    def _pixelwise(self, layer: Layer, **more: Argument) -> FunctionCall:
        fields = self._io_and_steps(layer, **more)
        arguments = {
            "channel": size("y_channel"),
            **named("x", "weights"),
            "steps": self._table(layer),
            "y": Operand("y"),
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
        return self._pixelwise(layer)


class PortableArgMax(PortableKind):
    """Number of the largest channel."""

    __slots__ = ()
    name = "dory_portable_argmax"
    summary = "number of the largest channel in plain C"
    kind = ops.ArgMax

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return tile.c_in * self.costs.element

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        fields = self._io_and_steps(layer)
        arguments = {"x": Operand("x"), "steps": self._table(layer), "y": Operand("y")}
        return self._call(layer, "dory_portable_pixelwise_t", fields, arguments)
