"""BATCH_MATMUL: products of two tensors of matrices, or of one with a constant matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.api import ops
from dory_tflite.model import FileTensor
from dory_tflite.node import CONVERT, Constraint, Node, Operator
from dory_tflite.operators.common import SAME_TYPE
from dory_tflite.operators.sums import product_steps, sum_fields
from dory_tflite.places import Bound
from dory_tflite.preparation import convolution_factor

_OPTIONS = ("AdjX", "AdjY")


def _multiply(node: Node) -> None:
    for position in (0, 1):
        if node.input(position).data is not None:
            _with_constant(node, position)
            return
    inner = _columns(node, 0)
    if inner != _rows(node, 1):
        raise _mismatch(node)
    first, second, y = (node.quantisation(t) for t in (*node.inputs, node.output()))
    factor = convolution_factor(first.scale, second.scale, y.scale)
    requants = product_steps(node, inner, factor)
    factors, x = (_matrices(node, position, False) for position in (0, 1))
    zeros = second.zero_point, first.zero_point
    node.emit(
        ops.MatMul, node.output(), x, factors, zero_points=zeros, wide=y.bits > 8, requants=requants
    )


def _with_constant(node: Node, position: int) -> None:
    """Append a 1x1 convolution, whose weights are the constant matrix at a position."""
    constant, other = node.input(position), 1 - position
    if constant.elements != constant.shape[-1] * constant.shape[-2]:
        raise node.error(
            f"{constant.label} is a constant of several matrices, {list(constant.shape)}",
            "multiply with one matrix, or with one that the network computes",
        )
    weights, zero = _constant_matrix(node, constant), node.quantisation(constant).zero_point
    # Output channels are the columns of the second matrix, or the rows of the first one.
    rows = weights - zero
    rows = rows if bool(node.option(_OPTIONS[position])) != (position == 0) else rows.T
    x, y = (node.quantisation(t) for t in (node.input(other), node.output()))
    turned = position == 0
    if rows.shape[1] != (_rows(node, 1) if turned else _columns(node, 0)):
        raise _mismatch(node)
    name = _matrices(node, other, turned)
    read = node.network.tensors[name]
    bias = -x.zero_point * rows.sum(axis=1)
    factor = convolution_factor(x.scale, node.quantisation(constant).scale, y.scale)
    found = node.emit(
        ops.Conv,
        node.output(),
        name,
        ordered=not turned,
        window=ops.Window(kernel=(1, 1)),
        **sum_fields(node, rows[:, :, None, None], bias, (read.lo, read.hi), [factor]),
    )
    if turned:
        front = (None,) * (len(node.output().shape) - 3)
        bound = Bound(found, (*front, *(1, 0, 2)[-len(node.output().shape) :]))
        node.network.bind(node.output(), bound)
        if not node.network.in_order(bound):
            node.network.unnamed(found)


def _constant_matrix(node: Node, tensor: FileTensor) -> npt.NDArray[np.int64]:
    assert tensor.data is not None
    if tensor.data.dtype.kind not in "iu":
        raise node.error(f"{tensor.label} holds no integers")
    return tensor.data.astype(np.int64).reshape(tensor.shape[-2:])


def _matrices(node: Node, position: int, turned: bool) -> str:
    """Return the tensor of the matrices of an input; turned: rows and columns are exchanged."""
    tensor = node.input(position)
    if bool(node.option(_OPTIONS[position])) == turned:
        return node.network.value(tensor)
    return node.network.turned(tensor)


def _columns(node: Node, position: int) -> int:
    """Return the columns of the matrices of an input, as they are multiplied."""
    return node.input(position).shape[-2 if node.option(_OPTIONS[position]) else -1]


def _rows(node: Node, position: int) -> int:
    """Return the rows of the matrices of an input, as they are multiplied."""
    return node.input(position).shape[-1 if node.option(_OPTIONS[position]) else -2]


def _mismatch(node: Node) -> Exception:
    first, second = (list(tensor.shape) for tensor in node.inputs)
    return node.error(
        f"matrices of shapes {first} and {second} cannot be multiplied",
        "the file is damaged; export it again",
    )


def _types(node: Node) -> bool:
    tensors = (*node.inputs, *node.outputs)
    if len(node.inputs) != 2 or len({tensor.type for tensor in tensors}) > 1:
        return False
    words = tensors[0].type == "INT16" and not any(sum((t.zero_points for t in tensors), ()))
    return words or tensors[0].type == "INT8"


OPERATORS = (
    Operator(
        "BATCH_MATMUL",
        "MatMul, or Conv of 1x1 for a constant",
        _multiply,
        (
            Constraint(
                "inputs and output are INT8, or INT16 with the zero point 0",
                _types,
                CONVERT,
            ),
            SAME_TYPE,
            Constraint(
                "inputs have two dimensions or more",
                lambda node: all(len(tensor.shape) >= 2 for tensor in node.inputs),
            ),
            Constraint(
                "one input is no constant",
                lambda node: any(tensor.data is None for tensor in node.inputs),
                "fold the constants before",
            ),
        ),
    ),
)
