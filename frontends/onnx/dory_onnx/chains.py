"""Which nodes after a layer belong to it: its arithmetic, and reshapes that change nothing."""

from __future__ import annotations

from collections.abc import Mapping

from dory_onnx.arithmetic import Step, data_input, is_narrow_cast
from dory_onnx.dialect import Dialect
from dory_onnx.model import Node, OnnxModel
from dory_onnx.operators import chw_of, rows_of
from dory_onnx.shapes import Shape

#: Nodes that give elements another shape, or nothing else.
RESHAPES = frozenset(["Identity", "Dropout", "Flatten", "Reshape", "Squeeze", "Unsqueeze"])


def keeps_order(
    node: Node, shapes: Mapping[str, Shape], chw: tuple[int, int, int], by_rows: bool = False
) -> bool:
    """Return True when a node only reshapes a (C, H, W) tensor to the same or a flat shape.

    by_rows: channels are the last axis; then it has to be the same shape.
    """
    if node.op not in RESHAPES:
        return False
    before, after = shapes.get(node.input(0)), shapes.get(node.outputs[0])
    if before is None or after is None:
        return False
    if by_rows:
        return rows_of(after) == chw
    channels, height, width = chw
    return after in (before, (1, channels * height * width)) or chw_of(after) == chw


def follow_chain(
    model: OnnxModel,
    shapes: Mapping[str, Shape],
    dialect: Dialect,
    value: str,
    chw: tuple[int, int, int],
    by_rows: bool = False,
) -> tuple[tuple[Step, ...], list[Node], str]:
    """Return (steps, their nodes, last value) of the arithmetic after a layer's output ``value``.

    The chain ends where a value has several readers, is a network output, or where something other
    than arithmetic with a constant reads it; a Cast to 8 or 16 bits is no arithmetic. Factors that
    lead to an Add of two tensors without a rounding in between are left to that Add. chw: shape of
    the layer's output. by_rows: its channels are the last axis.
    """
    start = value
    found: list[tuple[tuple[Step, ...], list[Node], str]] = []
    passed: list[Node] = []
    while value not in model.outputs:
        readers = model.readers(value)
        if len(readers) != 1:
            break
        node = readers[0]
        if keeps_order(node, shapes, chw, by_rows):
            passed.append(node)
        elif (
            node.op in dialect.arithmetic
            and not is_narrow_cast(node)
            and data_input(model, node) is not None
        ):
            steps = dialect.steps_of(model, node, shapes[value], -1 if by_rows else 1)
            found.append((steps, [*passed, node], node.outputs[0]))
            passed = []
        else:
            while (
                node.op in ("Add", "Sub")
                and found
                and found[-1][0][-1].op in ("Mul", "Add", "Cast")
            ):
                found.pop()
            break
        value = node.outputs[0]
    nodes = [n for _, together, _ in found for n in together]
    return (
        tuple(step for steps, _, _ in found for step in steps),
        nodes,
        found[-1][2] if found else start,
    )
