"""Comparisons, and operators of truth values.

A comparison with one constant is a table over bytes. Any other one is the sign of a difference: the
second operand is replaced by a stored value of the first one that has the same order among all.
Truth values of several tensors are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from dory_core.api import ops
from dory_core.importing import requant
from dory_qdq.call import Call
from dory_qdq.network import Axes
from dory_qdq.numerics import Floats, Integers, Quantisation, dequantise, single
from dory_qdq.operators.alignment import aligned, broadcast
from dory_qdq.operators.constants import as_operand
from dory_qdq.operators.pairs import Operand
from dory_qdq.values import Constant, Mask, QuantisedConstant, Shape

#: What truth values are stored as.
TRUTH = Quantisation(1.0, 0, False)
_SIGN = Quantisation(1.0, 0, True)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "Greater": np.greater,
        "GreaterOrEqual": np.greater_equal,
        "Less": np.less,
        "LessOrEqual": np.less_equal,
        "Equal": np.equal,
    }
)
#: Comparisons whose operands have changed places.
_TURNED = MappingProxyType(
    {
        "Greater": "Less",
        "GreaterOrEqual": "LessOrEqual",
        "Less": "Greater",
        "LessOrEqual": "GreaterOrEqual",
        "Equal": "Equal",
    }
)
_JOINED: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
)
#: Operators that give truth values.
TRUTHS = frozenset([*_COMPARISONS, *_JOINED, "Not"])
#: Operators whose first input is truth values.
READ_TRUTHS = frozenset(["Where", "Not", *_JOINED])


def truth(call: Call) -> Mask:
    """Return the truth values of a comparison or of operators of them."""
    op = call.node.op
    if op in _COMPARISONS:
        return _compared(call)
    masks = []
    for n, mask in enumerate(call.inputs):
        if not isinstance(mask, Mask):
            raise call.error(
                f"'{call.node.input(n)}' is no comparison",
                "join comparisons and inputs of truth values, and fold constants",
            )
        masks.append(mask)
    if not masks:
        raise call.unquantised(0)
    found = masks[0]
    if op == "Not":
        return found.become(~found.array)
    for mask in masks[1:]:
        found = _joined(call, found, mask)
    return found


def _joined(call: Call, one: Mask, other: Mask) -> Mask:
    """Return And, Or or Xor: a table, or the sum of the truth values of two tensors."""
    function = _JOINED[call.node.op]
    if one.place == other.place and one.x == other.x:
        return one.become(function(one.array, other.array))
    found = aligned(call, one.place, other.place)
    masks = [(one, other)[n] for n in found.order]
    first, second = (
        _stored(call, name, mask) for name, mask in zip(found.names, masks, strict=True)
    )
    total = call.network.append(
        ops.Add, call.node.title, (first, second), requants=(requant(1, 0, 1, 0, 2),)
    )
    place = call.network.placed(total, found.shape, found.axes)
    return Mask.of(place, TRUTH, function(TRUTH.values > 0, TRUTH.values > 1))


def _stored(call: Call, name: str, mask: Mask) -> str:
    """Return a tensor of zeros and ones."""
    if mask.x == TRUTH and mask.holds == tuple((TRUTH.values > 0).tolist()):
        tensor = call.network.tensors[name]
        if tensor.lo >= 0 and tensor.hi <= 1:
            return name
    return Operand(name, mask.x).mapped(call, mask.array.astype(np.int64)).name


def _compared(call: Call) -> Mask:
    """Return a comparison with a constant, or of two tensors."""
    op = call.node.op
    constant = [isinstance(value, Constant | QuantisedConstant) for value in call.inputs[:2]]
    if True not in constant:
        return _of_tensors(call)
    at = constant.index(True)
    real, content = call.real(1 - at), single(call.constant(at))
    reals = dequantise(real.x.values, real.x)
    if at == 0:
        op = _TURNED[op]
    if content.size == 1:
        return Mask.of(real.place, real.x, _COMPARISONS[op](reals, content.reshape(-1)[0]))
    shape = real.place.shape
    if broadcast(call, content.shape, shape) != shape or np.isnan(content).any():
        raise call.error(
            f"it compares a tensor of shape {list(shape)} with a constant of shape"
            f" {list(content.shape)}, or with what is no number",
            "expand the tensor before, and compare with numbers",
        )
    name, axes = call.tensor(real.place)
    other = as_operand(_levels(op, real.x, content), real.x, len(shape), axes)
    return _sign(call, op, (name,), shape, axes, constant=other.values)


def _of_tensors(call: Call) -> Mask:
    """Append the sign of the difference of two tensors, in steps of the first one."""
    both = call.real(0), call.real(1)
    found = aligned(call, both[0].place, both[1].place)
    op = call.node.op if found.order == (0, 1) else _TURNED[call.node.op]
    x, by = (both[n].x for n in found.order)
    levels, (name, other) = _levels(op, x, dequantise(by.values, by)), found.names
    if not np.array_equal(levels, by.values):
        other = Operand(other, by).mapped(call, levels).name
    return _sign(call, op, (name, other), found.shape, found.axes)


def _levels(op: str, x: Quantisation, other: Floats) -> Integers:
    """Return stored values that compare with those of a tensor as other reals do.

    They may be one below or above the stored values of the tensor.
    """
    reals = dequantise(x.values, x)
    if op in ("Greater", "LessOrEqual"):
        return np.asarray(x.bounds[0] - 1 + np.searchsorted(reals, other, side="right"))
    levels = np.asarray(x.bounds[0] + np.searchsorted(reals, other, side="left"))
    if op == "Equal":
        at = np.minimum(levels - x.bounds[0], len(reals) - 1)
        levels = np.where(reals[at] == other, levels, x.bounds[0] - 1)
    return levels


def _sign(
    call: Call, op: str, names: tuple[str, ...], shape: Shape, axes: Axes, **fields: Any
) -> Mask:
    """Append a difference cut to -1, 0 and 1, and return what a comparison says of it."""
    output = call.network.append(
        ops.Add,
        call.node.title,
        names,
        operand_requants=(None, requant(-1)),
        requants=(requant(1, 0, 1, -1, 1),),
        **fields,
    )
    place = call.network.placed(output, shape, axes)
    return Mask.of(place, _SIGN, _COMPARISONS[op](_SIGN.values, 0))
