"""What the kernels built on the matrix product share: convolution, pointwise, linear."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt

from dory_core.api import (
    Layer,
    Number,
    Rejection,
    Traits,
    WeightBlock,
    ceil_div,
    minimum,
    named,
    ops,
    reject_type,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.instance import (
    BYTE_TYPES,
    HALVES,
    INPUT_TYPES,
    OUTPUT_TYPES,
    Arguments,
    ClusterKernel,
    Instance,
    c_type,
    vector_macros,
)
from dory_gap8.backend.packing import Columns, weight_bits
from dory_gap8.backend.requant import Epilogue, epilogue, reject_requants
from dory_gap8.backend.steps import INT32, fits
from dory_gap8.backend.weights import block_bytes, encode_bytes, reject_weights, reject_wide

if TYPE_CHECKING:
    from dory_core.api import Tile


def weighted_epilogue(layer: Layer) -> Epilogue:
    """Return the epilogue of a layer with weights; its bias is part of it."""
    return epilogue(layer)


def channel_epilogue(layer: Layer) -> Epilogue:
    """Return the same for kernels in assembly, where each channel may have a shift of its own."""
    return epilogue(layer, shifts=True)


def reject_weighted(
    layer: Layer, packed: bool = False, wide: bool = False, halves: bool = False
) -> Rejection | None:
    """Return why types, weights or requantisation of a layer with weights are not possible.

    packed: whether the kernel takes elements below 8 bits. wide: whether it takes weights that are
    sums of two of 8 bits. halves: whether it takes inputs in two halves.
    """
    kind = layer.weighted
    inputs, outputs = (INPUT_TYPES, OUTPUT_TYPES) if packed else (BYTE_TYPES, (*BYTE_TYPES, "i32"))
    checks = (
        reject_type(layer.inputs[0], "input", (*inputs, HALVES) if halves else inputs),
        reject_type(layer.output, "output", outputs if kind.requants else ("i32",)),
        None if packed else _reject_packed_weights(kind),
        (reject_wide if wide else reject_weights)(kind.weights.values),
        reject_requants(layer, kind.requants),
    )
    return next((c for c in checks if c is not None), None)


def _reject_packed_weights(kind: ops.Conv | ops.Linear) -> Rejection | None:
    bits = weight_bits(kind)
    return (
        Rejection(f"its weights are packed in {bits} bits each, it takes 8") if bits < 8 else None
    )


def weight_shift(layer: Layer) -> int:
    """Return by how many bits accumulators are too large: weights stay in the high bits of a byte.

    0 for 8-bit weights, and where the accumulator has no room: those are sign-extended.
    """
    shift = 8 - weight_bits(layer.weighted)
    ends = (layer.ranges.acc_lo << shift, layer.ranges.acc_hi << shift)
    return shift if fits(INT32, *ends) else 0


def vector_cycles(layer: Layer, columns: Columns, outputs: int, pixels: int) -> Number:
    """Return the cycles of a vector of four inputs in the block of ``outputs`` x ``pixels``.

    By counting instructions: see ``dory_gap8_matmul_impl.h`` and :mod:`dory_gap8.calibration`.
    """
    x = layer.inputs[0]
    if x.bits > 8:
        each = cal.VECTOR_16 if pixels > 1 else cal.VECTOR_16_ALONE
        products, weight, value = (each,) * 3
    else:
        products, weight, value = cal.VECTOR_DOT, cal.VECTOR_LOAD, cal.VECTOR_LOAD
    if columns.w_bits < 8:
        field = cal.VECTOR_FIELD_HIGH if weight_shift(layer) else cal.VECTOR_FIELD_SIGNED
        weight = field + (weight if x.bits > 8 else 0)
    if columns.packed and x.bits < 8:
        value = cal.VECTOR_FIELD_SIGNED if x.signed else cal.VECTOR_FIELD_HIGH
    return outputs * weight + pixels * value + outputs * pixels * products


def block_cycles(
    layer: Layer, columns: Columns, vectors: Number, channels: Number, pixels: int
) -> Number:
    """Return the cycles of ``channels`` outputs of ``pixels`` columns of ``vectors`` vectors."""
    output = weighted_epilogue(layer).cycles
    if layer.output.bits < 8:
        output += cal.PACK_OUTPUT
    four = vector_cycles(layer, columns, 4, pixels) * vectors + 4 * pixels * output
    one = vector_cycles(layer, columns, 1, pixels) * vectors + pixels * output
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
    template: ClassVar[str] = ""

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name within the target."""
        return f"dory_gap8_{self.kind}" + ("_partial" if self.partial else "")

    @property
    def summary(self) -> str:  # type: ignore[override]
        """What the kernel computes, for tables."""
        return self.title + (", input channels in several tiles" if self.partial else "")

    @abstractmethod
    def filter_array(self, layer: Layer, c_in: tuple[int, int]) -> npt.NDArray[Any]:
        """Return the weights of a range of inputs, shape (outputs, taps, channels)."""

    @abstractmethod
    def column_shape(self, layer: Layer, tile: Tile) -> tuple[Number, Number]:
        """Return the taps and channels of a column in a tile."""

    def columns(self, layer: Layer) -> Columns:
        """Return the form of columns and weight rows."""
        return Columns(layer.inputs[0].bits, weight_bits(layer.weighted))

    def traits(self, layer: Layer) -> Traits:
        """Input channels may be tiled by the form for partial sums only."""
        return Traits(accumulates=self.partial)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of each channel and its padded row."""
        row = self.columns(layer).row_bytes(*self.column_shape(layer, tile))
        return block_bytes(weighted_epilogue(layer), tile.c_out, row)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode a tile of the weights; every tile of input channels has the parameters."""
        weights = self.filter_array(layer, c_in)[c_out[0] : c_out[1]]
        return encode_bytes(weighted_epilogue(layer), self.columns(layer).rows(weights), c_out)

    def shared_cycles(
        self, layer: Layer, tile: Tile, pair: Number, channels: Number, unit: int = 1
    ) -> Number:
        """Return the cycles of the core with the most work.

        pair: filling the columns of two pixels. channels: outputs of those columns (those of a
        group). unit: output channels that cores do not share.
        """
        columns = self.columns(layer)
        vectors = columns.length(*self.column_shape(layer, tile)) // 4
        pairs = ceil_div(tile.h * tile.w, 2)

        def pair_cycles(outputs: Number) -> Number:
            if unit > 1:
                block = block_cycles(layer, columns, vectors, unit, 2)
                return ceil_div(outputs, unit) * (pair + block)
            return pair + block_cycles(layer, columns, vectors, outputs, 2)

        ways = [
            ceil_div(pairs, self.cores // g) * pair_cycles(ceil_div(channels, g))
            for g in (1 << n for n in range(self.cores.bit_length()))
        ]
        return cal.CALL + (ways[0] if len(ways) == 1 else minimum(*ways))

    def label(self, layer: Layer) -> str:
        """Kind, types and requantisation: ``dory_gap8_conv_u4_i2_i8_q64``."""
        x, w, y = self._types(layer)
        form = "_partial" if self.partial else ""
        if weight_bits(layer.weighted) < 8 and not weight_shift(layer):
            form += "_extended"
        return f"dory_gap8_{self.kind}{form}_{x}_{w}_{y}{weighted_epilogue(layer).suffix}"

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, w, y = self._types(layer)
        bits = weighted_epilogue(layer).bits
        end = f"{bits}-bit requantisation" if layer.weighted.requants else "no requantisation"
        macros = (
            *vector_macros(x),
            ("DORY_W_BITS", w[1:]),
            ("DORY_W_SHIFT", str(weight_shift(layer))),
            ("DORY_Y_BITS", y[1:]),
            ("DORY_Y_T", c_type(y)),
            ("DORY_ACCUMULATE", str(int(self.partial))),
            *self.extra_macros(layer),
            *weighted_epilogue(layer).macros,
        )
        purpose = f"{self.summary}: {x} inputs, {w} weights, {y} outputs, {end}."
        return Instance(self.template or self.kind, self.label(layer), purpose, macros)

    def extra_macros(self, layer: Layer) -> tuple[tuple[str, str], ...]:
        """Return the macros that only this kind has."""
        return ()

    def partial_arguments(self) -> Arguments:
        """Return the arguments that only the form for partial sums has."""
        return tuple(named("psum", "first", "last").items()) if self.partial else ()

    @staticmethod
    def _types(layer: Layer) -> tuple[str, str, str]:
        """Return the types of input, weights and output."""
        weights = f"i{weight_bits(layer.weighted)}"
        return layer.inputs[0].type_name, weights, layer.output.type_name
