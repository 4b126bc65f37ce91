"""The fixed-point functions that kinds are defined by, on int64 arrays of 32-bit values.

They are those of gemmlowp (``fixedpoint/fixedpoint.h``), which TensorFlow Lite computes with.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.int64]

#: Bits that ``softmax`` drops from an exponential of Q0.31 before it is added up: Q12.19.
SUM_SHIFT = 12
#: 48/17 and -32/17 in Q2.29: the first guess of the reciprocal.
RECIPROCAL_START = 1515870810
RECIPROCAL_SLOPE = -1010580540


def high_product(a: Values, b: Values | int) -> Values:
    """Return round(a * b / 2^31), halves up: the high half of a doubled product."""
    return (a * b + (1 << 30)) >> 31


def rounded_shift(a: Values, shift: Values | int) -> Values:
    """Return a / 2^shift rounded to nearest, halves away from zero; shift is at least 1."""
    half = np.left_shift(np.int64(1), np.asarray(shift) - 1)
    return np.asarray((a + half - (a < 0)) >> shift, dtype=np.int64)


def reciprocal(a: Values) -> Values:
    """Return 1 / (1 + a) in Q0.31 for a in [0, 1) of Q0.31, by three steps of Newton-Raphson."""
    total = a + (1 << 31) - 1
    half = (total + 1) >> 1  # no element is negative
    x = RECIPROCAL_START + high_product(half, RECIPROCAL_SLOPE)
    for _ in range(3):
        error = (1 << 29) - high_product(half, x)
        x = x + np.clip(high_product(x, error) << 2, -(1 << 31), (1 << 31) - 1)
    return np.asarray(np.clip(x << 1, -(1 << 31), (1 << 31) - 1), dtype=np.int64)


def softmax(differences: Values, table: Values) -> Values:
    """Return 256 times the shares along axis 0, for indices into ``table`` (see ``ir.Softmax``)."""
    powers = table[differences]
    total = rounded_shift(powers, SUM_SHIFT).sum(axis=0)
    zeros = 31 - np.floor(np.log2(total)).astype(np.int64)  # exact: totals are below 2^53
    share = high_product(powers, reciprocal((total << zeros) - (1 << 31)))
    return rounded_shift(share, 35 - zeros)
