"""Layer normalisation in binary32 and in integers, and softmax as quotients of integers."""

from __future__ import annotations

from math import frexp

import numpy as np

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Symbol,
    Tile,
    WeightBlock,
    ceil_div,
    ops,
    reject_type,
    size,
)
from dory_core.importing import Array
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.instance import BYTES, InstanceKernel, c_type, tile_arguments

_DIGITS = 24  # of binary32
_WORD = 32


class NormalisingKernel(InstanceKernel):
    """What normalisations with weights and biases share."""

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of weights and biases."""
        return ceil_div(4 * len(_arrays(layer)) * tile.c_out, 8) * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the weights, then the biases."""
        rows = np.stack([array.values[slice(*c_out)] for array in _arrays(layer)])
        data = rows.astype("<i4").tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), {"weights": 0})


class LayerNormKernel(NormalisingKernel):
    """Layer normalisation over the channels of each pixel."""

    name = "dory_stm32h7_layernorm"
    template = "layernorm"
    features = InstanceKernel.features | {Feature.REALS}
    summary = "Layer normalisation of bytes in binary32"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows adds a zero point and clips."""
        op = layer.op
        if not isinstance(op, ops.LayerNorm):
            return Rejection("it computes layer normalisations in binary32 only")
        if op.form not in (ops.NormForm.LAYER, ops.NormForm.RMS):
            return Rejection(f"it has the form {op.form}")
        steps = op.requants
        if len(steps) != 1 or steps[0].offset is None or steps[0].lo is None:
            return Rejection("what follows it is more than a sum and a clip")
        return _reject_bytes(layer)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: sums, then outputs."""
        pixel = costs.LAYERNORM_PIXEL + tile.c_in * costs.LAYERNORM_SUM
        return costs.CALL + tile.h * tile.w * (pixel + tile.c_out * costs.LAYERNORM_OUTPUT)

    def label(self, layer: Layer) -> str:
        """Types, and whether there are biases or no mean."""
        op = layer.of(ops.LayerNorm)
        form = ("_bias" if op.bias is not None else "") + ("" if _is_centred(op) else "_rms")
        return f"{self.name}_{layer.inputs[0].type_name}_{layer.output.type_name}{form}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the pixels of the tile."""
        op = layer.of(ops.LayerNorm)
        step = op.requants[0]
        fraction, exponent = frexp(op.scale)
        arguments = (
            *tile_arguments("x", "y", "x_c", "y_c"),
            ("weights", Operand("weights")),
            ("pixels", size("y_h") * size("y_w")),
            ("channel", size("y_channel")),
            ("zero_point", op.zero_point),
            ("mantissa", int(fraction * (1 << _DIGITS))),
            ("digits", _DIGITS - exponent),
            ("scale", _real(op.scale)),
            ("epsilon", _real(op.epsilon)),
            ("out_scale", _real(op.out_scale)),
            ("add", step.add[0]),
            *_clip(layer),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        op = layer.of(ops.LayerNorm)
        forms = (("DORY_BIAS", int(op.bias is not None)), ("DORY_CENTRED", int(_is_centred(op))))
        return (*_types(layer), *forms)


class NormKernel(NormalisingKernel):
    """Layer normalisation in integers, and its form without a mean."""

    name = "dory_stm32h7_norm"
    template = "norm"
    summary = "Layer normalisation of bytes in integers"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows is a shift and a clip."""
        op = layer.op
        if not isinstance(op, ops.Norm):
            return Rejection("it computes layer normalisations in integers only")
        steps = op.requants
        plain = len(steps) == 1 and (steps[0].mul, steps[0].add) == ((1,), (0,))
        if not plain or steps[0].shift is None or steps[0].shift >= _WORD - _up(op):
            return Rejection("what follows it is more than a shift and a clip")
        return _reject_bytes(layer)

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: sums, then outputs."""
        pixel = costs.NORM_PIXEL + tile.c_in * costs.NORM_SUM
        return costs.CALL + tile.h * tile.w * (pixel + tile.c_out * costs.NORM_OUTPUT)

    def label(self, layer: Layer) -> str:
        """Types, and which form it is."""
        op = layer.of(ops.Norm)
        form = ("_centred" if op.centred else "") + ("_bias" if op.bias is not None else "")
        return f"{self.name}_{layer.inputs[0].type_name}_{layer.output.type_name}{form}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the pixels of the tile."""
        op = layer.of(ops.Norm)
        shift = op.requants[0].shift
        assert shift is not None
        arguments = (
            *tile_arguments("x", "y", "x_c", "y_c"),
            ("weights", Operand("weights")),
            ("pixels", size("y_h") * size("y_w")),
            ("channel", size("y_channel")),
            ("up", _up(op)),
            ("down", _up(op) + shift),
            *_clip(layer),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        op = layer.of(ops.Norm)
        forms = (("DORY_CENTRED", int(op.centred)), ("DORY_BIAS", int(op.bias is not None)))
        return (*_types(layer), *forms)


class SharesKernel(InstanceKernel):
    """Softmax as quotients of integers."""

    name = "dory_stm32h7_shares"
    template = "shares"
    summary = "Softmax of bytes as quotients of integers"

    def accepts(self, layer: Layer) -> Rejection | None:
        """Bytes; what follows adds a number and clips."""
        if not isinstance(layer.op, ops.Shares):
            return Rejection("it computes shares of integers only")
        steps = layer.op.requants
        if len(steps) > 1 or any(step.offset is None for step in steps):
            return Rejection("what follows it is more than a sum and a clip")
        return _reject_bytes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Return the bytes of the exponentials."""
        return 4 * 256

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Encode the exponentials."""
        table = layer.of(ops.Shares).table.values
        return WeightBlock(table.astype("<u4").tobytes(), {"weights": 0})

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Pixels: largest channel, sum, shares."""
        pixel = costs.SHARES_PIXEL + tile.c_in * costs.SHARES_SUM
        return costs.CALL + tile.h * tile.w * (pixel + tile.c_out * costs.SHARES_OUTPUT)

    def label(self, layer: Layer) -> str:
        """Return the name with the types."""
        return f"{self.name}_{layer.inputs[0].type_name}_{layer.output.type_name}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for the pixels of the tile."""
        op = layer.of(ops.Shares)
        arguments = (
            *tile_arguments("x", "y", "x_c", "y_c"),
            ("table", Operand("weights")),
            ("pixels", size("y_h") * size("y_w")),
            ("channel", size("y_channel")),
            ("factor", op.factor),
            ("add", next((step.add[0] for step in op.requants), 0)),
            *_clip(layer),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        return _types(layer)


def _reject_bytes(layer: Layer) -> Rejection | None:
    return reject_type(layer.inputs[0], "input", BYTES) or reject_type(
        layer.output, "output", BYTES
    )


def _types(layer: Layer) -> tuple[tuple[str, object], ...]:
    return ("DORY_X_T", c_type(layer.inputs[0])), ("DORY_Y_T", c_type(layer.output))


def _clip(layer: Layer) -> tuple[tuple[str, int], ...]:
    """Return the clip of the last step, else what the output can be."""
    steps = layer.op.requants
    lo, hi = (steps[-1].lo, steps[-1].hi) if steps else (None, None)
    if lo is None or hi is None:
        lo, hi = layer.output.lo, layer.output.hi
    return ("lo", lo), ("hi", hi)


def _is_centred(op: ops.LayerNorm) -> bool:
    return op.form == ops.NormForm.LAYER


def _up(op: ops.Norm) -> int:
    """Return by how many bits a wrapped accumulator is shifted to the top of a word."""
    return _WORD - op.wrap_bits if op.wrap_bits else 0


def _arrays(layer: Layer) -> tuple[Array, ...]:
    """Return the weights, and the biases where there are any."""
    op = layer.op
    assert isinstance(op, ops.LayerNorm | ops.Norm)
    return op.arrays


def _real(value: float) -> Symbol:
    """Return the C constant of a number of binary32, exactly."""
    return Symbol(f"{float(np.float32(value)).hex()}f")
