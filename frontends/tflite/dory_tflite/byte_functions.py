"""Functions of one byte as tables of 256 entries, as TensorFlow Lite Micro computes them.

Every table is for the stored values ``lo .. lo + 255`` of the input in this order, int64. Scales
are float32 numbers of the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dory_tflite.exponentials import logistic, one_over_one_plus, tanh
from dory_tflite.fixed_point import (
    INT32_MAX,
    FactorError,
    Integers,
    Multiplier,
    c_divide,
    divide_by_power,
    high_product,
    multiply,
    quantize_multiplier,
)
from dory_tflite.preparation import quantized

_ROOT_BITS = 20  # of fraction
_INVERSE_OF_0 = -1515870816  # Q0.31
_HALF_ROOT_OF_2 = 1518500250  # Q0.31


@dataclass(frozen=True, slots=True)
class Quantisation:
    """Real value = scale * (stored - zero_point) of an integer of ``bits`` bits."""

    scale: float
    zero_point: int
    signed: bool = True
    bits: int = 8

    @property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest stored value."""
        least = -(1 << self.bits - 1) if self.signed else 0
        return least, least + (1 << self.bits) - 1

    @property
    def values(self) -> Integers:
        """All stored values, ascending."""
        lo, hi = self.bounds
        return np.arange(lo, hi + 1, dtype=np.int64)

    @property
    def centred(self) -> Integers:
        """All stored values minus the zero point."""
        return self.values - self.zero_point


def _stored(values: Integers, y: Quantisation) -> Integers:
    return np.clip(values + y.zero_point, *y.bounds)


def quantize_table(x: Quantisation, y: Quantisation) -> Integers:
    """QUANTIZE from one integer quantisation to another."""
    return _stored(multiply(x.centred, quantize_multiplier(x.scale / y.scale)), y)


def relu_table(
    x: Quantisation, y: Quantisation, activation_lo: int, activation_hi: int
) -> Integers:
    """RELU with its own rescaling, and clip bounds."""
    scaled = multiply(x.centred, quantize_multiplier(x.scale / y.scale)) + y.zero_point
    return np.clip(scaled, activation_lo, activation_hi)


def relu_between_table(x: Quantisation, y: Quantisation, low: float, high: float) -> Integers:
    """RELU_N1_TO_1 and RELU_0_TO_1 of LiteRT: rescaled, then clipped to two reals."""
    factor = float(np.float32(x.scale) / np.float32(y.scale))
    lo, hi = (quantized(end, y.scale, y.zero_point) for end in (low, high))
    rescaled = _stored(multiply(x.centred, quantize_multiplier(factor)), y)
    return np.asarray(np.clip(rescaled, lo, hi))


def abs_table(x: Quantisation, y: Quantisation) -> Integers:
    """ABS; rescaled where the scales differ."""
    factor, size = quantize_multiplier(x.scale / y.scale), np.abs(x.centred)
    return _stored(size if x.scale == y.scale else multiply(size, factor), y)


def rsqrt_table(x: Quantisation, y: Quantisation) -> Integers:
    """RSQRT in fixed point; 127 for zero and below. Source: ``RsqrtEvalQuantized``."""
    factor = quantize_multiplier(1 / (math.sqrt(x.scale) * y.scale))
    last = Multiplier(factor.mantissa, factor.exponent - _ROOT_BITS)
    roots = np.array([_root_fraction(int(value)) for value in x.centred], np.int64)
    return np.where(x.centred > 0, _stored(multiply(roots, last), y), y.bounds[1])


def _root_fraction(value: int) -> int:
    """Return 2^20 / sqrt(value): five steps of Newton's method in Q3.28, from 1."""
    if value <= 1:
        return int(multiply(1, Multiplier(INT32_MAX, _ROOT_BITS)))
    pairs = (31 - value.bit_length()) // 2 - 1
    operand = value << 2 * pairs >> 1
    half, root = int(divide_by_power(operand, 1)), 1 << 28
    for _ in range(5):
        cube = int(high_product(high_product(root, root), root)) << 6
        root = int(high_product(3 << 27, root) - high_product(half, cube)) << 3
    mantissa = int(high_product(root, _HALF_ROOT_OF_2))
    return int(multiply(1, Multiplier(mantissa, _ROOT_BITS - 11 + pairs)))


def leaky_relu_table(x: Quantisation, y: Quantisation, alpha: float) -> Integers:
    """LEAKY_RELU with a factor for each sign."""
    slope = x.scale * alpha / y.scale
    positive = multiply(x.centred, quantize_multiplier(x.scale / y.scale))
    return _stored(np.where(x.centred >= 0, positive, _signed_product(x.centred, slope)), y)


def prelu_table(x: Quantisation, y: Quantisation, alpha: Quantisation, stored: int) -> Integers:
    """PRELU of a channel whose slope is the stored value ``stored`` of ``alpha``."""
    identity = quantize_multiplier(x.scale / y.scale)
    slope = quantize_multiplier(x.scale * alpha.scale / y.scale)
    negative = multiply(x.centred * (stored - alpha.zero_point), slope)
    return _stored(np.where(x.centred >= 0, multiply(x.centred, identity), negative), y)


def logistic_table(x: Quantisation, y: Quantisation) -> Integers:
    """LOGISTIC; the output has scale 1/256 and zero point -128."""
    return _sigmoid_table(x, logistic, 23, -128)


def tanh_table(x: Quantisation, y: Quantisation) -> Integers:
    """TANH; the output has scale 1/128 and zero point 0."""
    return _sigmoid_table(x, tanh, 24, 0)


def _sigmoid_table(x: Quantisation, function: object, shift: int, zero_point: int) -> Integers:
    assert callable(function)
    real = float(np.float32(x.scale)) * 2.0**27
    if real >= 2.0**31:  # no value is within the radius, which is 0
        return np.where(x.centred <= 0, -128, 127)
    factor = quantize_multiplier(real)
    radius = math.floor(15 * 2.0**27 / 2.0**factor.exponent)
    inside = np.abs(x.centred) < radius
    scaled = multiply(np.where(inside, x.centred, 0), factor)
    value = np.clip(divide_by_power(function(scaled), shift) + zero_point, -128, 127)
    return np.where(inside, value, np.where(x.centred <= -radius, -128, 127))


def hard_swish_table(x: Quantisation, y: Quantisation) -> Integers:
    """HARD_SWISH in fixed point of 16 bits. Source: ``reference/hard_swish.h``.

    Raises: FactorError when the output's scale is so small that the kernel refuses it.
    """
    fine = x.scale / 128
    output, reluish = quantize_multiplier(fine / y.scale), quantize_multiplier(fine / (3 / 32768))
    if output.exponent > 0:
        raise FactorError("the output's scale is below 1/128 of the input's")
    value = x.centred << 7
    scaled = _high_product_16(value, _mantissa_16(output))
    gate = value
    if reluish.exponent > 0:
        gate = _saturated_16(gate << (reluish.exponent - 1))
    gate = _high_product_16(gate, _mantissa_16(reluish))
    if reluish.exponent > 0:
        gate = _saturated_16(gate << 1)
    elif reluish.exponent < 0:
        gate = divide_by_power(gate, -reluish.exponent)
    gate = (gate + (1 << 15)) >> 1
    product = _saturated_16(c_divide(gate * scaled, 1 << 15))
    return _stored(divide_by_power(product, -output.exponent), y)


def quotients(above: Integers, below: Integers, scale: float) -> Integers:
    """DIV of centred bytes, without the zero point of the output. Source: ``reference/div.h``.

    scale: factor of the quotient. Over 0 it has the other sign, as the kernel's sums of 32 bits
    wrap then. Raises: FactorError for factors with which it shifts by more than 31 bits, or to the
    left.
    """
    factor = quantize_multiplier(scale)
    over = np.where(below < 0, -above, above)
    size = np.abs(below)
    bits = np.ceil(np.log2(size + 1)).astype(np.int64)
    inverse = np.where(size == 0, _INVERSE_OF_0, one_over_one_plus((size << 32 - bits) - (1 << 31)))
    width = np.ceil(np.log2(np.abs(over) + (over >= 0))).astype(np.int64)
    quotient = high_product(over << 31 - width, inverse)
    shift = 31 - width + bits - 1 - factor.exponent
    if ((shift < 0) | (shift > 31)).any():
        raise FactorError(f"scales that bring quotients to a factor of {scale:.3g}")
    return divide_by_power(high_product(quotient, factor.mantissa), shift)


def _signed_product(values: Integers, factor: float) -> Integers:
    """Multiply by a factor that may be negative: its mantissa is, then."""
    if factor >= 0:
        return multiply(values, quantize_multiplier(factor))
    if not -factor < 2.0**30:
        raise FactorError(f"scales that differ by a factor of {factor:.3g}")
    fraction, exponent = math.frexp(factor)
    mantissa = -math.floor(-fraction * 2.0**31 + 0.5)
    if mantissa == -(2**31):
        mantissa, exponent = -(2**30), exponent + 1
    if exponent < -31:
        mantissa, exponent = 0, 0
    shifted = values << max(exponent, 0)
    return divide_by_power(high_product(shifted, mantissa), max(-exponent, 0))


def _mantissa_16(factor: Multiplier) -> int:
    """Return a mantissa rounded to 16 bits: DownScaleInt32ToInt16Multiplier."""
    return min((factor.mantissa + (1 << 15)) >> 16, 2**15 - 1)


def _high_product_16(values: Integers, factor: int) -> Integers:
    product = values * factor
    nudge = np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return _saturated_16(c_divide(product + nudge, 1 << 15))


def _saturated_16(values: Integers) -> Integers:
    return np.clip(values, -(2**15), 2**15 - 1)
