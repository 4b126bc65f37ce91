"""MatMul over rows: of a value and a constant matrix, or of two values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dory_core.api import NotSupported, ops
from dory_core.importing import Array
from dory_onnx.model import Node

if TYPE_CHECKING:
    from dory_onnx.layers import LayersOfFile

_ONE = ops.Window(kernel=(1, 1))


def is_matrix_of_rows(graph: LayersOfFile, node: Node) -> bool:
    """Return True for a MatMul that is no fully connected layer over a vector."""
    if node.op != "MatMul":
        return False
    computed = not graph.model.is_constant(node.input(1))
    return computed or len(graph.shapes[node.input(0)]) > 2


def append_matrix(graph: LayersOfFile, node: Node) -> None:
    """Append a MatMul over rows. Raises: NotSupported, naming the node."""
    if graph.model.is_constant(node.input(1)):
        _with_weights(graph, node)
        return
    shapes = [graph.shapes.get(name) for name in node.inputs]
    if node.input(1) not in graph.values or None in shapes or node.outputs[0] not in graph.shapes:
        shown = " and ".join("unknown" if s is None else str(list(s)) for s in shapes)
        raise NotSupported(
            f"{node.label}: operands of shapes {shown} are no matrices of integers that can be"
            " multiplied",
            "export it with fixed shapes, and both operands behind a requantisation",
        )
    factors, x = (graph.as_rows(node, name).tensor for name in node.inputs)
    _, requants = graph.behind(node, x)
    graph.append(ops.MatMul(**graph.common(node, x, factors), requants=requants))


def _with_weights(graph: LayersOfFile, node: Node) -> None:
    """Append a product with constants: a 1x1 convolution whose pixels are the rows."""
    bits = graph.dialect.weight_bits(node)
    weights = graph.weights(node, bits)
    shape = graph.shapes[node.input(0)]
    if weights.shape[1] != shape[-1]:
        raise NotSupported(
            f"{node.label}: weight tensor '{node.input(1)}' has {weights.shape[1]} inputs, but the"
            f" layer reads rows of {shape[-1]} ({list(shape)})"
        )
    source = graph.as_rows(node, node.input(0)).tensor
    steps, bias = graph.chain(node, None, by_rows=True)
    graph.append(
        ops.Conv(
            **graph.common(node, source),
            requants=graph.dialect.layer_requants(node, steps, 1),
            weights=Array(weights[:, :, None, None]),
            window=_ONE,
            weight_bits=bits,
            bias=None if bias is None else Array(bias),
        )
    )
