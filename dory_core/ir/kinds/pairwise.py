"""Element-wise functions of two operands: sums, products, maxima and minima."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, Bounds, Interval, one
from dory_core.ir.features import Feature
from dory_core.ir.kinds.channels import Links, Selection, same_channels
from dory_core.ir.kinds.fields import Steps, as_text
from dory_core.ir.kinds.operator import (
    Axes,
    Bare,
    Intervals,
    Loads,
    Operator,
    Sample,
    Tensors,
    Values,
    moved_steps,
)
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import Requant, requant
from dory_core.ir.tensor import Shape, Tensor

_Ends = tuple[Bounds, Bounds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairwise(Operator):
    """Element-wise function of two operands, whose accumulator is requantised.

    The first operand has the shape of the output. The second one has 1 or the same size along each
    axis; where it has 1, its element serves the whole axis.

    Attributes:
        operand_requants: A step per operand, applied before; None for identity. It subtracts a zero
            point where there is one.
        constant: The second operand, shape (C or 1, H or 1, W or 1), when it is no tensor; the
            layer then has one input.
    """

    operand_requants: tuple[Requant | None, Requant | None] = field(
        default=(None, None), metadata=as_text(Steps(("x", "x2"), optional=True))
    )
    constant: Array | None = None

    is_channelwise: ClassVar[bool] = True
    has_offsets: ClassVar[bool] = True

    def pair(self, first: Values, second: Values) -> Values:
        """Return the function of two operands of one shape."""
        raise NotImplementedError(self.kind)

    def pair_of_bounds(self, first: _Ends, second: _Ends) -> _Ends:
        """Return the bounds of the function, for those of the operands."""
        raise NotImplementedError(self.kind)

    @property
    def steps(self) -> tuple[Requant, ...]:
        return (*(step for step in self.operand_requants if step is not None), *self.requants)

    def loads(self, source: Tensor) -> Loads:
        """Return an element of each input; parameters are in registers."""
        return Loads(1, 0)

    @property
    def operands(self) -> int | None:
        return 2 if self.constant is None else 1

    def output_shape(self, sources: Tensors) -> Shape:
        first = sources[0].shape
        second = sources[1].shape if self.constant is None else self.constant.shape
        if len(second) != 3 or any(b not in (1, a) for a, b in zip(first, second, strict=True)):
            raise self.refused(f"operands of shapes {first} and {second}")
        return first

    def _of_constant(self) -> list[_Ends]:
        """Return the bounds of the constant per channel, where there is one."""
        if self.constant is None:
            return []
        rows = self.constant.values.reshape(self.constant.shape[0], -1).astype(np.int64)
        return [(rows.min(axis=1), rows.max(axis=1))]

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        ends: list[_Ends] = [(one(s.lo), one(s.hi)) for s in sources]
        ends += self._of_constant()
        for number, step in enumerate(self.operand_requants):
            if step is not None:
                ends[number] = apply(step, *ends[number])
        first, second = ends
        return Accumulator.of(*self.pair_of_bounds(first, second), *first, *second)

    def compute(self, inputs: Sequence[Values]) -> Values:
        constants = () if self.constant is None else (self.constant.values.astype(np.int64),)
        shape = inputs[0].shape
        first, second = (
            operand if step is None else step.apply(operand)
            for operand, step in zip(
                (np.broadcast_to(each, shape) for each in (*inputs, *constants)),
                self.operand_requants,
                strict=True,
            )
        )
        return self.pair(first, second)

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the function of the intervals of the operands."""
        channels, found = len(intervals[0].lo), []
        ends = [(each.lo, each.hi) for each in intervals] + self._of_constant()
        for (low, high), step in zip(ends, self.operand_requants, strict=True):
            wide = Interval(np.broadcast_to(low, channels), np.broadcast_to(high, channels))
            found.append(wide if step is None else wide.after(step))
        first, second = found
        return Interval(*self.pair_of_bounds((first.lo, first.hi), (second.lo, second.hi)))

    def features(self, sources: Tensors) -> frozenset[Feature]:
        other = self.constant is not None or len({x.shape for x in sources}) > 1
        return frozenset({Feature.OTHER_OPERAND} if other else ())

    def whole_axes(self, operand: int, source: Tensor, output: Tensor) -> Axes:
        """Return where the second operand has one element for the whole axis."""
        if not operand:
            return False, False, False
        c, h, w = (mine != total for mine, total in zip(source.shape, output.shape, strict=True))
        return c, h, w

    def is_alike(self, axis: int) -> bool:
        """Return True when the constant is the same for all stripes."""
        return self.constant is None or self.constant.shape[axis + 1] == 1

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """Each channel goes with its own of the operands that have as many."""
        wide = (n for n, source in enumerate(sources) if source.channels == output.channels)
        return tuple(link for n in wide for link in same_channels(output.channels, n))

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        first, second = (
            None if step is None else selection.of_step(step) for step in self.operand_requants
        )
        return {
            "operand_requants": (first, second),
            "constant": selection.of_rows(self.constant),
        }

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the steps of the operands."""
        pairs = zip(self.operand_requants, (*before, 0), strict=False)
        first, second = (_moved_operand(step, each) for step, each in pairs)
        steps = moved_steps(self.requants, 0, after)
        return replace(self, operand_requants=(first, second), requants=steps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        return _random_pair(draw, 500)


def _random_pair(draw: RandomParts, reach: int) -> Sample:
    """Return a pair of tensors, of a tensor and a smaller one, or of a tensor and a constant.

    Args:
        draw: What is drawn from.
        reach: About the largest accumulator.
    """
    shape = draw.shape()
    small = np.where(draw.numbers.random(3) < 0.7, shape, 1).tolist()
    c, h, w = draw.pick(shape, tuple(small), (shape[0], 1, 1), (1, 1, 1))
    ranges = draw.pick(*draw.space.inputs), draw.pick(*draw.space.inputs)
    steps: list[Requant | None] = []
    for lo, hi in ranges:
        zero = requant(1, -draw.integer(lo, hi))
        scale = draw.step(shape[0], max(abs(lo), abs(hi)), draw.pick(None, (-128, 127)))
        steps.append(draw.pick(None, zero, scale))
    outputs = draw.requants(shape[0], reach, draw.pick(*draw.space.outputs))
    fields: dict[str, Any] = {
        "operand_requants": (steps[0], steps[1]),
        "requants": draw.pick((), outputs, outputs),
    }
    if draw.integer(0, 2) == 0:
        constant = draw.numbers.integers(ranges[1][0], ranges[1][1] + 1, (c, h, w))
        return Sample({**fields, "constant": Array(constant)}, ((*shape, *ranges[0]),))
    return Sample(fields, ((*shape, *ranges[0]), (c, h, w, *ranges[1])))


def _moved_operand(step: Requant | None, before: int) -> Requant | None:
    """Return the step of an operand that is higher by ``before``."""
    if not before:
        return step
    moved = (requant() if step is None else step).moved(before)
    return None if moved.is_identity else moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Pairwise):
    """Sum. A difference is a sum whose second step has negative multipliers."""

    samples: ClassVar[tuple[str, ...]] = ("add", "sum")

    def pair(self, first: Values, second: Values) -> Values:
        return first + second

    def pair_of_bounds(self, first: _Ends, second: _Ends) -> _Ends:
        return first[0] + second[0], first[1] + second[1]

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        if name == "sum":
            return _random_pair(draw, 500)
        shape = (draw.integer(1, 9), draw.integer(1, 9), draw.integer(1, 9))
        first, second = draw.source(*shape), draw.source(*shape)
        operands: list[Requant | None] = []
        for source in (first, second):
            clip = draw.pick(None, (0, 255), (-128, 127))
            step = draw.step(1, max(abs(source[3]), source[4]), clip)
            operands.append(draw.pick(None, step, step))
        steps = draw.requants(1, 1000, draw.pick(*draw.space.outputs))
        fields = {
            "operand_requants": (operands[0], operands[1]),
            "requants": draw.pick((), steps, steps),
        }
        return Sample(fields, (first, second))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mul(Pairwise):
    """Product: (x1 - z1) * (x2 - z2) with the operand steps ``requant(add=-z)``."""

    samples: ClassVar[tuple[str, ...]] = ("mul",)

    def pair(self, first: Values, second: Values) -> Values:
        return first * second

    def pair_of_bounds(self, first: _Ends, second: _Ends) -> _Ends:
        corners = np.stack(np.broadcast_arrays(*(a * b for a, b in product(first, second))))
        return corners.min(axis=0), corners.max(axis=0)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        return _random_pair(draw, 60000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum(Pairwise):
    """The larger one."""

    bare: ClassVar[Bare] = Bare.AS_INPUTS
    samples: ClassVar[tuple[str, ...]] = ("maximum",)

    def pair(self, first: Values, second: Values) -> Values:
        return np.maximum(first, second)

    def pair_of_bounds(self, first: _Ends, second: _Ends) -> _Ends:
        return np.maximum(first[0], second[0]), np.maximum(first[1], second[1])

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        values = np.random.default_rng(8).integers(-50, 50, (12, 15, 1))
        return {
            "maximum_of_constant": Sample({"constant": Array(values)}, ((12, 15, 14, -128, 127),))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum(Pairwise):
    """The smaller one."""

    bare: ClassVar[Bare] = Bare.AS_INPUTS
    samples: ClassVar[tuple[str, ...]] = ("minimum",)

    def pair(self, first: Values, second: Values) -> Values:
        return np.minimum(first, second)

    def pair_of_bounds(self, first: _Ends, second: _Ends) -> _Ends:
        return np.minimum(first[0], second[0]), np.minimum(first[1], second[1])
