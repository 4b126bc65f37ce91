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
    OutputFile,
    Rejection,
    WeightBlock,
    ceil_div,
    ops,
    requantisation,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import call_text, sources
from dory_gap8.backend.movers import OneInstance, reject_bytes

if TYPE_CHECKING:
    from dory_core.api import Tile


@requantisation.cached_per_layer
def byte_table(layer: Layer) -> npt.NDArray[np.int64] | None:
    """Return what a layer makes of each bit pattern of a byte; None when it is no such function.

    Shape (256,), or (C, 256) when it differs from channel to channel. A pair of a tensor and one
    number is such a function.
    """
    op, x = layer.op, layer.inputs[0]
    patterns = np.arange(256, dtype=np.int64)
    values = np.where(patterns > 127, patterns - 256, patterns) if x.signed else patterns
    if isinstance(op, ops.Lut):
        return np.asarray(np.clip(op.table.values, layer.output.lo, layer.output.hi), np.int64)
    if not isinstance(op, ops.Pairwise) or op.constant is None or op.constant.values.size > 1:
        return None
    if any(len(p) > 1 for step in op.steps for p in step.parameters):
        return None
    number = op.constant.values.reshape(1, 1).astype(np.int64)
    operands = (np.clip(values, x.lo, x.hi)[None], number)
    one, two = (
        v if step is None else step.apply(v)
        for v, step in zip(operands, op.operand_requants, strict=True)
    )
    result = _PAIRS[type(op)](one, two)
    for step in op.requants:
        result = step.apply(result)
    return np.asarray(result[0], np.int64)


_PAIRS = {ops.Add: np.add, ops.Mul: np.multiply, ops.Maximum: np.maximum, ops.Minimum: np.minimum}


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
        if rejection is None and byte_table(layer) is None:
            return Rejection("it computes functions of one byte only", other_kind=True)
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

    def symbol(self, layer: Layer) -> str:
        """One for all layers, and one for those with a table for each channel."""
        return f"{self.name}_channels" if self._per_channel(layer) else self.name

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        """The instance and the template."""
        macros = (
            ("DORY_CORES", str(self.cores)),
            ("DORY_CHANNELS", str(int(self._per_channel(layer)))),
        )
        return sources(self.template, self.symbol(layer), self.purpose, macros)

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all elements of the tile."""
        arguments = (
            ("x", "$x"),
            ("table", "$weights"),
            ("y", "$y"),
            ("elements", "$y_h * $y_w * $y_c"),
            ("channels", "$y_c"),
        )
        return call_text(self.symbol(layer), self.template, arguments)

    def _per_channel(self, layer: Layer) -> bool:
        return self._table(layer).ndim == 2

    @staticmethod
    def _table(layer: Layer) -> npt.NDArray[np.int64]:
        table = byte_table(layer)
        if table is None:
            raise TypeError("the layer was rejected")
        return table
