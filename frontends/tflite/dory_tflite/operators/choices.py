"""Comparisons of bytes with a constant, and SELECT between functions of the same bytes.

The truth values of a comparison are a table over bytes, and so is a choice between results that
depend on the same byte only, as converters write SELU. Source: ``micro/kernels/comparisons.cc``.
"""

from __future__ import annotations

import numpy as np

from dory_core.api import ops
from dory_tflite.fixed_point import Integers, multiply, quantize_multiplier
from dory_tflite.network import Network
from dory_tflite.node import BYTES, Constraint, Node, Operator
from dory_tflite.operators.common import constant
from dory_tflite.operators.tables import by_byte
from dory_tflite.places import Bound
from dory_tflite.reals import COMPARISONS, Reals

_SHIFT = 8  # of operands, before their scales
_HINT = "write the choice as an operator that TensorFlow Lite has, such as ELU or LEAKY_RELU"


def _compare(node: Node) -> None:
    """Say for which bytes of the first operand the comparison holds."""
    x, other = node.quantisation(node.input(0)), node.quantisation(node.input(1))
    stored = node.constant(1).astype(np.int64).reshape(-1)[0]
    sides = [
        multiply(values << _SHIFT, quantize_multiplier(one.scale))
        for values, one in ((x.centred, x), (np.asarray(stored - other.zero_point), other))
    ]
    holds = COMPARISONS[node.op.code](*sides)
    name = node.network.value(node.input(0))
    node.network.bind(node.output(), Bound(name, real=Reals(x, tuple(holds.tolist()))))


def is_choice(node: Node) -> bool:
    """Return True for a SELECT that gives bytes."""
    return node.op.code in ("SELECT", "SELECT_V2") and bool(node.output().scales)


def select(node: Node) -> None:
    """Append the table of a choice between functions of one byte."""
    network, place = node.network, node.network.place(node.input(0))
    if place.real is None:
        raise node.error(f"{node.input(0).label} is no comparison with a constant", _HINT)
    y = node.quantisation(node.output())
    values = place.real.x.values
    parts = []
    for position in (1, 2):
        tensor = node.input(position)
        if tensor.type != node.output().type or node.quantisation(tensor) != y:
            raise node.error(f"{tensor.label} has another scale or type than the result")
        if tensor.data is not None and tensor.elements == 1:
            parts.append(np.full(len(values), int(tensor.data.reshape(-1)[0])))
            continue
        known: list[str] = []
        if tensor.data is None and tensor.shape == node.output().shape:
            known = origins(network, name := network.value(tensor))
        if place.name not in known:
            raise node.error(
                f"{tensor.label} is no function of the bytes that its condition compares", _HINT
            )
        parts.append(function_of(network, name, place.name, values))
    table = np.where(place.real.array, parts[0], parts[1])
    node.emit(ops.Lut, node.output(), place.name, table=by_byte(table, place.real.x))


def origins(network: Network, name: str) -> list[str]:
    """Return the tensors of which each element decides that of a tensor at its place.

    The tensor itself is the first one.
    """
    found = [name]
    makers = {op.output: op for op in network.ops}
    while (op := makers.get(found[-1])) is not None:
        if len(op.inputs) != 1 or not _is_of_one_element(op):
            break
        found.append(op.inputs[0])
    return found


def function_of(network: Network, name: str, origin: str, values: Integers) -> Integers:
    """Return a tensor for each value of one of its :func:`origins`."""
    found, makers = values, {op.output: op for op in network.ops}
    known = origins(network, name)
    for tensor in reversed(known[: known.index(origin)]):
        op = makers[tensor]
        found = op.compute([found.reshape(1, 1, -1)])
        for step in op.requants:
            found = step.apply(found)
    return found.reshape(-1)


def _is_of_one_element(op: ops.Operator) -> bool:
    """Return True when an element of the output depends on one value of the input, anywhere."""
    table, second = getattr(op, "table", None), getattr(op, "constant", None)
    if op.kind == "Lut":
        return table is not None and len(table.shape) == 1
    return second is not None and second.values.size == 1


def _one_value(node: Node) -> bool:
    return node.input(1).elements == 1


def _below_one(node: Node) -> bool:
    return all(node.quantisation(node.input(n)).scale < 1 for n in (0, 1))


_BYTES = Constraint(
    "operands are both INT8 or both UINT8",
    lambda node: node.input(0).type == node.input(1).type and node.input(0).type in BYTES,
    "convert the network with full integer quantisation",
)
OPERATORS = tuple(
    Operator(
        code,
        "nothing: a table of what reads it",
        _compare,
        (
            _BYTES,
            constant(1, "the second operand"),
            Constraint("the second operand is one value", _one_value),
            Constraint("the scales are below 1", _below_one),
        ),
    )
    for code in COMPARISONS
)
