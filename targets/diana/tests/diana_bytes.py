"""Layouts and encodings of docs/contract.md, written from its formulas and from nothing else.

The functions are slow and obvious on purpose: model and generator are compared with them.
"""

from __future__ import annotations

import numpy as np


def up(n: int, of: int) -> int:
    """Return n rounded up to a multiple of ``of``."""
    return -(-n // of) * of


# --- activations -----------------------------------------------------------------------------


def digital_offsets(c: int, h: int, w: int) -> np.ndarray:
    """Return the offset of each element of a (C, H, W) tensor in layout ``digital``."""
    ch, y, x = np.ogrid[:c, :h, :w]
    return ((ch * h + y) * up(w, 16) + x) ^ 3


def vector_offsets(c: int, h: int, w: int) -> np.ndarray:
    """Return the offset of each element in layout ``digital vector``."""
    ch, y, x = np.ogrid[:c, :h, :w]
    return ((y * w + x) * up(c, 16) + ch) ^ 3


def analog_offsets(c: int, h: int, w: int) -> np.ndarray:
    """Return the offset of each element in layout ``analog``."""
    ch, y, x = np.ogrid[:c, :h, :w]
    return (y * w + x) * up(c, 64) + ch


def digital_bytes(values: np.ndarray, junk: np.random.Generator | None = None) -> np.ndarray:
    """Return a clean tensor: padding columns of real channels are 0, padding channels junk."""
    c, h, w = values.shape
    wide = np.zeros((up(c, 16), h, up(w, 16)), np.int64)
    if junk is not None:
        wide[c:] = junk.integers(-128, 128, wide[c:].shape)
    wide[:c, :, :w] = values
    return _placed(wide, digital_offsets(*wide.shape), wide.size)


def vector_bytes(values: np.ndarray, junk: np.random.Generator | None = None) -> np.ndarray:
    """Return a tensor in layout ``digital vector``; padding is junk."""
    c, h, w = values.shape
    size = h * w * up(c, 16)
    return _placed(values, vector_offsets(c, h, w), size, junk)


def analog_bytes(values: np.ndarray, junk: np.random.Generator | None = None) -> np.ndarray:
    """Return a tensor in layout ``analog``; padding is junk."""
    c, h, w = values.shape
    return _placed(values, analog_offsets(c, h, w), h * w * up(c, 64), junk)


def read(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the signed values at offsets."""
    return data.view(np.int8)[offsets].astype(np.int64)


def _placed(
    values: np.ndarray, offsets: np.ndarray, size: int, junk: np.random.Generator | None = None
) -> np.ndarray:
    data = np.zeros(size, np.int64) if junk is None else junk.integers(-128, 128, size)
    data[offsets] = values
    return data.astype(np.int8).view(np.uint8)


# --- constants -------------------------------------------------------------------------------


def conv_weights(weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the blocks of a digital convolution, weights (Cout, Cin, fy, fx)."""
    k_real, c_real, fy, fx = weights.shape
    c_all = up(c_real, 16)
    block = c_all * fy * fx * 16 + 64
    data = np.zeros(up(k_real, 16) // 16 * block, np.uint8)
    k, c, i, j = np.ogrid[:k_real, :c_real, :fy, :fx]
    offsets = (k // 16) * block + ((((c * fy + i) * fx + j) * 16 + k % 16) ^ 3)
    data[offsets] = weights.astype(np.int8).view(np.uint8)
    outputs = np.arange(k_real)
    _bias_planes(data, (outputs // 16) * block + block - 64, outputs % 16, bias)
    return data


def depthwise_weights(weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the blocks of a depthwise convolution, weights (C, 1, fy, fx)."""
    channels, _, fy, fx = weights.shape
    block = fy * fx * 16 + 64
    data = np.zeros(up(channels, 16) // 4 * block, np.uint8)
    ch, i, j = np.ogrid[:channels, :fy, :fx]
    offsets = (ch // 4) * block + (((i * fx + j) * 16 + 4 * (ch % 4)) ^ 3)
    data[offsets] = weights[:, 0].astype(np.int8).view(np.uint8)
    outputs = np.arange(channels)
    _bias_planes(data, (outputs // 4) * block + block - 64, 4 * (outputs % 4), bias)
    return data


def linear_weights(weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the block of a fully connected tile, weights (at most 16, inputs of the layout)."""
    k_real, c_all = weights.shape
    data = np.zeros(c_all * 16 + 64, np.uint8)
    k, c = np.ogrid[:k_real, :c_all]
    data[((c // 16 * 16 + k) * 16 + c % 16) ^ 3] = weights.astype(np.int8).view(np.uint8)
    outputs = np.arange(k_real)
    _bias_planes(data, np.full(k_real, c_all * 16), outputs, bias)
    return data


def _bias_planes(data: np.ndarray, start: np.ndarray, lane: np.ndarray, bias: np.ndarray) -> None:
    for plane in range(4):
        data[start + ((plane * 16 + lane) ^ 3)] = (bias >> 8 * plane) & 255


def analog_weights(weights: np.ndarray) -> np.ndarray:
    """Return the image of ternary weights (Cout, Cin, fy, fx)."""
    k_real, c_real, fy, fx = weights.shape
    rows, columns = up(up(c_real, 16) * fy * fx, 288), up(k_real, 128)
    image = np.zeros((rows, columns), np.int64)
    for c, i, j in np.ndindex(c_real, fy, fx):
        row = rows - 1 - ((c * fy + i) * fx + j)
        block = row // 64
        for k in range(k_real):
            negated = not 6 <= block <= 11 if k % 2 == 0 else block <= 8
            image[row, k] = -weights[k, c, i, j] if negated else weights[k, c, i, j]
    data = b""
    for row in image:
        for sign in (1, -1):
            for first in range(0, columns, 32):
                bits = "".join("1" if v == sign else "0" for v in row[first : first + 32])
                data += int(bits, 2).to_bytes(4, "little")
    return np.frombuffer(data, np.uint8).copy()


def analog_requant(mul: np.ndarray, add: np.ndarray) -> np.ndarray:
    """Return the pairs of multiplier and addend of an analog layer."""
    pairs = np.stack([mul, add], axis=1).astype("<i4")
    return np.frombuffer(pairs.tobytes(), np.uint8).copy()
