"""Fully connected layers."""

from __future__ import annotations

from dory_core.api import (
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Tile,
    WeightBlock,
    caches,
    ops,
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
        rows = layer.of(ops.Linear).weights.values[slice(*c_out)]
        stored = interleaved(rows - lift_of(layer), 4, weight_bits(layer))
        return self.block(layer, c_out, stored)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Outputs in fours, then one by one."""
        length = int(vectors(layer.inputs[0].elements))
        chosen = epilogue(layer)
        output = output_extra(chosen) + costs.LINEAR_TURNED * chosen.turned
        in_assembly = layer.inputs[0].bits == weight_bits(layer) == 8
        is_lifted = lift_of(layer) != 0
        is_finished = in_assembly and chosen.in_assembly and not (chosen.even or is_lifted)
        vector = costs.LINEAR_FOUR if in_assembly else costs.LINEAR_FOUR_C
        outputs = costs.LINEAR_FOUR_OUTPUTS if is_finished else costs.LINEAR_FOUR_OUTPUTS_C
        four = vector * length + outputs + 4 * output
        one = costs.LINEAR_ONE * length + costs.LINEAR_ONE_OUTPUT + output
        call = costs.CALL + costs.LIFT_INPUTS * length * is_lifted
        return call + tile.c_out // 4 * four + tile.c_out % 4 * one

    def accesses(self, layer: Layer, tile: Tile, line_bytes: int) -> tuple[caches.Access, ...]:
        """All inputs for every four outputs."""
        return fully_connected(layer, tile, int(self.weight_bytes(layer, tile)), 4)

    def label(self, layer: Layer) -> str:
        """Types and requantisation."""
        return f"{self.name}_{self.types(layer)}"

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
        return (("DORY_LIFTED", int(lift_of(layer) != 0)), *self.macros(layer))
