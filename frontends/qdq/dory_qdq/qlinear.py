"""Operators of onnxruntime that hold their scales themselves, as operators of reals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from dory_onnx import Node, OnnxModel

from dory_core.api import NotSupported
from dory_qdq.numerics import Quantisation
from dory_qdq.parameters import constant_of, quantisation_of
from dory_qdq.values import Constant, Value

#: Returns an input's stored integers with what they mean.
Dequantise = Callable[[Node, int, Value | None, Quantisation], Value]


@dataclass(frozen=True, slots=True)
class _Form:
    """Where an operator has its parts. op: of reals. operands: positions of data. y: of the scale
    of the result. bias: position of an integer bias, or -1."""

    op: str
    operands: tuple[int, ...]
    y: int
    bias: int = -1


FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        "QLinearConv": _Form("Conv", (0, 3), 6, 8),
        "QLinearMatMul": _Form("MatMul", (0, 3), 6),
        "QGemm": _Form("Gemm", (0, 3), 7, 6),
        "QLinearAdd": _Form("Add", (0, 3), 6),
        "QLinearMul": _Form("Mul", (0, 3), 6),
        "QLinearSigmoid": _Form("Sigmoid", (0,), 3),
        "QLinearLeakyRelu": _Form("LeakyRelu", (0,), 3),
        "QLinearAveragePool": _Form("AveragePool", (0,), 3),
        "QLinearGlobalAveragePool": _Form("GlobalAveragePool", (0,), 3),
        "QLinearSoftmax": _Form("Softmax", (0,), 3),
        "QLinearConcat": _Form("Concat", (), 0),
    }
)


@dataclass(frozen=True, slots=True)
class RealForm:
    """An operator of reals: its node, dequantised inputs and the quantisation of its result."""

    node: Node
    inputs: tuple[Value | None, ...]
    y: Quantisation | None


def quantised_form(
    model: OnnxModel, node: Node, inputs: tuple[Value | None, ...], dequantise: Dequantise
) -> RealForm:
    """Return a QLinear operator as one of reals; raises NotSupported for parts that are missing."""
    form = FORMS[node.op.removeprefix("com.microsoft.")]
    operands = form.operands or tuple(range(2, len(node.inputs) - 2, 3))
    if node.attributes.get("channels_last"):
        raise NotSupported(
            f"{node.label}: channels_last = 1 is not supported", "export it with NCHW tensors"
        )
    found: list[Value | None] = []
    names: list[str] = []
    for position in operands:
        value = inputs[position] if position < len(inputs) else None
        part = Node(
            node.position,
            node.op,
            node.name,
            tuple(node.input(position + n) for n in range(3)),
            node.outputs,
            MappingProxyType({"axis": _weight_axis(form.op, node, position)}),
        )
        if isinstance(value, Constant):
            found.append(constant_of(model, part, value.values))
        else:
            x = quantisation_of(model, part, 1, 2)
            found.append(dequantise(node, position, value, x))
        names.append(node.input(position))
    if form.bias >= 0 and node.input(form.bias):
        found.append(_bias(node, form.bias, inputs[form.bias]))
        names.append(node.input(form.bias))
    y = quantisation_of(model, node, form.y, form.y + 1) if node.input(form.y) else None
    if y is None and form.op != "Gemm":
        raise NotSupported(f"{node.label}: it has no scale of its result")
    return RealForm(replace(node, op=form.op, inputs=tuple(names)), tuple(found), y)


def _bias(node: Node, position: int, value: Value | None) -> Constant:
    if not isinstance(value, Constant) or value.values.dtype != np.int32:
        raise NotSupported(f"{node.label}: its bias '{node.input(position)}' is no constant int32")
    return value


def _weight_axis(op: str, node: Node, position: int) -> int:
    """Return along which axis of the weights output channels lie."""
    if op == "MatMul" or (op == "Gemm" and not node.attributes.get("transB", 0)):
        return 1
    return 0
