"""The weight block: requantisation parameters first, then rows of weights, 8-byte multiples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.expr import ceil_div
from dory_core.kernel import Number, Rejection, WeightBlock
from dory_gap8.backend.requant import Epilogue


def padded(elements: Number) -> Number:
    """Return a length rounded up to a multiple of 4 elements."""
    return ceil_div(elements, 4) * 4


def block_bytes(epilogue: Epilogue, c_out: Number, row: Number) -> Number:
    """Return the bytes of a block of c_out rows of ``row`` weights."""
    return ceil_div(c_out * (row + epilogue.channel_bytes), 8) * 8


def _array(values: tuple[int, ...], c_out: tuple[int, int], bits: int) -> bytes:
    """Return the values of a range of channels as little-endian integers of ``bits`` bits."""
    part = values[c_out[0] : c_out[1]] if len(values) > 1 else values * (c_out[1] - c_out[0])
    return np.array(part, dtype=np.int64).astype(f"<i{bits // 8}").tobytes()


def encode(epilogue: Epilogue, rows: npt.NDArray[Any], c_out: tuple[int, int]) -> WeightBlock:
    """Encode rows, shape (c_out, length), of output channels c_out[0]:c_out[1].

    parts: ``add``, ``mul`` (or ``bias`` of a 32-bit output) and ``weights``, in this order: the
    64-bit array comes first and is aligned where the block is.
    """
    chunks: list[tuple[str, bytes]] = []
    if not epilogue.steps:
        bias = epilogue.bias if epilogue.bias is not None else (0,)
        chunks.append(("bias", _array(bias, c_out, 32)))
    elif epilogue.per_channel:
        first = epilogue.steps[0]
        chunks.append(("add", _array(first.add, c_out, epilogue.bits)))
        chunks.append(("mul", _array(first.mul, c_out, epilogue.mul_bits)))
    length = rows.shape[1]
    image = np.zeros((rows.shape[0], int(padded(length))), dtype=np.int8)
    image[:, :length] = rows
    chunks.append(("weights", image.tobytes()))
    parts: dict[str, int] = {}
    data = b""
    for name, content in chunks:
        parts[name] = len(data)
        data += content
    return WeightBlock(data + bytes(-len(data) % 8), parts)


def reject_weights(weights: npt.NDArray[Any]) -> Rejection | None:
    """Return why the weights cannot be stored in 8 bits."""
    if weights.size and (int(weights.min()) < -128 or int(weights.max()) > 127):
        return Rejection(f"its weights lie in [{weights.min()}, {weights.max()}], not in 8 bits")
    return None
