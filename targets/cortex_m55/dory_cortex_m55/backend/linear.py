"""Fully connected layers: sums of 16 products an instruction."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    FunctionCall,
    Layer,
    Link,
    Number,
    Rejection,
    Term,
    Tile,
    Traits,
    ceil_div,
    maximum,
    ops,
    size,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import bytes_of, flip_of, in_blocks
from dory_cortex_m55.backend.conv import ConvKernel
from dory_cortex_m55.backend.requant import form_of
from dory_cortex_m55.backend.rows import (
    COLUMNS,
    EIGHT,
    OVERRUN,
    ROWS_OF_SUMS,
    SUMS_BYTES,
    RowsKernel,
)


class LinearKernel(RowsKernel):
    """Fully connected layer.

    Each weight is read once: where the core would copy them, they stay where they are linked.
    """

    name = "dory_cortex_m55_linear"
    summary = "Fully connected layer, 16 products an instruction, two outputs at a time"

    def __init__(self, reads: Link | None = None) -> None:
        """Reads: the way of constants to the core, None where a DMA loads them into L1."""
        self._reads = reads

    def traits(self, layer: Layer) -> Traits:
        """Where constants are."""
        return Traits(fetches="" if self._reads is None else Traits.LINKED)

    def accepts(self, layer: Layer) -> Rejection | None:
        """All inputs at once."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers", other_kind=True)
        return self.reject(layer)

    def symbol(self, layer: Layer) -> str:
        """Return the function: it is a convolution of one pixel."""
        return ConvKernel.name

    def rows(self, layer: Layer) -> npt.NDArray[np.int64]:
        """All inputs of each output."""
        weights = layer.of(ops.Linear).weights.values.astype(np.int64)
        return weights.reshape(len(weights), -1)

    def length(self, layer: Layer) -> int:
        """All elements of the input."""
        return int(np.prod(layer.of(ops.Linear).weights.values.shape[1:]))

    def is_direct(self, layer: Layer) -> bool:
        """Return True when inputs are bytes with a sign: they are a column as they lie."""
        return not flip_of(layer.inputs[0])

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Outputs in eights."""
        return (Term("OUTPUTS_IN_EIGHTS", 1e6, in_blocks(layer, tile, EIGHT)),)

    def columns_bytes(self, layer: Layer) -> int:
        """Return the bytes of the inputs."""
        return self.length(layer) * bytes_of(layer.inputs[0]) + OVERRUN

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Sums, and the inputs as bytes with a sign, where they have none."""
        return SUMS_BYTES + (0 if self.is_direct(layer) else self.columns_bytes(layer))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Sums of all outputs."""
        copied = 0
        if flip_of(layer.inputs[0]):
            copied = costs.LAY + self.vectors(layer) * costs.COPY_VECTOR
        call, sums = costs.CALL + copied, self.products_cycles(layer, tile.c_out, 1, 1)
        if self._reads is None:
            return call + sums
        blocks = ceil_div(tile.c_out, EIGHT), 1, ceil_div(tile.c_out, ROWS_OF_SUMS)
        finish = form_of(layer).finish_cycles(*blocks)
        thousandths = round(1000 * self._reads.bytes_per_cycle)
        read = ceil_div(1000 * self.weight_bytes(layer, tile), thousandths)
        return call + finish + self._reads.setup_cycles + maximum(sums - finish, read)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call of a tile: one pixel that has all inputs as channels."""
        bytes_of_x = self.length(layer) * bytes_of(layer.inputs[0])
        one = ("x_h", "x_w", "y_h", "y_w", "kernel_h", "kernel_w", "stride_h", "stride_w")
        members: dict[str, Argument] = {
            **self.members(layer),
            "columns": None if self.is_direct(layer) else COLUMNS,
            **dict.fromkeys((*one, "dilation_h", "dilation_w"), 1),
            **dict.fromkeys(("x_c", "x_row", "x_column"), bytes_of_x),
            **dict.fromkeys(("y_c", "y_row", "y_column"), size("y_c")),
            **dict.fromkeys(("pad_top", "pad_left", "padding"), 0),
        }
        return self.struct_call(layer, members)
