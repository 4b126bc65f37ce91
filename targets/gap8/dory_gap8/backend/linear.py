"""Fully connected layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dory_core.api import FunctionCall, Layer, Number, Rejection, ceil_div, ops, size
from dory_gap8 import calibration as cal
from dory_gap8.backend.dense import (
    DenseKernel,
    block_cycles,
    reject_weighted,
    weighted_epilogue,
)
from dory_gap8.backend.instance import call_text, tile_arguments
from dory_gap8.backend.packing import Columns, packed_bytes, per_byte

if TYPE_CHECKING:
    from dory_core.api import Tile


@dataclass(frozen=True)
class LinearKernel(DenseKernel):
    """Fully connected layer; cores share the outputs."""

    kind = "linear"
    title = "fully connected layer"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any number of inputs and outputs."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers only")
        return reject_weighted(layer, packed=True)

    def columns(self, layer: Layer) -> Columns:
        """The input as it lies in memory: the inner loop takes packed elements apart."""
        return replace(super().columns(layer), packed=True)

    def filter_array(self, layer: Layer, c_in: tuple[int, int]) -> npt.NDArray[Any]:
        """Rows as the layer has them, in the order of the input tensor."""
        weights = layer.weighted.weights.values[:, c_in[0] : c_in[1]]
        return weights.reshape(len(weights), -1, _pixel(layer) or weights.shape[1])

    def column_shape(self, layer: Layer, tile: Tile) -> tuple[Number, Number]:
        """All inputs of the tile, by pixels where those end inside a byte."""
        pixel = _pixel(layer)
        return (tile.c_in // pixel, pixel) if pixel else (1, tile.c_in)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Outputs of the core with the most of them, four at a time."""
        columns = self.columns(layer)
        vectors = columns.length(*self.column_shape(layer, tile)) // 4
        unit = per_byte(layer.output.bits)
        mine = ceil_div(ceil_div(tile.c_out, unit), self.cores) * unit
        return cal.CALL + block_cycles(layer, columns, vectors, mine, 1)

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the sizes of the two vectors."""
        pixel, bits = _pixel(layer), layer.inputs[0].bits
        inputs = size("x_c")
        whole = inputs // pixel * packed_bytes(pixel, bits) if pixel else packed_bytes(inputs, bits)
        arguments = (
            *tile_arguments("x", "weights", "y"),
            *self.partial_arguments(),
            ("x_bytes", whole),
            *tile_arguments("y_c"),
            ("requant", weighted_epilogue(layer).struct()),
        )
        return call_text(self.symbol(layer), self.kind, arguments)


def _pixel(layer: Layer) -> int:
    """Return the channels of a pixel of the input where it ends inside a byte, else 0."""
    x = layer.inputs[0]
    return x.channels if x.channels % per_byte(x.bits) else 0
