"""Functions of one byte."""

from __future__ import annotations

import numpy as np

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Tile,
    WeightBlock,
    ceil_div,
    named,
    ops,
    requantisation,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    VectorKernel,
    count,
    elements,
    reject_bytes,
)

_EIGHT = np.zeros(8, np.intp)  # the same channel eight times
_TABLE = 256
_INT31 = (1 << 30) - 1
_INT32 = (1 << 31) - 1


class LutKernel(VectorKernel):
    """Function of one byte by a table."""

    name = "dory_cortex_m55_lut"
    file = "lut"
    summary = "Function of one byte by a table, 16 at a time"
    features = VectorKernel.features | {Feature.OTHER_OPERAND}

    def accepts(self, layer: Layer) -> Rejection | None:
        """One table for all channels; a pair of a tensor and a number is such a function."""
        if not isinstance(layer.op, ops.Lut | ops.Pairwise):
            return Rejection("it computes functions of one byte", other_kind=True)
        rejection = reject_bytes(layer)
        if rejection is None:
            table = requantisation.byte_table(layer)
            if table is None or table.ndim > 1:
                return Rejection("it has one table of bytes for all channels")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The table."""
        return _TABLE

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the table."""
        table = requantisation.byte_table(layer)
        assert table is not None
        return WeightBlock((table & 0xFF).astype(np.uint8).tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements, 16 at a time."""
        return costs.CALL + ceil_div(elements(tile), 16) * costs.LUT_VECTOR

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        members = {**named("x", "y"), "table": Operand("weights"), "count": count()}
        return FunctionCall(self.symbol(layer), members)
