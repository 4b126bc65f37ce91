"""Cheaper parameters with the identical staircase.

A step of a Graph has whatever numbers the quantiser wrote, often products of 40 or 50 bits. What
matters is its staircase alone; here are the searches for mul, add and a power of two as divisor
that have the same one and whose arithmetic is small.

For a given mul, each level v with its threshold t asks for

    v * div - mul * t  <=  add  <=  v * div - 1 - mul * (t - 1)

so that the interval of exact addends is known at once. Its length is concave in mul: bisection
finds a mul whose interval is not empty whenever there is one. A larger shift only refines, since
doubling turns parameters for one shift into those for the next: the search begins with the largest
shift for which the arithmetic has room.

Steps with another addend below zero are a staircase on each side of zero. They ask for a common mul
with an addend of its own for each: bisection looks at both intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.requantisation.staircase import Integers, SignedStaircase, Staircase

#: What is searched: one staircase, or one on each side of zero.
Stairs = Staircase | SignedStaircase

_WORD = 31  # bits of the magnitude of a 32-bit number
_MOST_LOW_BITS = 20
_PRODUCT = 61  # bits of the magnitude of a sum that 64-bit arithmetic searches without overflow
# Thresholds that are looked at first: parameters that miss some of them need not meet the others.
_SAMPLE = 24
# Shifts that are tried: the estimate of the largest may be one too many.
_SHIFTS = 3
# A bound beyond everything that is reachable.
_ANY = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Narrow:
    """Parameters with the staircase of the original: y = clip((mul * x + add) >> shift).

    mul, add: int64, shape (C,); where they exceed 32 bits, their value modulo 2^32 does, because
        the sum fits. shift: the same for all channels.
    reach: None, x is the accumulator; or shape (C,), x is the accumulator clamped to
        [-reach - 1, reach].
    low_bits: 0, mul * x + add fits 32 bits. Otherwise mul is cut in two limbs of which the lower
        has ``low_bits`` bits, the same number of bits of add are zero, and in
        y = clip((x * mul_high + add_high + (x * mul_low >> low_bits)) >> high_shift)
        the product with mul_low and the sum fit 32 bits.
    add_negative: None, or shape (C,): the addend where x is below zero.
    offset: None, or shape (C,): what is added to the accumulator before all else.
    """

    mul: Integers
    add: Integers
    shift: int
    reach: Integers | None = None
    low_bits: int = 0
    add_negative: Integers | None = None
    offset: Integers | None = None

    @property
    def mul_low(self) -> Integers:
        """The low limb of mul, shape of mul, in [-2^(low_bits - 1), 2^(low_bits - 1))."""
        half = (1 << self.low_bits) >> 1
        low: Integers = ((self.mul + half) & ((1 << self.low_bits) - 1)) - half
        return low

    @property
    def mul_high(self) -> Integers:
        """The rest of mul: mul = (mul_high << low_bits) + mul_low."""
        high: Integers = (self.mul - self.mul_low) >> self.low_bits
        return high

    @property
    def add_high(self) -> Integers:
        """add without its zero bits."""
        high: Integers = self.add >> self.low_bits
        return high

    @property
    def below_high(self) -> Integers | None:
        """What is added to ``add_high`` where x is below zero, None where nothing is."""
        if self.add_negative is None:
            return None
        below: Integers = (self.add_negative - self.add) >> self.low_bits
        return below

    @property
    def high_shift(self) -> int:
        """What is left of the shift behind the low limb."""
        return self.shift - self.low_bits


def exact_addend_interval(stairs: Staircase, mul: Integers, div: int) -> tuple[Integers, Integers]:
    """Return (lo, hi), shape (C,): with addends of lo .. hi, and no others, ``mul`` and ``div``
    have these stairs. lo > hi where there are none.

    mul: shape (C,), |mul * acc| < 2^62. div: positive, |y * div| < 2^62.
    """
    slope = np.where(stairs.falling, -mul, mul)
    lo, hi = np.ones_like(slope), np.zeros_like(slope)
    moving = np.flatnonzero(~stairs.constant & (slope > 0))
    if len(moving):
        part = stairs.take(moving)
        points = _Points.of(part, part.x_lo, part.x_hi, div, _ANY)
        lo[moving], hi[moving], _ = points.interval(slope[moving])
    flat = np.flatnonzero(stairs.constant)
    if len(flat):
        part = stairs.take(flat)
        above, below = _end_bounds(part, div, _ANY)
        ends = slope[flat] * part.x_lo, slope[flat] * part.x_hi
        lo[flat], hi[flat] = above - np.minimum(*ends), below - np.maximum(*ends)
    return lo, hi


def narrow(stairs: Stairs) -> Narrow | None:
    """Return the cheapest parameters there are.

    In this order: one multiplication, one behind a clamp, two limbs, two limbs behind a clamp.
    """
    return (
        narrow_32(stairs)
        or narrow_clamped(stairs)
        or narrow_limbs(stairs)
        or narrow_limbs(stairs, clamped=True)
    )


def narrow_32(stairs: Stairs) -> Narrow | None:
    """Return parameters whose mul * acc + add fits 32 bits for every accumulator."""
    return _narrow(stairs, None, 0)


def narrow_clamped(stairs: Stairs) -> Narrow | None:
    """Return parameters that fit 32 bits when the accumulator is clamped first."""
    return _narrow(stairs, reach(_whole(stairs)), 0)


def narrow_limbs(stairs: Stairs, clamped: bool = False) -> Narrow | None:
    """Return parameters for two 32-bit multiplications; clamped: of a clamped accumulator."""
    bound = reach(_whole(stairs)) if clamped else None
    x_lo, x_hi = _domain(_whole(stairs), bound)
    largest = max(abs(int(x_lo.min())), abs(int(x_hi.max())), 1)
    # |x * mul_low| <= 2^31 - 1 for |mul_low| <= 2^(low_bits - 1)
    low_bits = min(_WORD + 1 - largest.bit_length(), _MOST_LOW_BITS)
    return _narrow(stairs, bound, low_bits) if low_bits > 0 else None


def narrow_product(stairs: Stairs, shift: int, wide: bool = False) -> Narrow | None:
    """Return parameters with this shift for a product of 64 bits.

    mul fits 32 bits, mul * acc + add 62 bits, and 32 bits behind the shift; with a shift of 32, y
    is the upper half of what a widening multiplication with addition gives. None where a channel
    has no such parameters. wide: mul may exceed 32 bits; where there is nothing for a wide one,
    there is nothing for any smaller shift.
    """
    sides, whole = _sides(stairs), _whole(stairs)
    if not _are_numbers(sides):
        return None
    largest = max(-int(whole.first.min()), int(whole.last.max()) + 1)
    bits = _PRODUCT if wide else min(_PRODUCT, _WORD + shift)
    if largest.bit_length() + shift > bits:
        return None
    steepest = _ANY if wide else (1 << _WORD) - 1
    found = _parameters(sides, None, shift, 1 << bits, 1, steepest)
    return None if found is None else _found(stairs, found, shift)


def widest(stairs: Stairs) -> Narrow | None:
    """Return parameters whose mul * acc + add fits 62 bits, with the largest shift there is.

    Where it finds none, there are none that are narrower.
    """
    return _narrow(stairs, None, 0, _PRODUCT)


def _sides(stairs: Stairs) -> tuple[Staircase, ...]:
    """Return the staircases that have an addend of their own: of x >= 0 before that of x < 0."""
    return (stairs,) if isinstance(stairs, Staircase) else (stairs.above, stairs.below)


def _whole(stairs: Stairs) -> Staircase:
    return stairs if isinstance(stairs, Staircase) else stairs.whole


def _are_numbers(sides: Sequence[Staircase]) -> bool:
    """Return whether int64 holds everything."""
    arrays = [a for s in sides for a in (s.thresholds, s.x_lo, s.x_hi)]
    return all(a.dtype != object for a in arrays)


def _found(
    stairs: Stairs,
    found: tuple[Integers, list[Integers]],
    shift: int,
    bound: Integers | None = None,
    low_bits: int = 0,
) -> Narrow:
    mul, (add, *other) = found
    if not isinstance(stairs, SignedStaircase):
        return Narrow(mul, add, shift, bound, low_bits)
    return Narrow(mul, add, shift, bound, low_bits, other[0], stairs.offset)


def reach(stairs: Staircase) -> Integers:
    """Return the smallest reach, shape (C,), such that clamping accumulators to
    [-reach - 1, reach] changes no y."""
    lo, hi = stairs.window()
    return np.where(stairs.constant, 0, np.maximum(np.maximum(hi, -lo - 1), 0))


def _domain(stairs: Staircase, bound: Integers | None) -> tuple[Integers, Integers]:
    """Return the interval of x behind the clamp; constant channels have an arbitrary one."""
    if bound is None:
        return stairs.x_lo, stairs.x_hi
    lo = np.where(stairs.falling, -bound, -bound - 1)
    hi = np.where(stairs.falling, bound + 1, bound)
    return np.maximum(stairs.x_lo, lo), np.minimum(stairs.x_hi, hi)


def _end_bounds(stairs: Staircase, div: int, limit: int) -> tuple[Integers, Integers]:
    """Return the least value of the line at the lower end and the greatest at the upper end.

    Beyond a bound of the clip the line goes where it likes, within ``limit``.
    """
    lo, hi = stairs.clip if stairs.clip is not None else (None, None)
    above = np.where(stairs.first == lo, -limit, np.maximum(stairs.first * div, -limit))
    below = np.where(stairs.last == hi, limit - 1, np.minimum((stairs.last + 1) * div, limit) - 1)
    return above, below


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """What a line mul * x + add must keep to: above some points and below others.

    x, y: (C, n), thresholds and levels times the divisor. The line reaches y at x and stays below y
    at x - 1. end_x, above, below: (C, 2), the ends of the domain with bounds of the line there.
    free: (C,), channels without thresholds: only the ends count.
    """

    x: Integers
    y: Integers
    end_x: Integers
    above: Integers
    below: Integers
    free: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, stairs: Staircase, x_lo: Integers, x_hi: Integers, div: int, limit: int) -> _Points:
        """Return the points of ``stairs`` on [x_lo, x_hi], and |line| below ``limit``."""
        above = np.full((len(x_lo), 2), -limit)
        below = np.full((len(x_lo), 2), limit - 1)
        above[:, 0], below[:, 1] = _end_bounds(stairs, div, limit)
        end_x = np.stack([x_lo, x_hi], axis=1)
        return cls(stairs.thresholds, stairs.levels * div, end_x, above, below, stairs.constant)

    def columns(self, stride: int) -> _Points:
        """Return every ``stride``-th point and the last."""
        count = self.x.shape[1]
        keep = np.unique(np.append(np.arange(0, count, stride), count - 1))
        return _Points(
            self.x[:, keep], self.y[:, keep], self.end_x, self.above, self.below, self.free
        )

    def rows(self, channels: npt.NDArray[np.intp]) -> _Points:
        """Return the points of some channels."""
        y = self.y if len(self.y) == 1 else self.y[channels]
        return _Points(
            self.x[channels],
            y,
            self.end_x[channels],
            self.above[channels],
            self.below[channels],
            self.free[channels],
        )

    def interval(self, mul: Integers) -> tuple[Integers, Integers, Integers]:
        """Return (lo, hi, growth), shape (C,), for a slope per channel.

        lo, hi: the addends. growth: how much hi - lo grows with the slope, to first order.
        """
        rest = self.y - mul[:, None] * self.x
        channel = np.arange(len(mul))
        top, bottom = rest.argmax(axis=1), rest.argmin(axis=1)
        lo, lo_x = rest[channel, top], self.x[channel, top]
        hi, hi_x = rest[channel, bottom] + mul - 1, self.x[channel, bottom] - 1
        lo, hi = np.where(self.free, -_ANY, lo), np.where(self.free, _ANY, hi)
        ends = mul[:, None] * self.end_x
        for end in (0, 1):
            above, below = self.above[:, end] - ends[:, end], self.below[:, end] - ends[:, end]
            lo_x = np.where(above > lo, self.end_x[:, end], lo_x)
            lo = np.maximum(lo, above)
            hi_x = np.where(below < hi, self.end_x[:, end], hi_x)
            hi = np.minimum(hi, below)
        return lo, hi, lo_x - hi_x


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """A line per channel, and the slopes lo .. hi outside of which there is no other.

    adds: the addends on each side.
    """

    mul: Integers
    adds: list[Integers]
    lo: Integers
    hi: Integers


def has_line(stairs: Staircase, shift: int) -> npt.NDArray[np.bool_]:
    """Return which channels have parameters of 62 bits with this shift, shape (C,).

    No channel falls.
    """
    found = np.ones(len(stairs.first), dtype=bool)
    moving = np.flatnonzero(~stairs.constant)
    if len(moving):
        part = stairs.take(moving)
        limit = 1 << _PRODUCT
        points = _Points.of(part, part.x_lo, part.x_hi, 1 << shift, limit)
        missed = np.zeros(len(moving), dtype=bool)
        _search([points], *_slope_bounds(points, limit), 1, missed)
        found[moving] = ~missed
    return found


def widest_shift(stairs: Staircase) -> int:
    """Return the largest shift, but for two, with which all lines may fit 62 bits."""
    moving = np.flatnonzero(~stairs.constant)
    part = stairs.take(moving) if len(moving) else stairs
    return _largest_shift(part, part.x_lo, part.x_hi, _PRODUCT) - 2


def _search(
    sides: Sequence[_Points],
    lo: Integers,
    hi: Integers,
    unit: int,
    without: npt.NDArray[np.bool_] | None = None,
) -> _Lines | None:
    """Return a line for each channel, None when one has none.

    sides: each has an addend of its own. lo, hi: slopes to choose from. unit: what the addends are
    multiples of. without: shape (C,), is set for channels that have no line, whose parameters
    are arbitrary then.
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
    return _Lines(mul, adds, lo, hi)


def _slope_bounds(points: _Points, limit: int) -> tuple[Integers, Integers]:
    """Return the slopes that the outermost points and the limit allow, shape (C,)."""
    width = points.x[:, -1] - points.x[:, 0]
    height = np.broadcast_to(points.y[:, -1] - points.y[:, 0], width.shape)
    domain = np.maximum(points.end_x[:, 1] - points.end_x[:, 0], 1)
    largest = np.maximum(np.abs(points.end_x).max(axis=1), 1)
    lo = np.maximum(-(-(height + 1) // (width + 1)), 1)
    hi = np.minimum(2 * limit // domain, _ANY // 2 // largest)
    steepest = (height - 1) // np.maximum(width - 1, 1)
    hi = np.where(width > 1, np.minimum(hi, steepest), hi)
    return np.where(points.free, 0, lo), np.where(points.free, 2 * limit // domain, hi)


def _largest_shift(stairs: Staircase, x_lo: Integers, x_hi: Integers, bits: int) -> int:
    """Return the shift, or one more, with which all values on [x_lo, x_hi] fit ``bits`` bits."""
    levels = np.broadcast_to(stairs.levels, stairs.thresholds.shape)
    width = np.maximum(stairs.thresholds[:, -1] - stairs.thresholds[:, 0], 1)
    slope = (levels[:, -1] - levels[:, 0]) / width
    low = levels[:, 0] - slope * (stairs.thresholds[:, 0] - x_lo)
    high = levels[:, -1] + slope * (x_hi - stairs.thresholds[:, -1])
    largest = max(float(-low.min()), float(high.max()), 1.0)
    return bits - int(np.floor(np.log2(largest)))


def _narrow(
    stairs: Stairs, bound: Integers | None, low_bits: int, word: int = _WORD
) -> Narrow | None:
    """Return lines for all channels with the largest shift that has them.

    word: bits of the magnitude of the sum without the low limb.
    """
    sides, whole = _sides(stairs), _whole(stairs)
    if not _are_numbers(sides):
        return None
    bits = word + low_bits
    moving = np.flatnonzero(~whole.constant)
    still = whole.first[whole.constant]
    largest = bits - 1
    if len(still):
        largest = min(largest, bits - int(np.abs(still).max()).bit_length())
    if len(moving):
        part = whole.take(moving)
        domain = _domain(part, None if bound is None else bound[moving])
        largest = min(largest, _largest_shift(part, *domain, bits))
    for shift in range(largest, max(largest - _SHIFTS, low_bits - 1), -1):
        found = _parameters(sides, bound, shift, 1 << bits, 1 << low_bits)
        if found is not None:
            return _found(stairs, found, shift, bound, low_bits)
    return None


def _parameters(
    sides: Sequence[Staircase],
    bound: Integers | None,
    shift: int,
    limit: int,
    unit: int,
    steepest: int = _ANY,
) -> tuple[Integers, list[Integers]] | None:
    """Return mul and the addends of all channels with one shift, None when a channel has none.

    Arguments as of :func:`_domain` and :func:`_line`.
    """
    mul, adds = np.zeros_like(sides[0].first), [side.first << shift for side in sides]
    still = np.all([side.constant for side in sides], axis=0)
    still &= np.all([side.first == sides[0].first for side in sides], axis=0)
    moving = np.flatnonzero(~still)
    if len(moving):
        parts = [side.take(moving) for side in sides]
        bounds = None if bound is None else bound[moving]
        points = [_Points.of(p, *_domain(p, bounds), 1 << shift, limit) for p in parts]
        found = _line(points, limit, unit, steepest)
        if found is None:
            return None
        mul[moving] = np.where(parts[0].falling, -found.mul, found.mul)
        for add, own in zip(adds, found.adds, strict=True):
            add[moving] = own
    return mul, adds


def _line(sides: Sequence[_Points], limit: int, unit: int, steepest: int = _ANY) -> _Lines | None:
    """Search on a few points, then on all; the few tell quickly that there is no line.

    steepest: the largest slope.
    """
    bounds = [_slope_bounds(points, limit) for points in sides]
    lo = np.max([lower for lower, _ in bounds], axis=0)
    hi = np.minimum(np.min([upper for _, upper in bounds], axis=0), steepest)
    if any(points.x.shape[1] > 2 * _SAMPLE for points in sides):
        few = [points.columns(-(-points.x.shape[1] // _SAMPLE)) for points in sides]
        sampled = _search(few, lo, hi, 1)
        if sampled is None:
            return None
        lo, hi = sampled.lo, sampled.hi
    return _search(sides, lo, hi, unit)
