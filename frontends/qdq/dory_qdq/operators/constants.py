"""Pairs of a tensor and a constant: tables per tensor or channel, else an operand of the layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from dory_core.api import ops
from dory_core.importing import Array
from dory_qdq.call import Call
from dory_qdq.network import Axes
from dory_qdq.numerics import (
    Floats,
    Integers,
    Quantisation,
    dequantise,
    products,
    quantise_to,
)
from dory_qdq.operators.alignment import broadcast
from dory_qdq.operators.pairs import EXTREMES, Operand, function_of, in_order, lower_pair, sums_of
from dory_qdq.operators.tables import by_byte, check_numbers
from dory_qdq.values import Constant, Place, QuantisedConstant, Real

#: Functions of two reals, in the order of the file.
_FUNCTIONS: Mapping[str, Callable[[Floats, Floats], Floats]] = MappingProxyType(
    {
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "Div": np.divide,
        "Max": np.maximum,
        "Min": np.minimum,
        "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
        "Pow": lambda x, power: np.asarray(np.power(x.astype(np.float64), power), np.float32),
    }
)
#: Of these, those that two tensors may have.
_OF_TENSORS = ("Add", "Sub", "Mul", "Div", *EXTREMES)


def lower_two(call: Call) -> Place:
    """Append a function of two operands, one of which may be a constant."""
    if call.node.op in EXTREMES and len(call.inputs) != 2:
        return _of_several(call)
    if len(call.inputs) < 2:
        raise call.unquantised(1)
    if len(call.inputs) > 2:
        raise call.error(f"it has {len(call.inputs)} inputs; supported are two")
    first, second = call.inputs
    if isinstance(second, Constant | QuantisedConstant):
        return _with_constant(call, 0, 1)
    if isinstance(first, Constant | QuantisedConstant):
        return _with_constant(call, 1, 0)
    if call.node.op not in _OF_TENSORS:
        raise call.error("supported only if one operand is constant", "fix it in the export")
    return lower_pair(call)


def _of_several(call: Call) -> Place:
    """Append Max or Min of one operand, or of three and more: one pair after the other."""
    named = zip(call.inputs, call.node.inputs, strict=True)
    operands = sorted(named, key=lambda one: isinstance(one[0], Constant | QuantisedConstant))
    if not operands:
        raise call.unquantised(0)
    first, *others = operands if len(operands) > 1 else operands * 2
    value, name = first
    for left, (other, other_name) in enumerate(others, 1 - len(others)):
        node = replace(call.node, inputs=(name, other_name))
        pair = replace(call, node=node, inputs=(value, other))
        if left:  # not the result yet
            pair = replace(pair, result="", lo=None, hi=None)
        place = lower_two(pair)
        value = Real(place, call.output)
    return place


def _with_constant(call: Call, tensor: int, constant: int) -> Place:
    """Append tables: a constant per tensor or per channel leaves a function of one byte."""
    real, value = call.real(tensor), call.inputs[constant]
    assert isinstance(value, Constant | QuantisedConstant)
    shape = real.place.shape
    content = call.constant(constant)
    if broadcast(call, content.shape, shape) != shape:
        raise call.error(f"a constant of shape {list(content.shape)} on {list(shape)}")
    content = content.reshape((1,) * (len(shape) - content.ndim) + content.shape)
    wide = [n for n, size in enumerate(content.shape) if size > 1]
    if len(wide) > 1:
        return _with_whole(call, real, value, (tensor, constant))
    name, axes = call.tensor(real.place)
    if wide and axes[wide[0]] != 0:
        others = [n for n, size in enumerate(shape) if size > 1 and n not in wide]
        if len(others) > 2:
            raise call.error(
                f"a constant of shape {list(content.shape)} on {list(shape)}: too many dimensions"
            )
        found = dict(zip(others, (1, 2), strict=False)) | {wide[0]: 0}
        name, axes = call.tensor(real.place, tuple(found.get(n) for n in range(len(shape))))
    flat = content.reshape(-1)
    x = real.x
    if isinstance(value, QuantisedConstant) and value.scales.size == 1 and value.bits == 8:
        tables = _columns(call, name, real, value, tensor)
    else:
        result = _result(call, x, flat.astype(np.float32), tensor)
        check_numbers(call, name, x, result)
        tables = quantise_to(result, call.output, call.clip())
    table = tables[0] if len(tables) == 1 else tables
    output = call.emit(ops.Lut, name, table=by_byte(table, x))
    return call.network.placed(output, shape, axes)


def _columns(call: Call, name: str, real: Real, value: QuantisedConstant, tensor: int) -> Integers:
    """Return the function of the tensor's byte for each stored value of the constant."""
    signed = call.turned or bool(value.values.min() < 0 or value.zeros.min() < 0)
    other = Quantisation(
        float(value.scales.reshape(-1)[0]), int(value.zeros.reshape(-1)[0]), signed
    )
    x, y, clip = real.x, call.output, call.clip()
    op = call.node.op
    if not op.endswith(("Add", "Mul")):
        result = _result(call, x, value.reals.reshape(-1), tensor)
        check_numbers(call, name, x, result)
        return quantise_to(result, y, clip)
    function = products if op.endswith("Mul") else sums_of(call)
    order = (0, 1) if tensor == 0 else (1, 0)
    table = in_order(function, (x, other), order, y, clip)
    stored = value.values.reshape(-1) - other.bounds[0]
    return np.asarray(table[:, stored].T)


def _result(call: Call, x: Quantisation, constants: Floats, tensor: int) -> Floats:
    """Return reals by constant, and by rising stored value of the tensor."""
    function = _FUNCTIONS[call.node.op.split(".")[-1].removeprefix("QLinear")]
    reals, other = dequantise(x.values, x)[None, :], constants[:, None]
    with np.errstate(all="ignore"):
        result = function(reals, other) if tensor == 0 else function(other, reals)
    return np.asarray(np.broadcast_to(result, (len(constants), len(x.values))), np.float32)


def _with_whole(
    call: Call, real: Real, value: Constant | QuantisedConstant, order: tuple[int, int]
) -> Place:
    """Append a pair whose constant has several sizes: it is the second operand of the layer."""
    shape, op = real.place.shape, call.node.op
    if op not in _OF_TENSORS:
        raise call.error(
            f"a constant of shape {list(call.constant(order[1]).shape)} on {list(shape)};"
            " supported are one value and one per channel"
        )
    if not isinstance(value, QuantisedConstant) or value.scales.size != 1 or value.bits != 8:
        raise call.error(
            f"its constant '{call.node.input(order[1])}' has several sizes; supported are 8 bits"
            " with one scale",
            "let a DequantizeLinear with one scale give it",
        )
    name, axes = call.tensor(real.place)
    stored = value.values
    signed = call.turned or bool(stored.min() < 0 or value.zeros.min() < 0)
    x = Quantisation(float(value.scales.reshape(-1)[0]), int(value.zeros.reshape(-1)[0]), signed)
    operands = Operand(name, real.x), as_operand(stored, x, len(shape), axes)
    return call.network.placed(function_of(call, operands, order), shape, axes)


def as_operand(stored: Integers, x: Quantisation, rank: int, axes: Axes) -> Operand:
    """Return stored values of a constant as an operand.

    Args:
        stored: Of as many dimensions as a tensor of ``rank``, or fewer.
        x: What they mean.
        rank: Dimensions of the result in the file.
        axes: How those lie in its tensor.
    """
    stored = stored.reshape((1,) * (rank - stored.ndim) + stored.shape)
    dimensions = [axes.index(axis) if axis in axes else None for axis in range(3)]
    given = [n for n in dimensions if n is not None]
    moved = stored.transpose([n for n in range(stored.ndim) if n not in given] + given)
    sizes = [1 if n is None else stored.shape[n] for n in dimensions]
    return Operand("", x, Array(moved.reshape(sizes)))
