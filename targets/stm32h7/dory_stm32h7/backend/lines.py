"""Requantisation steps as products of 32-bit numbers, and the search for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Argument, Requant, Struct, Symbol, requantisation

Bounds = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

# Shifts that are tried, the cheapest first: larger ones where thresholds lie close, smaller ones
# for scales of one half and more.
_SHIFTS = (32, 33, 34, 35, 36, 37, 38, 39, 40, 31, 30, 29, 28, 26, 22, 18, 14, 10, 6, 2, 0)
INT32 = (1 << 31) - 1
# Those of channels that have their own. Products have 61 bits: after any of these, 32 at most.
_SHIFTS_UP = (*range(32, 41), 31, 30)
# Those of the upper half of a product.
SHIFTS_UPPER = tuple(range(32, 41))
# Results below this leave room for the largest shift.
_ROOM = 1 << 19


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A step y = clip((mul * x + add) >> shift). mul, add: int64, shape (C,) or (1,).

    offset, below: None, or of the same form: x is the accumulator with the offset, and below is
    added as well where x is negative. beyond: None, or how much more each channel is shifted.
    even: y = clip(even(f32(f32(x) * mul)) + add) with the roundings of binary32, mul as its bits.
    """

    mul: npt.NDArray[np.int64]
    add: npt.NDArray[np.int64]
    shift: int
    clip: tuple[int, int] | None
    offset: npt.NDArray[np.int64] | None = None
    below: npt.NDArray[np.int64] | None = None
    beyond: npt.NDArray[np.int64] | None = None
    even: bool = False

    def struct(self) -> Struct:
        """Return a ``dory_stm32h7_line_t``, for one channel."""
        factors: dict[str, Argument] = {"add": Symbol(f"INT64_C({self.add[0]})")}
        below = {} if self.below is None else {"below": int(self.below[0])}
        factors |= {"mul": int(self.mul[0])} | below
        return Struct(factors | bounds_of(self.clip) | {"shift": self.shift})


def bounds_of(clip: tuple[int, int] | None) -> dict[str, Argument]:
    """Return the members of a clip, none without."""
    return {} if clip is None else {"lo": clip[0], "hi": clip[1]}


def is_above(line: Line) -> bool:
    """Return True when what is added below zero is never positive: its opposite is, above."""
    return line.below is not None and int(line.below.max()) <= 0


def above(line: Line) -> Line:
    """Return the step with a non-negative value to be added where x is not negative, if it can."""
    if line.below is None or not is_above(line):
        return line
    return replace(line, add=line.add + line.below, below=-line.below)


def find_line(steps: Sequence[Requant], bounds: Bounds) -> Line | None:
    """Return one step that equals a sequence of them on an interval of accumulators.

    bounds: lowest and highest accumulator, shape (C,) or (1,).
    """
    return _line_within(tuple(steps), *(tuple(b.tolist()) for b in bounds))


@cache
def _line_within(
    steps: tuple[Requant, ...], lowest: tuple[int, ...], highest: tuple[int, ...]
) -> Line | None:
    """Return the step of find_line, found once: parts of a layer have the same steps and bounds."""
    bounds = (np.array(lowest, np.int64), np.array(highest, np.int64))
    if max(abs(int(b.max())) for b in (bounds[0], -bounds[0], bounds[1])) > INT32:
        return None
    last = steps[-1]
    clip = None if last.lo is None or last.hi is None else (last.lo, last.hi)
    if clip is not None and not -INT32 - 1 <= clip[0] <= clip[1] <= INT32:
        return None
    room = _has_room(steps, bounds)
    found = requantisation.search_steps(
        lambda stairs: product_line(stairs, clip, room), steps, *bounds
    )
    return found or _as_written(steps, bounds, clip) or _by_channel(steps, bounds, clip)


def _as_written(
    steps: Sequence[Requant], bounds: Bounds, clip: tuple[int, int] | None
) -> Line | None:
    """Return a single step with its own numbers where 64 bits have room, as those of 16 bits."""
    step = steps[0]
    if len(steps) > 1 or step.shift is None or step.turn or step.float32:
        return None
    up = max(32 - step.shift, 0)
    mul_most, *add_most = (max(map(abs, values)) << up for values in step.parameters)
    largest = max(abs(int(end)) for ends in bounds for end in ends) * mul_most + max(add_most)
    if mul_most > INT32 or largest.bit_length() > min(61, 31 + step.shift + up):
        return None
    mul, add, *other = (np.array(values, np.int64) << up for values in step.parameters)
    below = other[0] - add if other and int(bounds[0].min()) < 0 else None
    if below is None:
        return Line(mul, add, step.shift + up, clip)
    if below.max() > 0 or below.min() <= -1 << 32:
        return None
    return Line(mul, add, step.shift + up, clip, np.zeros(1, np.int64), below)


def _by_channel(
    steps: Sequence[Requant], bounds: Bounds, clip: tuple[int, int] | None
) -> Line | None:
    """Return a step with a shift and, channel by channel, more."""
    count = max(len(p) for ends in (bounds, *(s.parameters for s in steps)) for p in ends)
    lines: list[Line] = []
    for c in range(count if count > 1 else 0):
        one = tuple(_channel(step, c) for step in steps)
        lo, hi = (b[c : c + 1] if len(b) > 1 else b for b in bounds)
        line = requantisation.search_steps(
            lambda stairs: product_line(stairs, clip, False, _SHIFTS_UP), one, lo, hi
        )
        if line is None:
            return None
        lines.append(line)
    if not lines:
        return None
    turned = any(line.below is not None for line in lines)
    none = np.zeros(1, np.int64)
    base = min(line.shift for line in lines)
    return Line(
        np.concatenate([line.mul for line in lines]),
        np.concatenate([line.add for line in lines]),
        base,
        clip,
        np.concatenate([_or(line.offset, none) for line in lines]) if turned else None,
        np.concatenate([_or(line.below, none) for line in lines]) if turned else None,
        np.array([line.shift - base for line in lines], np.int64),
    )


def _or(values: npt.NDArray[np.int64] | None, other: npt.NDArray[np.int64]) -> Any:
    return other if values is None else values


def _channel(step: Requant, c: int) -> Requant:
    """Return a step of one channel."""
    mul, *addends = ((p[c % len(p)],) for p in step.parameters)
    return replace(step, mul=mul, add=addends[0], add_negative=(addends[1:] or [None])[0])


def _has_room(steps: Sequence[Requant], bounds: Bounds) -> bool:
    """Return True where results without clips leave room for a product with any of the shifts."""
    y = float(max(np.abs(end).max() for end in bounds))
    for step in steps:
        add = max(abs(value) for values in step.addends for value in values)
        y = (y * max(map(abs, step.mul)) + add) / step.div
    return y < _ROOM


def product_line(
    stairs: Any, clip: tuple[int, int] | None, room: bool, shifts: Sequence[int] = _SHIFTS
) -> Line | None:
    """Return a product with the stairs, of one kind or the other, the cheapest shift first.

    room: as of :func:`_has_room`.
    """
    for shift in shifts:
        found = requantisation.narrow_product(stairs, shift)
        if found is None:
            asked = room and shift == shifts[0]
            if asked and requantisation.narrow_product(stairs, max(_SHIFTS), wide=True) is None:
                return None  # no product of any size has them
            continue
        if found.add_negative is None:
            return Line(found.mul, found.add, shift, clip)
        below = found.add_negative - found.add
        if np.abs(below).max() <= INT32:
            return Line(found.mul, found.add, shift, clip, found.offset, below)
    return None
