"""Sums of two requantised bytes as one line over both, proven for every pair of values.

    y = clip((mul1 * x1 + mul2 * x2 + add) >> shift)

A step for each operand and one for their sum round three times. Over bytes there are no more than
65,536 pairs, and whether one line has all their results is simply tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np

from dory_core.ir import Add, Layer, Requant, requant
from dory_core.ir.requantisation.staircase import Integers

#: Values of an operand that are tried at most.
MOST_VALUES = 256

_WORD = 31  # bits of the magnitude of a 32-bit number
_SHIFTS = 6  # shifts that are tried, from the largest that fits
# How far multipliers are moved from the nearest ones.
_NEAR = (0, -1, 1)
# How much steeper a line is, in units of its larger multiplier: ties that go away from zero on both
# sides are kept apart by a line that is a little too steep.
_STEEPER = tuple(1 << k for k in range(1, 14))


@dataclass(frozen=True, slots=True)
class PairLine:
    """y = clip((mul[0] * x1 + mul[1] * x2 + add) >> shift), all within 32 bits.

    Attributes:
        mul: Slope for each operand.
        add: The addend.
        shift: Bits.
    """

    mul: tuple[int, int]
    add: int
    shift: int


def pair_line(layer: Layer) -> PairLine | None:
    """Return one line with the results of an Add for every pair of values of its operands.

    None where there is none, for operands of more than 256 values, parameters that differ from
    channel to channel, and outputs without a clip.
    """
    op = layer.op
    if not isinstance(op, Add) or op.constant is not None or not op.requants:
        return None
    if any(x.hi - x.lo >= MOST_VALUES for x in layer.inputs):
        return None
    last = op.requants[-1]
    if last.lo is None or last.hi is None or any(step.is_channelwise for step in op.steps):
        return None
    values = [np.arange(x.lo, x.hi + 1, dtype=np.int64) for x in layer.inputs]
    y = _results(op, values)
    return pair_line_of((values[0], values[1]), y, (last.lo, last.hi), _slopes(op))


def pair_line_of(
    values: tuple[Integers, Integers],
    y: Integers,
    clip: tuple[int, int],
    slopes: tuple[Fraction, Fraction],
) -> PairLine | None:
    """Return one line for a function of two operands, None where there is none.

    Args:
        values: Of each operand, rising.
        y: Shape (first operand, second operand), inside of clip.
        clip: (lo, hi) of the function.
        slopes: How much y grows with each operand, without rounding.
    """
    return next(_lines(list(values), y, clip, slopes), None)


def _results(op: Add, values: list[Integers]) -> Integers:
    """Return the outputs, shape (first operand, second operand)."""
    first, second = (
        x if step is None else step.apply(x[None])[0]
        for x, step in zip(values, op.operand_requants, strict=True)
    )
    y = (first[:, None] + second[None, :])[None]
    for step in op.requants:
        y = step.apply(y)
    results: Integers = y[0]
    return results


def _slopes(op: Add) -> tuple[Fraction, Fraction]:
    """Return how much the output grows with each operand, without rounding."""
    behind = Fraction(1)
    for step in op.requants:
        behind *= _slope(step)
    first, second = (behind * _slope(step) for step in op.operand_requants)
    return first, second


def _slope(step: Requant | None) -> Fraction:
    return Fraction(1) if step is None else Fraction(step.mul[0], step.div)


def _lines(
    values: list[Integers], y: Integers, clip: tuple[int, int], slopes: tuple[Fraction, Fraction]
) -> Iterator[PairLine]:
    """Yield lines that have all results, those of the largest shifts first."""
    ends = [max(abs(int(x[0])), abs(int(x[-1]))) for x in values]
    largest = sum(abs(s) * end for s, end in zip(slopes, ends, strict=True)) + max(map(abs, clip))
    first = _WORD - max(int(largest), 1).bit_length()
    for shift in range(first, max(first - _SHIFTS, 0), -1):
        below = np.where(y > clip[0], y << shift, -(1 << 62))
        above = np.where(y < clip[1], ((y + 1) << shift) - 1, 1 << 62)
        for mul in _multipliers(slopes, shift):
            line = mul[0] * values[0][:, None] + mul[1] * values[1][None, :]
            lo, hi = int((below - line).max()), int((above - line).min())
            add = min(max(0, lo), hi) if hi - lo > 1 << 62 else (lo + hi) >> 1
            reached = int(line.min()) + add, int(line.max()) + add
            if lo <= hi and reached[0] >= -(1 << _WORD) and reached[1] < 1 << _WORD:
                yield PairLine(mul, add, shift)


def _multipliers(slopes: tuple[Fraction, Fraction], shift: int) -> Iterator[tuple[int, int]]:
    """Yield multipliers near the slopes times 2^shift."""
    exact = [slope * (1 << shift) for slope in slopes]
    for near in product(_NEAR, repeat=2):
        yield round(exact[0]) + near[0], round(exact[1]) + near[1]
    largest = max(map(abs, exact))
    for more in _STEEPER if largest else ():
        yield round(exact[0] * (1 + more / largest)), round(exact[1] * (1 + more / largest))


def with_pair_line(layer: Layer) -> Add | None:
    """Return the Add that computes :func:`pair_line`, None where there is none."""
    found = pair_line(layer)
    if found is None:
        return None
    last = layer.op.requants[-1]
    first, second = (None if mul == 1 else requant(mul) for mul in found.mul)
    step = requant(1, found.add, 1 << found.shift, last.lo, last.hi)
    return replace(layer.of(Add), operand_requants=(first, second), requants=(step,))
