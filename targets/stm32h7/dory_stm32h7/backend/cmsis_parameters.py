"""Parameters of CMSIS-NN that equal a network's requantisation, and facts about a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Layer, Rejection, Tensor, ops
from dory_stm32h7.backend.epilogue import find_epilogue

_INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """y = ((acc + bias) * mul + rest) >> 32; int64, shape (C,). None: no requantisation."""

    bias: npt.NDArray[np.int64] | None
    mul: npt.NDArray[np.int64] | None = None
    rest: npt.NDArray[np.int64] | None = None


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


def block_parts(layer: Layer) -> tuple[str, ...]:
    """Return the parts of a weight block."""
    if isinstance(layer.op, ops.MaxPool):
        return ()
    found = find_parameters(layer)
    if isinstance(found, Rejection):
        return ()
    names = ("mul", found.mul), ("bias", found.bias)
    return (*(n for n, values in names if values is not None), "weights")


def find_parameters(layer: Layer) -> Parameters | Rejection:
    """Return the library's parameters of a layer with weights, or why none are exact."""
    found = find_epilogue(layer)
    if isinstance(found, Rejection):
        return found
    if not found.steps:
        return Parameters(found.bias)
    line = found.steps[0]
    if len(found.steps) > 1 or line.shift != 32 or found.turned or found.shifted:
        return Rejection("its requantisation is no product of which the upper half is the output")
    channels = layer.output.channels
    mul = np.broadcast_to(line.mul, (channels,))
    add = np.broadcast_to(line.add, (channels,))
    if (mul == 0).any():
        return Rejection("a channel is constant, which the library's requantisation cannot express")
    bias, rest = np.divmod(add, mul)
    ends = (layer.ranges.acc_lo + int(bias.min()), layer.ranges.acc_hi + int(bias.max()))
    margin = 0 if layer.bias is None else int(np.abs(layer.bias.values).max())
    if max(-ends[0], ends[1]) + margin > _INT32:
        return Rejection("its accumulator with the bias exceeds 32 bits")
    return Parameters(bias, mul, rest)
