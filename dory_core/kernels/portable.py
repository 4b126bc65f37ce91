"""The portable kernels: what a target offers for layers that its own kernels reject.

They are exact for every layer kind and precision and slow: one generic loop each, 64-bit
requantisation always. The C sources stand in ``c/``; every constant of a layer is part of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from dory_core.expr import Number
from dory_core.ir import (
    AvgPool,
    Conv,
    ConvTranspose,
    Layer,
    Linear,
    MaxPool,
)
from dory_core.ir.geometry import (
    Tile,
    channel_granule,
)
from dory_core.kernels import constants
from dory_core.kernels.call import Argument, FunctionCall, Items, Operand, Symbol, named
from dory_core.kernels.kernel import Kernel, Traits
from dory_core.kernels.portable_base import (
    COUNTED,
    KINDS_HEADER,
    PLACES,
    Accumulating,
    Portable,
    PortableCosts,
    c_type,
    c_window,
    per_byte,
    steps_of,
    type_items,
    weight_type,
)
from dory_core.kernels.portable_lstm import PortableLstm, PortableLstmInPlace
from dory_core.kernels.portable_matmul import PortableMatMul
from dory_core.kernels.portable_moves import (
    PortableConcat,
    PortableMove,
    PortableReshape,
    PortableResize,
)
from dory_core.kernels.portable_pairs import (
    PortableAdd,
    PortableMaximum,
    PortableMinimum,
    PortableMul,
    PortableQuotient,
)
from dory_core.kernels.portable_pieces import PortablePiecewise, PortableWideSoftmax
from dory_core.kernels.portable_pixelwise import (
    PortableArgMax,
    PortableLogSoftmax,
    PortableLut,
    PortableSoftmax,
)
from dory_core.kernels.portable_rows import (
    PortableInstanceNorm,
    PortableL2Norm,
    PortableLayerNorm,
    PortableNorm,
    PortableShares,
)


def portable_kernels(
    cores: int = 1, *, in_place: bool = False, engine: str = "", costs: PortableCosts = COUNTED
) -> tuple[Kernel, ...]:
    """Return one kernel per layer kind.

    Args:
        cores: Number of cores that share a tile, for estimates.
        in_place: As of :class:`Traits`.
        engine: As of :class:`Kernel`.
        costs: Of the target's core, where they are known better.
    """
    kinds: tuple[Callable[..., Kernel], ...] = (
        PortableConv,
        PortableLinear,
        PortableMatMul,
        PortableMaxPool,
        PortableAvgPool,
        PortableAdd,
        PortableMul,
        PortableQuotient,
        PortableMaximum,
        PortableMinimum,
        PortableLut,
        PortablePiecewise,
        PortableSoftmax,
        PortableWideSoftmax,
        PortableLogSoftmax,
        PortableShares,
        PortableNorm,
        PortableL2Norm,
        PortableLayerNorm,
        PortableInstanceNorm,
        # A target may offer both: the one in place has another name.
        PortableLstmInPlace if in_place else PortableLstm,
        PortableArgMax,
        PortableMove,
        PortableReshape,
        PortableConcat,
        PortableResize,
        PortableConvTranspose,
    )
    return tuple(kind(cores, in_place, engine, costs) for kind in kinds)


class PortableConv(Accumulating):
    """Convolution with any groups, strides, dilations and padding."""

    __slots__ = ()
    name = "dory_portable_conv"
    summary = "convolution in plain C, any groups and precision"
    kind = Conv

    def _weight_rows(self, layer: Layer, tile: Tile) -> tuple[int, Number]:
        conv = layer.of(Conv)
        return conv.window.taps, tile.c_in if conv.groups == 1 else conv.weights.shape[1]

    def _rows(self, layer: Layer, c_out: slice, c_in: slice) -> npt.NDArray[Any]:
        conv = layer.of(Conv)
        channels = c_in if conv.groups == 1 else slice(None)
        return conv.weights.values[c_out, channels].transpose(0, 2, 3, 1)

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        taps = layer.window.taps
        return taps * self.costs.tap + self._fan_in(layer, tile) * self._mac_cycles(layer)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        conv = layer.of(Conv)
        group_in, group_out = (
            (conv.weights.shape[1], channel_granule(layer)) if conv.groups > 1 else (0, 0)
        )
        fields: dict[str, Argument] = {
            "window": c_window(conv.window),
            "pad_value": conv.window.pad_value,
            "group_in": group_in,
            "group_out": group_out,
        }
        return self._accumulating_call(layer, "dory_portable_conv_t", fields)


class PortableLinear(Accumulating):
    """Fully connected layer."""

    __slots__ = ()
    name = "dory_portable_linear"
    summary = "fully connected layer in plain C, any precision"
    kind = Linear

    def _weight_rows(self, layer: Layer, tile: Tile) -> tuple[int, Number]:
        return 1, tile.c_in

    def _rows(self, layer: Layer, c_out: slice, c_in: slice) -> npt.NDArray[Any]:
        return layer.of(Linear).weights.values[c_out, c_in]

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return self.costs.tap + tile.c_in * self._mac_cycles(layer)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        fields = {"pixel_c": _gapped_pixel(layer)}
        return self._accumulating_call(layer, "dory_portable_linear_t", fields)


class PortablePool(Portable):
    """What pools share: they compute one output element of a window."""

    __slots__ = ()
    parts = ("dory_portable_pool_impl.h",)

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        return layer.window.taps * (self.costs.tap + self.costs.element)

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        fields: dict[str, Argument] = {
            "x": c_type(layer.inputs[0]),
            "y": c_type(layer.output),
            "window": c_window(layer.window),
            **self._beside(layer),
            "steps": steps_of(0, len(self._steps(layer))),
        }
        arguments = {"x": Operand("x"), "steps": self._table(layer), "y": Operand("y")}
        return self._call(layer, "dory_portable_pool_t", fields, arguments)

    def _beside(self, layer: Layer) -> dict[str, Argument]:
        """Return the members that say what stands around the image."""
        return {}


class PortableMaxPool(PortablePool):
    """Maximum over a window."""

    __slots__ = ()
    name = "dory_portable_maxpool"
    summary = "maximum pooling in plain C, any precision"
    kind = MaxPool


class PortableAvgPool(PortablePool):
    """Sum over a window, then the requantisation that divides."""

    __slots__ = ()
    name = "dory_portable_avgpool"
    summary = "average pooling in plain C, any precision"
    kind = AvgPool

    def _beside(self, layer: Layer) -> dict[str, Argument]:
        """Return the members that say what stands around the image."""
        op = layer.op
        assert isinstance(op, AvgPool)
        if op.real is not None:
            (x_mantissa, x_digits), (y_mantissa, y_digits) = (
                constants.mantissa(scale) for scale in (op.real.scale, op.real.out_scale)
            )
            values = (x_mantissa, y_mantissa, x_digits, y_digits)
            zeros = (op.real.zero_point, op.real.out_zero)
            inside = int(not op.counts_padding)
            return {"inside": inside, "is_real": 1, "real": Items((*values, *zeros))}
        if op.counts_padding:
            return {"pad_value": op.window.pad_value}
        return {"inside": 1, "origin": op.origin}


class PortableConvTranspose(Accumulating):
    """Transposed convolution."""

    __slots__ = ()
    name = "dory_portable_conv_transpose"
    summary = "transposed convolution in plain C, any precision"
    kind = ConvTranspose
    parts = (KINDS_HEADER,)

    def headers(self, layer: Layer) -> tuple[str, ...]:
        """Return the header of the kernel."""
        return (KINDS_HEADER,)

    def traits(self, layer: Layer) -> Traits:
        """All input channels in one tile."""
        return Traits(in_place=self.in_place)

    def _weight_rows(self, layer: Layer, tile: Tile) -> tuple[int, Number]:
        return layer.of(ConvTranspose).window.taps, layer.inputs[0].channels

    def _rows(self, layer: Layer, c_out: slice, c_in: slice) -> npt.NDArray[Any]:
        return layer.of(ConvTranspose).weights.values[c_out].transpose(0, 2, 3, 1)

    def _sum_cycles(self, layer: Layer, tile: Tile) -> Number:
        window = layer.of(ConvTranspose).window
        strides = window.strides[0] * window.strides[1]
        products = self._fan_in(layer, tile) * self.costs.generic_mac // strides
        return window.taps * self.costs.tap + products

    def call(self, layer: Layer) -> FunctionCall:
        """Return the call, with the layer as constants."""
        op = layer.of(ConvTranspose)
        fields: dict[str, Argument] = {
            "x": c_type(layer.inputs[0]),
            "w": type_items(*weight_type(layer)),
            "y": c_type(layer.output),
            "window": c_window(op.window),
            "pad_top": op.window.pads[0],
            "pad_left": op.window.pads[1],
            "zero_point": op.zero_point,
            "steps": steps_of(0, len(op.requants)),
        }
        arguments = {
            "places": Symbol("&places"),
            **named("x", "weights"),
            "bias": Operand("bias") if op.bias is not None else None,
            "steps": self._table(layer),
            "y": Operand("y"),
        }
        return self._call(layer, "dory_portable_conv_transpose_t", fields, arguments, (PLACES,))


def _gapped_pixel(layer: Layer) -> int:
    """Return the channels of a Linear's input when its pixels end inside a byte, else 0."""
    x = layer.inputs[0]
    return x.channels if x.channels % per_byte(x) and x.height * x.width > 1 else 0
