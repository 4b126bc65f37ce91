"""Building networks as the QuantLab quantiser exports them, for tests and examples.

QuantlabBuilder((3, 32, 32), seed=1).conv(16, 3, pads=1).maxpool(2).conv(32, 3, hi=15)
    .linear(10, activation=False).save(path)
"""

from __future__ import annotations

from math import log2, prod
from typing import Any, Self

import numpy as np
from dory_onnx.testing.builder import OnnxBuilder, Pair
from onnx import helper

_ATTRIBUTES_OF_IDENTITY = {"mul": 1, "add": 0, "shift": 0}


class QuantlabBuilder(OnnxBuilder):
    """Networks as the QuantLab quantiser exports them.

    rounding_nodes: Add(1/2) before each Floor, as newer exporters write, instead of half of the
    divisor in the constant of the Add before it.
    """

    def __init__(
        self, input_shape: tuple[int, ...], *, rounding_nodes: bool = False, **options: Any
    ) -> None:
        super().__init__(input_shape, **options)
        self.rounding_nodes = rounding_nodes

    def conv(
        self,
        channels: int,
        kernel: Pair = 1,
        *,
        stride: Pair = 1,
        pads: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        weight_bits: int = 8,
        bias: bool = False,
        activation: bool = True,
        lo: int = 0,
        hi: int = 255,
        weights: np.ndarray | None = None,
        scale: tuple[Any, Any, int] | None = None,
    ) -> Self:
        """Append a Conv; ``activation=False`` leaves the 32-bit accumulator.

        scale: (mul per channel, add per channel, shift) instead of random ones.
        """
        window = self.window(kernel, stride, pads, dilation)
        if weights is None:
            form = (channels, self.shape[0] // groups, *window[0]["kernel_shape"])
            weights = self._weights(form, weight_bits)
        deviation = self._deviation(prod(weights.shape[1:]), weight_bits)
        bits = {"weight_bits": weight_bits, "bias_bits": 32}
        self.convolution(weights, window, groups, deviation if bias else None, **bits)
        return self._activate(deviation, activation, lo, hi, scale)

    def linear(
        self,
        features: int,
        *,
        gemm: bool = True,
        weight_bits: int = 8,
        bias: bool = False,
        activation: bool = True,
        lo: int = 0,
        hi: int = 255,
        weights: np.ndarray | None = None,
        scale: tuple[Any, Any, int] | None = None,
    ) -> Self:
        """Append a Gemm or MatMul (which has no bias), flattened if need be.

        Args:
            weights: (outputs, inputs).
            scale: Scale as for ``conv``.
        """
        if len(self.shape) > 1:
            self.flatten()
        fan_in = self.shape[0]
        if weights is None:
            weights = self._weights((features, fan_in), weight_bits)
        deviation = self._deviation(fan_in, weight_bits)
        bits = {"weight_bits": weight_bits, "bias_bits": 32}
        self.matrix(weights, gemm, deviation if bias else None, **bits)
        return self._activate(deviation, activation, lo, hi, scale)

    def avgpool(
        self,
        kernel: Pair | None = None,
        *,
        stride: Pair | None = None,
        pads: Pair = 0,
        mul: int | None = None,
        add: int = 0,
        shift: int = 16,
        lo: int = 0,
        hi: int = 255,
    ) -> Self:
        """Append an average, over all of the image without a kernel, with its requantisation.

        mul: factor of the mean; the exporter takes a multiple of the elements of the window, and so
        does the default, which keeps the scale.
        """
        channels, *size = self.shape
        kernel = tuple(size) if kernel is None else kernel
        attributes, out = self.window(kernel, kernel if stride is None else stride, pads, 1)
        del attributes["dilations"]
        count = prod(attributes["kernel_shape"])
        self.node("AveragePool", self.value, count_include_pad=1, **attributes)
        self.shapes[self.value] = (channels, *out)
        mul = (1 << shift) // count * count if mul is None else mul
        return self._requantise(mul, add, shift, lo, hi)

    def add(
        self,
        other: str,
        *,
        in1: tuple[int, int, int] | None = None,
        in2: tuple[int, int, int] | None = None,
        out: tuple[int, int, int] | None = None,
        levels: tuple[int, int, int] = (256, 256, 256),
        signed: bool | None = False,
        without: tuple[str, ...] = (),
        **attributes: Any,
    ) -> Self:
        """Append a residual: the current value is operand 1, ``other`` operand 2.

        Args:
            in1, in2, out: (mul, add, shift), None for none.
            levels: Levels of in1, in2 and out.
            signed: The attribute out_signed, None to omit it like older exporters.
            without, attributes: Names to leave out and values to write instead, for files that are
                damaged.
        """
        written: dict[str, Any] = {"add_bits": 8}
        if signed is not None:
            written["out_signed"] = int(signed)
        parts = zip(("in1", "in2", "out"), (in1, in2, out), levels, strict=True)
        for name, step, count in parts:
            fields = dict(_ATTRIBUTES_OF_IDENTITY)
            if step is not None:
                fields = dict(zip(fields, step, strict=True))
            fields |= {"n_levels": count, "rq": int(step is not None)}
            written |= {f"{name}_{field}": value for field, value in fields.items()}
        written |= attributes
        kept = {name: value for name, value in written.items() if name not in without}
        self.node("Add", self.value, other, **kept)
        lo = -(levels[2] // 2) if signed else 0
        self.bounds[self.value] = (lo, lo + levels[2] - 1)
        return self.end_layer()

    def _activate(
        self,
        deviation: float,
        activation: bool,
        lo: int,
        hi: int,
        scale: tuple[Any, Any, int] | None,
    ) -> Self:
        if not activation:
            bound = int(deviation * 4)
            self.bounds[self.value] = (-bound, bound)
            return self.end_layer()
        channels = self.shape[0]
        form = (channels, *(1 for _ in self.shape[1:]))
        if scale is None:
            mul = self.random.integers(200, 2048, channels, endpoint=True)
            mul[:: max(channels // 2, 2)] *= -1
            add = self.offsets(channels, deviation * 1100)
            shift = max(round(log2(1100 * deviation / max((hi - lo) / 2, 1))), 1)
            if not self.rounding_nodes:
                add = add + (1 << shift - 1)
            scale = mul, add, shift
        mul, add = (np.asarray(values).reshape(form) for values in scale[:2])
        return self._requantise(mul, add, scale[2], lo, hi)

    def _requantise(self, mul: Any, add: Any, shift: int, lo: int, hi: int) -> Self:
        self.node("Mul", self.value, self.constant(mul), mult_bits=32)
        self.node("Add", self.value, self.constant(add), add_bits=32)
        self.node("Div", self.value, self.constant(float(1 << shift)))
        if self.rounding_nodes:
            self.node("Add", self.value, self.constant(0.5))
        self.node("Floor", self.value)
        self.clip(lo, hi)
        self.nodes[-1].attribute.append(helper.make_attribute("out_bits", (hi - lo).bit_length()))
        return self.end_layer()

    def _weights(self, shape: tuple[int, ...], bits: int) -> np.ndarray:
        """Random weights of all values of 4 or 8 bits; ternary ones for 2 bits."""
        if bits == 2:
            return self.weights(shape, -1, 1)
        return self.weights(shape, -(1 << bits - 1), (1 << bits - 1) - 1)

    def _deviation(self, fan_in: int, bits: int) -> float:
        return max(self.deviation(fan_in) * 2.0 ** (bits - 7), 1.0)
