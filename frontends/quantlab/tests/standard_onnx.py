"""A network of this dialect in the operators of the ONNX standard alone, for its evaluator.

Residual Adds become the nodes that their attributes mean, spelled out here a second time from the
format, with the signs of their clips given by the test. It shares no code with the frontend.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

_EXTRA = {"weight_bits", "bias_bits", "mult_bits", "add_bits", "out_bits"}
Signs = tuple[bool, bool, bool]


def standard(model: onnx.ModelProto, signs: Sequence[Signs] = ()) -> onnx.ModelProto:
    """Return the model with plain nodes. signs: of in1, in2 and out, per residual in node order."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    nodes = list(result.graph.node)
    del result.graph.node[:]
    left = list(signs)
    for node in nodes:
        attributes = {a.name: a for a in node.attribute if a.name not in _EXTRA}
        if "in1_rq" in attributes:
            values = {k: helper.get_attribute_value(a) for k, a in attributes.items()}
            _expand(result.graph, node, values, left.pop(0))
            continue
        del node.attribute[:]
        node.attribute.extend(attributes.values())
        result.graph.node.append(node)
    assert not left
    return result


def _expand(
    graph: onnx.GraphProto, add: onnx.NodeProto, values: dict[str, int], signs: Signs
) -> None:
    def step(source: str, part: str, signed: bool, always_clip: bool) -> str:
        number = len(graph.node)

        def node(op: str, operand: int | None, *, last: str = "", **others: float) -> str:
            nonlocal source, number
            number += 1
            target = last or f"{add.output[0]}_{part}_{number}"
            inputs = [source]
            if operand is not None:
                inputs.append(f"{target}_constant")
                graph.initializer.append(
                    numpy_helper.from_array(np.array(operand, np.float64), inputs[1])
                )
            graph.node.append(helper.make_node(op, inputs, [target], **others))
            source = target
            return target

        if values[f"{part}_rq"]:
            node("Mul", values[f"{part}_mul"])
            node("Add", values[f"{part}_add"])
            node("Div", 2 ** values[f"{part}_shift"])
            node("Floor", None)
        if values[f"{part}_rq"] or always_clip:
            count = values[f"{part}_n_levels"]
            lo, hi = (-count / 2, count / 2 - 1) if signed else (0, count - 1)
            node("Clip", None, last=add.output[0] if always_clip else "", min=lo, max=hi)
        return source

    first = step(add.input[0], "in1", signs[0], False)
    second = step(add.input[1], "in2", signs[1], False)
    total = f"{add.output[0]}_sum"
    graph.node.append(helper.make_node("Add", [first, second], [total]))
    step(total, "out", signs[2], True)
