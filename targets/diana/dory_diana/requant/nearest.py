"""The nearest requantisation of an array where none is exact (``--set requant=approximate``).

Thresholds of the network's staircase are met on average: the line of the array crosses a level half
an accumulator before the smallest one that reaches it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.api import Requant, requantisation
from dory_core.importing import requant
from dory_diana.requant import adc, shift
from dory_diana.requant.common import Integers, Steps, slopes

Reals = npt.NDArray[np.float64]

_MOST_WEIGHT = 127
# Bits of mul and of the sum after the converters: mul * t + add stays well inside of 32 bits.
_ADC_BITS = 30
_INT32 = (1 << 31) - 1
_POINTS = 129


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """What a layer becomes: other weights, no bias, other steps.

    weights: int64, rows of the layer's, shape (C, n). error: mean difference of an output over the
    accumulators between which the network's changes.
    """

    weights: Integers
    steps: tuple[Requant, ...]
    error: float


def nearest_shift(steps: Steps, rows: Integers) -> Nearest | None:
    """Return the nearest right shift, None when outputs are no signed bytes or weights overflow.

    rows: weights, shape (C, n). They are scaled and rounded, as much as their 8 bits allow.
    """
    stairs = steps.stairs()
    clip = None if stairs is None else _clip(stairs, shift.RELU, shift.SIGNED)
    if stairs is None or clip is None:
        return None
    slope = np.where(stairs.constant, 0.0, slopes(steps.steps, len(rows)))
    largest = float((np.abs(slope) * np.abs(rows).max(axis=1)).max())
    bits = shift.MOST_SHIFT if largest == 0 else int(np.floor(np.log2(_MOST_WEIGHT / largest)))
    bits = min(bits, shift.MOST_SHIFT)
    while bits >= 0:
        unit = 1 << bits
        bias = np.rint(_offsets(stairs, np.abs(slope) * unit, 1, unit)).astype(np.int64)
        if int(np.abs(bias).max()) <= _INT32 >> 1:
            break
        bits -= 1
    else:
        return None
    weights = np.rint(rows * (slope * unit)[:, None]).astype(np.int64)

    def shifted(acc: Reals) -> Reals:
        return np.floor((np.rint(acc * slope * unit) + bias) / unit)

    error = _error(steps, stairs, shifted, clip)
    return Nearest(weights, (requant(1, bias.tolist(), unit, *clip),), error)


def nearest_adc(steps: Steps, rows: Integers, scale: int) -> Nearest | None:
    """Return the nearest line after the converters, None when outputs are no 7-bit numbers.

    rows: weights, shape (C, products of a sum). scale: accumulators per step of the converters.
    """
    stairs = steps.stairs()
    clip = None if stairs is None else _clip(stairs, adc.RELU, adc.SIGNED)
    if stairs is None or clip is None:
        return None
    slope = np.where(stairs.constant, 0.0, slopes(steps.steps, len(rows))) * scale
    offsets = _offsets(stairs, np.abs(slope), scale, 1)
    largest = max(float((np.abs(slope) * -adc.T_LO + np.abs(offsets)).max()), 1.0)
    bits = min(_ADC_BITS - int(np.ceil(np.log2(largest))), _ADC_BITS)
    if bits < 0:
        return None
    mul, add = (np.rint(v * (1 << bits)).astype(np.int64) for v in (slope, offsets))

    def converted(acc: Reals) -> Reals:
        t = np.clip(np.floor(acc / scale), adc.T_LO, adc.T_HI)
        return np.floor((t * mul + add) / (1 << bits))

    converter = requant(1, 0, scale, adc.T_LO, adc.T_HI)
    line = requant(mul.tolist(), add.tolist(), 1 << bits, *clip)
    return Nearest(rows, (converter, line), _error(steps, stairs, converted, clip))


def _clip(
    stairs: requantisation.Staircase, relu: tuple[int, int], signed: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the narrower clip of the array that holds all outputs."""
    lo, hi = int(stairs.first.min()), int(stairs.last.max())
    return next((c for c in (relu, signed) if c[0] <= lo and hi <= c[1]), None)


def _offsets(stairs: requantisation.Staircase, slope: Reals, scale: int, unit: int) -> Reals:
    """Return the addends of ``slope * x``: the median over the levels, shape (C,).

    x: accumulators, mirrored where they fall, in steps of ``scale``. unit: of one level.
    """
    levels = np.broadcast_to(stairs.levels, stairs.thresholds.shape) * float(unit)
    crossing = stairs.thresholds.astype(np.float64) / scale - 0.5
    found = np.median(levels - slope[:, None] * crossing, axis=1)
    return np.where(stairs.constant, stairs.first * float(unit), found)


def _error(
    steps: Steps,
    stairs: requantisation.Staircase,
    approximate: Callable[[Reals], Reals],
    clip: tuple[int, int],
) -> float:
    """Return the mean difference at points between the first and the last threshold."""
    lo, hi = stairs.window()
    total = 0.0
    for share in np.linspace(0.0, 1.0, _POINTS):
        acc = np.rint(lo + (hi - lo) * share).astype(np.int64)
        exact = steps.values(acc).astype(np.float64)
        found = np.clip(approximate(acc.astype(np.float64)), *clip)
        total += float(np.abs(exact - found).mean())
    return total / _POINTS
