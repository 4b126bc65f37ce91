"""DIV of bytes where one byte decides both operands, as converters write Softsign: a table."""

from __future__ import annotations

import numpy as np

from dory_core.api import ops
from dory_tflite.byte_functions import Quantisation, quotients
from dory_tflite.fixed_point import Integers
from dory_tflite.model import FileTensor
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.choices import function_of, origins
from dory_tflite.operators.common import ACTIVATION
from dory_tflite.operators.tables import by_byte

_BITS = 8
_HINT = "multiply by the inverse of the divisor, 1 / x, which is a table"


def _is_one_value(tensor: FileTensor) -> bool:
    return tensor.data is not None and tensor.elements == 1


def _quotient(node: Node) -> None:
    network, output = node.network, node.output()
    computed = [t for t in (node.input(0), node.input(1)) if not _is_one_value(t)]
    if any(tensor.data is not None for tensor in computed):
        raise node.error("it has a constant of several values; supported is one", _HINT)
    if any(tensor.shape != output.shape for tensor in computed):
        raise node.error("one operand is repeated", _HINT)
    names = [network.value(tensor) for tensor in computed]
    known = [origins(network, name) for name in names]
    origin = next(
        (
            n
            for n in known[0]
            if network.tensors[n].bits == _BITS and all(n in one for one in known)
        ),
        "",
    )
    if not origin:
        raise node.error("both operands are computed, and no byte decides both", _HINT)
    start = Quantisation(1.0, 0, network.tensors[origin].signed)
    sides: list[Integers] = []
    for tensor in (node.input(0), node.input(1)):
        if tensor.data is not None:
            found = tensor.data.astype(np.int64).reshape(-1)
        else:
            found = function_of(network, network.value(tensor), origin, start.values)
        sides.append(found - node.quantisation(tensor).zero_point)
    first, second, y = (node.quantisation(t) for t in (*(node.input(n) for n in (0, 1)), output))
    above, below = np.broadcast_arrays(*sides)
    values = quotients(above, below, first.scale / second.scale / y.scale) + y.zero_point
    table = by_byte(np.clip(values, *node.clip(output)), start)
    node.emit(ops.Lut, output, origin, table=table)


def _is_signed(node: Node) -> bool:
    return {tensor.type for tensor in (*node.inputs[:2], *node.outputs)} == {"INT8"}


def _is_computed(node: Node) -> bool:
    return any(node.input(n).data is None for n in (0, 1))


OPERATORS = (
    Operator(
        "DIV",
        "Lut",
        _quotient,
        (
            Constraint("operands and output are INT8", _is_signed),
            Constraint("one operand is no constant", _is_computed, "fold the constants before"),
            ACTIVATION,
        ),
    ),
)
