"""Requantisations as step functions.

Over an interval of accumulators, y = clip(floor((mul * acc + add) / div), lo, hi) is monotone and
takes at most hi - lo + 1 values, and so does a sequence of such steps. Where it changes, its
thresholds, says all about it: two sequences are equal on the interval when their end values and
thresholds are. That proves cheaper parameters exact for every reachable accumulator without trying
one of them.

Everything here is exact: int64 where bounds show that it suffices, Python integers elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir import Requant

Integers = npt.NDArray[Any]

# More values per channel than this are no staircase worth listing: 16-bit outputs still are.
MOST_STEPS = 1 << 16
# Entries of a table of thresholds, channels times steps: 32 MB.
MOST_ENTRIES = 1 << 22

_SAFE = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Staircase:
    """Step functions of C channels, each on its own interval of accumulators.

    Falling channels are mirrored, so that all rise: x is acc, or -acc where ``falling``.

    Attributes:
        falling: (C,), whether y falls as acc grows.
        x_lo, x_hi: (C,), the interval of x.
        first, last: (C,), y at x_lo and x_hi; equal for constant channels.
        levels: (C, n) or (1, n), the values of y.
        thresholds: (C, n), the smallest x whose y reaches the level. Channels with fewer steps than
            n repeat the outermost; constant ones have arbitrary entries.
        clip: Bounds that y keeps to by the definition of the last step, None without.
    """

    falling: npt.NDArray[np.bool_]
    x_lo: Integers
    x_hi: Integers
    first: Integers
    last: Integers
    levels: Integers
    thresholds: Integers
    clip: tuple[int, int] | None

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Channels without a step, shape (C,)."""
        found: npt.NDArray[np.bool_] = self.first == self.last
        return found

    def take(self, channels: npt.NDArray[Any]) -> Staircase:
        """Return some channels.

        Args:
            channels: Their indices, or a mask of shape (C,).
        """
        levels = self.levels if len(self.levels) == 1 else self.levels[channels]
        return Staircase(
            self.falling[channels],
            self.x_lo[channels],
            self.x_hi[channels],
            self.first[channels],
            self.last[channels],
            levels,
            self.thresholds[channels],
            self.clip,
        )

    def between(self, lo: Integers, hi: Integers) -> Staircase:
        """Return the part of each channel with x of [lo, hi], shape (C,), lo <= hi."""
        count = self.thresholds.shape[1]
        levels = np.broadcast_to(self.levels, self.thresholds.shape)
        passed, reached = (
            np.where(self.constant, 0, (self.thresholds <= end[:, None]).sum(axis=1))
            for end in (lo, hi)
        )
        rows = np.arange(len(lo))
        first, last = (
            np.where(steps > 0, levels[rows, np.maximum(steps, 1) - 1], self.first)
            for steps in (passed, reached)
        )
        kept = np.clip(np.arange(count)[None, :], passed[:, None], reached[:, None] - 1)
        kept = np.clip(kept, 0, count - 1)
        thresholds, values = (
            np.take_along_axis(array, kept, axis=1) for array in (self.thresholds, levels)
        )
        return Staircase(self.falling, lo, hi, first, last, values, thresholds, self.clip)

    def moved(self, offset: Integers) -> Staircase:
        """Return the same steps as a function of x + offset, shape (C,); no channel falls."""
        return replace(
            self,
            x_lo=self.x_lo + offset,
            x_hi=self.x_hi + offset,
            thresholds=self.thresholds + offset[:, None],
        )

    def window(self) -> tuple[Integers, Integers]:
        """Return (lo, hi), shape (C,): the accumulators between which y changes.

        Every accumulator below lo has the y of lo, every one above hi that of hi.
        """
        lo = np.where(self.constant, self.x_lo, self.thresholds[:, 0] - 1)
        hi = np.where(self.constant, self.x_lo, self.thresholds[:, -1])
        return np.where(self.falling, -hi, lo), np.where(self.falling, -lo, hi)


def staircase(steps: Sequence[Requant], acc_lo: Integers, acc_hi: Integers) -> Staircase | None:
    """Return the staircase of a sequence of steps, None when it has too many to be listed.

    None as well where a step with two addends falls, or falls at its turn, and where a step in
    binary32 is not the last.

    Args:
        steps: Applied first to last; parameters per channel or one for all.
        acc_lo: The least accumulator, shape (C,) or (1,).
        acc_hi: The largest one.

    Raises:
        ValueError: Without a step.
    """
    if not steps:
        raise ValueError("no step")
    if not all(_rises(step) for step in steps) or any(step.float32 for step in steps[:-1]):
        return None
    ends = _ends(steps, acc_lo, acc_hi)
    channels = len(ends[0])
    y_lo, y_hi = ends
    falling = np.zeros(channels, dtype=bool)
    for step in steps:
        y_lo, y_hi = _apply(step, y_lo), _apply(step, y_hi)
        falling ^= _array(step.mul) < 0
    first, last = np.minimum(y_lo, y_hi), np.maximum(y_lo, y_hi)
    bottom, top = int(first.min()), int(last.max())
    count = max(top - bottom, 1)
    if count > MOST_STEPS or count * channels > MOST_ENTRIES:
        return None
    levels: Integers = np.arange(bottom + 1, bottom + 1 + count, dtype=np.int64)[None, :]
    if int(first.max()) > bottom or int(last.min()) < top:
        levels = np.clip(levels, np.minimum(first + 1, last)[:, None], last[:, None])
    thresholds: Integers = levels
    rest = steps
    if steps[-1].float32:
        rest = steps[:-1]
        thresholds = _float_preimage(steps[-1], levels, *_behind(rest, ends))
    for step in reversed(rest):
        thresholds = _preimage(step, thresholds)
    thresholds = np.where(falling[:, None], 1 - thresholds, thresholds)
    lo = steps[-1].lo
    hi = steps[-1].hi
    return Staircase(
        falling,
        np.where(falling, -ends[1], ends[0]),
        np.where(falling, -ends[0], ends[1]),
        first,
        last,
        levels,
        _narrowed(np.broadcast_to(thresholds, (channels, count))),
        None if lo is None or hi is None else (lo, hi),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SignedStaircase:
    """Steps of which the first one has two addends, as a step function on each side of its turn.

    All are functions of x = acc + offset, which is negative below the turn.

    Attributes:
        offset: What is added to the accumulator, shape (C,).
        whole: On the whole interval.
        below, above: For x < 0 and x >= 0; where a channel reaches only one side, the other one is
            constant at -1 or 0, with the nearest value of y.
    """

    offset: Integers
    whole: Staircase
    below: Staircase
    above: Staircase


def signed_staircase(
    steps: Sequence[Requant], acc_lo: Integers, acc_hi: Integers
) -> SignedStaircase | None:
    """Return the staircases of steps with two addends, arguments as of :func:`staircase`.

    Steps in front that only add something become the offset. None where the next step has one
    addend, a later one has two, or there is no staircase.
    """
    first = next((n for n, s in enumerate(steps) if not _only_adds(s)), len(steps))
    rest = steps[first:]
    if not rest or rest[0].add_negative is None or any(s.add_negative for s in rest[1:]):
        return None
    lo, hi = _ends(steps, acc_lo, acc_hi)
    offset = np.full(len(lo), -rest[0].turn, dtype=np.int64)
    for step in steps[:first]:
        offset = offset + _array(step.add)
    lo, hi = lo + offset, hi + offset
    rest = (rest[0].from_turn(), *rest[1:])
    whole = staircase(rest, lo, hi)
    below = staircase(rest, np.minimum(lo, -1), np.minimum(hi, -1))
    above = staircase(rest, np.maximum(lo, 0), np.maximum(hi, 0))
    if whole is None or below is None or above is None:
        return None
    below = _constant_where(lo >= 0, below, whole.first)
    above = _constant_where(hi < 0, above, whole.last)
    return SignedStaircase(offset, whole, below, above)


def split_staircase(stairs: Staircase, turn: Integers) -> SignedStaircase:
    """Return a staircase in two sides, x < turn and x >= turn.

    No channel falls.

    Args:
        stairs: The staircase.
        turn: The x at which it is split, shape (C,).
    """
    offset = -turn
    whole = stairs.moved(offset)
    below = whole.between(np.minimum(whole.x_lo, -1), np.minimum(whole.x_hi, -1))
    above = whole.between(np.maximum(whole.x_lo, 0), np.maximum(whole.x_hi, 0))
    below = _constant_where(whole.x_lo >= 0, below, whole.first)
    above = _constant_where(whole.x_hi < 0, above, whole.last)
    return SignedStaircase(offset, whole, below, above)


def _constant_where(empty: npt.NDArray[np.bool_], side: Staircase, value: Integers) -> Staircase:
    """Return a side with this y where a channel does not reach it."""
    first, last = (np.where(empty, value, end) for end in (side.first, side.last))
    return replace(side, first=first, last=last)


def _only_adds(step: Requant) -> bool:
    return step.mul == (1,) and step.div == 1 and step.lo is None and step.add_negative is None


def _rises(step: Requant) -> bool:
    """Return True for one addend; for two when no value falls as the accumulator grows."""
    if step.add_negative is None:
        return True
    mul, above, below = (_array(p).astype(object) for p in step.parameters)
    last, first = mul * (step.turn - 1) + below, mul * step.turn + above
    return bool((mul >= 0).all() and (last // step.div <= first // step.div).all())


def _ends(steps: Sequence[Requant], lo: Integers, hi: Integers) -> list[Integers]:
    """Return the interval of accumulators of every channel."""
    channels = max(len(lo), len(hi), *(len(p) for s in steps for p in s.parameters))
    return [_widened(np.broadcast_to(e, (channels,))) for e in (lo, hi)]


def _array(values: Sequence[int]) -> Integers:
    """Return integers as int64, as objects when they exceed it."""
    exact = all(-_SAFE <= v <= _SAFE for v in values)
    return np.array(values, dtype=np.int64 if exact else object)


def _largest(values: Integers) -> int:
    return max(abs(int(values.min())), abs(int(values.max())))


def _widened(values: Integers) -> Integers:
    """Return bounds as int64 or as Python integers, whatever narrower type they had."""
    return values if values.dtype == object else values.astype(np.int64)


def _narrowed(values: Integers) -> Integers:
    """Return int64 where the values allow."""
    if values.dtype == object and _largest(values) <= _SAFE:
        return values.astype(np.int64)
    return values


def _behind(steps: Sequence[Requant], ends: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Return the interval of values after some steps, shape (C,)."""
    first, last = ends
    for step in steps:
        first, last = _apply(step, first), _apply(step, last)
    return np.minimum(first, last), np.maximum(first, last)


def _float_preimage(step: Requant, levels: Integers, lo: Integers, hi: Integers) -> Integers:
    """Return the smallest acc of [lo, hi] whose y of a float32 step reaches a level, else hi.

    A guess is right up to the rounding; it is moved while that is wrong, which is never far.
    """
    below = np.broadcast_to(lo[:, None], (len(lo), levels.shape[1])).astype(np.int64)
    above = np.broadcast_to(hi[:, None], below.shape).astype(np.int64)
    zero = step.add[0] // step.div
    guess = (levels - zero - 0.5) / step.scales.astype(np.float64)[:, None] + step.turn
    near = np.abs(guess) * 2.0**-22 + 2
    for sign in (-1, 1):
        bound = np.floor(np.clip(guess + sign * near, below, above)).astype(np.int64)
        reached = step.apply(bound) >= levels
        above = np.where(reached, np.minimum(above, bound), above)
        below = np.where(reached, below, np.minimum(np.maximum(below, bound + 1), above))
    while (below < above).any():
        middle = (below + above) >> 1
        reached = step.apply(middle) >= levels
        above = np.where(reached, middle, above)
        below = np.where(reached, below, np.minimum(middle + 1, above))
    return below


def _apply(step: Requant, acc: Integers) -> Integers:
    """Return ``step`` of one accumulator per channel, shape (C,)."""
    if step.float32:
        return step.apply(acc.astype(np.int64))
    mul, add, *other = (_array(p) for p in step.parameters)
    if other:
        add = np.where(acc < step.turn, other[0], add)
    if _largest(acc) * _largest(mul) + _largest(add) > _SAFE or step.div > _SAFE:
        acc = acc.astype(object)
    value = (acc * mul + add) // step.div
    if step.lo is not None and step.hi is not None:
        value = np.minimum(np.maximum(value, step.lo), step.hi)
    return _narrowed(value)


def _preimage(step: Requant, levels: Integers) -> Integers:
    """Return t: mul * x + add >= level * div just when x >= t, or x < t where mul is negative.

    Channels whose mul is 0 get an arbitrary t.
    """
    if step.add_negative is not None:
        below = _line_preimage(step.mul, step.add_negative, step.div, levels)
        above = _line_preimage(step.mul, step.add, step.div, levels)
        reached = np.where(below < step.turn, below, np.maximum(above, step.turn))
        flat = (_array(step.mul) == 0)[:, None]  # changes only at its turn
        return _narrowed(np.where(flat, step.turn, reached))
    return _line_preimage(step.mul, step.add, step.div, levels)


def _line_preimage(
    muls: Sequence[int], adds: Sequence[int], div: int, levels: Integers
) -> Integers:
    """Return the thresholds of steps with one addend."""
    mul, add = _array(muls)[:, None], _array(adds)[:, None]
    if _largest(levels) * div + _largest(add) > _SAFE:
        levels = levels.astype(object)
    rest = levels * div - add
    negative = mul < 0
    magnitude = np.maximum(abs(mul), 1)
    if not negative.any():
        return _narrowed(-(-rest // magnitude))
    return _narrowed(np.where(negative, -rest // magnitude + 1, -(-rest // magnitude)))
