"""Blocks of the digital array: 16 outputs with their weights and biases.

Weights are int8, biases int32. Every group of 4 bytes is reversed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

OUTPUTS = 16
CHANNELS = 16
#: Outputs of a block of a depthwise convolution; each has three companions that are zero.
DEPTHWISE_OUTPUTS = 4
_COMPANIONS = OUTPUTS // DEPTHWISE_OUTPUTS
_BIAS_PLANES = 4
BIAS_BYTES = OUTPUTS * _BIAS_PLANES

Array = npt.NDArray[np.int64]


def up(value: int, unit: int) -> int:
    """Return ``value`` rounded up to a multiple of ``unit``."""
    return -(-value // unit) * unit


def conv_block_bytes(channels: int, taps: int) -> int:
    """Return the bytes of 16 outputs over ``channels`` inputs, before padding."""
    return up(channels, CHANNELS) * taps * OUTPUTS + BIAS_BYTES


def depthwise_block_bytes(taps: int) -> int:
    """Return the bytes of 4 channels."""
    return taps * OUTPUTS + BIAS_BYTES


def linear_block_bytes(inputs: int) -> int:
    """Return the bytes of 16 outputs over ``inputs`` inputs, a multiple of 16."""
    return inputs * OUTPUTS + BIAS_BYTES


def encode_conv(weights: Array, bias: Array) -> bytes:
    """Return the blocks of a convolution. weights: (K, C, fy, fx); bias: (K,)."""
    count, channels, height, width = weights.shape
    outputs = up(count, OUTPUTS)
    padded = np.zeros((outputs, up(channels, CHANNELS), height, width), dtype=np.int64)
    padded[:count, :channels] = weights
    blocks = padded.reshape(-1, OUTPUTS, *padded.shape[1:]).transpose(0, 2, 3, 4, 1)
    return _join(blocks.reshape(len(blocks), -1), _grown(bias, outputs))


def encode_depthwise(weights: Array, bias: Array) -> bytes:
    """Return the blocks of a depthwise convolution. weights: (C, fy, fx); bias: (C,)."""
    count, height, width = weights.shape
    channels = up(count, CHANNELS)
    spread = np.zeros((channels, _COMPANIONS, 1, height, width), dtype=np.int64)
    spread[:count, 0, 0] = weights
    biases = np.zeros((channels, _COMPANIONS), dtype=np.int64)
    biases[:count, 0] = bias
    blocks = spread.reshape(-1, OUTPUTS, 1, height, width).transpose(0, 2, 3, 4, 1)
    return _join(blocks.reshape(len(blocks), -1), biases.reshape(-1))


def encode_linear(weights: Array, bias: Array) -> bytes:
    """Return the blocks of a fully connected layer.

    weights: (K, N), N a multiple of 16, columns in the order of the input's bytes; bias: (K,).
    """
    count, inputs = weights.shape
    outputs = up(count, OUTPUTS)
    padded = np.zeros((outputs, inputs), dtype=np.int64)
    padded[:count] = weights
    blocks = padded.reshape(-1, OUTPUTS, inputs // CHANNELS, CHANNELS).transpose(0, 2, 1, 3)
    return _join(blocks.reshape(len(blocks), -1), _grown(bias, outputs))


def _grown(values: Array, size: int) -> Array:
    grown = np.zeros(size, dtype=np.int64)
    grown[: len(values)] = values
    return grown


def _join(weights: Array, bias: Array) -> bytes:
    """Return the blocks: a row of weights each, then the planes of 16 biases.

    Raises: OverflowError for numbers that are no int8 or int32.
    """
    for values, bits in ((weights, 8), (bias, 32)):
        limit = 1 << bits - 1
        if values.size and not -limit <= int(values.min()) <= int(values.max()) < limit:
            raise OverflowError(f"[{values.min()}, {values.max()}] exceeds {bits} bits")
    biases = bias.astype("<i4").view(np.uint8).reshape(-1, OUTPUTS, _BIAS_PLANES)
    planes = biases.transpose(0, 2, 1).reshape(len(weights), BIAS_BYTES)
    rows = np.concatenate([weights.astype(np.int8).view(np.uint8), planes], axis=1)
    return _reversed(rows).tobytes()


def _reversed(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return rows of bytes with every group of 4 reversed."""
    groups = np.ascontiguousarray(rows.reshape(len(rows), -1, 4)[:, :, ::-1])
    return groups.reshape(len(rows), -1)
