"""Functions of one byte: by a table of what becomes of each of its 256 values.

Results are bytes, or larger: tables of fractions that a sum adds.
"""

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
    reject_type,
    requantisation,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import Instance, c_type, call_text
from dory_gap8.backend.movers import OneInstance

if TYPE_CHECKING:
    from dory_core.api import Tile

_BYTES = ("u8", "i8")
_OUTPUTS = (*_BYTES, "u16", "i16", "u32", "i32")


@dataclass(frozen=True)
class LutKernel(OneInstance):
    """Function of one byte, for all channels or for each of them."""

    name = "dory_gap8_lut"
    summary = "function of one byte by a table"
    features = OneInstance.features | {Feature.OTHER_OPERAND}
    template = "lut"
    purpose = "Function of one byte by a table."

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes to whole bytes by a table, or by one for each channel."""
        if not isinstance(layer.op, ops.Lut | ops.Pairwise):
            return Rejection("it computes functions of one byte only", other_kind=True)
        outputs = _OUTPUTS if isinstance(layer.op, ops.Lut) else _BYTES
        rejection = reject_type(layer.inputs[0], "input", _BYTES) or reject_type(
            layer.output, "output", outputs
        )
        if rejection is None and requantisation.byte_table(layer) is None:
            return Rejection("it computes functions of one byte only", other_kind=True)
        if rejection is None and isinstance(layer.op, ops.Pairwise) and self._per_channel(layer):
            return Rejection("tables of channels are larger than their numbers")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the tables."""
        table = 256 * layer.output.bits // 8
        return table * tile.c_out if self._per_channel(layer) else table

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the tables; bytes that the input never has may stand for anything."""
        values = self._table(layer)
        rows = values[slice(*c_out)] if values.ndim == 2 else values
        entry = f"<u{layer.output.bits // 8}"
        return WeightBlock(rows.astype(entry).tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Four elements at a time, or one of a channel."""
        elements = tile.h * tile.w * tile.c_out
        if self._per_channel(layer):
            return cal.CALL + ceil_div(elements, self.cores) * cal.LUT_CHANNEL
        four = cal.LUT_FOUR if layer.output.bits == 8 else cal.LUT_WIDE
        return cal.CALL + ceil_div(ceil_div(elements, 4), self.cores) * four

    def label(self, layer: Layer) -> str:
        """By the size of outputs, and whether there is a table for each channel."""
        name = f"{self.name}_channels" if self._per_channel(layer) else self.name
        return name if layer.output.bits == 8 else f"{name}_{layer.output.bits}"

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        macros = (
            ("DORY_CORES", str(self.cores)),
            ("DORY_CHANNELS", str(int(self._per_channel(layer)))),
            ("DORY_Y_T", c_type(f"i{layer.output.bits}")),
            ("DORY_Y_BYTES", str(layer.output.bits // 8)),
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
