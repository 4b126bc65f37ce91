"""Parameters of CMSIS-NN with its requantisation replaced by the upper half of a product."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from dory_cmsis_nn.parameters import INT32, Parameters, padded, turned

from dory_core.api import Layer, Rejection
from dory_stm32h7.backend.epilogue import find_epilogue


def find_parameters(layer: Layer) -> Parameters | Rejection:
    """Return the library's parameters of a layer with weights, or why none are exact."""
    found = find_epilogue(layer)
    if isinstance(found, Rejection):
        return found
    x_offset, padding = padded(layer)
    if not found.steps:
        return Parameters(found.bias, x_offset=x_offset)
    line = found.steps[0]
    if len(found.steps) > 1 or line.shift != 32 or found.turned or found.shifted or found.even:
        return Rejection("its requantisation is no product of which the upper half is the output")
    # A part of the layer has the constants of all its channels.
    channels = max(layer.output.channels, line.mul.size, line.add.size)
    mul = np.broadcast_to(line.mul, (channels,))
    add = np.broadcast_to(line.add, (channels,))
    if (mul == 0).any():
        return Rejection("a channel is constant, which the library's requantisation cannot express")
    bias, rest = np.divmod(add, mul)
    bias = bias + padding
    if not _fits(layer, bias):
        return Rejection("its accumulator with the bias exceeds 32 bits")
    return Parameters(bias, mul, rest, x_offset, -128 * turned(layer.output))


def _fits(layer: Layer, bias: npt.NDArray[np.int64]) -> bool:
    """True when no sum with this bias exceeds 32 bits, in whatever order it is computed."""
    ends = (layer.ranges.acc_lo + int(bias.min()), layer.ranges.acc_hi + int(bias.max()))
    margin = 0 if layer.bias is None else int(np.abs(layer.bias.values).max())
    return max(-ends[0], ends[1]) + margin <= INT32
