"""Portable kernels of functions of all channels of a pixel, in plain quotients of integers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from dory_core.expr import Number, ceil_div
from dory_core.ir import Array, InstanceNorm, L2Norm, Layer, LayerNorm, Norm, Operator, Shares
from dory_core.ir.geometry import Tile
from dory_core.ir.kinds.layer_norm import NormForm
from dory_core.ir.kinds.normalising import Normalising
from dory_core.kernels import constants
from dory_core.kernels.call import Argument, FunctionCall, Items, Operand, Symbol, named, size
from dory_core.kernels.kernel import WeightBlock
from dory_core.kernels.portable_base import PLACES, PortableKind, packed
from dory_core.kernels.portable_pixelwise import PortableSoftmax

# Cycles of a quotient of 32 bits, and of a root.
_QUOTIENT = 40
_ROOT = 100
_INVERSE_ROOT = 600
# In binary32 by integers: a pixel, a channel of the sums, one of the output.
_INVERSE = 4000
_SQUARE = 500
_RESULT = 1500


#: How squares of a form are added: in lanes (0), one after the other, or in packets.
_ORDERS: Mapping[NormForm, int] = MappingProxyType(
    {
        **dict.fromkeys((NormForm.SHORT_RMS, NormForm.L2), 1),
        **dict.fromkeys((NormForm.PACKED_RMS, NormForm.PACKED_INVERSE), 2),
    }
)


class PortableShares(PortableSoftmax):
    """Softmax as plain quotients of integers."""

    __slots__ = ()
    name = "dory_portable_shares"
    summary = "softmax as quotients of plain integers in plain C"
    kind: ClassVar[type[Operator]] = Shares
    parts = PortableKind.parts

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the steps as ``mul``, the exponentials as ``weights``."""
        return self._table_block(layer, c_out, packed(layer.of(Shares).table.values, 32, False))

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the most pixels."""
        each = self.costs.output + len(self._steps(layer)) * self.costs.step + _QUOTIENT
        pixel = tile.c_in * 2 * self.costs.element + tile.c_out * each
        return self.costs.call + ceil_div(tile.h * tile.w, self.cores) * pixel

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        return self._pixelwise(layer, factor=layer.of(Shares).factor)


class PortableNormalising(PortableKind):
    """What normalisations with weights and biases share."""

    __slots__ = ()

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the steps, the weights and the biases."""
        return self._with_table(layer, tile, 4 * len(_arrays(layer)) * tile.c_out)

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock | None:
        """Encode the steps as ``mul``, weights and biases as ``weights``."""
        rows = np.stack([array.values[slice(*c_out)] for array in _arrays(layer)])
        return self._table_block(layer, c_out, packed(rows, 32, True))

    def _normalising(self, layer: Layer, type_name: str, **fields: Argument) -> FunctionCall:
        """Return the call. fields: of the record of the layer, beyond those of all kinds."""
        has_bias = int(len(_arrays(layer)) > 1)
        arguments = {
            "channel": size("y_channel"),
            **named("x", "weights"),
            "steps": self._table(layer),
            "y": Operand("y"),
        }
        record = self._io_and_steps(layer, has_bias=has_bias, **fields)
        return self._call(layer, type_name, record, arguments)


class PortableNorm(PortableNormalising):
    """Layer normalisation in integers."""

    __slots__ = ()
    name = "dory_portable_norm"
    summary = "layer normalisation in integers of 32 bits in plain C"
    kind = Norm

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return _QUOTIENT

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the most pixels."""
        passes = 2 if layer.of(Norm).centred else 1
        each = self.costs.output + len(self._steps(layer)) * self.costs.step + _QUOTIENT
        pixel = tile.c_in * passes * self.costs.element + tile.c_out * each + _ROOT
        return self.costs.call + ceil_div(tile.h * tile.w, self.cores) * pixel

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        op = layer.of(Norm)
        return self._normalising(
            layer,
            "dory_portable_norm_t",
            is_centred=int(op.centred),
            wrap_bits=op.wrap_bits,
        )


class PortableLayerNorm(PortableNormalising):
    """Layer normalisation in binary32, by integers."""

    __slots__ = ()
    name = "dory_portable_layernorm"
    summary = "layer normalisation in binary32, by integers in plain C"
    kind = LayerNorm
    parts = (*PortableKind.parts, "dory_portable_real.h")

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return _RESULT

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the most pixels."""
        each = self.costs.output + len(self._steps(layer)) * self.costs.step + _RESULT
        pixel = tile.c_in * _SQUARE + tile.c_out * each + _INVERSE
        return self.costs.call + ceil_div(tile.h * tile.w, self.cores) * pixel

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        op = layer.of(LayerNorm)
        return self._normalising(
            layer,
            "dory_portable_layernorm_t",
            is_centred=int(op.form == NormForm.LAYER),
            order=_ORDERS.get(op.form, 0),
            by_root=int(op.form in (NormForm.SHORT_RMS, NormForm.L2, NormForm.PACKED_RMS)),
            of_sum=int(op.form == NormForm.L2),
            zero_point=op.zero_point,
            scale=Items(constants.mantissa(op.scale)),
            epsilon=Items(constants.mantissa(op.epsilon)),
            out_scale=Items(constants.mantissa(op.out_scale)),
        )


class PortableInstanceNorm(PortableNormalising):
    """Normalisation of each channel in binary32, by integers."""

    __slots__ = ()
    name = "dory_portable_instancenorm"
    summary = "instance normalisation in binary32, by integers in plain C"
    kind = InstanceNorm
    parts = (*PortableKind.parts, "dory_portable_real.h")

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return _RESULT

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the most channels."""
        x = layer.inputs[0]
        each = self.costs.output + len(self._steps(layer)) * self.costs.step + _RESULT
        channel = _INVERSE + x.height * x.width * 2 * _SQUARE + tile.h * tile.w * each
        return self.costs.call + ceil_div(tile.c_out, self.cores) * channel

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        op = layer.of(InstanceNorm)
        fields = self._io_and_steps(
            layer,
            zero_point=op.zero_point,
            scale=Items(constants.mantissa(op.scale)),
            epsilon=Items(constants.mantissa(op.epsilon)),
            out_scale=Items(constants.mantissa(op.out_scale)),
        )
        arguments: dict[str, Argument] = {
            "places": Symbol("&places"),
            **named("x", "weights"),
            "steps": self._table(layer),
            "y": Operand("y"),
        }
        return self._call(layer, "dory_portable_instancenorm_t", fields, arguments, (PLACES,))


class PortableL2Norm(PortableKind):
    """The channels over their Euclidean norm."""

    __slots__ = ()
    name = "dory_portable_l2norm"
    summary = "normalisation by TensorFlow Lite's inverse root in plain C"
    kind = L2Norm
    parts = (*PortableKind.parts, "dory_portable_fixed.h")

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return self.costs.step

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Return cycles of the core with the most pixels."""
        each = self.costs.output + (1 + len(self._steps(layer))) * self.costs.step
        pixel = tile.c_in * self.costs.element + tile.c_out * each + _INVERSE_ROOT
        return self.costs.call + ceil_div(tile.h * tile.w, self.cores) * pixel

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        fields = self._io_and_steps(layer, zero_point=layer.of(L2Norm).zero_point)
        arguments: dict[str, Argument] = {
            "channel": size("y_channel"),
            "x": Operand("x"),
            "steps": self._table(layer),
            "y": Operand("y"),
        }
        return self._call(layer, "dory_portable_l2norm_t", fields, arguments)


def _arrays(layer: Layer) -> tuple[Array, ...]:
    """Return the weights, and the biases where there are any."""
    op = layer.op
    assert isinstance(op, Normalising)
    return op.arrays
