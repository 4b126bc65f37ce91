"""The weight block: requantisation parameters first, then rows of weights, 8-byte multiples."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Number, Rejection, WeightBlock, ceil_div
from dory_gap8.backend.requant import Epilogue


def padded(elements: Number) -> Number:
    """Return a length rounded up to a multiple of 4 elements."""
    return ceil_div(elements, 4) * 4


def block_bytes(epilogue: Epilogue, c_out: Number, row: Number) -> Number:
    """Return the bytes of a block of c_out rows of ``row`` bytes."""
    return ceil_div(c_out * (row + epilogue.channel_bytes), 8) * 8


def encode(epilogue: Epilogue, rows: npt.NDArray[Any], c_out: tuple[int, int]) -> WeightBlock:
    """Encode rows of 8-bit weights, shape (c_out, length), of output channels c_out[0]:c_out[1]."""
    length = rows.shape[1]
    image = np.zeros((rows.shape[0], int(padded(length))), dtype=np.int8)
    image[:, :length] = rows
    return encode_bytes(epilogue, image.view(np.uint8), c_out)


def encode_bytes(
    epilogue: Epilogue, rows: npt.NDArray[np.uint8], c_out: tuple[int, int]
) -> WeightBlock:
    """Encode rows of bytes, as the kernel wants them, of output channels c_out[0]:c_out[1].

    parts: ``mul``, the parameters of the channels, or ``bias`` of a 32-bit output; ``weights``.
    """
    parameters = epilogue.part(c_out)
    chunks = [] if parameters is None else [parameters]
    chunks.append(("weights", rows.tobytes()))
    parts: dict[str, int] = {}
    data = b""
    for name, content in chunks:
        parts[name] = len(data)
        data += content
    return WeightBlock(data + bytes(-len(data) % 8), parts)


def is_wide(weights: npt.NDArray[Any]) -> bool:
    """Return True when weights exceed 8 bits, as those of 8 bits minus a zero point do."""
    return bool(weights.size) and (int(weights.min()) < -128 or int(weights.max()) > 127)


def reject_wide(weights: npt.NDArray[Any]) -> Rejection | None:
    """Return why weights are not the sum of two of 8 bits."""
    if weights.size and (int(weights.min()) < -256 or int(weights.max()) > 254):
        return Rejection(f"its weights lie in [{weights.min()}, {weights.max()}], not in 9 bits")
    return None


def two_parts(weights: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return two arrays of 8-bit weights whose sum the weights are."""
    half = weights >> 1
    return half, weights - half


def reject_weights(weights: npt.NDArray[Any]) -> Rejection | None:
    """Return why the weights cannot be stored in 8 bits."""
    if is_wide(weights):
        return Rejection(f"its weights lie in [{weights.min()}, {weights.max()}], not in 8 bits")
    return None
