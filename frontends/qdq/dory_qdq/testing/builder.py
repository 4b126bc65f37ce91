"""A quantised ONNX network under construction, as QDQ or with QLinear operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value with its quantisation.

    Attributes:
        name: Name of the reals.
        stored: Name of the integers.
    """

    name: str
    stored: str
    shape: tuple[int, ...]
    scale: float
    zero: int
    signed: bool


@dataclass(slots=True)
class Builder:
    """Nodes and constants; ``rng`` decides scales and zero points. signed: type of activations."""

    rng: np.random.Generator
    signed: bool = False
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    count: int = 0

    def name(self, stem: str) -> str:
        """Return a name that nothing has yet."""
        self.count += 1
        return f"{stem}_{self.count}"

    def constant(self, values: Array, stem: str = "constant") -> str:
        """Add a constant; returns its name."""
        from onnx import numpy_helper

        name = self.name(stem)
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, op: str, inputs: Sequence[str], domain: str = "", **attributes: Any) -> str:
        """Add a node; returns its output."""
        from onnx import helper

        name = self.name(op.lower())
        title = f"{op}_{self.count}"
        node = helper.make_node(op, list(inputs), [name], title, domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def parameters(self, scale: float, zero: int, signed: bool) -> list[str]:
        """Add a scale and a zero point; returns their names."""
        kind = np.int8 if signed else np.uint8
        return [
            self.constant(np.float32(scale), "scale"),
            self.constant(np.array(zero, kind), "zero"),
        ]

    def scale(self, size: float = 1.0) -> float:
        """Return a random scale; some are powers of two, whose ties are exact."""
        if self.rng.random() < 0.2:
            return float(2.0 ** np.round(np.log2(size / 100)))
        return float(np.float32(size * self.rng.uniform(0.004, 0.02)))

    def zero(self) -> int:
        """Return a random zero point, often an end of the type."""
        lo, hi = (-128, 127) if self.signed else (0, 255)
        return int(self.rng.choice([lo, lo, (lo + hi + 1) // 2, self.rng.integers(lo, hi + 1)]))

    def input(self, shape: tuple[int, ...]) -> Tensor:
        """Add a network input of reals and its quantisation."""
        from onnx import TensorProto, helper

        name = self.name("input")
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return self.quantised(name, shape, self.scale())

    def truths(self, shape: tuple[int, ...]) -> str:
        """Add a network input of truth values; returns its name."""
        from onnx import TensorProto, helper

        name = self.name("truths")
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.BOOL, shape))
        return name

    def quantised(
        self, name: str, shape: tuple[int, ...], scale: float, zero: int | None = None
    ) -> Tensor:
        """Add QuantizeLinear and DequantizeLinear after reals."""
        zero = self.zero() if zero is None else zero
        parameters = self.parameters(scale, zero, self.signed)
        stored = self.node("QuantizeLinear", [name, *parameters])
        real = self.node("DequantizeLinear", [stored, *parameters])
        return Tensor(real, stored, shape, scale, zero, self.signed)

    def weights(self, values: Array, scales: Array, axis: int, zeros: Array | None = None) -> str:
        """Add a quantised constant; returns its reals."""
        zeros = np.zeros(np.shape(scales), values.dtype) if zeros is None else zeros
        names = [self.constant(v) for v in (values, np.float32(scales), zeros)]
        attributes = {"axis": axis} if np.ndim(scales) else {}
        return self.node("DequantizeLinear", names, **attributes)

    def model(self, outputs: Sequence[tuple[str, tuple[int, ...]]], opset: int = 17) -> bytes:
        """Return the file. outputs: stored integers with their shapes."""
        from onnx import TensorProto, helper

        kind = TensorProto.INT8 if self.signed else TensorProto.UINT8
        infos = [helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs]
        graph = helper.make_graph(self.nodes, "random", self.inputs, infos, self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return bytes(model.SerializeToString())
