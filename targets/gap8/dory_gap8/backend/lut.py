"""Functions of one byte: by a table of what becomes of each of its 256 values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    WeightBlock,
    ceil_div,
    ops,
    requantisation,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import Instance, call_text
from dory_gap8.backend.movers import OneInstance, reject_bytes

if TYPE_CHECKING:
    from dory_core.api import Tile


@dataclass(frozen=True)
class LutKernel(OneInstance):
    """Function of one byte, for all channels or for each of them."""

    name = "dory_gap8_lut"
    summary = "function of one byte by a table"
    features = OneInstance.features | {Feature.OTHER_OPERAND}
    template = "lut"
    purpose = "Function of one byte by a table."

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes to bytes by a table, or by one for each channel."""
        if not isinstance(layer.op, ops.Lut | ops.Pairwise):
            return Rejection("it computes functions of one byte only", other_kind=True)
        rejection = reject_bytes(layer)
        if rejection is None and requantisation.byte_table(layer) is None:
            return Rejection("it computes functions of one byte only", other_kind=True)
        if rejection is None and isinstance(layer.op, ops.Pairwise) and self._per_channel(layer):
            return Rejection("tables of channels are larger than their numbers")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the tables."""
        return 256 * tile.c_out if self._per_channel(layer) else 256

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the tables; bytes that the input never has may stand for anything."""
        values = self._table(layer)
        rows = values[slice(*c_out)] if values.ndim == 2 else values
        return WeightBlock(rows.astype(np.uint8).tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Four elements at a time, or one of a channel."""
        elements = tile.h * tile.w * tile.c_out
        if self._per_channel(layer):
            return cal.CALL + ceil_div(elements, self.cores) * cal.LUT_CHANNEL
        return cal.CALL + ceil_div(ceil_div(elements, 4), self.cores) * cal.LUT_FOUR

    def label(self, layer: Layer) -> str:
        """One for all layers, and one for those with a table for each channel."""
        return f"{self.name}_channels" if self._per_channel(layer) else self.name

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        macros = (
            ("DORY_CORES", str(self.cores)),
            ("DORY_CHANNELS", str(int(self._per_channel(layer)))),
        )
        return Instance(self.template, self.label(layer), self.purpose, macros)

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all elements of the tile."""
        arguments = (
            ("x", Operand("x")),
            ("table", Operand("weights")),
            ("y", Operand("y")),
            ("elements", size("y_h") * size("y_w") * size("y_c")),
            ("channels", size("y_c")),
        )
        return call_text(self.symbol(layer), self.template, arguments)

    def _per_channel(self, layer: Layer) -> bool:
        return self._table(layer).ndim == 2

    @staticmethod
    def _table(layer: Layer) -> npt.NDArray[np.int64]:
        table = requantisation.byte_table(layer)
        if table is None:
            raise TypeError("the layer was rejected")
        return table
