"""Fully connected layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Tile,
    WeightBlock,
    caches,
    ops,
    requantisation,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.accesses import fully_connected
from dory_stm32h7.backend.epilogue import epilogue
from dory_stm32h7.backend.instance import tile_arguments
from dory_stm32h7.backend.weighted import (
    WeightedKernel,
    interleaved,
    lift_of,
    output_extra,
    vectors,
    weight_bits,
)

# A sum that is found as 256 times itself modulo 2^32 has 24 bits.
_COMBINED_SUM = 1 << 23


class LinearKernel(WeightedKernel, caches.MemoryAccesses):
    """Fully connected layer, four outputs at a time."""

    name = "dory_stm32h7_linear"
    template = "linear"
    summary = "Fully connected layer, four outputs at a time"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Any number of inputs and outputs."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers only")
        return self.reject(layer)

    def rows_bytes(self, layer: Layer, count: Number) -> Number:
        """All inputs, in whole words."""
        return count * vectors(layer.inputs[0].elements) * 4 * (weight_bits(layer) // 8)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Rows in the order of the input tensor, four at a time."""
        rows = _stored(layer)[slice(*c_out)]
        bits = weight_bits(layer)
        data = _in_words(rows, _is_combined(layer)) if bits == 8 else interleaved(rows, 4, bits)
        return self.block(layer, c_out, data)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Outputs in fours, then one by one."""
        length = int(vectors(layer.inputs[0].elements))
        chosen = epilogue(layer)
        output = output_extra(chosen) + costs.LINEAR_TURNED * chosen.turned
        in_assembly = layer.inputs[0].bits == weight_bits(layer) == 8
        is_lifted = lift_of(layer) != 0
        is_finished = in_assembly and chosen.in_assembly and not (chosen.even or is_lifted)
        vector = costs.LINEAR_FOUR if in_assembly else costs.LINEAR_FOUR_C
        if _is_combined(layer):
            vector = costs.LINEAR_FOUR_COMBINED
        outputs = costs.LINEAR_FOUR_OUTPUTS if is_finished else costs.LINEAR_FOUR_OUTPUTS_C
        four = vector * length + outputs + 4 * output
        one = costs.LINEAR_ONE * length + costs.LINEAR_ONE_OUTPUT + output
        call = costs.CALL + costs.LIFT_INPUTS * length * is_lifted
        return call + tile.c_out // 4 * four + tile.c_out % 4 * one

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All inputs for every four outputs."""
        return fully_connected(layer, tile, int(self.weight_bytes(layer, tile)), 4)

    def label(self, layer: Layer) -> str:
        """Whether words are multiplied as they are, types and requantisation."""
        form = "_combined" if _is_combined(layer) else ""
        return f"{self.name}{form}_{self.types(layer)}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the sizes of the two vectors."""
        arguments = (
            *tile_arguments("x", "weights", "y", "x_c", "y_c"),
            ("lift", lift_of(layer)),
            ("requant", epilogue(layer).struct()),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        return (
            ("DORY_LIFTED", int(lift_of(layer) != 0)),
            ("DORY_COMBINED", int(_is_combined(layer))),
            *self.macros(layer),
        )


def _stored(layer: Layer) -> npt.NDArray[Any]:
    """Return the weights as they are stored, shape (C, n)."""
    values: npt.NDArray[Any] = layer.of(ops.Linear).weights.values
    return values - lift_of(layer)


@requantisation.cached_per_layer
def _is_combined(layer: Layer) -> bool:
    """Return True where 16-bit numbers hold the weights of two rows (DORY_COMBINED).

    No byte is -128, so that 256 * b + a has 16 bits, and every sum has 24.
    """
    x, rows = layer.inputs[0], _stored(layer).astype(np.int64)
    if x.bits != 8 or weight_bits(layer) != 8 or rows.min() == -128:
        return False
    highest = np.maximum(rows * x.hi, rows * x.lo).sum(axis=1).max()
    lowest = np.minimum(rows * x.hi, rows * x.lo).sum(axis=1).min()
    return bool(lowest >= -_COMBINED_SUM and highest < _COMBINED_SUM)


def _in_words(rows: npt.NDArray[Any], is_combined: bool) -> bytes:
    """Return rows of bytes, shape (C, n), padded to multiples of four, as the kernel reads them.

    Two elements of two rows a, b are a word, a0 b0 a2 b2, four rows go together, and the last
    rows follow one by one. is_combined: bytes of b make 256 * b + a of both, in 16 bits.
    """
    whole = len(rows) // 4 * 4
    stored = np.array(rows)
    if is_combined:
        stored[1:whole:2] -= rows[:whole:2] < 0
    fours = np.frombuffer(interleaved(stored[:whole], 4, 8), np.int8).reshape(-1, 2, 2, 2, 2)
    # vector, pair of rows, row of it, elements 0 and 1 or 2 and 3, odd ones
    return fours.transpose(0, 4, 1, 3, 2).tobytes() + interleaved(stored[whole:], 1, 8)
