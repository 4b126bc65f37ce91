"""Small networks in the ONNX dialects of the quantisers, with seeded random integer parameters.

    NemoBuilder((3, 32, 32), seed=1).conv(16, 3, pads=1).maxpool(2).conv(32, 3, stride=2, pads=1)
        .linear(10, activation=False).save(path)

Every method appends one layer behind the current value and returns the builder. ``value`` is the
current value, to branch from (``at``) or to add; ``layer_values`` are the values at which layers
end, in layer order, for comparison with an evaluation of the ONNX graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2, prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Pair = int | tuple[int, ...]


class OnnxBuilder:
    """Nodes, constants and names; the dialect's layers are in subclasses.

    input_shape: (C, H, W), (C, L) for 1-D data or (F,). numbered: decimal value names and nameless
    nodes as old exporters wrote them. constant_nodes: Constant nodes instead of initialisers.
    opset: 9 writes Clip with attributes, 11 and above with inputs.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        *,
        seed: int = 0,
        input_hi: int = 255,
        input_lo: int = 0,
        numbered: bool = False,
        constant_nodes: bool = False,
        opset: int = 9,
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.numbered = numbered
        self.constant_nodes = constant_nodes
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.input = "0" if numbered else "image"
        self.value = self.input
        self.shapes: dict[str, tuple[int, ...]] = {self.input: tuple(input_shape)}
        self.bounds: dict[str, tuple[int, int]] = {self.input: (input_lo, input_hi)}
        self.layer_values: list[str] = []
        self.outputs: list[str] = []

    # --- nodes --------------------------------------------------------------------------------

    def constant(self, content: Any, dtype: type = np.float32, name: str = "") -> str:
        """Add a constant and return its name."""
        array = np.asarray(content, dtype=dtype)
        name = name or (str(self._count()) if self.numbered else f"constant_{self._count()}")
        tensor = numpy_helper.from_array(array, name)
        if self.constant_nodes:
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.initializers.append(tensor)
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node, make its first output the current value and return that."""
        number = self._count()
        names = [
            str(number + i) if self.numbered else f"/{op}_{number}_output_{i}"
            for i in range(outputs)
        ]
        title = "" if self.numbered else f"/{op}_{number}"
        self.nodes.append(helper.make_node(op, list(inputs), names, title, **attributes))
        self.value = names[0]
        source = next((i for i in inputs if i in self.shapes), None)
        if source is not None:
            self.shapes[self.value] = self.shapes[source]
            self.bounds[self.value] = self.bounds[source]
        return self.value

    def at(self, value: str) -> Self:
        """Continue behind another value: start a branch."""
        self.value = value
        return self

    def output(self, value: str | None = None) -> Self:
        """Declare a network output; without any, the current value is the output."""
        self.outputs.append(value or self.value)
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the current value without the batch: (C, H, W), (C, L) or (F,)."""
        return self.shapes[self.value]

    def model(self, input_dims: Sequence[int | str] | None = None) -> onnx.ModelProto:
        """Return the model. input_dims: other dimensions to declare for the input."""
        dims = input_dims or (1, *self.shapes[self.input])
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info(self.input, TensorProto.FLOAT, dims)],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                for name in self.outputs or [self.value]
            ],
            self.initializers,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=6
        )

    def save(self, path: Path) -> Path:
        """Write the model to ``path`` and return it."""
        onnx.save(self.model(), str(path))
        return path

    def _count(self) -> int:
        return 1 + len(self.nodes) + len(self.initializers)

    # --- pieces of layers ---------------------------------------------------------------------

    def clip(self, lo: int, hi: int) -> str:
        """Add a Clip in the form of the opset."""
        if self.opset < 11:
            value = self.node("Clip", self.value, min=float(lo), max=float(hi))
        else:
            source = self.value
            value = self.node("Clip", source, self.constant(lo), self.constant(hi))
        self.bounds[value] = (lo, hi)
        return value

    def pad(self, *pads: int) -> Self:
        """Add a Pad node of zeros: all begins, then all ends, of the spatial axes."""
        half = len(pads) // 2
        full = [0, 0, *pads[:half], 0, 0, *pads[half:]]
        channels, *size = self.shape
        source = self.value
        if self.opset < 11:
            self.node("Pad", source, pads=full, mode="constant", value=0.0)
        else:
            self.node("Pad", source, self.constant(full, np.int64))
        grown = (s + b + e for s, b, e in zip(size, pads[:half], pads[half:], strict=True))
        self.shapes[self.value] = (channels, *grown)
        return self

    def flatten(self) -> Self:
        """Add a Flatten."""
        total = prod(self.shape)
        self.node("Flatten", self.value, axis=1)
        self.shapes[self.value] = (total,)
        return self

    def weights(self, shape: Iterable[int], lo: int = -64, hi: int = 63) -> np.ndarray:
        """Return random integer weights."""
        return self.random.integers(lo, hi, tuple(shape), endpoint=True)

    def deviation(self, fan_in: int) -> float:
        """Return the standard deviation to expect of an accumulator over the current value."""
        lo, hi = self.bounds[self.value]
        return max(fan_in**0.5 * 37 * max(abs(lo), abs(hi)) * 0.58, 1.0)

    def window(
        self, kernel: Pair, stride: Pair, pads: Pair, dilation: Pair
    ) -> tuple[dict[str, list[int]], tuple[int, ...]]:
        """Return (attributes of a window, spatial size of its output) for the current value."""
        size = self.shape[1:]
        rank = len(size)
        kernels, strides, dilations = (_repeat(v, rank) for v in (kernel, stride, dilation))
        borders = _repeat(pads, 2 * rank)
        out = tuple(
            (size[i] + borders[i] + borders[i + rank] - (kernels[i] - 1) * dilations[i] - 1)
            // strides[i]
            + 1
            for i in range(rank)
        )
        names = ("kernel_shape", "strides", "pads", "dilations")
        values = (kernels, strides, borders, dilations)
        return {n: list(v) for n, v in zip(names, values, strict=True)}, out

    def end_layer(self) -> Self:
        """Record that a layer ends at the current value."""
        self.layer_values.append(self.value)
        return self


class NemoBuilder(OnnxBuilder):
    """Networks as the NEMO quantiser exports them.

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
        attributes, size = self.window(kernel, stride, pads, dilation)
        if weights is None:
            weights = self.weights((channels, self.shape[0] // groups, *attributes["kernel_shape"]))
        deviation = self.deviation(prod(weights.shape[1:]))
        inputs = [self.value, self.constant(weights)]
        if bias:
            inputs.append(self.constant(self._offsets(channels, deviation)))
        self.node("Conv", *inputs, group=groups, **attributes)
        self.shapes[self.value] = (channels, *size)
        return self._activate(deviation, batchnorm, activation, lo, hi)

    def depthwise(self, kernel: Pair = 3, **options: Any) -> Self:
        """Append a depthwise Conv with one filter per channel."""
        channels = self.shape[0]
        return self.conv(channels, kernel, groups=channels, **options)

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
        source = self.value
        if gemm:
            inputs = [source, self.constant(weights)]
            if bias:
                inputs.append(self.constant(self._offsets(features, deviation)))
            self.node("Gemm", *inputs, alpha=1.0, beta=1.0, transB=1)
        else:
            self.node("MatMul", source, self.constant(weights.T))
            self.shapes[self.value] = (features,)
            if bias:
                self.node("Add", self.value, self.constant(self._offsets(features, deviation)))
        self.shapes[self.value] = (features,)
        return self._activate(deviation, batchnorm, activation, lo, hi)

    def maxpool(self, kernel: Pair = 2, *, stride: Pair | None = None, pads: Pair = 0) -> Self:
        """Append a MaxPool."""
        attributes, size = self.window(kernel, kernel if stride is None else stride, pads, 1)
        del attributes["dilations"]
        channels = self.shape[0]
        self.node("MaxPool", self.value, **attributes)
        self.shapes[self.value] = (channels, *size)
        return self.end_layer()

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
                attributes["count_include_pad"] = 1  # type: ignore[assignment]
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

        swapped: the operands stand the other way round at the Add node.
        activation: a second requantisation with a Clip to [lo, hi] behind the sum.
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
            lamda = self._offsets(channels, deviation * 1100)
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

    def _offsets(self, channels: int, deviation: float) -> np.ndarray:
        bound = max(int(deviation * 0.7), 1)
        return self.random.integers(-bound, bound, channels, endpoint=True)


def _repeat(value: Pair, count: int) -> tuple[int, ...]:
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) * 2 == count:
        values *= 2
    if len(values) != count:
        raise ValueError(f"{value} does not have {count} values")
    return values
