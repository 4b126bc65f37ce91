"""Functions of one byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
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
    reject_type,
    requantisation,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    BYTES,
    VectorKernel,
    count,
    elements,
    reject_bytes,
)

_TABLE = 256


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


class WordsKernel(LutKernel):
    """Function of one byte whose values have 32 bits."""

    name = "dory_cortex_m55_lut_words"
    summary = "Function of one byte with values of 32 bits, four at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """One table for all channels."""
        if not isinstance(layer.op, ops.Lut):
            return Rejection("it computes functions of one byte", other_kind=True)
        wrong = reject_type(layer.inputs[0], "input", BYTES)
        wrong = wrong or reject_type(layer.output, "output", ("i32", "u32"))
        if wrong is None and _words(layer) is None:
            return Rejection("it has one table of numbers of 32 bits for all channels")
        return wrong

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """The table."""
        return 4 * _TABLE

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return the table."""
        table = _words(layer)
        assert table is not None
        return WeightBlock((table & 0xFFFFFFFF).astype("<u4").tobytes(), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Elements, four at a time."""
        return costs.CALL + ceil_div(elements(tile), 4) * costs.LUT_WORDS

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile."""
        members: dict[str, Argument] = {
            "x": Operand("x"),
            "y": Operand("y", "int32_t *"),
            "table": Operand("weights", "const int32_t *"),
            "count": count(),
        }
        return FunctionCall(self.symbol(layer), members)


def _words(layer: Layer) -> npt.NDArray[np.int64] | None:
    """Return the numbers of all bytes, None where channels have their own."""
    table = requantisation.byte_table(layer)
    return None if table is None or table.ndim > 1 else table
