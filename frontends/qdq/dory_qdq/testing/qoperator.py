"""QDQ files rewritten with onnxruntime's operators that hold their scales (QOperator)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

_MICROSOFT = "com.microsoft"
#: QLinear operator and its domain.
_FORMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "Conv": ("QLinearConv", ""),
        "MatMul": ("QLinearMatMul", ""),
        "Gemm": ("QGemm", _MICROSOFT),
        **{
            op: (f"QLinear{op}", _MICROSOFT)
            for op in (
                "Add",
                "Mul",
                "Sigmoid",
                "LeakyRelu",
                "AveragePool",
                "GlobalAveragePool",
                "Softmax",
                "Concat",
            )
        },
    }
)
#: Operators that move elements run on stored integers.
_MOVES = frozenset(["MaxPool", "Reshape", "Transpose", "Slice"])
_OPSET = 17


def as_qoperator(model: bytes, weight_zero: int = 0) -> bytes:
    """Return a QDQ file with QLinear operators wherever there is one.

    weight_zero: zero point of weights, which become uint8 beside inputs of uint8; with 0 they stay
    as they are. Activations in front of a QuantizeLinear are left out: QLinear operators have none.
    Operators without a QLinear form stay as they are.
    """
    import onnx

    proto = onnx.load_from_string(model)
    makers = {name: node for node in proto.graph.node for name in node.output}
    removed: set[str] = set()
    nodes = []
    for node in proto.graph.node:
        if node.op_type != "QuantizeLinear":
            nodes.append(node)
            continue
        made = makers.get(node.input[0])
        while made is not None and made.op_type in ("Relu", "Clip") and _first(makers, made):
            removed.add(made.output[0])
            made = _first(makers, made)
        written = None if made is None else _rewritten(made, node, makers)
        if written is None:
            removed -= {node.input[0]}
        else:
            assert made is not None
            removed.add(made.output[0])
        nodes.append(written or node)
    kept = [node for node in nodes if node.output[0] not in removed]
    if weight_zero:
        _shift_weights(proto.graph, kept, weight_zero)
    del proto.graph.node[:]
    proto.graph.node.extend(_read(kept, {output.name for output in proto.graph.output}))
    return bytes(proto.SerializeToString())


def _shift_weights(graph: Any, nodes: Sequence[Any], zero: int) -> None:
    """Make weights of int8 with the zero point 0 uint8, where their inputs are uint8."""
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in nodes:
        if node.op_type not in ("QLinearConv", "QLinearMatMul", "QGemm"):
            continue
        x_zero, weights, w_zero = (constants.get(node.input[n]) for n in (2, 3, 5))
        if x_zero is None or weights is None or numpy_helper.to_array(x_zero).dtype != np.uint8:
            continue
        for tensor in (weights, w_zero):
            shifted = (numpy_helper.to_array(tensor).astype(np.int16) + zero).astype(np.uint8)
            tensor.CopyFrom(numpy_helper.from_array(shifted, tensor.name))


def _first(makers: Mapping[str, Any], node: Any) -> Any:
    """Return the operator in front of an activation where that has a QLinear form, else None."""
    made = makers.get(node.input[0])
    return made if made is not None and made.op_type in _FORMS else None


def _rewritten(node: Any, rounding: Any, makers: Mapping[str, Any]) -> Any:
    """Return an operator and its QuantizeLinear as one, or None where there is no such form."""
    from onnx import helper

    sources = [makers.get(name) for name in node.input if name]
    if node.op_type in _MOVES:
        data = sources[0]
        if data is None or data.op_type != "DequantizeLinear":
            return None
        inputs = [data.input[0], *node.input[1:]]
        return _node(node, node.op_type, "", inputs, rounding)
    if node.op_type not in _FORMS or any(
        source is None or source.op_type != "DequantizeLinear" for source in sources
    ):
        return None
    op, domain = _FORMS[node.op_type]
    result = list(rounding.input[1:3])
    operands = [list(source.input[:3]) for source in sources if source is not None]
    flat = [name for operand in operands[:2] for name in operand]
    bias = [operands[2][0]] if len(operands) > 2 else []
    inputs = [*flat, *result]
    if op == "QLinearConv":
        inputs = [*flat, *result, *bias]
    elif op == "QGemm":
        inputs = [*flat, *(bias or [""]), *result]
    elif op == "QLinearConcat":
        inputs = [*result, *(name for operand in operands for name in operand)]
    written = _node(node, op, domain, inputs, rounding)
    if op == "QLinearSoftmax":
        written.attribute.append(helper.make_attribute("opset", _OPSET))
    return written


def _node(node: Any, op: str, domain: str, inputs: Sequence[str], rounding: Any) -> Any:
    from onnx import helper

    written = helper.make_node(op, inputs, [rounding.output[0]], node.name, domain=domain)
    written.attribute.extend(node.attribute)
    return written


def _read(nodes: Sequence[Any], outputs: set[str]) -> list[Any]:
    """Return the nodes that something reads."""
    kept: list[Any] = []
    wanted = set(outputs)
    for node in reversed(nodes):
        if wanted & set(node.output):
            wanted |= set(node.input)
            kept.append(node)
    return kept[::-1]
