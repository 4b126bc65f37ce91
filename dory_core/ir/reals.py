"""Real numbers at the border of a network: how integers of a tensor stand for them.

A value v of the file stands for scale * (v - zero_point), with the scale of the tensor, or that of
the channel where each has its own. Both directions are in float32, as in the
generated C (dory_float.h). Ties go away from zero (TensorFlow Lite: ``AffineQuantize``) or to even
(ONNX: QuantizeLinear).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir.tensor import Tensor

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float32]

_MOST = np.float32(1 << 30)


def nearest(values: Reals, ties_even: bool = False) -> Integers:
    """Return the nearest integers, ties away from zero or to even; what is no number becomes 0."""
    numbers = np.where(np.isnan(values), np.float32(0), values)
    bounded = np.clip(numbers, -_MOST, _MOST)
    if ties_even:
        even: Integers = np.rint(bounded).astype(np.int64)
        return even
    whole: Integers = np.trunc(bounded).astype(np.int64)
    rest = bounded - np.trunc(bounded)  # exact
    found: Integers = whole + (rest >= 0.5) - (rest <= -0.5)
    return found


def quantise(tensor: Tensor, reals: npt.NDArray[Any], ties_even: bool = False) -> Integers:
    """Return the values of the file that stand for real numbers, of the same shape.

    What is beyond the range of the tensor becomes its bound.

    Args:
        tensor: The tensor, with a scale, or one per channel.
        reals: The numbers; shape (C, H, W) where each channel has its scale.
        ties_even: Whether ties go to even, else away from zero.
    """
    with np.errstate(over="ignore"):
        scaled = np.asarray(reals).astype(np.float32) / _scale(tensor)
    low, high = tensor.lo - tensor.offset, tensor.hi - tensor.offset
    return np.clip(nearest(scaled, ties_even) + tensor.zero_point, low, high)


def dequantise(tensor: Tensor, values: npt.NDArray[Any]) -> Reals:
    """Return the real numbers, float32, that values of the file stand for.

    The tensor has a scale, or one per channel: the shape is (C, H, W) then.
    """
    apart = np.asarray(values, np.int64) - tensor.zero_point
    return apart.astype(np.float32) * _scale(tensor)


def _scale(tensor: Tensor) -> Reals:
    if tensor.channel_scales:
        return np.array(tensor.channel_scales, np.float32)[:, None, None]
    assert tensor.scale is not None
    return np.array(tensor.scale, np.float32)
