"""Building plain integer ONNX: each requantisation is a chain of Mul, Add, Div and Clip nodes.

IntegerOnnxBuilder((3, 32, 32), seed=1).conv(16, 3, pads=1).maxpool(2).conv(32, 3, stride=2, pads=1)
    .linear(10, activation=False).save(path)
"""

from __future__ import annotations

from math import log2, prod
from typing import Any, Self

import numpy as np
from onnx import TensorProto

from dory_onnx.testing.builder import OnnxBuilder, Pair


class IntegerOnnxBuilder(OnnxBuilder):
    """Layers whose accumulator is multiplied, divided, rounded down and clipped by nodes.

    exact_divisors: 2^k; otherwise 2^k - 1, as exporters of the torch 1.3 era wrote.
    """

    def __init__(
        self, input_shape: tuple[int, ...], *, exact_divisors: bool = True, **options: Any
    ) -> None:
        super().__init__(input_shape, **options)
        self.exact_divisors = exact_divisors

    def conv(
        self,
        channels: int,
        kernel: Pair = 1,
        *,
        stride: Pair = 1,
        pads: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = False,
        batchnorm: bool = True,
        activation: bool = True,
        lo: int = 0,
        hi: int = 255,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Append a Conv; ``activation=False`` leaves the 32-bit accumulator."""
        window = self.window(kernel, stride, pads, dilation)
        if weights is None:
            form = (channels, self.shape[0] // groups, *window[0]["kernel_shape"])
            weights = self.weights(form)
        deviation = self.deviation(prod(weights.shape[1:]))
        self.convolution(weights, window, groups, deviation if bias else None)
        return self._activate(deviation, batchnorm, activation, lo, hi)

    def linear(
        self,
        features: int,
        *,
        gemm: bool = False,
        bias: bool = False,
        batchnorm: bool = True,
        activation: bool = True,
        lo: int = 0,
        hi: int = 255,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Append a Gemm (weights stored as outputs x inputs) or MatMul, flattened if need be.

        weights: (outputs, inputs).
        """
        if len(self.shape) > 1:
            self.flatten()
        fan_in = self.shape[0]
        if weights is None:
            weights = self.weights((features, fan_in))
        deviation = self.deviation(fan_in)
        self.matrix(weights, gemm, deviation if bias else None)
        if bias and not gemm:
            self.node("Add", self.value, self.constant(self.offsets(features, deviation)))
        return self._activate(deviation, batchnorm, activation, lo, hi)

    def avgpool(
        self,
        kernel: Pair | None = None,
        *,
        stride: Pair | None = None,
        pads: Pair = 0,
        ratio: int = 23,
        divisor: int | None = None,
    ) -> Self:
        """Append an average, global without a kernel: sum * ratio / divisor, rounded down."""
        channels, *size = self.shape
        lo, hi = self.bounds[self.value]
        source = self.value
        if kernel is None:
            count, out = prod(size), (1,) * len(size)
            self.node("GlobalAveragePool", source)
        else:
            attributes, out = self.window(kernel, kernel if stride is None else stride, pads, 1)
            del attributes["dilations"]
            count = prod(attributes["kernel_shape"])
            if any(attributes["pads"]):
                attributes["count_include_pad"] = 1
            self.node("AveragePool", source, **attributes)
        self.shapes[self.value] = (channels, *out)
        divisor = divisor or count * ratio
        self.node("Mul", self.value, self.constant(count))
        self.node("Mul", self.value, self.constant(ratio))
        self.node("Div", self.value, self.constant(divisor))
        self.node("Floor", self.value)
        self.bounds[self.value] = (lo * count * ratio // divisor, hi * count * ratio // divisor)
        return self.end_layer()

    def add(
        self,
        other: str,
        *,
        factors: tuple[int, int] = (19, 32),
        divisor: int = 64,
        swapped: bool = False,
        activation: bool = False,
        lo: int = 0,
        hi: int = 255,
    ) -> Self:
        """Append a residual: (current * factors[0] + other * factors[1]) / divisor.

        Args:
            swapped: The operands stand the other way round at the Add node.
            activation: A second requantisation with a Clip to [lo, hi] after the sum.
        """
        current = self.value
        scaled = [
            self.node("Mul", value, self.constant(factor))
            for value, factor in zip((current, other), factors, strict=True)
        ]
        self.node("Add", *(reversed(scaled) if swapped else scaled))
        self.node("Div", self.value, self.constant(divisor))
        self.node("Floor", self.value)
        ends = zip(self.bounds[current], self.bounds[other], strict=True)
        low, high = ((a * factors[0] + b * factors[1]) // divisor for a, b in ends)
        self.bounds[self.value] = (low, high)
        if not activation:
            return self.end_layer()
        return self._requantise(max(high / 2, 1.0), lo, hi)

    def _activate(
        self, deviation: float, batchnorm: bool, activation: bool, lo: int, hi: int
    ) -> Self:
        channels = self.shape[0]
        if activation and batchnorm:
            form = (1, channels, *(1 for _ in self.shape[1:])) if len(self.shape) > 1 else channels
            kappa = self.random.integers(200, 2048, channels, endpoint=True)
            kappa[:: max(channels // 2, 2)] *= -1
            lamda = self.offsets(channels, deviation * 1100)
            # the constant stands on the left of Mul and on the right of Add, as in exported files
            self.node("Mul", self.constant(kappa.reshape(form)), self.value)
            self.node("Add", self.value, self.constant(lamda.reshape(form)))
            deviation *= 1100
        if activation:
            return self._requantise(deviation, lo, hi)
        bound = int(deviation * 4)
        self.bounds[self.value] = (-bound, bound)
        return self.end_layer()

    def _requantise(self, deviation: float, lo: int, hi: int) -> Self:
        """Append Cast, Mul(m), Div(D), Cast, Clip so that ``deviation`` maps to half the range."""
        factor = int(self.random.integers(4, 243, endpoint=True))
        exponent = max(round(log2(factor * deviation / max((hi - lo) / 2, 1))), 1)
        divisor = 2**exponent if self.exact_divisors else 2**exponent - 1
        self.node("Cast", self.value, to=TensorProto.INT64)
        self.node("Mul", self.value, self.constant([factor], np.int64))
        self.node("Div", self.value, self.constant(divisor, np.int64))
        self.node("Cast", self.value, to=TensorProto.FLOAT)
        self.clip(lo, hi)
        return self.end_layer()
