"""Fixed-point arithmetic of TensorFlow Lite Micro, and its form as a Requant.

A real factor is a mantissa M and an exponent s: ``M * 2^(s - 31)`` with ``2^30 <= M < 2^31``. An
accumulator is multiplied by it with two roundings, the second one half away from zero:

    v = floor((acc * 2^max(s, 0) * M + 2^30) / 2^31)
    y = round_half_away(v / 2^r),  r = max(-s, 0)

which is one floor form whose addend depends on the sign of acc:

    y = floor((M * acc + 2^(30 + r) + (acc < 0 ? -2^30 : 2^30)) / 2^(31 + r))     for r > 0
    y = floor((M * 2^s * acc + 2^30) / 2^31)                                      for r = 0

Sources: tflite-micro ``kernels/internal/quantization_util.cc`` and ``kernels/internal/common.cc``,
gemmlowp ``fixedpoint/fixedpoint.h``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)


_MOST_EXPONENT = 31  # that of SOFTMAX


class FactorError(ValueError):
    """A factor that the kernels do not compute with, or not within 64 bits."""


@dataclass(frozen=True, slots=True)
class Multiplier:
    """The factor ``mantissa * 2^(exponent - 31)``; mantissa 0 is the factor zero."""

    mantissa: int
    exponent: int

    @property
    def left_shift(self) -> int:
        """Bits by which the operand is shifted to the left first."""
        return max(self.exponent, 0)

    @property
    def right_shift(self) -> int:
        """Bits by which the product is shifted to the right."""
        return max(-self.exponent, 0)


def quantize_multiplier(factor: float) -> Multiplier:
    """Return the fixed-point form of a factor, which is not negative.

    Source: ``QuantizeMultiplier`` with two roundings. Raises: FactorError beyond 2^31.
    """
    if not factor <= 2.0**_MOST_EXPONENT:
        raise FactorError(f"scales that differ by a factor of {factor:.3g}")
    fraction, exponent = math.frexp(factor)
    mantissa = math.floor(fraction * 2.0**31 + 0.5)
    if mantissa == 2**31:
        mantissa, exponent = 2**30, exponent + 1
    if mantissa == 0 or exponent < -31:
        return Multiplier(0, 0)
    return Multiplier(mantissa, exponent)


def rounding_half_away(value: float) -> int:
    """Return the nearest integer, halves away from zero: C's ``round``."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def high_product(a: npt.ArrayLike, b: npt.ArrayLike) -> Integers:
    """Return the high 32 bits of ``2 * a * b``, rounded: SaturatingRoundingDoublingHighMul."""
    left, right = np.asarray(a, np.int64), np.asarray(b, np.int64)
    product: Integers = np.minimum((left * right + (1 << 30)) >> 31, INT32_MAX)
    return product


def divide_by_power(value: npt.ArrayLike, exponent: npt.ArrayLike) -> Integers:
    """Return ``value / 2^exponent`` rounded half away from zero: RoundingDivideByPOT."""
    values, shifts = np.asarray(value, np.int64), np.asarray(exponent, np.int64)
    half = (np.int64(1) << shifts) >> 1
    result: Integers = (values + half - ((values < 0) & (shifts > 0))) >> shifts
    return result


def multiply(value: npt.ArrayLike, factor: Multiplier) -> Integers:
    """Return ``value * factor`` with both roundings: MultiplyByQuantizedMultiplier."""
    shifted = np.asarray(value, np.int64) << factor.left_shift
    return divide_by_power(high_product(shifted, factor.mantissa), factor.right_shift)


@dataclass(frozen=True, slots=True)
class FloorForm:
    """``floor((mul * acc + (add if acc >= 0 else add_negative)) / 2^shift)``."""

    mul: int
    add: int
    add_negative: int
    shift: int

    def at(self, acc: int) -> int:
        """Return the value for one accumulator."""
        return (self.mul * acc + (self.add if acc >= 0 else self.add_negative)) >> self.shift


def floor_form(factor: Multiplier) -> FloorForm:
    """Return the multiplication by ``factor`` as one floor form."""
    right = factor.right_shift
    if right == 0:
        return FloorForm(factor.mantissa << factor.left_shift, 1 << 30, 1 << 30, 31)
    half = 1 << (30 + right)
    return FloorForm(factor.mantissa, half + (1 << 30), half - (1 << 30), 31 + right)


_LEAST_WIDE_SHIFT = 8  # what the interpreter's function takes


def wide_form(factor: Multiplier) -> FloorForm:
    """Return the multiplication of an accumulator of 64 bits: the mantissa has 15 bits.

    Source: ``MultiplyByQuantizedMultiplier`` of int64 in ``kernels/internal/common.cc``. Raises:
    FactorError for factors that it does not take.
    """
    shift = 15 - factor.exponent
    if shift < _LEAST_WIDE_SHIFT:
        raise FactorError("scales that differ by a factor of 2^7 or more")
    mantissa = min((factor.mantissa + (1 << 15)) >> 16, (1 << 15) - 1)
    half = 1 << (shift - 1)
    return FloorForm(mantissa, half, half, shift)


def with_shift(form: FloorForm, shift: int, acc_lo: int, acc_hi: int) -> FloorForm | None:
    """Return parameters for another shift with equal values for acc_lo <= acc <= acc_hi.

    A larger shift is exact for every accumulator. For a smaller one the multiplier is rounded, and
    addends are taken that keep every threshold; None where there are none.
    """
    if shift >= form.shift:
        scale = 1 << (shift - form.shift)
        return FloorForm(form.mul * scale, form.add * scale, form.add_negative * scale, shift)
    mul = rounding_half_away(form.mul / (1 << (form.shift - shift)))
    for candidate in (mul, mul - 1, mul + 1, 0):
        if candidate < 0:
            continue
        add = _addend(form, form.add, candidate, shift, (max(acc_lo, 0), acc_hi))
        low = _addend(form, form.add_negative, candidate, shift, (acc_lo, min(acc_hi, -1)))
        if add is not None and low is not None:
            return FloorForm(candidate, add, low, shift)
    return None


_MOST_LEVELS = 4096


def _addend(
    form: FloorForm, addend: int, mul: int, shift: int, reach: tuple[int, int]
) -> int | None:
    """Return an addend with which ``mul`` and ``shift`` give the values of ``form`` in reach."""
    lo, hi = reach
    if lo > hi:
        return 0
    first, last = (form.mul * lo + addend) >> form.shift, (form.mul * hi + addend) >> form.shift
    if last - first > _MOST_LEVELS:
        return None
    least, most = (first << shift) - mul * lo, ((last + 1) << shift) - 1 - mul * hi
    for level in range(first + 1, last + 1):
        threshold = -((addend - (level << form.shift)) // form.mul)
        least = max(least, (level << shift) - mul * threshold)
        most = min(most, (level << shift) - 1 - mul * (threshold - 1))
    return (least + most) // 2 if least <= most else None


def c_divide(value: Any, divisor: int) -> Any:
    """Return ``value / divisor`` truncated towards zero, as C divides; divisor is positive."""
    return np.sign(value) * (np.abs(value) // divisor)
