"""Where tensors of the file lie in those of the Graph, and their values in either form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_tflite.grids import MEMORY_ORDER, Grid, Triple, Values
from dory_tflite.model import FileTensor
from dory_tflite.reals import Reals


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a tensor of the file lies.

    Attributes:
        name: Tensor of the Graph, which has the same elements.
        axes: None, they have the same order in memory; otherwise per dimension of the file the axis
            of (C, H, W), None for size 1.
        pads: (top, left, bottom, right) elements that the file's tensor has around them, of value
            pad_value.
        grid: None, or the order of elements of more dimensions, in place of axes.
        real: The reals that the elements of a tensor of reals stand for.
    """

    name: str
    axes: tuple[int | None, ...] | None = None
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    grid: Grid | None = None
    real: Reals | None = None


def file_values(tensor: FileTensor, bound: Bound, values: Values) -> npt.NDArray[Any]:
    """Return a tensor of the file, in its shape, from the Graph's tensor that holds its elements.

    values: shape (C, H, W).
    """
    top, left, bottom, right = bound.pads
    values = np.pad(values, ((0, 0), (top, bottom), (left, right)), constant_values=bound.pad_value)
    if bound.grid is not None:
        found = bound.grid.of_file(values.transpose(MEMORY_ORDER))
    elif bound.axes is None:
        found = values.transpose(MEMORY_ORDER)
    else:
        used = [axis for axis in bound.axes if axis is not None]
        rest = [axis for axis in range(3) if axis not in used]
        found = values.transpose(*rest, *used)
    shaped = np.asarray(found).reshape(tensor.shape)
    return shaped if bound.real is None else bound.real.of(shaped)


def graph_values(bound: Bound, shape: Triple, values: npt.NDArray[Any]) -> Values | None:
    """Return the elements of a Graph tensor, shape (C, H, W), from a tensor of the file.

    The inverse of :func:`file_values`; None where the file's tensor has padding or is of reals.
    """
    if any(bound.pads) or bound.real is not None:
        return None
    axes: tuple[int, ...] = MEMORY_ORDER
    if bound.grid is not None:
        values = bound.grid.of_memory(values)
    elif bound.axes is not None:
        used = [axis for axis in bound.axes if axis is not None]
        axes = (*(axis for axis in range(3) if axis not in used), *used)
    found = values.astype(np.int64).reshape([shape[axis] for axis in axes])
    return found.transpose([axes.index(axis) for axis in range(3)])


def broadcastable(values: Values, shape: Triple) -> bool:
    """True when an array of shape (C, H, W) serves a tensor of this shape."""
    return all(size in (1, whole) for size, whole in zip(values.shape, shape, strict=True))
