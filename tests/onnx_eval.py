"""Evaluation of an integer ONNX graph node by node with the reference evaluator of onnx, in double.

An independent check of imported networks: it shares no code with the frontends. Doubles hold all
integers up to 2^53, which float32 as in the file does not. Every Div is made to round down, as the
quantiser does: ONNX leaves the rounding of negative integers open.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def evaluate(
    model: onnx.ModelProto, image: npt.NDArray[np.int64], values: list[str]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the named values for one input without batch, shape as the network's input."""
    double = onnx.ModelProto()
    double.CopyFrom(model)
    graph = double.graph
    operands = {i for node in graph.node if node.op_type in ("Mul", "Div") for i in node.input}
    for tensor in graph.initializer:
        _widen(tensor, tensor.name in operands)
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.type == onnx.AttributeProto.TENSOR:
                _widen(attribute.t, node.output[0] in operands)
            if node.op_type == "Cast" and attribute.name == "to":
                attribute.i = TensorProto.DOUBLE
        graph.node.append(node)
        if node.op_type == "Div":
            exact = node.output[0] + "_exact"
            graph.node.append(helper.make_node("Floor", [exact], [node.output[0]]))
            graph.node[-2].output[0] = exact
    for value in graph.input:
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(v, TensorProto.DOUBLE, None) for v in values)
    evaluator = ReferenceEvaluator(double)
    name = graph.input[0].name
    results = evaluator.run(None, {name: image[None].astype(np.float64)})
    return {v: np.asarray(r)[0] for v, r in zip(values, results, strict=True)}


def _widen(tensor: onnx.TensorProto, operand: bool) -> None:
    content = numpy_helper.to_array(tensor)
    if content.dtype == np.float32 or operand:
        tensor.CopyFrom(numpy_helper.from_array(content.astype(np.float64), tensor.name))
