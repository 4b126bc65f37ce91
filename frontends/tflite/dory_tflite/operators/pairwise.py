"""ADD, SUB, MUL, SQUARED_DIFFERENCE, MAXIMUM and MINIMUM, with constants and broadcasts."""

from __future__ import annotations

from typing import Any

import numpy as np

from dory_core.api import Requant, ops
from dory_core.importing import Array, requant
from dory_tflite.fixed_point import INT32_MAX, Multiplier, quantize_multiplier
from dory_tflite.grids import Triple, canonical_shape, repeats_by_axes
from dory_tflite.model import FileTensor
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.common import ACTIVATION, SAME_QUANTISATION, SAME_TYPE, activations
from dory_tflite.places import broadcastable
from dory_tflite.preparation import (
    ADD_SHIFTS,
    SQUARE_SHIFTS,
    AddFactors,
    add_factors,
    square_factors,
)
from dory_tflite.requantisation import negated, operand_step, rescaling

Steps = tuple[Requant | None, Requant | None]

_HALF_INT32 = 1 << 30


def _operands(node: Node, steps: Steps | None) -> tuple[list[str], dict[str, Any]]:
    """Return the inputs of a layer and its fields; the operand with the output's shape is first."""
    first, second = node.input(0), node.input(1)
    whole = canonical_shape(node.output())
    if first.data is not None or (second.data is None and canonical_shape(first) != whole):
        first, second = second, first
        steps = None if steps is None else (steps[1], steps[0])
    fields: dict[str, Any] = {} if steps is None else {"operand_requants": steps}
    inputs = [spread(node, first, whole)]
    if second.data is not None:
        values = node.stored_constant(second)
        if not broadcastable(values, whole):
            raise node.error(f"a constant of shape {list(second.shape)} on {list(first.shape)}")
        fields["constant"] = Array(values)
    else:
        inputs.append(node.network.value(second))
    return inputs, fields


def spread(node: Node, tensor: FileTensor, whole: Triple) -> str:
    """Return a tensor in the shape (C, H, W) of the output, repeated along its axes of size 1."""
    network, name = node.network, node.network.value(tensor)
    read = network.tensors[name]
    if any(size not in (1, most) for size, most in zip(read.shape, whole, strict=True)):
        raise node.error(
            f"operands of shapes {list(node.input(0).shape)} and {list(node.input(1).shape)} for"
            f" {list(node.output().shape)}"
        )
    label = f"{node.label} repeated"
    if read.channels != whole[0]:
        name = network.hidden(
            ops.Conv,
            label,
            (name,),
            window=ops.Window(kernel=(1, 1)),
            weights=Array(np.ones((whole[0], 1, 1, 1), np.int64)),
            weight_bits=8,
            requants=(requant(1, 0, 1, read.lo, read.hi),),
        )
    if (read.height, read.width) != whole[1:]:
        rows, columns = (
            Array([[n if size > 1 else 0] * 2 + [1, 0] for n in range(most)])
            for size, most in zip((read.height, read.width), whole[1:], strict=True)
        )
        name = network.hidden(ops.Resize, label, (name,), rows=rows, columns=columns)
    return name


def _pair(
    node: Node, kind: type[ops.Operator], steps: Steps | None, requants: tuple[Requant, ...]
) -> None:
    inputs, fields = _operands(node, steps)
    node.emit(kind, node.output(), *inputs, requants=requants, **fields)


def _sum(node: Node, factors: AddFactors, difference: bool) -> None:
    first, second = (node.quantisation(node.input(n)) for n in (0, 1))
    y = node.quantisation(node.output())
    shift = ADD_SHIFTS[y.bits]
    steps = [
        operand_step(factor, shift, x.zero_point)
        for factor, x in ((factors.first, first), (factors.second, second))
    ]
    if difference:
        steps[1] = negated(steps[1])
    # Both operands have factors of at most 1/2; those of 16 bits have the zero point 0.
    reach = 2 * 255 << shift if y.bits == 8 else (1 << y.bits - 1 + shift) + 2
    step = rescaling([factors.output], [(-reach, reach)], y.zero_point, node.clip(node.output()))
    _pair(node, ops.Add, (steps[0], steps[1]), (step,))


def _scales(node: Node) -> tuple[float, float, float]:
    tensors = (node.input(0), node.input(1), node.output())
    first, second, y = (node.quantisation(tensor).scale for tensor in tensors)
    return first, second, y


def _bits(node: Node) -> int:
    return node.quantisation(node.output()).bits


def _add(node: Node) -> None:
    _sum(node, add_factors(*_scales(node), _bits(node)), difference=False)


def _sub(node: Node) -> None:
    _sum(node, add_factors(*_scales(node), _bits(node)), difference=True)


def _mul(node: Node) -> None:
    first, second, output = _scales(node)
    zeros = [node.quantisation(node.input(n)).zero_point for n in (0, 1)]
    y = node.quantisation(node.output())
    factor = quantize_multiplier(first * second / output)
    reach = 255 * 255 if y.bits == 8 else _HALF_INT32
    _check_product(node, factor, reach)
    step = rescaling(
        [factor],
        [(-reach, reach)],
        y.zero_point,
        node.clip(node.output()),
    )
    steps = [requant(add=-zero) if zero else None for zero in zeros]
    _pair(node, ops.Mul, (steps[0], steps[1]), (step,))


def _check_product(node: Node, factor: Multiplier, reach: int) -> None:
    """Raise NotSupported where the interpreter's 32 bits would wrap, as those of words may."""
    if node.output().type == "INT16" and reach << factor.left_shift > INT32_MAX:
        raise node.error("its scales bring products beyond 32 bits", "calibrate it again")


def _squared_difference(node: Node) -> None:
    factors, shift = square_factors(*_scales(node), _bits(node)), SQUARE_SHIFTS[_bits(node)]
    first, second = (
        operand_step(factor, shift, node.quantisation(node.input(n)).zero_point)
        for n, factor in enumerate((factors.first, factors.second))
    )
    inputs, fields = _operands(node, (first, negated(second)))
    label = f"{node.label} difference"
    difference = node.network.hidden(ops.Add, label, inputs, **fields)
    y = node.quantisation(node.output())
    reach = (255 << shift) ** 2 if y.bits == 8 else _HALF_INT32
    _check_product(node, factors.output, reach)
    step = rescaling([factors.output], [(0, reach)], y.zero_point, y.bounds)
    node.emit(ops.Mul, node.output(), difference, difference, requants=(step,))


def _extreme(node: Node) -> None:
    _pair(node, ops.Maximum if node.op.code == "MAXIMUM" else ops.Minimum, None, ())


def _not_both_constant(node: Node) -> bool:
    tensors: tuple[FileTensor, ...] = (node.input(0), node.input(1))
    return any(tensor.data is None for tensor in tensors)


def _keep_axes(node: Node) -> bool:
    whole = node.output()
    return all(repeats_by_axes(node.input(n), whole) for n in (0, 1))


_COMMON = (
    Constraint(
        "operands of more than four dimensions have the output's sizes, or 1: in the last"
        " dimension, in the one before whose size is not 1, and in all others together",
        _keep_axes,
    ),
    activations(2),
    SAME_TYPE,
    Constraint("one operand is no constant", _not_both_constant, "fold the constants before"),
)

OPERATORS = (
    Operator("ADD", "Add", _add, (*_COMMON, ACTIVATION)),
    Operator("SUB", "Add", _sub, (*_COMMON, ACTIVATION)),
    Operator("MUL", "Mul", _mul, (*_COMMON, ACTIVATION)),
    Operator(
        "SQUARED_DIFFERENCE",
        "Add and Mul",
        _squared_difference,
        (
            *_COMMON,
            Constraint(
                "the input is INT8 or INT16", lambda node: node.input().type in ("INT8", "INT16")
            ),
        ),
    ),
    Operator("MAXIMUM", "Maximum", _extreme, (*_COMMON, SAME_QUANTISATION)),
    Operator("MINIMUM", "Minimum", _extreme, (*_COMMON, SAME_QUANTISATION)),
)
