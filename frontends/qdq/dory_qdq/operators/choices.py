"""Where by truth values, and Cast.

Where takes the larger of two operands, each of which is the lowest value where it is not chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import ops
from dory_core.importing import Array
from dory_qdq.call import Call
from dory_qdq.network import Axes, Network
from dory_qdq.numerics import Floats, Quantisation, dequantise, quantise_to, single
from dory_qdq.operators.alignment import broadcast, of_rank
from dory_qdq.operators.comparisons import TRUTH, TRUTHS, truth
from dory_qdq.operators.constants import as_operand
from dory_qdq.operators.pairs import Operand, emit_pair
from dory_qdq.operators.tables import by_byte
from dory_qdq.values import (
    Constant,
    Mask,
    Pending,
    Place,
    Real,
    Shape,
    Value,
)

_FLOAT = 1
#: Bounds of integer types by their number in ONNX.
_INTEGERS: Mapping[int, tuple[int, int]] = MappingProxyType(
    {
        2: (0, 255),
        3: (-128, 127),
        4: (0, 65535),
        5: (-32768, 32767),
        6: (-(1 << 31), (1 << 31) - 1),
        7: (-(1 << 62), 1 << 62),
    }
)


def known_already(call: Call) -> Value | None:
    """Return truth values, or the reals that a Cast to reals leaves as they are; else None."""
    if call.node.op in TRUTHS:
        return truth(call)
    value = call.inputs[0] if call.inputs else None
    passed = call.node.op == "Cast" and call.attribute("to", 0) == _FLOAT
    return value if passed and isinstance(value, Pending | Real) else None


def lower_where(call: Call) -> Place:
    """Append Where: elements of two operands, by truth values."""
    mask, branches = call.inputs[0], call.inputs[1:3]
    if isinstance(mask, Constant) and mask.values.dtype == np.bool_:
        shapes = [tuple(mask.values.shape)]
    elif isinstance(mask, Mask):
        shapes = [mask.place.shape]
    else:
        raise call.error(
            f"its condition '{call.node.input(0)}' is no truth values",
            "compare with one constant, or write the choice as Max, Min, Relu or Clip",
        )
    if len(branches) != 2 or not any(isinstance(branch, Real) for branch in branches):
        raise call.unquantised(1)
    for n, branch in enumerate(branches, 1):
        is_real = isinstance(branch, Real)
        shapes.append(branch.place.shape if is_real else call.constant(n).shape)
    shape: Shape = ()
    for each in shapes:
        shape = broadcast(call, shape, each)
    axes = _axes(call, shape, (mask, *branches))
    condition = _condition(call, mask, len(shape), axes)
    parts = [_part(call, condition, n, len(shape), axes) for n in (1, 2)]
    return call.network.placed(_joined(call, ops.Maximum, parts[0], parts[1]), shape, axes)


def _axes(call: Call, shape: Shape, values: tuple[Value | None, ...]) -> Axes:
    """Return the axes of a tensor that has the shape of the result."""
    for value in values:
        if isinstance(value, Real | Mask) and value.place.shape == shape:
            return call.tensor(value.place)[1]
    raise call.error(
        f"its result has the shape {list(shape)}, which none of its tensors has",
        "expand one of them before",
    )


@dataclass(frozen=True, slots=True)
class _Condition:
    """Truth values as an operand. holds: by rising stored value of it."""

    operand: Operand
    holds: npt.NDArray[np.bool_]

    def chosen(self, call: Call, position: int, value: int, other: int) -> Operand:
        """Return a value where the input at a position is chosen, and another one elsewhere."""
        chosen = self.holds == (position == 1)
        return self.operand.mapped(call, np.where(chosen, value, other))


def _condition(call: Call, mask: Value | None, rank: int, axes: Axes) -> _Condition:
    if isinstance(mask, Mask):
        name, _ = call.tensor(of_rank(mask.place, rank), axes)
        return _Condition(Operand(name, mask.x), mask.array)
    assert isinstance(mask, Constant)
    operand = as_operand(mask.values.astype(np.int64), TRUTH, rank, axes)
    return _Condition(operand, TRUTH.values > 0)


def _part(call: Call, condition: _Condition, position: int, rank: int, axes: Axes) -> Operand:
    """Return a rounded operand where it is chosen, and elsewhere the lowest value."""
    value, y, (lo, hi) = call.inputs[position], call.output, call.clip()
    if isinstance(value, Real):
        name, _ = call.tensor(of_rank(value.place, rank), axes)
        rounded = Operand(name, value.x)
        if value.x != y or (lo, hi) != y.bounds:
            table = quantise_to(dequantise(value.x.values, value.x), y, (lo, hi))
            rounded = rounded.mapped(call, table)
        return _least(call, rounded, condition.chosen(call, position, hi, lo))
    content = call.constant(position)
    if content.dtype.kind != "f" or np.isnan(content).any():
        raise call.error(f"'{call.node.input(position)}' holds no numbers", "quantise it")
    stored = quantise_to(single(content), y, (lo, hi))
    if stored.size == 1:
        return condition.chosen(call, position, int(stored.reshape(-1)[0]), lo)
    limit = condition.chosen(call, position, hi, lo)
    return _least(call, as_operand(stored, y, rank, axes), limit)


def _least(call: Call, one: Operand, other: Operand) -> Operand:
    """Return the smaller one of two operands."""
    if one.values is not None and other.values is not None:
        return replace(one, values=Array(np.minimum(one.values.values, other.values.values)))
    inner = replace(call, result="")
    return Operand(_joined(inner, ops.Minimum, one, other), call.output)


def _joined(call: Call, kind: type[ops.Operator], one: Operand, other: Operand) -> str:
    """Append a pair, whose first operand has the shape of the result."""
    tensors = call.network.tensors
    sizes = [0 if p.values is not None else tensors[p.name].elements for p in (one, other)]
    if sizes[0] < sizes[1]:
        one, other = other, one
    shapes = [tensors[p.name].shape if p.values is None else p.values.shape for p in (one, other)]
    if one.values is not None or any(b not in (1, a) for a, b in zip(*shapes, strict=True)):
        raise call.error(
            f"operands of shapes (C, H, W) {shapes[0]} and {shapes[1]} are both broadcast",
            "expand one of them before",
        )
    return emit_pair(call, kind, (one, other))


def mask_of_input(network: Network, place: Place) -> Mask:
    """Return a network input of truth values."""
    tensors = network.tensors
    tensors[place.tensor] = replace(tensors[place.tensor], lo=0, hi=1)
    return Mask.of(place, TRUTH, TRUTH.values > 0)


def lower_cast(call: Call) -> Place:
    """Append the table of a Cast of truth values to reals, or of reals to integers."""
    value, kind = next(iter(call.inputs), None), int(call.attribute("to", 0))
    if kind not in (_INTEGERS if isinstance(value, Real) else (_FLOAT,)):
        raise call.error(
            f"it casts to type {kind}; supported are truth values to reals, and reals to integers"
            " and back",
            "leave it out, or quantise its result",
        )
    if isinstance(value, Mask):
        place, x = value.place, value.x
        reals: Floats = single(value.array)
    else:
        real = call.real()
        place, x = real.place, real.x
        reals = np.trunc(dequantise(x.values, x))
        _check_cast(call, place, x, reals, _INTEGERS[kind])
    name, axes = call.tensor(place)
    table = quantise_to(reals, call.output, call.clip())
    return call.network.placed(call.emit(ops.Lut, name, table=by_byte(table, x)), place.shape, axes)


def _check_cast(
    call: Call, place: Place, x: Quantisation, reals: npt.NDArray[Any], bounds: tuple[int, int]
) -> None:
    """Raise NotSupported where a stored value that is reached exceeds the type."""
    tensor, least = call.network.tensors[place.tensor], x.bounds[0]
    reached = reals[tensor.lo - least : tensor.hi - least + 1]
    if reached.min() < bounds[0] or reached.max() > bounds[1]:
        raise call.error(
            f"its input reaches from {reached.min():g} to {reached.max():g}, which its type does"
            " not hold",
            "clip its input",
        )
