"""Steps in binary32 as integer steps with the identical staircase.

The thresholds of a product that is rounded twice, to binary32 and half to even, lie on no line
where two of them are ties within the precision of binary32: one goes up, the other one down. Most
channels have no such pair and are one line. In others, what lies below a turning point between the
two is one line, and what lies above another one with the same multiplier: a step with two addends,
whose turning point each channel has for itself.
"""

from __future__ import annotations

import numpy as np

from dory_core.ir.requantisation.narrow import Narrow, has_line, widest, widest_shift
from dory_core.ir.requantisation.staircase import Integers, Staircase, split_staircase

#: Channels that are looked at together: one that has no turning point ends the search.
_CHUNK = 8
#: Channels that are no line: among more of them, one without a turning point is all but certain.
_MOST_CROOKED = 48
#: Where turning points are tried, of all that are possible for one channel.
_PLACES = ((1, 2), (0, 1), (1, 1))


def integer_form(stairs: Staircase) -> Narrow | None:
    """Return parameters of 62 bits with these stairs, two addends where one does not suffice.

    The two are those of acc + offset. None where a channel has neither, or falls.
    """
    found = widest(stairs)
    if found is not None or bool(stairs.falling.any()):
        return found
    shift = widest_shift(stairs)
    if shift < 1:
        return None
    crooked = np.flatnonzero(~has_line(stairs, shift))
    if not 0 < len(crooked) <= _MOST_CROOKED:
        return None
    bends = []
    for first in range(0, len(crooked), _CHUNK):
        part = stairs.take(crooked[first : first + _CHUNK])
        highest = _bend(part, shift, rising=True)
        lowest = _bend(part, shift, rising=False)
        if (lowest > highest).any():
            return None
        bends.append((lowest, highest))
    lowest, highest = (np.concatenate(ends) for ends in zip(*bends, strict=True))
    for weight, of in _PLACES:
        turn = np.zeros(len(stairs.first), dtype=np.int64)
        turn[crooked] = stairs.thresholds[crooked, lowest + (highest - lowest) * weight // of]
        found = widest(split_staircase(stairs, turn))
        if found is not None:
            return found
    return None


def _bend(stairs: Staircase, shift: int, rising: bool) -> Integers:
    """Return per channel the last threshold below which all is a line, shape (C,), as its index.

    Not rising: the first one from which on all is a line.
    """
    channels, count = stairs.thresholds.shape
    rows = np.arange(channels)
    lo, hi = np.zeros(channels, np.int64), np.full(channels, count - 1, np.int64)
    while (lo < hi).any():
        middle = (lo + hi + rising) >> 1
        at = stairs.thresholds[rows, middle]
        if rising:
            part = stairs.between(np.minimum(stairs.x_lo, at - 1), at - 1)
        else:
            part = stairs.between(at, np.maximum(stairs.x_hi, at))
        fits = has_line(part, shift)
        if rising:
            lo, hi = np.where(fits, middle, lo), np.where(fits, hi, np.maximum(middle - 1, lo))
        else:
            lo, hi = np.where(fits, lo, np.minimum(middle + 1, hi)), np.where(fits, middle, hi)
    return lo
