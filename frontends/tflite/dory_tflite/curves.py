"""Functions of 16 bits as tables with straight lines between their entries.

Sources: tflite-micro ``kernels/internal/reference/integer_ops/logistic.h`` and ``tanh.h``,
``kernels/internal/common.h`` (``LUTPopulate`` of int16).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.api import Requant
from dory_core.importing import requant
from dory_tflite.fixed_point import FactorError, Integers

_SIDE = 256  # pieces on each side of zero
_LAST = _SIDE - 1  # that of all larger arguments
_MOST_FACTOR = (1 << 16) - 1  # its products with 16 bits still have 32
_STEPS = 512
_WORDS = (-(1 << 15), (1 << 15) - 1)
_Reals = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Curve:
    """A function by pieces of 2^piece_bits: table (2, N) of beginnings and slopes.

    argument gives the place in the table; the value is divided by 2^shift and rounded down.
    """

    table: Integers
    piece_bits: int
    argument: Requant
    shift: int


def logistic_curve(scale: float, sigmoid: Integers) -> Curve:
    """Return LOGISTIC of an input of this scale. sigmoid: of n / 24 in Q0.16, shape (256,)."""
    half, bits = 1 << 9, 9
    rises = np.append(np.diff(sigmoid), 0)
    starts = sigmoid << bits
    starts[_LAST] = 0x7FFF << 10
    low = (1 << 16 + bits) - starts + half - 1
    table = _both(low, starts + half, rises, bits)
    return Curve(table, bits, _argument(scale, (0,), bits), 10)


def tanh_curve(scale: float, sigmoid: Integers) -> Curve:
    """Return TANH, twice the sigmoid of twice the argument less one."""
    half, one, bits = 1 << 7, 1 << 23, 8
    rises = np.append(np.diff(sigmoid), 0)
    starts = sigmoid << bits
    starts[_LAST] = 0xFFFF << 8
    low = one - starts + half - 1
    table = _both(low, starts - one + half, rises, bits)
    return Curve(table, bits, _argument(scale, (0, 1), bits), 8)


def _both(low: Integers, high: Integers, rises: Integers, bits: int) -> Integers:
    """Return the table of both sides.

    low, high: value at the place of each piece that is nearest to zero; rises: per unit.
    """
    last = (1 << bits) - 1  # the farthest place of a piece below zero is its first one
    below = np.stack([low - last * rises, rises])[:, ::-1]
    return np.concatenate([below, np.stack([high, rises])], axis=1)


def _argument(scale: float, powers: tuple[int, ...], bits: int) -> Requant:
    """Return the step to a place in the table: three 4096ths, counted from the first piece.

    powers: with a scale of 2^(power - 12) nothing is rounded. Places below zero are one lower, so
    that zero is none of them. Raises: FactorError where the interpreter's product wraps.
    """
    factor, shift = _factor(scale, powers)
    if factor > _MOST_FACTOR:
        raise FactorError(f"the scale {scale:.6g} of its input is beyond 32 bits")
    half, first = (1 << shift) >> 1, _SIDE << bits
    add = half + (first << shift)
    return requant(factor, add, 1 << shift, 0, 2 * first - 1, add_negative=add - (1 << shift))


def _factor(scale: float, powers: tuple[int, ...]) -> tuple[int, int]:
    logarithm = np.log(np.float32(scale)) * (np.float32(1) / np.log(np.float32(2)))
    power = round(float(logarithm))
    if abs(float(logarithm) - power) < 1e-3 and power + 12 in powers:
        return 3 << power + 12, 0
    real, shift = scale * 4096 * 3, 0
    while real <= 32767 / 2 and shift <= 30:
        real, shift = 2 * real, shift + 1
    return int(real), shift


def exponentials() -> Integers:
    """Return the exponential of 0 to -10 in 65535 steps, Q0.15, shape (513,)."""
    unit = np.float32(10) / np.float32(65535)
    return _populated(unit, _WORDS[1], np.exp)


def inverses() -> Integers:
    """Return 1 / (1 + a) for a of 0 to 1 in 65535 steps, Q0.15, shape (513,)."""
    unit = np.float32(1) / np.float32(65535)
    return _populated(unit, _WORDS[0], lambda values: np.float32(1) / (np.float32(1) + values))


def _populated(unit: np.float32, zero_point: int, function: Callable[[_Reals], _Reals]) -> Integers:
    """Return the table of a function, each entry moved by half the error between two of them."""
    first, last = (unit * np.float32(end - zero_point) for end in _WORDS)
    step = (last - first) / np.float32(_STEPS)
    out = np.float32(2) / np.float32(65535)
    low, high = (out * np.float32(end) for end in _WORDS)
    scale = np.float32(65536) / (high - low)
    places = np.arange(_STEPS, dtype=np.float32)
    at, middle, after = (
        function(first + (places * step + shift)) * scale
        for shift in (np.float32(0), step / np.float32(2), step)
    )
    rounded = _round(at)
    error = _round((after + rounded) / np.float32(2)) - _round(middle)
    entries = np.append(rounded - _round(error / np.float32(2)), _round(function(last) * scale))
    return np.clip(entries, *_WORDS).astype(np.int64)


def _round(values: npt.ArrayLike) -> _Reals:
    """Return the nearest integers, halves away from zero."""
    found = np.asarray(values, np.float32)
    return np.asarray(np.sign(found) * np.floor(np.abs(found) + np.float32(0.5)), np.float32)
