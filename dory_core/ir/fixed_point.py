"""The fixed-point functions that kinds are defined by, on int64 arrays of 32-bit values.

They are those of gemmlowp (``fixedpoint/fixedpoint.h``), which TensorFlow Lite computes with, and
of tflite-micro.
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


def softmax(differences: Values, table: Values, share_bits: int) -> Values:
    """Return 2^share_bits times the shares along axis 0 (see ``ir.Softmax``).

    Args:
        differences: Indices into the table: how far elements are below the largest one.
        table: Powers of e for each difference, in Q0.31.
        share_bits: Binary digits of a share.
    """
    powers = table[differences]
    total = rounded_shift(powers, SUM_SHIFT).sum(axis=0)
    zeros = 31 - np.floor(np.log2(total)).astype(np.int64)  # exact: totals are below 2^53
    share = high_product(powers, reciprocal((total << zeros) - (1 << 31)))
    return rounded_shift(share, 43 - share_bits - zeros)


def logarithm(a: Values) -> Values:
    """Return log(a) in Q5.26 for a from 1 on in Q12.19.

    a is a power of 2 times r in [0.707, 1.414), and log(r) a quotient of polynomials about the
    fourth root of 1/2. Source: TensorFlow Lite, log_x_for_x_greater_than_or_equal_to_1.
    """
    log_2, root, fourth_root, quarter = 1488522236, 1518500250, 1805811301, 1 << 23
    zeros = _leading_zeros(a)
    first = _saturated(high_product(a << (zeros - 1), root) << 1)
    first_power = ((12 - zeros) << 25) + quarter
    headroom = _leading_zeros(high_product(a, root)) - 1
    second = _saturated(a << headroom)
    second_power = ((12 - headroom) << 25) - quarter
    r, power = np.minimum(first, second), np.maximum(first_power, second_power)
    p = (r + fourth_root + 1) >> 1
    q = 2 * (r - fourth_root)
    square = high_product(q, q)
    over = high_product(q, r) + high_product(high_product(q, square), 117049297)
    factor = 1057819769 + q + high_product(square, 127690142)
    under = high_product(p, factor) + high_product(q, 638450708)
    fraction = high_product(rounded_shift(over, 6), reciprocal(under))
    return _saturated((high_product(power, log_2) + fraction) << 1)


def _leading_zeros(a: Values) -> Values:
    """Return the leading zeros of positive numbers in 32 bits."""
    return np.asarray(31 - np.floor(np.log2(a)).astype(np.int64))


def _saturated(a: Values) -> Values:
    return np.asarray(np.clip(a, -(1 << 31), (1 << 31) - 1), dtype=np.int64)


def log_softmax(differences: Values, table: Values) -> Values:
    """Return 16 times the logarithms of the shares along axis 0 (see ``ir.LogSoftmax``)."""
    total = table[0][differences].sum(axis=0)
    return rounded_shift(table[1][differences] - logarithm(total), 22)


def sigmoid(argument: Values, table: Values) -> Values:
    """Return the sigmoid in Q0.15 of arguments in units of 2^-12 / 3.

    Args:
        argument: In units of 2^-12 / 3.
        table: Sigmoid of n / 24 in Q0.16, between whose entries lie straight lines. Source:
            tflite-micro, reference/integer_ops/logistic.h.
    """
    place = np.abs(argument)
    whole = np.minimum(place >> 9, 254)
    lower, upper = table[whole], table[whole + 1]
    between = (lower << 9) + (place & 511) * (upper - lower)
    found = np.where(place >> 9 >= 255, 32767 << 10, between)
    return np.asarray(np.where(argument >= 0, found + 512, (1 << 25) - found + 511) >> 10)


def tanh(argument: Values, table: Values) -> Values:
    """Return the hyperbolic tangent in Q0.15 of arguments in units of 2^-12 / 3.

    Args:
        argument: In units of 2^-12 / 3.
        table: That of :func:`sigmoid`. Source: tflite-micro, reference/integer_ops/tanh.h.
    """
    place = np.abs(argument)
    whole = np.minimum(place >> 8, 254)
    lower, upper = table[whole], table[whole + 1]
    between = (lower << 8) + (place & 255) * (upper - lower)
    found = np.where(place >> 8 >= 255, 65535 << 8, between) - (1 << 23)
    return np.asarray(np.where(argument >= 0, found + 128, 127 - found) >> 8)


def inverse_root(a: Values) -> tuple[Values, Values]:
    """Return (mantissa, shift) of 1 / sqrt(a) = mantissa / 2^(31 + shift), by Newton-Raphson.

    a: numbers from 0 on; 0 counts as 1. Source: TensorFlow Lite, GetInvSqrtQuantizedMultiplierExp.
    """
    large = a >= 1 << 29
    scaled = np.where(large, a >> 2, np.maximum(a, 2))
    pairs = (_leading_zeros(scaled) - 1) // 2 - 1
    shift = 11 + large - pairs
    operand = scaled << 2 * pairs >> 1  # in Q3.28, as x is
    x, half = np.full_like(operand, 1 << 28), (operand + 1) >> 1
    for _ in range(5):
        cube = _saturated(high_product(high_product(x, x), x) << 6)
        x = _saturated((high_product(x, 3 << 27) - high_product(half, cube)) << 3)
    mantissa = high_product(x, 1518500250) << np.maximum(-shift, 0)
    found = np.where(a <= 1, (1 << 31) - 1, mantissa)
    return found, np.where(a <= 1, 0, np.maximum(shift, 0))


def l2_norm(values: Values) -> Values:
    """Return 128 times numbers over the root of the sum of their squares, along axis 0.

    Source: TensorFlow Lite, reference/integer_ops/l2normalization.h.
    """
    mantissa, shift = inverse_root((values**2).sum(axis=0))
    right = np.maximum(shift - 7, 0)
    products = np.minimum(high_product(values << 7 - shift + right, mantissa), (1 << 31) - 1)
    rounded = rounded_shift(products, np.maximum(right, 1))
    return np.asarray(np.where(right > 0, rounded, products))
