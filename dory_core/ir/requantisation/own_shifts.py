"""Parameters with a shift for each channel.

Channels of one layer have scales that differ: with a common shift, a channel with a large scale
takes digits from the others. With shifts of their own some layers need no clamp and no second limb.
The upper word of a product (``mulh``) has multipliers of 31 bits: it has the staircases of the
steps of the TensorFlow Lite format, unless sums reach far beyond the bounds of their outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dory_core.ir.requantisation.lines import ANY, Points, search, slope_bounds
from dory_core.ir.requantisation.narrow import (
    Narrow,
    Stairs,
    addends_in_reach,
    are_numbers,
    largest_shifts,
    magnitude_bits,
    mean_slopes,
    most_low_bits,
    moving_channels,
    narrow_32,
    narrow_clamped,
    narrow_limbs,
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


def narrow_for_channels(stairs: Stairs) -> Narrow | None:
    """Return the cheapest parameters there are, those with a shift for each channel included.

    One multiplication, the same with own shifts, one after a clamp, two limbs, these with own
    shifts, two limbs after a clamp.
    """
    return (
        narrow_32(stairs)
        or narrow_with_shifts(stairs, 0)
        or narrow_clamped(stairs)
        or narrow_limbs(stairs)
        or narrow_with_shifts(stairs, most_low_bits(whole_of(stairs).x_lo, whole_of(stairs).x_hi))
        or narrow_limbs(stairs, clamped=True)
    )


def narrow_with_shifts(stairs: Stairs, low_bits: int) -> Narrow | None:
    """Return parameters with own shifts and a low limb of some bits.

    Args:
        stairs: The staircase of each channel.
        low_bits: 0: there is one multiplication; None below that.
    """
    if low_bits < 0:
        return None
    found = _parameters(stairs, low_bits, ANY)
    if found is None:
        return None
    mul, adds, shifts = found
    if isinstance(stairs, Staircase):
        return Narrow(mul, adds[0], low_bits, None, low_bits, shifts=shifts)
    above, below = addends_in_reach(stairs, adds)
    return Narrow(mul, above, low_bits, None, low_bits, below, stairs.offset, shifts)


def high_product(stairs: Stairs) -> HighProduct | None:
    """Return parameters for the upper word of a product, None where a channel has none.

    With low = 32 - up, the product without its lower word is that of x and mul without ``low``
    bits: what is searched are lines mul * x + add of 31 + low bits with multiples of 2^low as
    addends.

    Args:
        stairs: The staircase of each channel.
    """
    whole = whole_of(stairs)
    up = _WORD - magnitude_bits(whole.x_lo, whole.x_hi)
    if up <= 0:
        return None
    low = _WORD + 1 - up
    found = _parameters(stairs, low, (1 << _WORD) - 1)
    if found is None:
        return None
    mul, adds, shifts = found
    if isinstance(stairs, Staircase):
        return HighProduct(mul, adds[0] >> low, shifts, up)
    above, below = (add >> low for add in addends_in_reach(stairs, adds))
    return HighProduct(mul, above, shifts, up, below - above, stairs.offset)


def _parameters(
    stairs: Stairs, low: int, steepest: int
) -> tuple[Integers, list[Integers], Integers] | None:
    """Return mul, the addends of each side and the shifts beyond ``low``, None without.

    Args:
        stairs: The staircase of each channel.
        low: Bits of the product that are dropped first; addends are multiples of 2^low.
        steepest: The largest multiplier.
    """
    sides, whole = sides_of(stairs), whole_of(stairs)
    if not are_numbers(sides):
        return None
    shift = np.full_like(whole.first, low)
    mul, adds = np.zeros_like(whole.first), [side.first << low for side in sides]
    moving = moving_channels(sides)
    if len(moving):
        found = _lines([side.take(moving) for side in sides], whole.take(moving), low, steepest)
        if found is None:
            return None
        slope, own, shift[moving] = found
        mul[moving] = np.where(sides[0].falling[moving], -slope, slope)
        for add, of_side in zip(adds, own, strict=True):
            add[moving] = of_side
    return mul, adds, shift - low


def _lines(
    sides: list[Staircase], whole: Staircase, low: int, steepest: int
) -> tuple[Integers, list[Integers], Integers] | None:
    """Return slope, addends of each side and shift of every channel, None when one has no line."""
    bits = _WORD + low
    shift = largest_shifts(whole, whole.x_lo, whole.x_hi, bits)
    slopes = np.maximum(mean_slopes(whole), 2.0**-_WORD)
    room = np.floor(np.log2(steepest) - np.log2(slopes)).astype(np.int64)
    shift = np.minimum(shift, np.where(slopes > 2.0**-_WORD, room, shift))
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
