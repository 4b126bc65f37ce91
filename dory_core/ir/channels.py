"""Tensors as they are in the file, where channels that cannot change are not stored.

``Tensor.removed`` says which channels are missing, and their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir.tensor import Tensor

#: Stands in full tensors for elements that nothing computes, because nothing reads them.
NOT_COMPUTED = -(2**63)


def file_channels(tensor: Tensor) -> int:
    """Return the number of channels that the tensor has in the file."""
    return tensor.channels + len(tensor.removed)


def stored_channels(tensor: Tensor) -> npt.NDArray[np.int64]:
    """Return the channels of the file that are stored, in their order."""
    removed = [channel for channel, _ in tensor.removed]
    return np.setdiff1d(np.arange(file_channels(tensor)), removed)


def computed_channels(tensor: Tensor) -> npt.NDArray[np.int64]:
    """Return the channels of the file whose values are known: stored, or removed with a value."""
    unread = [channel for channel, value in tensor.removed if value is None]
    return np.setdiff1d(np.arange(file_channels(tensor)), unread)


def full(tensor: Tensor, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values of the file, shape (H, W, C of the file), of stored ones, (H, W, C).

    Channels that nothing computes are NOT_COMPUTED.
    """
    if not tensor.removed:
        return values
    found = np.empty((*values.shape[:-1], file_channels(tensor)), np.int64)
    found[..., stored_channels(tensor)] = values
    for channel, value in tensor.removed:
        found[..., channel] = NOT_COMPUTED if value is None else value
    return found


def stored(tensor: Tensor, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values that are stored, shape (H, W, C), of full ones, (H, W, C of the file)."""
    return values[..., stored_channels(tensor)] if tensor.removed else values


def removed_text(removed: Iterable[tuple[int, int | None]]) -> str:
    """Return removed channels as text, such as ``0-3=0,7=-128,9=?``: ranges of equal values."""
    runs = groupby(enumerate(removed), key=lambda item: (item[1][0] - item[0], item[1][1]))
    words = []
    for (_, value), items in runs:
        channels = [channel for _, (channel, _) in items]
        first, last = channels[0], channels[-1]
        span = str(first) if first == last else f"{first}-{last}"
        words.append(f"{span}={'?' if value is None else value}")
    return ",".join(words)


def parse_removed(text: str) -> tuple[tuple[int, int | None], ...]:
    """Return the channels that :func:`removed_text` printed."""
    found: list[tuple[int, int | None]] = []
    for word in text.split(","):
        span, _, value = word.partition("=")
        first, _, last = span.partition("-")
        number = None if value == "?" else int(value)
        found += [(channel, number) for channel in range(int(first), int(last or first) + 1)]
    return tuple(found)
