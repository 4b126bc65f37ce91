"""Fully connected layers of inputs of 8 or 16 bits, four at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Term,
    WeightBlock,
    ceil_div,
    geometry,
    minimum,
    ops,
    requantisation,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.block import interleave
from dory_gap8.backend.dense import reject_weighted, weighted_epilogue
from dory_gap8.backend.instance import (
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    tile_arguments,
    vector_macros,
)
from dory_gap8.backend.weights import padded
from dory_gap8.objective import BETA_BALANCE, whole_units

if TYPE_CHECKING:
    from dory_core.api import Tile
    from dory_gap8.backend.requant import Epilogue


@requantisation.cached_per_layer
def _epilogue(layer: Layer) -> Epilogue:
    """Return the epilogue; channels have one word each where they share the others."""
    found = weighted_epilogue(layer)
    differ = np.flatnonzero((found.records != found.records[0]).any(axis=0))
    several = found.per_channel and found.records.shape[1] > 1
    return replace(found, own=int(differ[0])) if several and len(differ) == 1 else found


@dataclass(frozen=True)
class LinearBytesKernel(ClusterKernel):
    """Fully connected layer of bytes; cores share outputs, and inputs of those that are left."""

    name = "dory_gap8_linear_bytes"
    summary = "fully connected layer of bytes"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Inputs of whole bytes and 8-bit weights."""
        if not isinstance(layer.op, ops.Linear):
            return Rejection("it computes fully connected layers only")
        return reject_weighted(layer)

    def scratch_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Partial sums of each core for the groups of four outputs that all cores share."""
        return 16 * self.cores * minimum(ceil_div(tile.c_out, 4), max(self.cores - 1, 1))

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of each output, and weights of outputs in fours."""
        found = _epilogue(layer)
        parameters = found.shared_bytes + found.channel_bytes * tile.c_out
        return ceil_div(parameters + padded(tile.c_out) * padded(tile.c_in), 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the parameters of outputs and their interleaved weights."""
        rows = layer.weighted.weights.values[c_out[0] : c_out[1]]
        image = np.zeros((len(rows), int(padded(rows.shape[1]))), dtype=np.int8)
        image[:, : rows.shape[1]] = rows
        parameters = _epilogue(layer).part(c_out)
        name, data = parameters if parameters is not None else ("", b"")
        parts = {name: 0} if parameters is not None else {}
        parts["weights"] = len(data)
        data += interleave(image).tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), parts)

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Whole groups of a core, its part of the others, and their sums."""
        words = padded(tile.c_in) // 4
        groups = ceil_div(tile.c_out, 4)
        shared = groups % self.cores
        output = _epilogue(layer).step_cycles
        word = cal.LINEAR_BYTES_WORD if layer.inputs[0].bits == 8 else cal.LINEAR_BYTES_WORD_16
        whole = groups // self.cores * (word * words // 10 + cal.LINEAR_BYTES_GROUP + 4 * output)
        parts = shared * (word * ceil_div(words, self.cores) // 10 + cal.LINEAR_BYTES_GROUP)
        sums = ceil_div(4 * shared, self.cores) * (cal.LINEAR_BYTES_SUM * self.cores + output)
        return cal.LINEAR_BYTES_CALL + whole + parts + sums

    def terms(self, layer: Layer, tile: Tile) -> tuple[Term, ...]:
        """Outputs in fours, which divide among the cores."""
        outputs = whole_units(tile.c_out, 4 * self.cores, geometry.extent(layer).c_out)
        return (Term("MATMUL_CH", BETA_BALANCE, outputs),)

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        return f"{self.name}_{x}_i8_{y}{_epilogue(layer).suffix}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the sizes of the two vectors."""
        arguments = (
            *tile_arguments("x", "weights", "y", "scratch", "x_c", "y_c"),
            ("requant", _epilogue(layer).struct()),
        )
        return call_text(self.symbol(layer), "linear_bytes", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        macros = (
            *vector_macros(x),
            ("DORY_Y_T", c_type(y)),
            ("DORY_CORES", str(self.cores)),
            *_epilogue(layer).macros,
        )
        purpose = f"Fully connected layer of bytes: {x} inputs, i8 weights, {y} outputs."
        return Instance("linear_bytes", self.label(layer), purpose, macros)
