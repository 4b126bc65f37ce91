"""Batch normalisations after a Gemm, which exporters write as Mul and Add, folded into it.

onnxruntime folds those after a Conv itself. Unfolded, each is a layer with a rounding of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def fold_into_gemm(proto: Any) -> None:
    """Fold Mul and Add of constants into the Gemm that only they read, in place."""
    from onnx import numpy_helper

    graph = proto.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    makers = {node.output[0]: node for node in graph.node}
    for node in list(graph.node):
        if node.op_type not in ("Mul", "Add") or len(node.input) != 2:
            continue
        names = [name for name in node.input if name in constants]
        gemm = next((makers[name] for name in node.input if name in makers), None)
        if len(names) != 1 or gemm is None or not _is_plain(graph, gemm, constants):
            continue
        weights, bias = _operands(gemm, constants)
        factor = numpy_helper.to_array(constants[names[0]])
        if factor.size not in (1, len(bias)) or factor.size != max(factor.shape, default=1):
            continue
        values = np.broadcast_to(factor.reshape(-1), bias.shape)
        if node.op_type == "Mul":
            weights, bias = weights * values[:, None], bias * values
        else:
            bias = bias + values
        _replace(graph, gemm, node, weights, bias)
        constants = {tensor.name: tensor for tensor in graph.initializer}
        makers = {one.output[0]: one for one in graph.node}


def _is_plain(graph: Any, node: Any, constants: dict[str, Any]) -> bool:
    """Return True when a node is x * weights + bias of constants, with one reader of its result."""
    if node.op_type != "Gemm" or any(name not in constants for name in node.input[1:]):
        return False
    attributes = {a.name: a.f if a.name in ("alpha", "beta") else a.i for a in node.attribute}
    plain = (attributes.get("alpha", 1), attributes.get("beta", 1), attributes.get("transA", 0))
    readers = sum(list(one.input).count(node.output[0]) for one in graph.node)
    is_output = node.output[0] in [value.name for value in graph.output]
    return plain == (1, 1, 0) and readers == 1 and not is_output


def _operands(gemm: Any, constants: dict[str, Any]) -> tuple[Floats, Floats]:
    """Return weights (outputs, inputs) and bias (outputs,)."""
    from onnx import numpy_helper

    weights = numpy_helper.to_array(constants[gemm.input[1]])
    if not any(a.name == "transB" and a.i for a in gemm.attribute):
        weights = weights.T
    bias = np.zeros(len(weights), np.float32)
    if len(gemm.input) > 2:
        bias = bias + numpy_helper.to_array(constants[gemm.input[2]]).reshape(-1)
    return weights, bias


def _replace(graph: Any, gemm: Any, node: Any, weights: Floats, bias: Floats) -> None:
    """Give the Gemm new operands and the result of the node, and remove the node."""
    from onnx import helper, numpy_helper

    names = [f"{node.output[0]}_folded_{part}" for part in ("weights", "bias")]
    for name, values in zip(names, (weights, bias), strict=True):
        content = np.ascontiguousarray(values, np.float32)
        graph.initializer.append(numpy_helper.from_array(content, name))
    source, result = gemm.input[0], node.output[0]
    del gemm.input[:]
    gemm.input.extend([source, *names])
    kept = [a for a in gemm.attribute if a.name != "transB"]
    del gemm.attribute[:]
    gemm.attribute.extend([*kept, helper.make_attribute("transB", 1)])
    graph.node.remove(node)
    gemm.output[0] = result
    read = {name for one in graph.node for name in one.input}
    used = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(used)
