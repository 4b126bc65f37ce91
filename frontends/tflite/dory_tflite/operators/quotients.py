"""DIV of bytes: a table where one byte decides both operands, otherwise a product.

As converters write Softsign, both operands depend on one byte. Of two tensors the first one is
multiplied by a table of the second one, which is searched so that all pairs of bytes have the
quotient of the interpreter.
"""

from __future__ import annotations

import numpy as np

from dory_core.api import Requant, ops
from dory_core.importing import Array, requant
from dory_tflite.byte_functions import Quantisation, quotients
from dory_tflite.fixed_point import INT32_MAX, FactorError, Integers
from dory_tflite.grids import canonical_shape
from dory_tflite.model import FileTensor
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.choices import function_of, origins
from dory_tflite.operators.common import ACTIVATION
from dory_tflite.operators.pairwise import spread
from dory_tflite.operators.tables import by_byte
from dory_tflite.places import broadcastable

_BITS = 8
_HINT = "multiply by the inverse of the divisor, 1 / x, which is a table"
_MOST_SHIFT = 30
_FAR = 1 << 62


def _is_one_value(tensor: FileTensor) -> bool:
    return tensor.data is not None and tensor.elements == 1


def _quotient(node: Node) -> None:
    origin = _origin(node)
    try:
        if origin:
            _of_one_byte(node, origin)
        else:
            _of_two(node)
    except FactorError as error:
        raise node.error(str(error), _HINT) from None


def _origin(node: Node) -> str:
    """Return the tensor whose bytes decide both operands, empty where there is none."""
    network = node.network
    computed = [t for t in (node.input(0), node.input(1)) if not _is_one_value(t)]
    if any(t.data is not None or t.shape != node.output().shape for t in computed):
        return ""
    known = [origins(network, network.value(tensor)) for tensor in computed]
    return next(
        (
            name
            for name in known[0]
            if network.tensors[name].bits == _BITS and all(name in one for one in known)
        ),
        "",
    )


def _of_one_byte(node: Node, origin: str) -> None:
    """Append the table of the quotients for each byte of a tensor."""
    network, output = node.network, node.output()
    start = Quantisation(1.0, 0, network.tensors[origin].signed)
    sides: list[Integers] = []
    for tensor in (node.input(0), node.input(1)):
        if tensor.data is not None:
            found = tensor.data.astype(np.int64).reshape(-1)
        else:
            found = function_of(network, network.value(tensor), origin, start.values)
        sides.append(found)
    values = _values(node, *np.broadcast_arrays(*sides))
    node.emit(ops.Lut, output, origin, table=by_byte(values, start))


def _values(node: Node, above: Integers, below: Integers) -> Integers:
    """Return the results for stored operands of one shape; raises FactorError."""
    tensors = (node.input(0), node.input(1), node.output())
    first, second, y = (node.quantisation(tensor) for tensor in tensors)
    scale = first.scale / second.scale / y.scale
    found = quotients(above - first.zero_point, below - second.zero_point, scale)
    return np.asarray(np.clip(found + y.zero_point, *node.clip(node.output())))


def _of_two(node: Node) -> None:
    """Append the product of the first operand and a table of the second one."""
    first, second = node.input(0), node.input(1)
    whole, x = canonical_shape(node.output()), node.quantisation(second)
    above, below = _reached(node, first), _reached(node, second)
    factors, step = _factors(node, above, below)
    zero = node.quantisation(first).zero_point
    steps: tuple[Requant | None, Requant | None] = (requant(add=-zero) if zero else None, None)
    table = np.zeros(256, np.int64)
    table[below - x.bounds[0]] = factors
    if second.data is not None:
        constant = table[node.stored_constant(second) - x.bounds[0]]
        _check(node, constant, second)
        fields = {"constant": Array(constant), "operand_requants": steps, "requants": (step,)}
        node.emit(ops.Mul, node.output(), spread(node, first, whole), **fields)
        return
    if first.data is not None:
        constant = node.stored_constant(first)
        _check(node, constant, first)
        name = spread(node, second, whole)
    else:
        name = node.network.value(second)
    name = node.network.hidden(ops.Lut, f"{node.label} inverse", (name,), table=by_byte(table, x))
    if first.data is not None:
        fields = {"constant": Array(constant), "operand_requants": steps[::-1]}
        node.emit(ops.Mul, node.output(), name, requants=(step,), **fields)
        return
    inputs = spread(node, first, whole), name
    node.emit(ops.Mul, node.output(), *inputs, operand_requants=steps, requants=(step,))


def _reached(node: Node, tensor: FileTensor) -> Integers:
    """Return the stored values that an operand can have, in rising order."""
    if tensor.data is not None:
        return np.unique(tensor.data.astype(np.int64))
    read = node.network.tensors[node.network.value(tensor)]
    return np.arange(read.lo, read.hi + 1)


def _check(node: Node, constant: Integers, tensor: FileTensor) -> None:
    if not broadcastable(constant, canonical_shape(node.output())):
        shape = list(node.output().shape)
        raise node.error(f"a constant of shape {list(tensor.shape)} for {shape}")


def _factors(node: Node, above: Integers, below: Integers) -> tuple[Integers, Requant]:
    """Return a factor for each divisor, and the step after the product with the dividend.

    Those of the fewest bits with which each pair has the interpreter's quotient. Raises:
    FactorError where there are none.
    """
    x, by, y = (node.quantisation(t) for t in (node.input(0), node.input(1), node.output()))
    lo, hi = node.clip(node.output())
    values = _values(node, *np.broadcast_arrays(above[:, None], below[None, :]))
    signs = np.where(below > by.zero_point, 1, -1)  # over 0, the interpreter's has the other sign
    turned = (above - x.zero_point)[:, None] * signs[None, :]
    levels, sizes = values - y.zero_point, np.maximum(np.abs(turned), 1)
    for shift in range(1, _MOST_SHIFT + 1):
        half = 1 << shift - 1
        # Rounded half away from zero: floor((product + half - (product < 0)) / 2^shift).
        least = np.where(turned > 0, (levels << shift) - half, (-levels - 1 << shift) + half)
        most = np.where(turned > 0, (levels + 1 << shift) - half, (-levels << shift) + half) - 1
        falls = turned < 0
        free_below = (turned == 0) | np.where(falls, values == hi, values == lo)
        free_above = (turned == 0) | np.where(falls, values == lo, values == hi)
        lows = np.where(free_below, 0, -(-least // sizes)).max(axis=0, initial=0)
        highs = np.where(free_above, _FAR, most // sizes).min(
            axis=0, initial=INT32_MAX // sizes.max()
        )
        if (lows <= highs).all():
            add = (y.zero_point << shift) + half
            step = requant(1, add, 1 << shift, lo, hi, add_negative=add - 1)
            return lows * signs, step
    raise FactorError("no products of 32 bits with a table of the divisor are its quotients")


def _is_signed(node: Node) -> bool:
    return {tensor.type for tensor in (*node.inputs[:2], *node.outputs)} == {"INT8"}


def _is_computed(node: Node) -> bool:
    return any(node.input(n).data is None for n in (0, 1))


OPERATORS = (
    Operator(
        "DIV",
        "Lut; Lut and Mul for two tensors",
        _quotient,
        (
            Constraint("operands and output are INT8", _is_signed),
            Constraint("one operand is no constant", _is_computed, "fold the constants before"),
            ACTIVATION,
        ),
    ),
)
