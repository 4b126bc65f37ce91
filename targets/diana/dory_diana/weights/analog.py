"""The image of the analog array: ternary weights as bit planes, and mul and add of its outputs.

Rows of the image are inputs, in reverse order; columns are outputs. Where wires cross in the array
the sign is turned, in a pattern of blocks of 64 rows and even and odd columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_diana.weights.digital import up

ROWS, COLUMNS = 1152, 512
ROW_UNIT, COLUMN_UNIT = 288, 128
#: Bytes of mul and add of one output.
PAIR_BYTES = 8
_ROWS_PER_BLOCK = 64
_WORD_BITS = 32

Array = npt.NDArray[np.int64]


def encode_image(weights: Array) -> bytes:
    """Return the image. weights: (K, N), -1, 0 or 1; N inputs. Raises: ValueError for others."""
    if weights.size and int(np.abs(weights).max()) > 1:
        raise ValueError("weights of the analog array are -1, 0 and 1")
    outputs, inputs = weights.shape
    image = np.zeros((up(inputs, ROW_UNIT), up(outputs, COLUMN_UNIT)), dtype=np.int64)
    image[:inputs, :outputs] = weights.T
    turned = image[::-1] * _signs(*image.shape)
    planes = np.stack([turned == 1, turned == -1], axis=1)
    words = np.packbits(planes, axis=2).reshape(len(image), 2, -1, _WORD_BITS // 8)
    return np.ascontiguousarray(words[..., ::-1]).tobytes()


def encode_pairs(mul: Array, add: Array) -> bytes:
    """Return mul and add of every output in turn. Raises: OverflowError beyond 32 bits."""
    pairs = np.stack([mul, add], axis=1)
    if pairs.size and not -(1 << 31) <= int(pairs.min()) <= int(pairs.max()) < 1 << 31:
        raise OverflowError(f"[{pairs.min()}, {pairs.max()}] exceeds 32 bits")
    return pairs.astype("<i4").tobytes()


def _signs(rows: int, columns: int) -> Array:
    """Return 1 or -1 for every cell of an image."""
    block = np.arange(rows)[:, None] // _ROWS_PER_BLOCK
    even = np.arange(columns)[None, :] % 2 == 0
    turned = np.where(even, (block < 6) | (block > 11), block <= 8)
    return np.where(turned, -1, 1)
