"""The digital array: y = clip((acc + bias) >> shift), one shift for all channels.

A multiplier per channel can only live in the weights: the array computes factor * acc when every
weight of the channel is multiplied by a small integer, as long as they stay 8-bit numbers. For each
shift there are one or two factors per channel that come near the slope of the network's
requantisation; whether there is a bias with which all values agree is decided by the thresholds of
its staircase.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.api import requantisation
from dory_diana.requant.common import Integers, Steps, clipped, slopes

RELU, SIGNED = (0, 127), (-128, 127)
MOST_SHIFT = 31
_INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """y = clip((factor * acc + bias) >> shift).

    factor, bias: int64, shape (C,), bias within 32 bits. relu: clip to [0, 127], else to
    [-128, 127].
    """

    factor: Integers
    bias: Integers
    shift: int
    relu: bool


def find_shift(steps: Steps, factors: tuple[Integers, Integers], largest: Integers) -> Shift | None:
    """Return a shift with which all values of ``steps`` come out, None when there is none.

    factors: the lowest and the highest factor, shape (C,). largest: of what the array's sums of
    products may become in magnitude, shape (C,); times the factor and with the bias they fit 32
    bits.
    """
    stairs = steps.stairs()
    for clip in (RELU, SIGNED):
        bounded = None if stairs is None else clipped(stairs, clip)
        found = None if bounded is None else _search(steps, bounded, factors, largest)
        if found is not None:
            return Shift(*found, relu=clip == RELU)
    return None


def _search(
    steps: Steps,
    stairs: requantisation.Staircase,
    factors: tuple[Integers, Integers],
    largest: Integers,
) -> tuple[Integers, Integers, int] | None:
    """Return (factor, bias, shift), the smallest shift that there is."""
    slope = slopes(steps.steps, len(largest))
    for shift in range(MOST_SHIFT + 1):
        scaled = slope * float(1 << shift)
        beyond = (scaled <= factors[0] - 1) | (scaled >= factors[1] + 1)
        if beyond[~stairs.constant].any():
            return None
        found = _with_shift(stairs, scaled, factors, largest, shift)
        if found is not None:
            return (*found, shift)
    return None


def _with_shift(
    stairs: requantisation.Staircase,
    scaled: npt.NDArray[np.float64],
    factors: tuple[Integers, Integers],
    largest: Integers,
    shift: int,
) -> tuple[Integers, Integers] | None:
    """Return (factor, bias) for one shift; a factor of 0 does where nothing changes."""
    factor, bias = np.zeros_like(largest), np.zeros_like(largest)
    left = np.ones(len(largest), dtype=bool)
    down = np.floor(scaled).astype(np.int64)
    for candidate in (np.where(stairs.constant, 0, down), down + 1, down - 1):
        lo, hi = requantisation.exact_addend_interval(stairs, candidate, 1 << shift)
        nearest = np.clip(0, lo, np.maximum(lo, hi))
        fits = (lo <= hi) & (factors[0] <= candidate) & (candidate <= factors[1])
        fits &= np.abs(candidate) * largest + np.abs(nearest) <= _INT32
        take = left & fits
        factor[take], bias[take] = candidate[take], nearest[take]
        left &= ~fits
        if not left.any():
            return factor, bias
    return None
