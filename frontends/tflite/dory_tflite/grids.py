"""Shapes of the file as the three axes of the Graph, and shapes of more dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported
from dory_tflite.model import FileTensor

Triple = tuple[int, int, int]
Values = npt.NDArray[np.int64]

#: Bounds of what is imported, so that a damaged size costs neither time nor memory.
MOST_PIXELS = 1 << 14
MOST_CHANNELS = 1 << 22

#: Axes of a Graph tensor (C, H, W) in the order of memory.
MEMORY_ORDER = (1, 2, 0)
_IMAGE = 4


def is_no_image(tensor: FileTensor) -> bool:
    """Return True when a tensor has more dimensions than an image with its batch."""
    return len(tensor.shape) > _IMAGE


def is_grid(tensor: FileTensor) -> bool:
    """Return True when a tensor has more dimensions than a Graph's tensor has axes."""
    return is_no_image(tensor) and len(_pixels(tensor)) > 2


def _pixels(tensor: FileTensor) -> list[int]:
    """Return the dimensions before the last one whose size is not 1."""
    return [n for n, size in enumerate(tensor.shape[:-1]) if size != 1]


def canonical_shape(tensor: FileTensor) -> Triple:
    """Return (C, H, W) of a tensor of the file: its last three dimensions are H, W and C.

    Of a tensor of more than four dimensions, C is the last one, W the one before whose size is not
    1, and H all others. Raises: NotSupported when another dimension is not 1.
    """
    padded = (1, 1, 1, *tensor.shape)
    if is_no_image(tensor):
        sizes = [1, 1, *(tensor.shape[n] for n in _pixels(tensor))]
        padded = (1, prod(sizes[:-1]), sizes[-1], tensor.shape[-1])
    if any(size != 1 for size in padded[:-3]):
        raise NotSupported(
            f"{tensor.label}: shape {list(tensor.shape)} has a batch, or four dimensions;"
            " supported are a batch of 1 and height, width and channels as the last three",
            "export the network with a fixed batch of 1",
        )
    height, width, channels = padded[-3:]
    if min(padded) < 1:
        raise NotSupported(f"{tensor.label}: shape {list(tensor.shape)} has no elements")
    if max(height, width) > MOST_PIXELS or channels > MOST_CHANNELS:
        raise NotSupported(
            f"{tensor.label}: shape {list(tensor.shape)} is beyond {MOST_PIXELS} rows and"
            f" columns and {MOST_CHANNELS} channels"
        )
    return channels, height, width


def repeats_by_axes(tensor: FileTensor, whole: FileTensor) -> bool:
    """Return True when a tensor is repeated along axes (C, H, W) to the shape of another one.

    Of more than four dimensions those of an axis are repeated all or none, and the axes of both
    tensors stand for the same dimensions.
    """
    rank = max(len(tensor.shape), len(whole.shape))
    if rank <= _IMAGE:
        return True
    sizes = (1,) * (rank - len(tensor.shape)) + tuple(tensor.shape)
    most = (1,) * (rank - len(whole.shape)) + tuple(whole.shape)
    pixels = [n for n, size in enumerate(most[:-1]) if size != 1]
    columns, rows = pixels[-1:], pixels[:-1]
    for axis in ([rank - 1], columns, rows):
        if not all(sizes[n] == 1 for n in axis) and any(sizes[n] != most[n] for n in axis):
            return False
    expected = (sizes[-1], prod(sizes[n] for n in rows), prod(sizes[n] for n in columns))
    return canonical_shape(tensor) == expected


def axis_of(tensor: FileTensor, dimension: int) -> int | None:
    """Return the axis of (C, H, W) of a dimension, which may count from the end; None: size 1.

    Raises: NotSupported for a tensor whose dimensions have no axis each.
    """
    rank = max(len(tensor.shape), 1)
    before_last = rank - 1 - (dimension % rank)
    if rank <= _IMAGE or before_last == 0:
        return (0, 2, 1)[before_last] if before_last < 3 else None
    if is_grid(tensor):
        raise NotSupported(
            f"{tensor.label}: shape {list(tensor.shape)} has {len(_pixels(tensor)) + 1} dimensions"
            " that are not 1; this operator supports three",
            "write the layers around it with at most three: height, width and channels",
        )
    pixels = _pixels(tensor)
    if dimension % rank not in pixels:
        return None
    return 2 if dimension % rank == pixels[-1] else 1


def around(shape: Sequence[int], dimension: int) -> tuple[int, int, int]:
    """Return the number of elements before a dimension, along it, and after it."""
    return prod(shape[:dimension]), shape[dimension], prod(shape[dimension + 1 :])


@dataclass(frozen=True, slots=True)
class Grid:
    """The order of the elements of a tensor with more dimensions than axes.

    Attributes:
        sizes: Of its dimensions in the order of memory.
        order: Which of ``sizes`` the file has, the slowest one first.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]

    def of_file(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return elements in the order of memory in the order of the file."""
        return values.reshape(self.sizes).transpose(self.order)

    def of_memory(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return elements in the order of the file in the order of memory."""
        shaped = values.reshape([self.sizes[n] for n in self.order])
        return shaped.transpose([self.order.index(n) for n in range(len(self.order))])

    def permuted(self, perm: Sequence[int]) -> Grid:
        """Return the grid whose dimension n is dimension ``perm[n]`` of this one in the file."""
        return Grid(self.sizes, tuple(self.order[n] for n in perm))
