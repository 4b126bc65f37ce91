"""exp, logistic, tanh and softmax in the fixed point of gemmlowp.

A number Qm.n of 32 bits stands for ``value / 2^n``. Source: gemmlowp ``fixedpoint/fixedpoint.h``
and tflite-micro ``kernels/internal/reference/softmax.h``; every constant is theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_tflite.fixed_point import (
    INT32_MAX,
    INT32_MIN,
    Integers,
    Multiplier,
    divide_by_power,
    high_product,
    multiply,
    quantize_multiplier,
)

_EXP_MINUS_EIGHTH = 1895147668
_THIRD = 715827883
# exp(-2^k) in Q0.31 for k = -2 ... 4.
_EXP_POWERS = {
    -2: 1672461947,
    -1: 1302514674,
    0: 790015084,
    1: 290630308,
    2: 39332535,
    3: 720401,
    4: 242,
}
_48_OVER_17 = 1515870810  # Q2.29
_MINUS_32_OVER_17 = -1010580540  # Q2.29
_ONE_Q2_29 = 1 << 29


def _saturated(values: npt.ArrayLike) -> Integers:
    return np.clip(np.asarray(values, np.int64), INT32_MIN, INT32_MAX)


def exp_of_negative(values: npt.ArrayLike, integer_bits: int) -> Integers:
    """Return exp(a) in Q0.31 for a <= 0 in Q(integer_bits).(31 - integer_bits)."""
    a = np.asarray(values, np.int64)
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    inside = (a & (quarter - 1)) - quarter
    result = _exp_of_quarter(inside << integer_bits)
    remainder = inside - a
    for exponent, factor in _EXP_POWERS.items():
        if integer_bits > exponent:
            bit = 1 << (fraction_bits + exponent)
            result = np.where(remainder & bit, high_product(result, factor), result)
    return np.where(a == 0, INT32_MAX, result)


def _exp_of_quarter(values: Integers) -> Integers:
    """Return exp(a) in Q0.31 for -1/4 <= a < 0 in Q0.31: Taylor's polynomial around -1/8."""
    x = values + (1 << 28)
    x2 = high_product(x, x)
    x3, x4 = high_product(x2, x), high_product(x2, x2)
    tail = high_product(divide_by_power(x4, 2) + x3, _THIRD) + x2
    polynomial = x + divide_by_power(tail, 1)
    return _saturated(_EXP_MINUS_EIGHTH + high_product(_EXP_MINUS_EIGHTH, polynomial))


def _rounded_half_sum(a: Integers, b: int) -> Integers:
    total = a + b
    rounded: Integers = np.sign(total) * ((np.abs(total) + 1) >> 1)
    return rounded


def _newton_division(denominator_half: Integers) -> Integers:
    """Return 1 / d in Q2.29 for d = 2 * half denominator in Q0.31, three steps of Newton."""
    x = _48_OVER_17 + high_product(denominator_half, _MINUS_32_OVER_17)
    for _ in range(3):
        error = _ONE_Q2_29 - high_product(denominator_half, x)
        x = x + _saturated(high_product(x, error) << 2)
    return x


def one_over_one_plus(values: npt.ArrayLike) -> Integers:
    """Return 1 / (1 + a) in Q0.31 for 0 <= a < 1 in Q0.31."""
    half = _rounded_half_sum(np.asarray(values, np.int64), INT32_MAX)
    return _saturated(_newton_division(half) << 1)


def one_minus_over_one_plus(values: npt.ArrayLike) -> Integers:
    """Return (1 - a) / (1 + a) in Q0.31 for 0 <= a < 1 in Q0.31."""
    half = _rounded_half_sum(np.asarray(values, np.int64), INT32_MAX)
    return _saturated((_newton_division(half) - _ONE_Q2_29) << 2)


def logistic(values: npt.ArrayLike) -> Integers:
    """Return 1 / (1 + exp(-a)) in Q0.31 for a in Q4.27."""
    a = np.asarray(values, np.int64)
    positive = one_over_one_plus(exp_of_negative(-np.abs(a), 4))
    result = np.where(a > 0, positive, INT32_MAX - positive)
    return np.where(a == 0, 1 << 30, result)


def tanh(values: npt.ArrayLike) -> Integers:
    """Return tanh(a) in Q0.31 for a in Q4.27."""
    a = np.asarray(values, np.int64)
    # exp(-2 |a|): the same bits with one integer bit more.
    magnitude = one_minus_over_one_plus(exp_of_negative(-np.abs(a), 5))
    return np.where(a == 0, 0, np.where(a > 0, magnitude, -magnitude))


@dataclass(frozen=True, slots=True)
class SoftmaxTable:
    """exp of the distance to the maximum, Q0.31, for distances 0, -1, ..., -255.

    exps: 256 integers; 0 where the distance is so large that the element is left out.
    """

    exps: tuple[int, ...]


def softmax_factor(beta: float, scale: float) -> Multiplier:
    """Return the multiplier that brings a distance of stored values to Q5.26."""
    return quantize_multiplier(min(beta * scale * 2.0**26, 2.0**31 - 1))


def _least(factor: Multiplier) -> int:
    """Return the largest distance that is not left out."""
    return -math.floor(31 * 2.0**26 / 2.0**factor.exponent)


def softmax_table(beta: float, scale: float) -> SoftmaxTable:
    """Return the table of SOFTMAX for an input of this scale."""
    factor = softmax_factor(beta, scale)
    distances = -np.arange(256, dtype=np.int64)
    kept = distances >= _least(factor)
    exps = exp_of_negative(multiply(np.where(kept, distances, 0), factor), 5)
    return SoftmaxTable(tuple(int(e) for e in np.where(kept, exps, 0)))


def log_softmax_tables(scale: float) -> Integers:
    """Return the tables of LOG_SOFTMAX for an input of this scale, shape (2, 256).

    For distances 0, -1, ..., -255 to the maximum: exp in Q12.19, 0 where the element is left out;
    and the distance in Q5.26, no less than -20, after which every result is the lowest.
    """
    factor = softmax_factor(1.0, scale)
    powers = divide_by_power(np.array(softmax_table(1.0, scale).exps, np.int64), 12)
    kept = -np.arange(256, dtype=np.int64) >= _least(factor)
    distances = multiply(np.where(kept, -np.arange(256, dtype=np.int64), 0), factor)
    lowest = -20 << 26
    return np.stack([powers, np.where(kept, np.maximum(distances, lowest), lowest)])


def softmax(values: npt.ArrayLike, table: SoftmaxTable) -> Integers:
    """Return SOFTMAX of stored int8 values over the last axis: scale 1/256, zero point -128."""
    stored = np.asarray(values, np.int64)
    distance = stored.max(axis=-1, keepdims=True) - stored
    exps = np.array(table.exps, np.int64)[distance]
    total = np.where(exps > 0, divide_by_power(exps, 12), 0).sum(axis=-1, keepdims=True)
    headroom = 32 - np.ceil(np.log2(total + 1)).astype(np.int64)
    inverse = one_over_one_plus((total << headroom) - (1 << 31))
    result = divide_by_power(high_product(inverse, exps), 12 - headroom + 23) - 128
    return np.where(exps > 0, np.clip(result, -128, 127), -128)
