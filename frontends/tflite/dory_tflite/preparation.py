"""Real factors of the operators, in the precision in which TensorFlow Lite Micro prepares them.

Whether a product of scales is computed in float or in double decides about the last bit of a
mantissa, so that every operator has its own function here. Scales are float32 numbers of the file.
Source of each: ``Prepare`` of the kernel in ``tensorflow/lite/micro/kernels``, as the package
``tflite-micro`` computes it: in doubles where the source converts a product of floats to double.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dory_tflite.fixed_point import Multiplier, quantize_multiplier, rounding_half_away

#: Left shift of the operands of ADD and SUB, by their bits.
ADD_SHIFTS = {8: 20, 16: 15}
#: Left shift of the operands of SQUARED_DIFFERENCE.
SQUARE_SHIFTS = {8: 7, 16: 0}


def convolution_factor(x: float, weights: float, y: float) -> float:
    """Factor of convolutions, FULLY_CONNECTED and BATCH_MATMUL."""
    return x * weights / y


def unsigned_factor(x: float, weights: float, y: float) -> float:
    """Factor of convolutions and FULLY_CONNECTED of UINT8, which Micro has no longer."""
    return float(np.float32(x) * np.float32(weights)) / y


@dataclass(frozen=True, slots=True)
class AddFactors:
    """Multipliers of the two operands and of their sum, or of the square of their difference."""

    first: Multiplier
    second: Multiplier
    output: Multiplier


def add_factors(first: float, second: float, y: float, bits: int) -> AddFactors:
    """Multipliers of ADD and SUB. bits: of the operands."""
    twice = 2 * max(first, second)
    return AddFactors(
        quantize_multiplier(first / twice),
        quantize_multiplier(second / twice),
        quantize_multiplier(twice / ((1 << ADD_SHIFTS[bits]) * y)),
    )


def square_factors(first: float, second: float, y: float, bits: int) -> AddFactors:
    """Multipliers of SQUARED_DIFFERENCE. bits: of the operands."""
    twice = 2 * max(first, second)
    return AddFactors(
        quantize_multiplier(first / twice),
        quantize_multiplier(second / twice),
        quantize_multiplier(twice * twice / ((1 << 2 * SQUARE_SHIFTS[bits]) * y)),
    )


def mean_multiplier(x: float, y: float, count: int) -> Multiplier:
    """Multiplier of MEAN over ``count`` elements: the division is part of the mantissa.

    Source: ``QuantizedMeanOrSum`` in ``reference/reduce.h``.
    """
    factor = quantize_multiplier(x / y)
    shift = min(count.bit_length() - 1, 32, 31 + factor.exponent)
    return Multiplier((factor.mantissa << shift) // count, factor.exponent - shift)


def activation_range(
    activation: str, scale: float, zero_point: int, bounds: tuple[int, int]
) -> tuple[int, int]:
    """Return the clip bounds of a fused activation.

    Args:
        activation: NONE, RELU, RELU6 or RELU_N1_TO_1.
        bounds: Bounds of the element type. Source: ``CalculateActivationRangeQuantized``.
    """
    lo, hi = bounds
    limits: dict[str, tuple[float | None, float | None]] = {
        "NONE": (None, None),
        "RELU": (0.0, None),
        "RELU6": (0.0, 6.0),
        "RELU_N1_TO_1": (-1.0, 1.0),
    }
    low, high = limits[activation]
    if low is not None:
        lo = max(lo, quantized(low, scale, zero_point))
    if high is not None:
        hi = min(hi, quantized(high, scale, zero_point))
    return lo, hi


def quantized(value: float, scale: float, zero_point: int) -> int:
    """Return the integer that stands for a real value."""
    return zero_point + rounding_half_away(float(np.float32(value) / np.float32(scale)))


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return the padding (before, after) of one axis for the scheme SAME; the rest is after."""
    output = -(-size // stride)
    total = max(0, (output - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


@dataclass(frozen=True, slots=True)
class BilinearAxis:
    """Sampling of one axis of RESIZE_BILINEAR with fractions of 10 bits.

    Attributes:
        low, high: The two input positions of each output position.
        weight: Share of ``high`` in 1024.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    weight: tuple[int, ...]


def bilinear_axis(size: int, output: int, align_corners: bool, half_pixel: bool) -> BilinearAxis:
    """Return the sampling of one axis. Source: ``ResizeBilinearInteger``."""
    scale = (1024 * size + output // 2) // output
    if align_corners and output > 1:
        scale = (1024 * (size - 1) + (output - 1) // 2) // (output - 1)
    low, high, weight = [], [], []
    for position in range(output):
        at = position * scale
        if half_pixel:
            at += scale // 2 - 512
        lower = max(_truncated(at, 1024), 0)
        low.append(lower)
        high.append(min(_truncated(at + 1023, 1024), size - 1))
        weight.append(at - 1024 * lower)
    return BilinearAxis(tuple(low), tuple(high), tuple(weight))


def nearest_axis(size: int, output: int, align_corners: bool, half_pixel: bool) -> tuple[int, ...]:
    """Return the input position of each output position of RESIZE_NEAREST_NEIGHBOR."""
    corners = align_corners and output > 1
    scale = np.float32(size - 1) / np.float32(output - 1) if corners else None
    if scale is None:
        scale = np.float32(size) / np.float32(output)
    offset = np.float32(0.5 if half_pixel else 0.0)
    positions = []
    for position in range(output):
        exact = np.float32((np.float32(position) + offset) * scale)
        rounded = rounding_half_away(float(exact)) if align_corners else int(np.floor(exact))
        positions.append(max(min(rounded, size - 1), 0) if half_pixel else min(rounded, size - 1))
    return tuple(positions)


def _truncated(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)
