"""Storage form of integer tensors: what generated C, vectors and weights look like in memory.

Elements of 2 or 4 bits are packed along the channels, element 0 in the low bits; every row of
channels (a pixel, a weight row) starts on a byte and its padding bits are zero. Elements of 16 and
32 bits are little-endian. Signed values are two's complement. Of elements in two halves
(``Tensor.halves``) four first halves lie before the second ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir import Tensor, pixel_bytes
from dory_core.ir.tensor import HALVES_TOGETHER, value_range

__all__ = ["pack", "pack_elements", "pack_rows", "unpack", "unpack_rows"]

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_SUB_BYTE = (1, 2, 4)
_WHOLE = {8: "1", 16: "2", 32: "4", 64: "8"}


def _limits(bits: int, signed: bool) -> tuple[int, int]:
    if bits not in _SUB_BYTE and bits not in _WHOLE:
        raise ValueError(f"no storage of {bits} bits: 1, 2, 4, 8, 16, 32 and 64 are known")
    return value_range(bits, signed)


def pack_rows(values: npt.NDArray[Any], bits: int, signed: bool) -> Bytes:
    """Return ``values``, shape (..., C), as bytes of shape (..., pixel_bytes(C, bits)).

    Raises:
        ValueError: When a value does not fit the storage.
        TypeError: For values that are no integers.
    """
    values = np.asarray(values)
    if values.dtype.kind not in "iub":
        raise TypeError(f"storage holds integers, not {values.dtype}")
    lo, hi = _limits(bits, signed)
    if values.size and (int(values.min()) < lo or int(values.max()) > hi):
        raise ValueError(
            f"values in [{values.min()}, {values.max()}] do not fit "
            f"{'i' if signed else 'u'}{bits} ([{lo}, {hi}])"
        )
    channels = values.shape[-1]
    if bits in _WHOLE:
        whole = values.astype(f"<{'i' if signed else 'u'}{_WHOLE[bits]}")
        return np.frombuffer(whole.tobytes(), np.uint8).reshape(
            *values.shape[:-1], pixel_bytes(channels, bits)
        )
    per_byte = 8 // bits
    row = pixel_bytes(channels, bits)
    fields = np.zeros((*values.shape[:-1], row * per_byte), np.uint8)
    fields[..., :channels] = (values.astype(np.int64) & ((1 << bits) - 1)).astype(np.uint8)
    fields = fields.reshape(*values.shape[:-1], row, per_byte)
    packed = np.zeros(fields.shape[:-1], np.uint8)
    for position in range(per_byte):
        packed |= fields[..., position] << np.uint8(position * bits)
    return packed


def unpack_rows(data: npt.NDArray[Any], channels: int, bits: int, signed: bool) -> Integers:
    """Return the values, shape (..., C), of bytes of shape (..., pixel_bytes(C, bits)).

    Inverse of :func:`pack_rows`.

    Args:
        data: Unsigned bytes.
        channels: Number of elements of a row, C.
        bits: Of an element.
        signed: Whether elements may be negative.

    Raises:
        ValueError: When a row has another number of bytes.
    """
    _limits(bits, signed)
    data = np.ascontiguousarray(data, dtype=np.uint8)
    row = pixel_bytes(channels, bits)
    if data.shape[-1] != row:
        raise ValueError(
            f"{channels} elements of {bits} bits take {row} bytes, not {data.shape[-1]}"
        )
    if bits in _WHOLE:
        dtype = f"<{'i' if signed else 'u'}{_WHOLE[bits]}"
        values = np.frombuffer(data.tobytes(), dtype).reshape(*data.shape[:-1], channels)
        return values.astype(np.int64)
    per_byte = 8 // bits
    fields = np.empty((*data.shape, per_byte), np.int64)
    for position in range(per_byte):
        fields[..., position] = (data >> np.uint8(position * bits)) & np.uint8((1 << bits) - 1)
    unpacked = fields.reshape(*data.shape[:-1], row * per_byte)[..., :channels]
    if signed:
        sign = 1 << bits - 1
        unpacked = (unpacked ^ sign) - sign
    return np.ascontiguousarray(unpacked)


def pack_elements(elements: npt.NDArray[Any], tensor: Tensor) -> Bytes:
    """Return elements of a tensor, shape (..., C), as rows of bytes; C may be a part of it.

    Raises:
        ValueError: When one does not fit.
        TypeError: For elements that are no integers.
    """
    if not tensor.halves:
        return pack_rows(elements, tensor.bits, tensor.signed)
    first = np.asarray(elements) // 2
    shape = (*first.shape[:-1], first.shape[-1] // HALVES_TOGETHER, HALVES_TOGETHER)
    parts = [half.reshape(shape) for half in (first, elements - first)]
    return pack_rows(np.stack(parts, axis=-2).reshape(*first.shape[:-1], -1), 8, False)


def _unpack_halves(rows: Bytes) -> Integers:
    """Return the elements, shape (..., C), of rows of halves."""
    parts = rows.reshape(*rows.shape[:-1], -1, 2, HALVES_TOGETHER).astype(np.int64)
    return (parts[..., 0, :] + parts[..., 1, :]).reshape(*rows.shape[:-1], -1)


def pack(values: npt.NDArray[Any], tensor: Tensor) -> bytes:
    """Return the storage form of ``values``, shape (H, W, C), ``tensor.size_bytes`` bytes long.

    Args:
        values: As in the file; elements have ``tensor.offset`` more.
        tensor: Shape and storage.

    Raises:
        ValueError: When the shape differs or a value does not fit ``tensor.bits``.
    """
    expected = (tensor.height, tensor.width, tensor.channels)
    if np.asarray(values).shape != expected:
        raise ValueError(
            f"tensor {tensor.name} has shape {expected} (H, W, C), not {np.asarray(values).shape}"
        )
    elements = values + tensor.offset if tensor.offset else values
    return pack_elements(elements, tensor).tobytes()


def unpack(data: bytes, tensor: Tensor) -> Integers:
    """Return the values, shape (H, W, C), of the storage form ``data``: those of the file.

    Raises:
        ValueError: When ``data`` is not ``tensor.size_bytes`` long.
    """
    if len(data) != tensor.size_bytes:
        raise ValueError(f"tensor {tensor.name} takes {tensor.size_bytes} bytes, not {len(data)}")
    row = pixel_bytes(tensor.channels, tensor.bits)
    rows = np.frombuffer(data, np.uint8).reshape(tensor.height, tensor.width, row)
    if tensor.halves:
        return _unpack_halves(rows) - tensor.offset
    return unpack_rows(rows, tensor.channels, tensor.bits, tensor.signed) - tensor.offset
