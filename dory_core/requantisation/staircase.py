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
from dataclasses import dataclass
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

    falling: (C,), whether y falls as acc grows. x_lo, x_hi: (C,), the interval of x.
    first, last: (C,), y at x_lo and x_hi; equal for constant channels.
    levels: (C, n) or (1, n), the values of y. thresholds: (C, n), the smallest x whose y reaches
        the level. Channels with fewer steps than n repeat the outermost; constant ones have
        arbitrary entries.
    clip: bounds that y keeps to by the definition of the last step, None without.
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
        """Return some channels. channels: their indices, or a mask of shape (C,)."""
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

    def window(self) -> tuple[Integers, Integers]:
        """Return (lo, hi), shape (C,): the accumulators between which y changes.

        Every accumulator below lo has the y of lo, every one above hi that of hi.
        """
        lo = np.where(self.constant, self.x_lo, self.thresholds[:, 0] - 1)
        hi = np.where(self.constant, self.x_lo, self.thresholds[:, -1])
        return np.where(self.falling, -hi, lo), np.where(self.falling, -lo, hi)


def staircase(steps: Sequence[Requant], acc_lo: Integers, acc_hi: Integers) -> Staircase | None:
    """Return the staircase of a sequence of steps, None when it has too many to be listed.

    steps: applied first to last; parameters per channel or one for all. acc_lo, acc_hi: shape (C,)
    or (1,), integers, acc_lo <= acc_hi. Raises: ValueError without a step.
    """
    if not steps:
        raise ValueError("no step")
    channels = max(len(acc_lo), len(acc_hi), *(len(p) for s in steps for p in (s.mul, s.add)))
    ends = [_widened(np.broadcast_to(e, (channels,))) for e in (acc_lo, acc_hi)]
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
    for step in reversed(steps):
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


def _apply(step: Requant, acc: Integers) -> Integers:
    """Return ``step`` of one accumulator per channel, shape (C,)."""
    mul, add = _array(step.mul), _array(step.add)
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
    mul, add = _array(step.mul)[:, None], _array(step.add)[:, None]
    if _largest(levels) * step.div + _largest(add) > _SAFE:
        levels = levels.astype(object)
    rest = levels * step.div - add
    negative = mul < 0
    magnitude = np.maximum(abs(mul), 1)
    if not negative.any():
        return _narrowed(-(-rest // magnitude))
    return _narrowed(np.where(negative, -rest // magnitude + 1, -(-rest // magnitude)))
