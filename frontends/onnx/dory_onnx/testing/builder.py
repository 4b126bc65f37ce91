"""Building small quantised ONNX networks, for tests and examples.

A dialect's builder subclasses :class:`OnnxBuilder` and adds the layers as its exporter writes
them. Every method appends after the current value and returns the builder; all parameters are
seeded. ``value`` is the current value, to branch from (``at``) or to add; ``layer_values`` are the
values at which layers end, in layer order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Pair = int | tuple[int, ...]


class OnnxBuilder:
    """Nodes, constants and names; the dialect's layers are in subclasses.

    Attributes:
        input_shape: (C, H, W), (C, L) for 1-D data or (F,).
        numbered: Decimal value names and nameless nodes as old exporters wrote them.
        constant_nodes: Constant nodes instead of initialisers.
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
        array: npt.NDArray[Any] = np.asarray(content, dtype=dtype)
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
        """Continue from another value, which starts a branch."""
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
        others = sorted({node.domain for node in self.nodes} - {""})
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(domain, 1) for domain in others]
        return helper.make_model(graph, opset_imports=opsets, ir_version=6)

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

    def offsets(self, channels: int, deviation: float) -> npt.NDArray[Any]:
        """Return random integers, shape (channels,), up to about ``deviation``."""
        bound = max(int(deviation * 0.7), 1)
        return self.random.integers(-bound, bound, channels, endpoint=True)

    def deviation(self, fan_in: int) -> float:
        """Return the standard deviation to expect of an accumulator over the current value."""
        lo, hi = self.bounds[self.value]
        return float(max(fan_in**0.5 * 37 * max(abs(lo), abs(hi)) * 0.58, 1.0))

    def window(
        self, kernel: Pair, stride: Pair, pads: Pair, dilation: Pair
    ) -> tuple[dict[str, Any], tuple[int, ...]]:
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

    def convolution(
        self,
        weights: npt.NDArray[Any],
        window: tuple[dict[str, Any], tuple[int, ...]],
        groups: int,
        spread: float | None,
        **extra: Any,
    ) -> None:
        """Add a Conv node.

        Args:
            window: Arguments of :meth:`window`.
            spread: Spread of a random bias, None for no bias.
            extra: Attributes of the dialect.
        """
        attributes, size = window
        inputs = [self.value, self.constant(weights)]
        if spread is not None:
            inputs.append(self.constant(self.offsets(len(weights), spread)))
        self.node("Conv", *inputs, group=groups, **extra, **attributes)
        self.shapes[self.value] = (len(weights), *size)

    def matrix(
        self, weights: npt.NDArray[Any], gemm: bool, spread: float | None, **extra: Any
    ) -> None:
        """Add a Gemm (weights stored as outputs x inputs) or MatMul node.

        Args:
            weights: (outputs, inputs).
            spread: Spread of a random bias of a Gemm, None for no bias.
        """
        if not gemm:
            self.node("MatMul", self.value, self.constant(weights.T), **extra)
        else:
            inputs = [self.value, self.constant(weights)]
            if spread is not None:
                inputs.append(self.constant(self.offsets(len(weights), spread)))
            self.node("Gemm", *inputs, alpha=1.0, beta=1.0, transB=1, **extra)
        self.shapes[self.value] = (len(weights),)

    def conv(self, *arguments: Any, **options: Any) -> Self:
        """Append a convolution as the dialect has it: channels, kernel and what else it takes."""
        raise NotImplementedError

    def depthwise(self, kernel: Pair = 3, **options: Any) -> Self:
        """Append a depthwise Conv with one filter per channel."""
        channels = self.shape[0]
        return self.conv(channels, kernel, groups=channels, **options)

    def maxpool(
        self,
        kernel: Pair = 2,
        *,
        stride: Pair | None = None,
        pads: Pair = 0,
        size: tuple[int, ...] | None = None,
    ) -> Self:
        """Append a MaxPool. size: of its output in ceil_mode, None without it."""
        attributes, floor_size = self.window(kernel, kernel if stride is None else stride, pads, 1)
        del attributes["dilations"]
        channels = self.shape[0]
        if size is not None:
            attributes["ceil_mode"] = 1
        size = size or floor_size
        self.node("MaxPool", self.value, **attributes)
        self.shapes[self.value] = (channels, *size)
        return self.end_layer()

    def global_maxpool(self) -> Self:
        """Append a GlobalMaxPool."""
        channels, *size = self.shape
        self.node("GlobalMaxPool", self.value)
        self.shapes[self.value] = (channels, *(1 for _ in size))
        return self.end_layer()

    def end_layer(self) -> Self:
        """Record that a layer ends at the current value."""
        self.layer_values.append(self.value)
        return self


def _repeat(value: Pair, count: int) -> tuple[int, ...]:
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) * 2 == count:
        values *= 2
    if len(values) != count:
        raise ValueError(f"{value} does not have {count} values")
    return values
