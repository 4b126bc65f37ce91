"""A step in 64 bits as a product of two words, of whose sum the upper word is shifted.

Channels of one layer share a divisor, so that a channel with a large scale has a multiplier beyond
32 bits: one of fewer bits times a power of two, which the divisor of the channel need not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_gap8.backend.steps import SHIFT, Step

_WORD = 32
# Addends lie well within 64 bits, beside a product of two words.
_MOST_ADDEND = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class High:
    """The parameters of a step.

    records: int32, shape (C, words), or (1, words): [offset], mul, two words of add, [two of
    below], bits by which the upper word is shifted. up: bits by which operands are shifted first.
    """

    records: npt.NDArray[np.int32]
    up: int


def high_form(step: Step, reach: int) -> High | None:
    """Return the step for operands in [-reach, reach]; None where words are too short.

    With mul = m * 2^k, floor((x * mul + add) / 2^s) is floor((x * m + floor(add / 2^k)) /
    2^(s - k)).
    """
    if step.form != SHIFT:
        return None
    columns = [values for values in (step.offset, step.mul, step.add, step.below) if values]
    channels = max(map(len, columns))
    offset, mul, add, below = (
        tuple(values or (0,)) * (channels // len(values or (0,)))
        for values in (step.offset, step.mul, step.add, step.below)
    )
    down = [max(0, m.bit_length() - _WORD + 1) for m in mul]
    up = max(0, _WORD - step.shift + max(down))
    shifts = [step.shift + up - k - _WORD for k in down]
    exact = all(m % (1 << k) == 0 for m, k in zip(mul, down, strict=True))
    if not exact or max(shifts) >= _WORD or reach << up >= 1 << _WORD - 1:
        return None
    rows = []
    for o, m, a, b, k, shift in zip(offset, mul, add, below, down, shifts, strict=True):
        first, other = ((value << up) >> k for value in (a, a + b))
        if max(abs(first), abs(other)) >= _MOST_ADDEND:
            return None
        turned = step.below is not None
        row = [*([o] if turned else []), m >> k, *_two_words(first)]
        rows.append([*row, *(_two_words(other - first) if turned else []), shift])
    return High(np.array([[_signed(word) for word in row] for row in rows], dtype=np.int32), up)


def _two_words(value: int) -> Sequence[int]:
    """Return the lower and the upper word of a number of 64 bits."""
    return value & 0xFFFFFFFF, (value >> _WORD) & 0xFFFFFFFF


def _signed(word: int) -> int:
    """Return the lower 32 bits of a number, signed."""
    half = 1 << _WORD - 1
    return (word + half) % (2 * half) - half
