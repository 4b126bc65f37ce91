"""What a dialect plugin decides, and what all of them share about requantisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from types import MappingProxyType
from typing import TYPE_CHECKING

from dory_core.api import NotSupported, Requant, Tensor
from dory_core.importing import requant
from dory_onnx.arithmetic import ARITHMETIC, Step, requants_of, steps_of
from dory_onnx.model import Node, OnnxModel

if TYPE_CHECKING:
    from dory_onnx.layers import LayersOfFile


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a residual Add: a tensor with its proven range, and the arithmetic between
    it and the Add."""

    tensor: Tensor
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class AddMeaning:
    """What a residual Add computes: a step per operand, then steps on their sum."""

    operands: tuple[Requant | None, Requant | None]
    requants: tuple[Requant, ...]
    notes: tuple[str, ...] = ()


class Dialect:
    """What differs between dialects; the base class is the plain reading of the nodes.

    Attributes:
        extra_attributes: Attribute names that the exporter adds to layer nodes.
        reference: Whose arithmetic the Graph has, for ``Graph.reference``.
        arithmetic: Operators that belong to the layer before them.
        rounding_operands: Operators of these that are also allowed between a tensor with
            several readers and a residual Add.
        byte_weights: Weights of type uint8 are the bytes of signed weights.
        own_layers: Functions by operator that append the layers of a node of it, whose result has
            the shape of its first input unless ``shapes`` knows the operator.
        becomes: Kinds of layers of the operators that only this dialect has, without their domains.
    """

    extra_attributes: frozenset[str] = frozenset()
    reference: str = ""
    arithmetic: frozenset[str] = ARITHMETIC
    rounding_operands: frozenset[str] = frozenset()
    byte_weights: bool = False
    own_layers: Mapping[str, Callable[[LayersOfFile, Node], None]] = MappingProxyType({})
    becomes: Mapping[str, str] = MappingProxyType({})

    def steps_of(
        self, model: OnnxModel, node: Node, shape: tuple[int, ...], axis: int = 1
    ) -> tuple[Step, ...]:
        """Return the steps of a node of ``arithmetic`` for a ``shape`` with channels along an axis.

        Raises: NotSupported for constants and bounds that have no exact meaning.
        """
        return steps_of(model, node, shape, axis)

    def check_host(self, node: Node) -> None:
        """Raise NotSupported for a node that must not be left to the host."""

    def weight_bits(self, node: Node) -> int:
        """Return the storage bits of the weights of a Conv, Gemm or MatMul."""
        return 8

    def layer_requants(
        self, node: Node, steps: tuple[Step, ...], divisor: int
    ) -> tuple[Requant, ...]:
        """Return the requantisations that equal the steps after a layer.

        divisor: the window size for an average, whose accumulator is the sum; else 1.
        """
        return requants_of(steps, node.label, divisor)

    def residual_add(
        self, node: Node, operands: tuple[Operand, Operand], steps: tuple[Step, ...]
    ) -> AddMeaning:
        """Return the meaning of an Add or Sub of two tensors followed by ``steps``."""
        first, second = (_operand_requant(node, operand) for operand in operands)
        if node.op == "Sub":
            second = negated(second or requant())
        return normal_add((first, second), requants_of(steps, node.label))


def _operand_requant(node: Node, operand: Operand) -> Requant | None:
    steps = requants_of(operand.steps, node.label)
    if len(steps) > 1:
        raise NotSupported(f"{node.label}: an operand is requantised more than once")
    return steps[0] if steps else None


def negated(step: Requant) -> Requant:
    """Return the step that gives the negative of every result of a plain ``step``.

    -floor(a / d) = floor((d - 1 - a) / d).
    """
    mul, add = [-m for m in step.mul], [step.div - 1 - a for a in step.add]
    if step.lo is None or step.hi is None:
        return requant(mul, add, step.div)
    return requant(mul, add, step.div, -step.hi, -step.lo)


def normal_add(
    operands: tuple[Requant | None, Requant | None], requants: tuple[Requant, ...]
) -> AddMeaning:
    """Return an Add in normal form: a factor common to both operands moves after the sum.

    m * (x * a + z * b) / d and (x * m * a + z * m * b) / d are the same numbers, so that both
    spellings must give equal Graphs. Only operands without own rounding or clip are touched.
    """
    steps = tuple(requant() if step is None else step for step in operands)
    if any(step.div != 1 or step.lo is not None for step in steps):
        return AddMeaning(operands, requants)
    common = gcd(*(v for step in steps for v in (*step.mul, *step.add)))
    if common > 1:
        steps = tuple(
            requant([m // common for m in s.mul], [a // common for a in s.add]) for s in steps
        )
        first = requants[0] if requants else requant()
        scaled = requant([m * common for m in first.mul], first.add, first.div, first.lo, first.hi)
        requants = (() if scaled.is_identity else (scaled,)) + requants[1:]
    first_step, second_step = (None if step.is_identity else step for step in steps)
    return AddMeaning((first_step, second_step), requants)
