"""Arithmetic of onnxruntime's CPU operators in binary32.

Sources: microsoft/onnxruntime, core/mlas/lib/quantize.cpp, contrib_ops/cpu/quantization; verified
against onnxruntime on x86. Every operation rounds to binary32 as it does there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_BOUNDS = {True: (-128, 127), False: (0, 255)}


@dataclass(frozen=True, slots=True)
class Quantisation:
    """What stored values of 8 bits mean: scale * (value - zero_point).

    Attributes:
        scale: Positive normal number of binary32.
        signed: int8 or uint8.
    """

    scale: float
    zero_point: int
    signed: bool

    @property
    def bounds(self) -> tuple[int, int]:
        """Lowest and highest stored value."""
        return _BOUNDS[self.signed]

    @property
    def values(self) -> Integers:
        """All stored values, rising."""
        lo, hi = self.bounds
        return np.arange(lo, hi + 1, dtype=np.int64)


def single(value: float | Floats) -> Floats:
    """Return a number or an array in binary32."""
    return np.asarray(value, dtype=np.float32)


def quantise(reals: Floats, scale: float, zero: int, lo: int, hi: int) -> Integers:
    """Return QuantizeLinear: division in binary32, ties to even, saturated."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(np.asarray(single(reals) / single(scale)))
    inside = np.clip(np.nan_to_num(rounded, nan=0.0), lo - zero, hi - zero)
    return np.asarray(inside.astype(np.int64) + zero)


def quantise_to(reals: Floats, y: Quantisation, clip: tuple[int, int] | None = None) -> Integers:
    """Return QuantizeLinear to a quantisation, inside the clip of a fused activation."""
    return quantise(reals, y.scale, y.zero_point, *(clip or y.bounds))


def dequantise(values: Integers, x: Quantisation) -> Floats:
    """Return DequantizeLinear."""
    return np.asarray((values - x.zero_point).astype(np.float32) * single(x.scale))


def product_scales(x: float, weights: Floats, y: float) -> Floats:
    """Return the factors after sums of products: f32(f32(x * w) / y)."""
    return np.asarray(single(x) * single(weights) / single(y)).reshape(-1)


def sums(a: Quantisation, b: Quantisation, y: Quantisation, clip: tuple[int, int]) -> Integers:
    """Return QLinearAdd on x86 for all pairs of bytes, shape (256, 256), rows of the first one.

    Products and the sums with them are rounded once, by fused multiply-add.
    """
    ra, rb = single(a.scale) / single(y.scale), single(b.scale) / single(y.scale)
    zeros = _fused(ra, a.zero_point, rb * single(b.zero_point))
    fixed = single(y.zero_point) - zeros
    second = _fused(rb, b.values, fixed)
    return clipped(np.rint(_fused(ra, a.values[:, None], second[None, :])), clip)


def _fused(factor: Floats, values: int | Integers, addend: Floats) -> Floats:
    """Return factor * values + addend, rounded once; exact before that for values of 9 bits."""
    exact = factor.astype(np.float64) * values + addend.astype(np.float64)
    return np.asarray(exact.astype(np.float32))


def differences(
    a: Quantisation, b: Quantisation, y: Quantisation, clip: tuple[int, int]
) -> Integers:
    """Return Sub of reals for all pairs of bytes, shape (256, 256), rows of the first one."""
    both = dequantise(a.values, a)[:, None] - dequantise(b.values, b)[None, :]
    return quantise_to(both, y, clip)


def products(a: Quantisation, b: Quantisation, y: Quantisation, clip: tuple[int, int]) -> Integers:
    """Return QLinearMul for all pairs of bytes, shape (256, 256), rows of the first one.

    The zero point is added in binary32 before the rounding, so ties go to even results.
    """
    both = (a.values - a.zero_point)[:, None] * (b.values - b.zero_point)[None, :]
    factor = single(a.scale) * single(b.scale) / single(y.scale)
    return clipped(np.rint(both.astype(np.float32) * factor + single(y.zero_point)), clip)


def clipped(values: Floats, clip: tuple[int, int]) -> Integers:
    """Return rounded values inside bounds as integers."""
    return np.asarray(np.clip(values, *clip).astype(np.int64))
