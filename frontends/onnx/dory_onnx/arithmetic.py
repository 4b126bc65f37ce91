"""Chains of Mul, Add, Div, Floor, Cast and Clip after a layer, and their exact meaning.

A chain is read as exact rational arithmetic: between two roundings the value is
(mul[c] * acc + add[c]) / den. It is rounded down where the graph makes it an integer: at a Floor,
at a Cast to an integer type, at a Div of integers, and at a Clip to integer bounds (rounding down
before or after such a Clip is the same). Each rounding closes one :class:`Requant`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, Requant
from dory_core.importing import requant
from dory_onnx.marks import FLOAT_HINT
from dory_onnx.model import Node, OnnxModel

ARITHMETIC = frozenset(["Mul", "Add", "Sub", "Div", "Floor", "Cast", "Clip", "Relu"])

_FLOAT_TYPES = (1, 11)  # float, double
_INT32, _INT64 = 6, 7
#: ONNX types of a Cast that is exact only for values in a range, by their number.
NARROW_TYPES = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767)}
_INT32_MOST = (1 << 31) - 1  # of accumulators: a bound that changes nothing
_UNBOUNDED = 3.0e38
_INT64_LIMIT = 2.0**63


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One arithmetic node of a chain.

    Attributes:
        constant: Operand of Mul, Add, Div: one value, or one per channel, as in the file.
        source: Name of the constant's tensor, for messages.
        lo, hi: Bounds of a Clip.
        to_integer: For a Cast, whether its result is an integer type.
        kind: Operator of the step, when one node stands for several steps.
    """

    node: Node
    constant: npt.NDArray[Any] | None = None
    source: str = ""
    lo: int = 0
    hi: int = 0
    to_integer: bool = False
    kind: str = ""

    @property
    def op(self) -> str:
        """The ONNX operator."""
        return self.kind or self.node.op

    def integers(self) -> list[int]:
        """Return the constant as exact integers; NotSupported when it holds anything else."""
        assert self.constant is not None
        return [int(v) for v in integers(self.node, self.source, self.constant)]


def integers(node: Node, source: str, content: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return a constant as int64; floats must hold integers.

    Raises: NotSupported naming node and tensor for NaN, infinity, fractions and huge values.
    """
    if content.dtype.kind in "iub":
        if content.dtype == np.uint64 and content.size and content.max() >= _INT64_LIMIT:
            raise NotSupported(
                f"{node.label}: constant '{source}' holds {content.max()}, beyond 64 signed bits"
            )
        return content.astype(np.int64)
    if content.dtype.kind != "f":
        raise NotSupported(f"{node.label}: constant '{source}' holds {content.dtype}, not numbers")
    with np.errstate(invalid="ignore"):  # a signalling NaN is reported below, not by numpy
        values = content.astype(np.float64)
    good = np.isfinite(values)
    good &= np.rint(values) == values
    good &= np.abs(values, where=good, out=np.zeros_like(values)) < _INT64_LIMIT
    if not good.all():
        at = tuple(int(i) for i in np.argwhere(~good)[0])
        index = f" at {list(at)}" if at else ""
        raise NotSupported(
            f"{node.label}: constant '{source}' holds {values[at]}{index}, which is not an integer",
            FLOAT_HINT,
        )
    return values.astype(np.int64)


def data_input(model: OnnxModel, node: Node) -> str | None:
    """Return the one input of an arithmetic node that is not constant; None if there are two."""
    if node.op not in ("Mul", "Add", "Sub", "Div"):
        return node.input(0)
    if len(node.inputs) != 2:
        return None
    left, right = node.inputs
    if node.op == "Sub" and not _holds_integers(model, node):
        return None
    if model.is_constant(right) and not model.is_constant(left):
        return left
    if node.op != "Div" and model.is_constant(left) and not model.is_constant(right):
        return right
    return None


def _holds_integers(model: OnnxModel, node: Node) -> bool:
    """Return True when the constants of a node are integers; others are a matter of the host."""
    contents = [model.constant(name) for name in node.inputs]
    try:
        for name, content in zip(node.inputs, contents, strict=True):
            if content is not None:
                integers(node, name, content)
    except NotSupported:
        return False
    return True


def is_narrow_cast(node: Node) -> bool:
    """Return True when a node is a Cast to 8 or 16 bits, exact only for values that fit."""
    return node.op == "Cast" and node.attributes.get("to") in NARROW_TYPES


def steps_of(
    model: OnnxModel, node: Node, shape: tuple[int, ...], axis: int = 1
) -> tuple[Step, ...]:
    """Return the steps of an arithmetic node.

    constant - x turns the sign of x and adds the constant; x - constant turns the result as well.

    Raises: as :func:`step_of`.
    """
    step = step_of(model, node, shape, axis)
    if node.op != "Sub":
        return (step,)
    turn = Step(node, np.array([-1]), kind="Mul")
    added = replace(step, kind="Add")
    return (turn, added) if model.is_constant(node.input(0)) else (turn, added, turn)


def step_of(model: OnnxModel, node: Node, shape: tuple[int, ...], axis: int = 1) -> Step:
    """Return the step of an arithmetic node over a value of ``shape``, channels along ``axis``.

    Raises: NotSupported for constants and bounds that have no exact meaning.
    """
    if node.op == "Floor":
        return Step(node)
    if node.op == "Cast":
        to = node.attributes.get("to")
        if to not in (*_FLOAT_TYPES, _INT32, _INT64):
            raise NotSupported(f"{node.label}: cast to ONNX type {to} is not exact")
        return Step(node, to_integer=to not in _FLOAT_TYPES)
    if node.op == "Relu":
        return Step(node, lo=0, hi=_INT32_MOST, kind="Clip")
    if node.op == "Clip":
        lo = _clip_bound(model, node, "min", 1)
        hi = _clip_bound(model, node, "max", 2)
        if lo > hi:
            raise NotSupported(f"{node.label}: minimum {lo} is above maximum {hi}")
        return Step(node, lo=lo, hi=hi)
    source = next(v for v in node.inputs if model.is_constant(v))
    content = model.constant(source)
    assert content is not None
    return Step(node, _per_channel(node, source, content, shape, axis), source)


def _per_channel(
    node: Node, source: str, content: npt.NDArray[Any], shape: tuple[int, ...], axis: int
) -> npt.NDArray[Any]:
    aligned = (1,) * (len(shape) - content.ndim) + tuple(content.shape)
    channels = shape[axis] if len(shape) > 1 else 1
    if content.size == 1 and content.ndim <= len(shape):
        return content.reshape(1)
    if len(aligned) == len(shape) and aligned[axis] == channels and content.size == channels:
        return content.reshape(-1)
    what = "per channel" if axis == 1 else "for each element of the last axis"
    raise NotSupported(
        f"{node.label}: constant '{source}' of shape {list(content.shape)} is neither one value nor"
        f" one {what} of {list(shape)}"
    )


def _clip_bound(model: OnnxModel, node: Node, name: str, position: int) -> int:
    source = node.input(position)
    content = model.constant(source) if source else None
    if source and content is None:
        raise NotSupported(f"{node.label}: its {name} '{source}' is not a constant")
    value = np.asarray(node.attributes.get(name, np.nan) if content is None else content)
    missing = content is None and name not in node.attributes
    if missing or (value.size == 1 and abs(float(value.reshape(-1)[0])) > _UNBOUNDED):
        raise NotSupported(
            f"{node.label}: it has no {name}, so that the range of its result is unknown",
            "export with both clip bounds",
        )
    if value.size != 1:
        raise NotSupported(f"{node.label}: its {name} must be one value, not {value.size}")
    return int(integers(node, source or name, value.reshape(1))[0])


class _Affine:
    """(mul[c] * x + add[c]) / den, with Python integers in object arrays."""

    def __init__(self, den: int) -> None:
        self.mul = np.array([1], dtype=object)
        self.add = np.array([0], dtype=object)
        self.den = den
        self.divided = den != 1

    @property
    def is_identity(self) -> bool:
        return self.den == 1 and bool((self.mul == 1).all()) and bool((self.add == 0).all())

    def apply(self, step: Step) -> None:
        if step.op == "Mul":
            factor = np.array(step.integers(), dtype=object)
            self.mul, self.add = self.mul * factor, self.add * factor
        elif step.op == "Div":
            divisors = step.integers()
            if min(divisors) <= 0:
                raise NotSupported(
                    f"{step.node.label}: divisor '{step.source}' is {min(divisors)}, must be"
                    " positive"
                )
            common = lcm(*divisors)
            factor = np.array([common // d for d in divisors], dtype=object)
            self.mul, self.add, self.den = self.mul * factor, self.add * factor, self.den * common
            self.divided = True
        else:
            summands = self._summands(step)  # before add is read: it may refine the fraction
            self.add = self.add + np.array(summands, dtype=object)

    def _summands(self, step: Step) -> list[int]:
        """Return the constant of an Add times ``den``, which doubles where exact halves need it.

        Halves after a Div are welcome, elsewhere the constant must be integers.
        """
        assert step.constant is not None
        if self.divided and bool(np.isfinite(step.constant).all()):
            scaled = [Fraction(v) * self.den for v in step.constant.tolist()]
            if any(v.denominator == 2 for v in scaled):
                self.mul, self.add, self.den = self.mul * 2, self.add * 2, self.den * 2
                scaled = [v * 2 for v in scaled]
            if all(v.denominator == 1 for v in scaled):
                return [int(v) for v in scaled]
        return [v * self.den for v in step.integers()]


def requants_of(steps: tuple[Step, ...], label: str, divisor: int = 1) -> tuple[Requant, ...]:
    """Return the requantisations, in sequence, that a chain of steps means.

    Args:
        label: The layer, for messages.
        divisor: Divisor of the accumulator that gives the value with which the chain starts
            with (the window size of an average).

    Raises:
        NotSupported: When the result is a fraction that nothing rounds.
    """
    done: list[Requant] = []
    pending = _Affine(divisor)
    integer_type = False

    def close(lo: int | None = None, hi: int | None = None) -> None:
        nonlocal pending
        if lo is not None and hi is not None and pending.is_identity and done:
            last = done[-1]
            if last.lo is None or last.hi is None:
                done[-1] = replace(last, lo=lo, hi=hi)
                return
            if lo <= last.hi and last.lo <= hi:
                done[-1] = replace(last, lo=max(lo, last.lo), hi=min(hi, last.hi))
                return
        step = requant(pending.mul.tolist(), pending.add.tolist(), pending.den, lo, hi)
        if not step.is_identity:
            done.append(step)
        pending = _Affine(1)

    for step in steps:
        if step.op == "Floor":
            if pending.den != 1:
                close()
        elif step.op == "Clip":
            close(step.lo, step.hi)
        elif step.op == "Cast":
            if step.to_integer and pending.den != 1:
                close()
            if step.node.attributes["to"] == _INT32 and not pending.is_identity:
                raise NotSupported(
                    f"{step.node.label}: cast to int32 in the middle of a requantisation may wrap"
                )
            integer_type = step.to_integer
        else:
            pending.apply(step)
            if step.op == "Div" and integer_type:
                close()
    if pending.den != 1:
        raise NotSupported(
            f"{label}: its result is a fraction: no Floor, Clip or integer Cast rounds it",
            "export the integer network, with the rounding of the quantiser in the graph",
        )
    if not pending.is_identity:
        close()
    return tuple(done)
