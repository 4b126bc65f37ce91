"""What the kernels built on the matrix product share: convolution, pointwise, linear."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt

from dory_core.expr import ceil_div, minimum
from dory_core.hardware import OutputFile
from dory_core.ir import Conv, Linear, TypedLayer
from dory_core.kernel import Number, Rejection, WeightBlock
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import (
    INPUT_TYPES,
    OUTPUT_TYPES,
    ClusterKernel,
    c_type,
    reject_type,
    sources,
    vector_macros,
)
from dory_gap8.backend.requant import Epilogue, epilogue, reject_requants
from dory_gap8.backend.weights import block_bytes, encode, padded, reject_weights

if TYPE_CHECKING:
    from dory_core.tiling.geometry import Tile


def filters(layer: TypedLayer) -> Conv | Linear:
    """Return the layer as one that has weights."""
    kind = layer.layer
    if not isinstance(kind, (Conv, Linear)):
        raise TypeError(f"{kind.kind} has no weights")
    return kind


def weighted_epilogue(layer: TypedLayer) -> Epilogue:
    """Return the epilogue of a layer with weights; its bias is part of it."""
    return epilogue(layer)


def reject_weighted(layer: TypedLayer) -> Rejection | None:
    """Return why types, weights or requantisation of a layer with weights are not possible."""
    kind = filters(layer)
    checks = (
        reject_type(layer.inputs[0], "input", INPUT_TYPES),
        reject_type(layer.output, "output", OUTPUT_TYPES if kind.requants else ("i32",)),
        reject_weights(kind.weights.values),
        reject_requants(layer.ranges, kind.requants),
    )
    return next((c for c in checks if c is not None), None)


def block_cycles(words: Number, channels: Number, output: int, wide: bool) -> Number:
    """Return the cycles of ``channels`` outputs of two pixels with columns of ``words`` words.

    wide: inputs of 16 bits.
    """
    four = (cal.BLOCK_WORD_16 if wide else cal.BLOCK_WORD) * words + 8 * output
    one = (cal.PAIR_WORD_16 if wide else cal.PAIR_WORD) * words + 2 * output
    return channels // 4 * four + channels % 4 * one


@dataclass(frozen=True)
class DenseKernel(ClusterKernel):
    """A kernel of the matrix product family.

    cores: cores that share a tile. partial: whether input channels come in several tiles with
    int32 partial sums; such a kernel is for layers that have no tile otherwise.
    """

    partial: bool = False

    kind: ClassVar[str]
    title: ClassVar[str]
    extra_macros: ClassVar[tuple[tuple[str, str], ...]] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name within the target."""
        return f"dory_gap8_{self.kind}" + ("_partial" if self.partial else "")

    @property
    def summary(self) -> str:  # type: ignore[override]
        """What the kernel computes, for tables."""
        return self.title + (", input channels in several tiles" if self.partial else "")

    @abstractmethod
    def rows(self, layer: TypedLayer, c_in: tuple[int, int]) -> npt.NDArray[Any]:
        """Return the weights, a row per output channel, of a range of input channels."""

    @abstractmethod
    def row_length(self, layer: TypedLayer, tile: Tile) -> Number:
        """Return the weights of one output channel in a tile, without padding."""

    def accumulates(self, layer: TypedLayer) -> bool:
        """Input channels may be tiled by the form for partial sums only."""
        return self.partial

    def weight_bytes(self, layer: TypedLayer, tile: Tile) -> Number:
        """Parameters of each channel and its padded row."""
        row = padded(self.row_length(layer, tile))
        return block_bytes(weighted_epilogue(layer), tile.c_out, row)

    def weight_block(
        self, layer: TypedLayer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode a tile of the weights; every tile of input channels has the parameters."""
        rows = self.rows(layer, c_in)[c_out[0] : c_out[1]]
        return encode(weighted_epilogue(layer), rows, c_out)

    def shared_cycles(self, layer: TypedLayer, tile: Tile, pair: Number, words: Number) -> Number:
        """Return the cycles of the core with the most work; ``pair``: im2col of two pixels."""
        output = weighted_epilogue(layer).cycles
        wide = layer.inputs[0].bits > 8
        pairs = ceil_div(tile.h * tile.w, 2)
        groups = [1 << n for n in range(self.cores.bit_length())]
        ways = [
            ceil_div(pairs, self.cores // g)
            * (pair + block_cycles(words, ceil_div(tile.c_out, g), output, wide))
            for g in groups
        ]
        return cal.CALL + (ways[0] if len(ways) == 1 else minimum(*ways))

    def symbol(self, layer: TypedLayer) -> str:
        """Kind, types and requantisation: ``dory_gap8_conv_u8_i8_u8_q64``."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        form = "_partial" if self.partial else ""
        return f"dory_gap8_{self.kind}{form}_{x}_i8_{y}{weighted_epilogue(layer).suffix}"

    def sources(self, layer: TypedLayer) -> tuple[OutputFile, ...]:
        """The instance and the templates."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        bits = weighted_epilogue(layer).bits
        end = f"{bits}-bit requantisation" if filters(layer).requants else "no requantisation"
        macros = (
            *vector_macros(x),
            ("DORY_Y_T", c_type(y)),
            ("DORY_ACCUMULATE", str(int(self.partial))),
            *self.extra_macros,
            *weighted_epilogue(layer).macros,
        )
        purpose = f"{self.summary}: {x} inputs, i8 weights, {y} outputs, {end}."
        return sources(self.kind, self.symbol(layer), purpose, macros)

    def partial_arguments(self) -> tuple[tuple[str, str], ...]:
        """Return the arguments that only the form for partial sums has."""
        if not self.partial:
            return ()
        return (("psum", "$psum"), ("first", "$first"), ("last", "$last"))
