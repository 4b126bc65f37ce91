"""Lines through a staircase: the slopes and addends that keep to all of its thresholds.

For a given mul, each level v with its threshold t asks for

    v * div - mul * t  <=  add  <=  v * div - 1 - mul * (t - 1)

so that the interval of exact addends is known at once. Its length is concave in mul: bisection
finds a mul whose interval is not empty whenever there is one.

Steps with another addend below zero are a staircase on each side of zero. They ask for a common mul
with an addend of its own for each: bisection looks at both intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.ir.requantisation.staircase import Integers, Staircase

# Thresholds that are looked at first: parameters that miss some of them need not meet the others.
_SAMPLE = 24
#: A bound beyond everything that is reachable.
ANY = 1 << 62


def exact_addend_interval(stairs: Staircase, mul: Integers, div: int) -> tuple[Integers, Integers]:
    """Return (lo, hi), shape (C,), of the addends with which mul and div have some stairs.

    Addends of lo .. hi have them, and no others. lo > hi where there are none.

    Args:
        stairs: The staircase of each channel.
        mul: Shape (C,), |mul * acc| < 2^62.
        div: Positive, |y * div| < 2^62.
    """
    slope = np.where(stairs.falling, -mul, mul)
    lo, hi = np.ones_like(slope), np.zeros_like(slope)
    moving = np.flatnonzero(~stairs.constant & (slope > 0))
    if len(moving):
        part = stairs.take(moving)
        points = Points.of(part, part.x_lo, part.x_hi, div, ANY)
        lo[moving], hi[moving], _ = points.interval(slope[moving])
    flat = np.flatnonzero(stairs.constant)
    if len(flat):
        part = stairs.take(flat)
        above, below = end_bounds(part, div, ANY)
        ends = slope[flat] * part.x_lo, slope[flat] * part.x_hi
        lo[flat], hi[flat] = above - np.minimum(*ends), below - np.maximum(*ends)
    return lo, hi


def end_bounds(stairs: Staircase, div: int | Integers, limit: int) -> tuple[Integers, Integers]:
    """Return the least value of the line at the lower end and the greatest at the upper end.

    Beyond a bound of the clip the line goes where it likes, within ``limit``. ``div`` is one
    number, or one of each channel.
    """
    lo, hi = stairs.clip if stairs.clip is not None else (None, None)
    above = np.where(stairs.first == lo, -limit, np.maximum(stairs.first * div, -limit))
    below = np.where(stairs.last == hi, limit - 1, np.minimum((stairs.last + 1) * div, limit) - 1)
    return above, below


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """What a line mul * x + add must keep to: above some points and below others.

    Attributes:
        x, y: (C, n), thresholds and levels times the divisor. The line reaches y at x and stays
            below y at x - 1.
        end_x, above, below: (C, 2), the ends of the domain with bounds of the line there.
        free: (C,), channels without thresholds: only the ends count.
    """

    x: Integers
    y: Integers
    end_x: Integers
    above: Integers
    below: Integers
    free: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        stairs: Staircase,
        x_lo: Integers,
        x_hi: Integers,
        div: int | Integers,
        limit: int,
    ) -> Points:
        """Return the points that a line must keep to.

        Args:
            stairs: The staircase of each channel.
            x_lo: The least x of the domain, shape (C,).
            x_hi: The largest one.
            div: Levels are multiplied by it; one number, or one of each channel, shape (C,).
            limit: Bound of the magnitude of the line.
        """
        above = np.full((len(x_lo), 2), -limit)
        below = np.full((len(x_lo), 2), limit - 1)
        above[:, 0], below[:, 1] = end_bounds(stairs, div, limit)
        end_x = np.stack([x_lo, x_hi], axis=1)
        levels = stairs.levels * np.reshape(div, (-1, 1))
        return cls(stairs.thresholds, levels, end_x, above, below, stairs.constant)

    def columns(self, stride: int) -> Points:
        """Return every ``stride``-th point and the last."""
        count = self.x.shape[1]
        keep = np.unique(np.append(np.arange(0, count, stride), count - 1))
        return Points(
            self.x[:, keep], self.y[:, keep], self.end_x, self.above, self.below, self.free
        )

    def rows(self, channels: npt.NDArray[np.intp]) -> Points:
        """Return the points of some channels."""
        y = self.y if len(self.y) == 1 else self.y[channels]
        return Points(
            self.x[channels],
            y,
            self.end_x[channels],
            self.above[channels],
            self.below[channels],
            self.free[channels],
        )

    def interval(self, mul: Integers) -> tuple[Integers, Integers, Integers]:
        """Return (lo, hi, growth), shape (C,), for a slope per channel.

        Addends lo .. hi are possible, and hi - lo grows by growth with the slope, to first order.
        """
        rest = self.y - mul[:, None] * self.x
        channel = np.arange(len(mul))
        top, bottom = rest.argmax(axis=1), rest.argmin(axis=1)
        lo, lo_x = rest[channel, top], self.x[channel, top]
        hi, hi_x = rest[channel, bottom] + mul - 1, self.x[channel, bottom] - 1
        lo, hi = np.where(self.free, -ANY, lo), np.where(self.free, ANY, hi)
        ends = mul[:, None] * self.end_x
        for end in (0, 1):
            above, below = self.above[:, end] - ends[:, end], self.below[:, end] - ends[:, end]
            lo_x = np.where(above > lo, self.end_x[:, end], lo_x)
            lo = np.maximum(lo, above)
            hi_x = np.where(below < hi, self.end_x[:, end], hi_x)
            hi = np.minimum(hi, below)
        return lo, hi, lo_x - hi_x


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """A line per channel, and the slopes lo .. hi outside of which there is no other.

    Attributes:
        mul: Slope of each channel, shape (C,).
        adds: The addends on each side, shape (C,) each.
        lo, hi: Slopes outside of which there is no other line, shape (C,).
    """

    mul: Integers
    adds: list[Integers]
    lo: Integers
    hi: Integers


def search(
    sides: Sequence[Points],
    lo: Integers,
    hi: Integers,
    unit: int,
    without: npt.NDArray[np.bool_] | None = None,
) -> Lines | None:
    """Return a line for each channel, None when one has none.

    Args:
        sides: Points of each side; each side has an addend of its own.
        lo: The least slope of each channel, shape (C,).
        hi: The largest one.
        unit: The addends are multiples of it.
        without: Shape (C,): is set for channels that have no line, whose parameters are arbitrary
            then. None: all must have one.
    """
    lo, hi = lo.copy(), hi.copy()
    mul = np.zeros_like(lo)
    adds = [np.zeros_like(lo) for _ in sides]
    left = np.arange(len(lo))
    while len(left):
        none = lo[left] > hi[left]
        if none.any():
            if without is None:
                return None
            without[left] |= none
            left = left[~none]
            continue
        middle = (lo[left] + hi[left]) >> 1
        mul[left] = middle
        steeper, flatter, none = np.zeros((3, len(left)), dtype=bool)
        for points, add in zip(sides, adds, strict=True):
            first, last, growth = points.rows(left).interval(middle)
            add[left] = -(-first // unit) * unit
            missed = add[left] > last
            none |= missed & (growth == 0)
            steeper |= missed & (growth > 0)
            flatter |= missed & (growth < 0)
        none |= steeper & flatter
        if none.any():
            if without is None:
                return None
            without[left] |= none
        lo[left] = np.where(steeper, middle + 1, lo[left])
        hi[left] = np.where(flatter, middle - 1, hi[left])
        left = left[(steeper | flatter) & ~none]
    return Lines(mul, adds, lo, hi)


def slope_bounds(points: Points, limit: int) -> tuple[Integers, Integers]:
    """Return the slopes that the outermost points and the limit allow, shape (C,)."""
    width = points.x[:, -1] - points.x[:, 0]
    height = np.broadcast_to(points.y[:, -1] - points.y[:, 0], width.shape)
    domain = np.maximum(points.end_x[:, 1] - points.end_x[:, 0], 1)
    largest = np.maximum(np.abs(points.end_x).max(axis=1), 1)
    lo = np.maximum(-(-(height + 1) // (width + 1)), 1)
    widest = min(2 * limit, np.iinfo(np.int64).max) // domain
    hi = np.minimum(widest, ANY // 2 // largest)
    steepest = (height - 1) // np.maximum(width - 1, 1)
    hi = np.where(width > 1, np.minimum(hi, steepest), hi)
    return np.where(points.free, 0, lo), np.where(points.free, widest, hi)


def line_of(sides: Sequence[Points], limit: int, unit: int, steepest: int = ANY) -> Lines | None:
    """Search on a few points, then on all; the few tell quickly that there is no line.

    Args:
        sides: Points of each side.
        limit: Bound of the magnitude of the line.
        unit: The addends are multiples of it.
        steepest: The largest slope.
    """
    bounds = [slope_bounds(points, limit) for points in sides]
    lo = np.max([lower for lower, _ in bounds], axis=0)
    hi = np.minimum(np.min([upper for _, upper in bounds], axis=0), steepest)
    if any(points.x.shape[1] > 2 * _SAMPLE for points in sides):
        few = [points.columns(-(-points.x.shape[1] // _SAMPLE)) for points in sides]
        sampled = search(few, lo, hi, 1)
        if sampled is None:
            return None
        lo, hi = sampled.lo, sampled.hi
    found = search(sides, lo, hi, unit)
    return None if found is None else _one_slope(found, sides, unit)


def _one_slope(lines: Lines, sides: Sequence[Points], unit: int) -> Lines:
    """Return lines of one slope where all channels have such lines, the given ones elsewhere."""
    lo, hi = int(lines.lo.max()), int(lines.hi.min())
    while lo <= hi and (lines.mul != lines.mul[0]).any():
        mul, adds = np.full_like(lines.mul, (lo + hi) >> 1), []
        steeper = flatter = False
        for points in sides:
            first, last, growth = points.interval(mul)
            adds.append(-(-first // unit) * unit)
            missed = adds[-1] > last
            steeper |= bool((missed & (growth >= 0)).any())
            flatter |= bool((missed & (growth <= 0)).any())
        if not (steeper or flatter):
            return Lines(mul, adds, lines.lo, lines.hi)
        if steeper and flatter:
            break
        lo, hi = (int(mul[0]) + 1, hi) if steeper else (lo, int(mul[0]) - 1)
    return lines
