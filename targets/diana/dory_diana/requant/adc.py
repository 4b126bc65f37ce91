"""The analog array: t = clip(floor(acc / scale), -32, 31), y = clip((t * mul + add) >> shift).

The converters give 64 values, so a layer is exact only where its outputs do not tell accumulators
apart that the converters do not: they are constant on every block of ``scale`` accumulators. What
is left is a staircase over t, for which mul and add are searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dory_core.api import requantisation
from dory_core.importing import requant
from dory_diana.requant.common import Integers, Steps, clipped

T_LO, T_HI = -32, 31
RELU, SIGNED = (0, 127), (-64, 63)
MOST_SHIFT = 31


@dataclass(frozen=True, slots=True, eq=False)
class Adc:
    """y = clip((t * mul + add) >> shift).

    mul, add: int64 within 32 bits, shape (C,). relu: clip to [0, 127], else to [-64, 63].
    """

    mul: Integers
    add: Integers
    shift: int
    relu: bool


def find_adc(steps: Steps, scale: int) -> Adc | None:
    """Return parameters with which all values of ``steps`` come out, None when there are none.

    scale: accumulators per step of the converters.
    """
    if not _constant_on_blocks(steps, scale):
        return None
    t_lo, t_hi = (np.clip(b // scale, T_LO, T_HI) for b in (steps.lo, steps.hi))
    over_t = (requant(scale), *steps.steps)
    stairs = requantisation.staircase(over_t, t_lo, t_hi)
    for clip in (RELU, SIGNED):
        bounded = None if stairs is None else clipped(stairs, clip)
        found = None if bounded is None else requantisation.narrow_32(bounded)
        if found is not None and found.shift <= MOST_SHIFT:
            return Adc(found.mul, found.add, found.shift, relu=clip == RELU)
    return None


def _constant_on_blocks(steps: Steps, scale: int) -> bool:
    """Return True when the outputs depend only on t, and are those of acc = t * scale.

    Steps rise or fall over a block, so its ends say all about it.
    """
    for t in range(T_LO, T_HI + 1):
        lo = steps.lo if t == T_LO else np.maximum(steps.lo, t * scale)
        hi = steps.hi if t == T_HI else np.minimum(steps.hi, t * scale + scale - 1)
        there = lo <= hi
        if there.any():
            at_lo, at_hi, at_t = (
                steps.values(acc) for acc in (lo, hi, np.full_like(lo, t * scale))
            )
            if ((at_lo != at_hi) | (at_lo != at_t))[there].any():
                return False
    return True
