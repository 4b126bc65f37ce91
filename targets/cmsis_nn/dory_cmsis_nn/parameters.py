"""Parameters of CMSIS-NN's requantisation that equal a network's, and facts about a layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Layer, Rejection, Tensor, ops, requantisation

INT32 = (1 << 31) - 1
_MANTISSA_BITS = 31


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """y = ((acc + bias) * mul + rest) >> 32; int64, shape (C,). None: no requantisation.

    Of the library's own requantisation, rest is the shift of the mantissa mul. x_offset, y_offset:
    what the library adds to signed inputs, and to what its requantisation gives.
    """

    bias: npt.NDArray[np.int64] | None
    mul: npt.NDArray[np.int64] | None = None
    rest: npt.NDArray[np.int64] | None = None
    x_offset: int = 0
    y_offset: int = 0


def turned(tensor: Tensor) -> bool:
    """Return True where the highest bit is turned over to make a signed byte of an element."""
    return tensor.bits == 8 and not tensor.signed and tensor.hi > 127


def weights_of(layer: Layer) -> npt.NDArray[Any]:
    """Return the weights, shape (C, ...) for C outputs; (1, 0) where a layer has none."""
    kind = layer.op
    if not isinstance(kind, (ops.Conv, ops.Linear)):
        return np.zeros((1, 0), dtype=np.int8)
    return kind.weights.values


def taps_of(layer: Layer) -> int:
    """Return the number of elements of a filter in one channel."""
    kind = layer.op
    return kind.window.taps if isinstance(kind, ops.Conv) else 1


def output_bounds(layer: Layer) -> tuple[int, int]:
    """Return the bounds of outputs as the library sees them."""
    y, requants = layer.output, layer.op.requants
    if y.bits != 8:
        return 0, 0
    lo, hi = (-128, 127) if y.signed or turned(y) else (0, 127)
    offset = 128 * turned(y)
    if requants and requants[-1].lo is not None and requants[-1].hi is not None:
        lo, hi = max(lo, requants[-1].lo - offset), min(hi, requants[-1].hi - offset)
    return lo, hi


def padded(layer: Layer) -> tuple[int, npt.NDArray[np.int64] | int]:
    """Return the addend of signed inputs in the library, and the part that the bias compensates.

    The library lets padding contribute nothing: inputs count from the value of padding.
    """
    kind = layer.op
    offset = 128 * turned(layer.inputs[0])
    if not isinstance(kind, ops.Conv) or not any(kind.window.pads) or not kind.window.pad_value:
        return offset, 0
    rows = kind.weights.values.reshape(len(kind.weights.values), -1).astype(np.int64)
    return offset - kind.window.pad_value, kind.window.pad_value * rows.sum(axis=1)


@requantisation.cached_per_layer
def find_native(layer: Layer) -> Parameters | Rejection:
    """Return mantissas and shifts of the library's own requantisation, or why none are exact.

    It rounds twice, ties away from zero, as TensorFlow Lite Micro does. The thresholds of all
    outputs are compared for every channel, so that what is found is proven. A part of a layer has
    the constants of all its channels.
    """
    kind, y = layer.op, layer.output
    steps = kind.requants
    if len(steps) != 1 or steps[0].lo is None or steps[0].shift is None or y.scale is None:
        return Rejection("its requantisation is not that of TensorFlow Lite Micro")
    step = steps[0]
    if min(step.mul) < 0:
        return Rejection("its factors are negative")
    channels = max(y.channels, len(weights_of(layer)))
    zero_point = y.zero_point + y.offset
    pairs = [_mantissa(mul, step.shift) for mul in step.mul]
    mantissas, shifts = (
        np.broadcast_to(np.array(values, np.int64), (channels,))
        for values in zip(*pairs, strict=True)
    )
    lo, hi = _reach(layer)
    largest = int(np.maximum(np.abs(lo), np.abs(hi)).max())
    if shifts.min() < -_MANTISSA_BITS or largest << max(0, int(shifts.max())) > INT32:
        return Rejection("its factors are beyond the shifts of the library")
    bounds = tuple(bound + 128 * turned(y) for bound in output_bounds(layer))

    def library(acc: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        found = rounded_twice(acc, mantissas[:, None], shifts[:, None]) + zero_point
        return np.clip(found, *bounds)

    levels = np.arange(bounds[0] + 1, bounds[1] + 1)
    wanted = _thresholds(lambda acc: np.clip(step.apply(acc), *bounds), levels, lo, hi)
    if not np.array_equal(_thresholds(library, levels, lo, hi), wanted):
        return Rejection("its requantisation is not that of TensorFlow Lite Micro")
    x_offset, padding = padded(layer)
    own = 0 if layer.bias is None else layer.bias.values.astype(np.int64)
    bias = np.broadcast_to(own + padding, (channels,))
    rows = np.abs(weights_of(layer).astype(np.int64)).reshape(channels, -1).sum(axis=1)
    # Whatever is summed first: bias, products, products of weights with the offset.
    if int((np.abs(bias) + rows * (128 + abs(x_offset))).max()) > INT32:
        return Rejection("its accumulator with the bias exceeds 32 bits")
    return Parameters(bias, mantissas, shifts, x_offset, zero_point - 128 * turned(y))


def _reach(layer: Layer) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the least and the largest accumulator of each channel, shape (C,)."""
    kind, x = layer.weighted, layer.inputs[0]
    values = [x.lo, x.hi]
    if isinstance(kind, ops.Conv) and any(kind.window.pads):
        values.append(kind.window.pad_value)
    rows = kind.weights.values.reshape(len(kind.weights.values), -1).astype(np.int64)
    up, down = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    bias = 0 if kind.bias is None else kind.bias.values.astype(np.int64)
    least, most = min(values), max(values)
    return up * least + down * most + bias, up * most + down * least + bias


def _mantissa(mul: int, shift: int) -> tuple[int, int]:
    """Return mul / 2**shift as mantissa * 2**(exponent - 31), 2**30 <= mantissa < 2**31.

    A factor of 0 is that of a channel with the value of the zero point.
    """
    if mul == 0:
        return 0, 0
    size = mul.bit_length()
    if size <= _MANTISSA_BITS:
        return mul << (_MANTISSA_BITS - size), size - shift
    cut = size - _MANTISSA_BITS
    mantissa = (mul + (1 << (cut - 1))) >> cut
    return (mantissa, size - shift) if mantissa <= INT32 else (mantissa >> 1, size - shift + 1)


def rounded_twice(
    acc: npt.NDArray[np.int64], mantissa: npt.NDArray[np.int64], shift: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the results of ``arm_nn_requantize`` of the library: two roundings.

    Source: arm_nn_doubling_high_mult_no_sat and arm_nn_divide_by_power_of_two.
    """
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    high = ((acc << left) * mantissa + (1 << 30)) >> 31
    mask = (np.int64(1) << right) - 1
    threshold = (mask >> 1) + (high < 0)
    return (high >> right) + ((high & mask) > threshold)


def _thresholds(
    function: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
    levels: npt.NDArray[np.int64],
    lo: npt.NDArray[np.int64],
    hi: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Return the least accumulator in lo .. hi, shape (C, levels), that gives a level, or hi + 1.

    lo, hi: shape (C,). function: rising, for accumulators of shape (C, n).
    """
    low = np.repeat(lo[:, None], len(levels), axis=1)
    high = np.repeat(hi[:, None] + 1, len(levels), axis=1)
    while (low < high).any():
        middle = (low + high) >> 1
        reached = function(np.minimum(middle, hi[:, None])) >= levels
        open_ = low < high
        high = np.where(open_ & reached, middle, high)
        low = np.where(open_ & ~reached, middle + 1, low)
    return low
