"""Cheaper parameters with the identical staircase.

A step of a Graph has whatever numbers the quantiser wrote, often products of 40 or 50 bits. Only
its staircase matters; here are the searches for mul, add and a power of two as divisor that have
the same one and whose arithmetic is small.

Which mul and add there are for one shift is searched by ``lines``. A larger shift only refines,
since doubling turns parameters for one shift into those for the next: the search begins with the
largest shift for which the arithmetic has room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.ir.requantisation.lines import ANY, Points, line_of, search, slope_bounds
from dory_core.ir.requantisation.staircase import Integers, SignedStaircase, Staircase

#: What is searched: one staircase, or one on each side of zero.
Stairs = Staircase | SignedStaircase

_WORD = 31  # bits of the magnitude of a 32-bit number
_MOST_LOW_BITS = 20
_PRODUCT = 61  # bits of the magnitude of a sum that 64-bit arithmetic searches without overflow
# Shifts that are tried: the estimate of the largest may be one too many.
_SHIFTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Narrow:
    """Parameters with the staircase of the original: y = clip((mul * x + add) >> shift).

    Attributes:
        mul, add: int64, shape (C,); where they exceed 32 bits, their value modulo 2^32 does,
            because the sum fits.
        shift: The same for all channels.
        reach: None, x is the accumulator; or shape (C,), x is the accumulator clamped to -reach - 1
            .. reach.
        low_bits: 0, mul * x + add fits 32 bits. Otherwise mul is cut in two limbs: the product of x
            with the lower one, which has ``low_bits`` bits, and the sum fit 32 bits. As many bits
            of add are zero. Then y = clip((x * mul_high + add_high + (x * mul_low >> low_bits)) >>
            high_shift).
        add_negative: None, or shape (C,): the addend where x is below zero.
        offset: None, or shape (C,): what is added to the accumulator before all else.
        shifts: None, or shape (C,): what is left of the shift after the low limb, of each channel;
            ``shift`` is ``low_bits`` then.
    """

    mul: Integers
    add: Integers
    shift: int
    reach: Integers | None = None
    low_bits: int = 0
    add_negative: Integers | None = None
    offset: Integers | None = None
    shifts: Integers | None = None

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
        """The addend without its zero bits."""
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
        """What is left of the shift after the low limb."""
        return self.shift - self.low_bits


def narrow(stairs: Stairs) -> Narrow | None:
    """Return the cheapest parameters there are.

    In this order: one multiplication, one after a clamp, two limbs, two limbs after a clamp.
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
    return _narrow(stairs, reach(whole_of(stairs)), 0)


def narrow_limbs(stairs: Stairs, clamped: bool = False) -> Narrow | None:
    """Return parameters for two 32-bit multiplications.

    Args:
        stairs: The staircase of each channel.
        clamped: Whether the accumulator is clamped first.
    """
    bound = reach(whole_of(stairs)) if clamped else None
    low_bits = most_low_bits(*_domain(whole_of(stairs), bound))
    return _narrow(stairs, bound, low_bits) if low_bits > 0 else None


def most_low_bits(x_lo: Integers, x_hi: Integers) -> int:
    """Return the bits of the largest low limb whose products with [x_lo, x_hi] fit 32 bits."""
    # |x * mul_low| <= 2^31 - 1 for |mul_low| <= 2^(low_bits - 1)
    return min(_WORD + 1 - magnitude_bits(x_lo, x_hi), _MOST_LOW_BITS)


def magnitude_bits(x_lo: Integers, x_hi: Integers) -> int:
    """Return the bits of the largest magnitude in [x_lo, x_hi] of all channels, 1 at least."""
    return max(abs(int(x_lo.min())), abs(int(x_hi.max())), 1).bit_length()


def narrow_product(stairs: Stairs, shift: int, wide: bool = False) -> Narrow | None:
    """Return parameters with this shift for a product of 64 bits.

    mul fits 32 bits, mul * acc + add 62 bits, and 32 bits after the shift; with a shift of 32, y
    is the upper half of what a widening multiplication with addition gives. None where a channel
    has no such parameters.

    Args:
        stairs: The staircase of each channel.
        shift: Bits.
        wide: Whether mul may exceed 32 bits; where there is nothing for a wide one, there is
            nothing for any smaller shift.
    """
    sides, whole = sides_of(stairs), whole_of(stairs)
    if not are_numbers(sides):
        return None
    largest = max(-int(whole.first.min()), int(whole.last.max()) + 1)
    bits = _PRODUCT if wide else min(_PRODUCT, _WORD + shift)
    if largest.bit_length() + shift > bits:
        return None
    steepest = ANY if wide else (1 << _WORD) - 1
    found = _parameters(sides, None, shift, 1 << bits, 1, steepest)
    return None if found is None else _found(stairs, found, shift)


def widest(stairs: Stairs) -> Narrow | None:
    """Return parameters whose mul * acc + add fits 62 bits, with the largest shift there is.

    Where it finds none, there are none that are narrower.
    """
    return _narrow(stairs, None, 0, _PRODUCT)


def sides_of(stairs: Stairs) -> tuple[Staircase, ...]:
    """Return the staircases that have an addend of their own: of x >= 0 before that of x < 0."""
    return (stairs,) if isinstance(stairs, Staircase) else (stairs.above, stairs.below)


def whole_of(stairs: Stairs) -> Staircase:
    """Return the staircase on the whole interval."""
    return stairs if isinstance(stairs, Staircase) else stairs.whole


def moving_channels(sides: Sequence[Staircase]) -> npt.NDArray[np.intp]:
    """Return the channels whose y is not one number on all sides, as indices."""
    still = np.all([side.constant for side in sides], axis=0)
    still &= np.all([side.first == sides[0].first for side in sides], axis=0)
    return np.flatnonzero(~still)


def are_numbers(sides: Sequence[Staircase]) -> bool:
    """Return True when int64 holds everything."""
    arrays = [a for s in sides for a in (s.thresholds, s.x_lo, s.x_hi)]
    return all(a.dtype != object for a in arrays)


def _found(
    stairs: Stairs,
    found: tuple[Integers, list[Integers]],
    shift: int,
    bound: Integers | None = None,
    low_bits: int = 0,
) -> Narrow:
    mul, adds = found
    if not isinstance(stairs, SignedStaircase):
        return Narrow(mul, adds[0], shift, bound, low_bits)
    add, negative = addends_in_reach(stairs, adds)
    return Narrow(mul, add, shift, bound, low_bits, negative, stairs.offset)


def addends_in_reach(
    stairs: SignedStaircase, adds: Sequence[Integers]
) -> tuple[Integers, Integers]:
    """Return the addends of x >= 0 and of x < 0: the same two for channels that reach one side.

    A channel that does not reach its turn does not fall there.
    """
    above = np.where(stairs.whole.x_hi < 0, adds[1], adds[0])
    return above, np.where(stairs.whole.x_lo >= 0, adds[0], adds[1])


def reach(stairs: Staircase) -> Integers:
    """Return the smallest reach, shape (C,), with which a clamp changes no y.

    Accumulators are clamped to -reach - 1 .. reach.
    """
    lo, hi = stairs.window()
    return np.where(stairs.constant, 0, np.maximum(np.maximum(hi, -lo - 1), 0))


def _domain(stairs: Staircase, bound: Integers | None) -> tuple[Integers, Integers]:
    """Return the interval of x after the clamp; constant channels have an arbitrary one."""
    if bound is None:
        return stairs.x_lo, stairs.x_hi
    lo = np.where(stairs.falling, -bound, -bound - 1)
    hi = np.where(stairs.falling, bound + 1, bound)
    return np.maximum(stairs.x_lo, lo), np.minimum(stairs.x_hi, hi)


def has_line(stairs: Staircase, shift: int) -> npt.NDArray[np.bool_]:
    """Return which channels have parameters of 62 bits with this shift, shape (C,).

    No channel falls.
    """
    found = np.ones(len(stairs.first), dtype=bool)
    moving = np.flatnonzero(~stairs.constant)
    if len(moving):
        part = stairs.take(moving)
        limit = 1 << _PRODUCT
        points = Points.of(part, part.x_lo, part.x_hi, 1 << shift, limit)
        missed = np.zeros(len(moving), dtype=bool)
        search([points], *slope_bounds(points, limit), 1, missed)
        found[moving] = ~missed
    return found


def widest_shift(stairs: Staircase) -> int:
    """Return the largest shift but two with which all lines may fit 62 bits."""
    moving = np.flatnonzero(~stairs.constant)
    part = stairs.take(moving) if len(moving) else stairs
    return int(largest_shifts(part, part.x_lo, part.x_hi, _PRODUCT).min()) - 2


def mean_slopes(stairs: Staircase) -> npt.NDArray[np.float64]:
    """Return the slope from the first threshold of each channel to the last one, shape (C,)."""
    levels = np.broadcast_to(stairs.levels, stairs.thresholds.shape)
    width = np.maximum(stairs.thresholds[:, -1] - stairs.thresholds[:, 0], 1)
    slopes: npt.NDArray[np.float64] = (levels[:, -1] - levels[:, 0]) / width
    return slopes


def largest_shifts(stairs: Staircase, x_lo: Integers, x_hi: Integers, bits: int) -> Integers:
    """Return the shift of each channel, or one more, with which its line fits, shape (C,).

    Args:
        stairs: The staircase of each channel.
        x_lo: The least x of the domain, shape (C,).
        x_hi: The largest one.
        bits: Bits of the magnitude of the line.
    """
    levels = np.broadcast_to(stairs.levels, stairs.thresholds.shape)
    slope = mean_slopes(stairs)
    low = levels[:, 0] - slope * (stairs.thresholds[:, 0] - x_lo)
    high = levels[:, -1] + slope * (x_hi - stairs.thresholds[:, -1])
    largest = np.maximum(np.maximum(-low, high), 1.0)
    shifts: Integers = bits - np.floor(np.log2(largest)).astype(np.int64)
    return shifts


def _narrow(
    stairs: Stairs, bound: Integers | None, low_bits: int, word: int = _WORD
) -> Narrow | None:
    """Return lines for all channels with the largest shift that has them.

    Args:
        stairs: The staircase of each channel.
        bound: As ``Narrow.reach``.
        low_bits: As in :class:`Narrow`.
        word: Bits of the magnitude of the sum without the low limb.
    """
    sides, whole = sides_of(stairs), whole_of(stairs)
    if not are_numbers(sides):
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
        largest = min(largest, int(largest_shifts(part, *domain, bits).min()))
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
    steepest: int = ANY,
) -> tuple[Integers, list[Integers]] | None:
    """Return mul and the addends of all channels with one shift, None when a channel has none.

    Arguments as of :func:`_domain` and :func:`line_of`.
    """
    mul, adds = np.zeros_like(sides[0].first), [side.first << shift for side in sides]
    moving = moving_channels(sides)
    if len(moving):
        parts = [side.take(moving) for side in sides]
        bounds = None if bound is None else bound[moving]
        points = [Points.of(p, *_domain(p, bounds), 1 << shift, limit) for p in parts]
        found = line_of(points, limit, unit, steepest)
        if found is None:
            return None
        mul[moving] = np.where(parts[0].falling, -found.mul, found.mul)
        for add, own in zip(adds, found.adds, strict=True):
            add[moving] = own
    return mul, adds
