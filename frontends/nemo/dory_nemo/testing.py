"""Building networks as the NEMO quantiser and PLiNIO export them, for tests and examples.

NemoBuilder((3, 32, 32), seed=1).conv(16, 3, pads=1).maxpool(2).conv(32, 3, stride=2, pads=1)
    .linear(10, activation=False).save(path)
"""

from __future__ import annotations

from math import log2, prod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnx
from dory_onnx.testing import IntegerOnnxBuilder, OnnxBuilder
from dory_onnx.testing.builder import Pair
from onnx import TensorProto


class NemoBuilder(IntegerOnnxBuilder):
    """Networks as the NEMO quantiser exports them: the plain nodes of integer ONNX."""


class PlinioBuilder(OnnxBuilder):
    """Networks as PLiNIO exports them for MATCH: integer types, and a Cast at every change of type.

    weight_type: int8, or uint8 with the same bytes.
    """

    def __init__(
        self, input_shape: tuple[int, ...], *, weight_type: type = np.uint8, **options: Any
    ) -> None:
        super().__init__(input_shape, opset=10, **options)
        self.weight_type = weight_type

    def conv(
        self,
        channels: int,
        kernel: Pair = 1,
        *,
        stride: Pair = 1,
        pads: Pair = 0,
        groups: int = 1,
        activation: bool = True,
    ) -> Self:
        """Append a Conv; ``activation=False`` leaves its sums with a bias."""
        attributes, size = self.window(kernel, stride, pads, 1)
        form = (channels, self.shape[0] // groups, *attributes["kernel_shape"])
        deviation = self.deviation(prod(form[1:]))
        weights = self._stored(self.weights(form, -127, 127))
        self.node("Conv", self.value, weights, group=groups, **attributes)
        self.shapes[self.value] = (channels, *size)
        return self._layer(deviation, activation)

    def linear(self, features: int, *, activation: bool = False) -> Self:
        """Append a MatMul, flattened if need be."""
        if len(self.shape) > 1:
            self.flatten()
        deviation = self.deviation(self.shape[0])
        weights = self.weights((self.shape[0], features), -127, 127)
        self.node("MatMul", self.value, self._stored(weights))
        self.shapes[self.value] = (features,)
        return self._layer(deviation, activation)

    def add(self, other: str) -> Self:
        """Append a residual: both operands have one scale, and the sum is clipped."""
        operands = [self.node("Cast", v, to=TensorProto.INT32) for v in (self.value, other)]
        self.node("Add", *operands)
        return self._rounded(1)

    def cast(self, to: int) -> Self:
        """Append a Cast to an ONNX type."""
        self.node("Cast", self.value, to=to)
        return self

    def model(self, input_dims: Any = None) -> onnx.ModelProto:
        """Return the model; its input has the type uint8."""
        model = super().model(input_dims)
        model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
        return model

    def _stored(self, weights: npt.NDArray[Any]) -> str:
        return self.constant(weights.astype(np.int8).view(self.weight_type), self.weight_type)

    def _layer(self, deviation: float, activation: bool) -> Self:
        channels = self.shape[0]
        form = (1, channels, *(1 for _ in self.shape[1:]))
        self.node("Cast", self.value, to=TensorProto.INT32)
        if activation:
            mul = self.random.integers(20, 400, channels, endpoint=True)
            self.node("Mul", self.value, self.constant(mul.reshape(form), np.int32))
            deviation *= 400
        add = self.offsets(channels, deviation).reshape(form)
        self.node("Add", self.value, self.constant(add, np.int32))
        if not activation:
            bound = int(deviation * 4)
            self.bounds[self.value] = (-bound, bound)
            return self.end_layer()
        return self._rounded(1 << max(round(log2(deviation / 128)), 1))

    def _rounded(self, divisor: int) -> Self:
        self.node("Div", self.value, self.constant([divisor], np.int32))
        self.node("Floor", self.value)
        self.clip(0, 255)
        self.end_layer()
        return self.cast(TensorProto.UINT8)
