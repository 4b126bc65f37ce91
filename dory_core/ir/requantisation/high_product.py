"""Parameters for a multiplication of words of which only the upper word is kept (``mulh``).

The multiplier has 31 bits, and each channel its own shift, so that no channel loses digits to
another one with a larger scale: steps of the TensorFlow Lite format, which
:mod:`dory_core.ir.requantisation.narrow` does not find where accumulators have 17 bits and more,
have such parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dory_core.ir.requantisation.lines import Points, search, slope_bounds
from dory_core.ir.requantisation.narrow import (
    Stairs,
    addends_in_reach,
    are_numbers,
    largest_shifts,
    mean_slopes,
    sides_of,
    whole_of,
)
from dory_core.ir.requantisation.staircase import Integers, Staircase

_WORD = 31  # bits of the magnitude of a 32-bit number
# Shifts that are tried: the estimate of the largest may be too large by some.
_SHIFTS = 4


@dataclass(frozen=True, slots=True, eq=False)
class HighProduct:
    """Parameters with the staircase of the original.

    y = clip((((x << up) * mul >> 32) + add) >> shift), where x << up, mul and the sum fit 32 bits.

    Attributes:
        mul, add, shift: int64, shape (C,); shifts are 0 .. 31.
        up: Bits by which x is shifted, the same for all channels.
        below: None, or shape (C,): what is added besides where x is below zero.
        offset: None, x is the accumulator; or shape (C,): what is added to it before all else.
    """

    mul: Integers
    add: Integers
    shift: Integers
    up: int
    below: Integers | None = None
    offset: Integers | None = None


def high_product(stairs: Stairs) -> HighProduct | None:
    """Return such parameters, None where a channel has none.

    With low = 32 - up, the product without its lower word is that of x and mul without ``low``
    bits: what is searched are lines mul * x + add of 31 + low bits with multiples of 2^low as
    addends.

    Args:
        stairs: The staircase of each channel.
    """
    sides, whole = sides_of(stairs), whole_of(stairs)
    if not are_numbers(sides):
        return None
    largest = max(abs(int(whole.x_lo.min())), abs(int(whole.x_hi.max())), 1)
    up = _WORD - largest.bit_length()
    if up <= 0:
        return None
    low = _WORD + 1 - up
    shift = np.full_like(whole.first, low)
    mul, adds = np.zeros_like(whole.first), [side.first << low for side in sides]
    still = np.all([side.constant for side in sides], axis=0) & (sides[0].first == sides[-1].first)
    moving = np.flatnonzero(~still)
    if len(moving):
        found = _lines([side.take(moving) for side in sides], whole.take(moving), low)
        if found is None:
            return None
        slope, own, shift[moving] = found
        mul[moving] = np.where(sides[0].falling[moving], -slope, slope)
        for add, of_side in zip(adds, own, strict=True):
            add[moving] = of_side
    if isinstance(stairs, Staircase):
        return HighProduct(mul, adds[0] >> low, shift - low, up)
    above, below = (add >> low for add in addends_in_reach(stairs, adds))
    return HighProduct(mul, above, shift - low, up, below - above, stairs.offset)


def _lines(
    sides: list[Staircase], whole: Staircase, low: int
) -> tuple[Integers, list[Integers], Integers] | None:
    """Return slope, addends of each side and shift of every channel, None when one has no line."""
    bits, steepest = _WORD + low, (1 << _WORD) - 1
    shift = largest_shifts(whole, whole.x_lo, whole.x_hi, bits)
    slopes = np.maximum(mean_slopes(whole), 1 / steepest)
    shift = np.minimum(shift, np.floor(_WORD - np.log2(slopes)).astype(np.int64))
    shift = np.clip(shift, low, low + _WORD)
    slope, adds = np.zeros_like(whole.first), [np.zeros_like(whole.first) for _ in sides]
    left = np.arange(len(shift))
    for _ in range(_SHIFTS):
        parts = [side.take(left) for side in sides]
        points = [Points.of(p, p.x_lo, p.x_hi, 1 << shift[left], 1 << bits) for p in parts]
        bounds = [slope_bounds(p, 1 << bits) for p in points]
        lo = np.max([lower for lower, _ in bounds], axis=0)
        hi = np.minimum(np.min([upper for _, upper in bounds], axis=0), steepest)
        without = np.zeros(len(left), dtype=bool)
        found = search(points, lo, hi, 1 << low, without)
        assert found is not None
        slope[left] = found.mul
        for add, own in zip(adds, found.adds, strict=True):
            add[left] = own
        left = left[without]
        if not len(left):
            return slope, adds, shift
        shift[left] -= 1
        if (shift[left] < low).any():
            return None
    return None
