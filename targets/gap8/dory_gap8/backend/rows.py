"""Functions of all channels of a pixel in plain quotients of integers, by products."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    WeightBlock,
    ceil_div,
    ops,
    size,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import (
    Arguments,
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    tile_arguments,
)
from dory_gap8.backend.movers import reject_bytes

if TYPE_CHECKING:
    from dory_core.api import Tile

_LIMIT = 1 << 31
_INT32 = 32


@dataclass(frozen=True)
class RowsKernel(ClusterKernel):
    """What both share: pixels of a core, the types in the name."""

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Pixels of a core: sums, then outputs."""
        pixel, channel, output = self._cycles(layer)
        each = pixel + tile.c_in * channel + tile.c_out * output
        return cal.CALL + ceil_div(tile.h * tile.w, self.cores) * each

    @abstractmethod
    def _cycles(self, layer: Layer) -> tuple[int, int, int]:
        """Return the cycles of a pixel, of a channel of the sums and of one of the output."""

    def label(self, layer: Layer) -> str:
        """The types."""
        return f"{self.name}_{layer.inputs[0].type_name}_{layer.output.type_name}"

    def _macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        return (
            ("DORY_X_T", c_type(layer.inputs[0].type_name)),
            ("DORY_Y_T", c_type(layer.output.type_name)),
            ("DORY_CORES", str(self.cores)),
        )

    def _arguments(self, layer: Layer, constants: str, c_name: str) -> Arguments:
        lo, hi = _bounds(layer)
        return (
            ("x", Operand("x")),
            (c_name, Operand("weights", constants)),
            ("y", Operand("y")),
            ("pixels", size("y_h") * size("y_w")),
            *tile_arguments("x_c", "y_c"),
            ("channel", size("y_channel")),
            ("lo", lo),
            ("hi", hi),
        )


class NormKernel(RowsKernel):
    """Layer normalisation in integers, and its form without a mean."""

    name = "dory_gap8_norm"
    summary = "layer normalisation of bytes in integers"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows is a shift and a clip."""
        op = layer.op
        if not isinstance(op, ops.Norm):
            return Rejection("it computes layer normalisations in integers only", other_kind=True)
        steps = op.requants
        plain = len(steps) == 1 and (steps[0].mul, steps[0].add) == ((1,), (0,))
        if not plain or steps[0].shift is None or steps[0].shift >= _INT32 - _up(op):
            return Rejection("what follows it is more than a shift and a clip")
        return reject_bytes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of weights and biases."""
        return ceil_div(4 * len(layer.of(ops.Norm).arrays) * tile.c_out, 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the weights, then the biases."""
        rows = np.stack([array.values[slice(*c_out)] for array in layer.of(ops.Norm).arrays])
        data = rows.astype("<i4").tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), {"weights": 0})

    def _cycles(self, layer: Layer) -> tuple[int, int, int]:
        return cal.NORM_PIXEL, cal.NORM_SUM, cal.NORM_OUTPUT

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the pixels of the tile."""
        op = layer.of(ops.Norm)
        shift = op.requants[0].shift
        assert shift is not None
        more = (("up", _up(op)), ("down", _up(op) + shift))
        arguments = (*self._arguments(layer, "const int32_t *", "weights"), *more)
        return call_text(self.symbol(layer), "norm", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        op = layer.of(ops.Norm)
        macros = (
            *self._macros(layer),
            ("DORY_CENTRED", str(int(op.centred))),
            ("DORY_BIAS", str(int(op.bias is not None))),
        )
        tokens = (["centred"] if op.centred else []) + (["bias"] if op.bias is not None else [])
        label = "_".join((self.label(layer), *tokens))
        return Instance("norm", label, "Layer normalisation in integers.", macros)


class SharesKernel(RowsKernel):
    """Softmax as quotients of integers."""

    name = "dory_gap8_shares"
    summary = "softmax of bytes as quotients of integers"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes and numbers of 31 bits; what follows adds a number and clips."""
        op = layer.op
        if not isinstance(op, ops.Shares):
            return Rejection("it computes shares of integers only", other_kind=True)
        steps = op.requants
        if len(steps) > 1 or any(step.offset is None for step in steps):
            return Rejection("what follows it is more than a sum and a clip")
        most = int(op.table.values.max())
        if max(most * layer.inputs[0].channels, most * op.factor) >= _LIMIT:
            return Rejection("its sums or products exceed 31 bits")
        return reject_bytes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the exponentials."""
        return 4 * 256

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the exponentials."""
        table = layer.of(ops.Shares).table.values
        return WeightBlock(table.astype("<u4").tobytes(), {"weights": 0})

    def _cycles(self, layer: Layer) -> tuple[int, int, int]:
        return cal.SHARES_PIXEL, cal.SHARES_SUM, cal.SHARES_OUTPUT

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the pixels of the tile."""
        op = layer.of(ops.Shares)
        add = next((step.add[0] for step in op.requants), 0)
        more = (("factor", op.factor), ("add", add))
        arguments = (*self._arguments(layer, "const uint32_t *", "table"), *more)
        return call_text(self.symbol(layer), "shares", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        purpose = "Softmax as quotients of integers."
        return Instance("shares", self.label(layer), purpose, self._macros(layer))


def _up(op: ops.Norm) -> int:
    """Return by how many bits a wrapped accumulator is shifted to the top of 32 bits."""
    return _INT32 - op.wrap_bits if op.wrap_bits else 0


def _bounds(layer: Layer) -> tuple[int, int]:
    """Return the clip of the last step, else what the output can be."""
    steps = layer.op.requants
    lo, hi = (steps[-1].lo, steps[-1].hi) if steps else (None, None)
    return (layer.output.lo, layer.output.hi) if lo is None or hi is None else (lo, hi)
