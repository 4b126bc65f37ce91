"""Fully connected layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dory_core.expr import ceil_div
from dory_core.ir import Linear, TypedLayer
from dory_core.kernel import Number, Rejection
from dory_gap8 import calibration as cal
from dory_gap8.backend.conv import tile_arguments
from dory_gap8.backend.dense import DenseKernel, filters, reject_weighted, weighted_epilogue
from dory_gap8.backend.instance import call_text
from dory_gap8.backend.weights import padded

if TYPE_CHECKING:
    from dory_core.tiling.geometry import Tile


@dataclass(frozen=True)
class LinearKernel(DenseKernel):
    """Fully connected layer; cores share the outputs."""

    kind = "linear"
    title = "fully connected layer"

    def accepts(self, layer: TypedLayer) -> Rejection | None:
        """Any number of inputs and outputs."""
        if not isinstance(layer.layer, Linear):
            return Rejection("it computes fully connected layers only")
        return reject_weighted(layer)

    def rows(self, layer: TypedLayer, c_in: tuple[int, int]) -> npt.NDArray[Any]:
        """Rows as the layer has them, in the order of the input tensor."""
        return filters(layer).weights.values[:, c_in[0] : c_in[1]]

    def row_length(self, layer: TypedLayer, tile: Tile) -> Number:
        """All inputs of the tile."""
        return tile.c_in

    def cycles(self, layer: TypedLayer, tile: Tile) -> Number:
        """Outputs of the core with the most of them, four at a time."""
        output = weighted_epilogue(layer).cycles
        words = padded(tile.c_in) // 4
        mine = ceil_div(tile.c_out, self.cores)
        wide = layer.inputs[0].bits > 8
        four = (cal.COLUMN_WORD_16 if wide else cal.COLUMN_WORD) * words + 4 * output
        one = (cal.SINGLE_WORD_16 if wide else cal.SINGLE_WORD) * words + output
        return cal.CALL + mine // 4 * four + mine % 4 * one

    def call(self, layer: TypedLayer) -> str:
        """One call with the sizes of the two vectors."""
        arguments = (
            *tile_arguments("x", "weights", "y"),
            *self.partial_arguments(),
            *tile_arguments("x_c", "y_c"),
            ("requant", weighted_epilogue(layer).initialiser()),
        )
        return call_text(self.symbol(layer), self.kind, arguments)
