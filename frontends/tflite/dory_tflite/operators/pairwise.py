"""ADD, SUB, MUL, MAXIMUM and MINIMUM, with constants and broadcasts."""

from __future__ import annotations

from typing import Any

from dory_core.api import Requant, ops
from dory_core.importing import Array, requant
from dory_tflite.fixed_point import quantize_multiplier
from dory_tflite.model import FileTensor
from dory_tflite.network import broadcastable, canonical_shape
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.common import ACTIVATION, SAME_QUANTISATION, SAME_TYPE, byte_tensors
from dory_tflite.preparation import ADD_SHIFT, AddFactors, add_factors, sub_factors
from dory_tflite.requantisation import negated, operand_step, rescaling

Steps = tuple[Requant | None, Requant | None]


def _pair(
    node: Node, kind: type[ops.Operator], steps: Steps | None, requants: tuple[Requant, ...]
) -> None:
    """Append the layer; the operand with the shape of the output comes first."""
    first, second = node.input(0), node.input(1)
    whole = canonical_shape(node.output())
    if first.data is not None or canonical_shape(first) != whole:
        first, second = second, first
        steps = None if steps is None else (steps[1], steps[0])
    if first.data is not None or canonical_shape(first) != whole:
        raise node.error(
            f"operands of shapes {list(first.shape)} and {list(second.shape)} are both broadcast"
        )
    fields: dict[str, Any] = {"requants": requants}
    if steps is not None:
        fields["operand_requants"] = steps
    inputs = [node.network.value(first)]
    if second.data is not None:
        values = node.stored_constant(second)
        if not broadcastable(values, whole):
            raise node.error(f"a constant of shape {list(second.shape)} on {list(first.shape)}")
        fields["constant"] = Array(values)
    else:
        inputs.append(node.network.value(second))
    node.emit(kind, node.output(), *inputs, **fields)


def _sum(node: Node, factors: AddFactors, difference: bool) -> None:
    first, second = (node.quantisation(node.input(n)) for n in (0, 1))
    y = node.quantisation(node.output())
    steps = [
        operand_step(factor, ADD_SHIFT, x.zero_point)
        for factor, x in ((factors.first, first), (factors.second, second))
    ]
    if difference:
        steps[1] = negated(steps[1])
    reach = 2 * 255 << ADD_SHIFT  # both operands have factors of at most 1/2
    step = rescaling([factors.output], [(-reach, reach)], y.zero_point, node.clip(node.output()))
    _pair(node, ops.Add, (steps[0], steps[1]), (step,))


def _scales(node: Node) -> tuple[float, float, float]:
    tensors = (node.input(0), node.input(1), node.output())
    first, second, y = (node.quantisation(tensor).scale for tensor in tensors)
    return first, second, y


def _add(node: Node) -> None:
    _sum(node, add_factors(*_scales(node)), difference=False)


def _sub(node: Node) -> None:
    _sum(node, sub_factors(*_scales(node)), difference=True)


def _mul(node: Node) -> None:
    first, second, output = _scales(node)
    zeros = [node.quantisation(node.input(n)).zero_point for n in (0, 1)]
    y = node.quantisation(node.output())
    reach = 255 * 255
    step = rescaling(
        [quantize_multiplier(first * second / output)],
        [(-reach, reach)],
        y.zero_point,
        node.clip(node.output()),
    )
    steps = [requant(add=-zero) if zero else None for zero in zeros]
    _pair(node, ops.Mul, (steps[0], steps[1]), (step,))


def _extreme(node: Node) -> None:
    _pair(node, ops.Maximum if node.op.code == "MAXIMUM" else ops.Minimum, None, ())


def _not_both_constant(node: Node) -> bool:
    tensors: tuple[FileTensor, ...] = (node.input(0), node.input(1))
    return any(tensor.data is None for tensor in tensors)


_COMMON = (
    byte_tensors(2),
    SAME_TYPE,
    Constraint("one operand is no constant", _not_both_constant, "fold the constants before"),
)

OPERATORS = (
    Operator("ADD", "Add", _add, (*_COMMON, ACTIVATION)),
    Operator("SUB", "Add", _sub, (*_COMMON, ACTIVATION)),
    Operator("MUL", "Mul", _mul, (*_COMMON, ACTIVATION)),
    Operator("MAXIMUM", "Maximum", _extreme, (*_COMMON, SAME_QUANTISATION)),
    Operator("MINIMUM", "Minimum", _extreme, (*_COMMON, SAME_QUANTISATION)),
)
