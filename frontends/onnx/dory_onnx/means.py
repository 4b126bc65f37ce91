"""Reductions over rows and columns, and means of fewer elements at the border."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
import numpy.typing as npt

from dory_core.api import NotSupported, ops
from dory_core.importing import Array
from dory_onnx.chains import RESHAPES
from dory_onnx.model import EXPORT_HINT, Node, OnnxModel
from dory_onnx.shapes import Shape, reduced_axes, window_of

#: Operators over some axes, which become a pool.
REDUCTIONS = frozenset(["ReduceMean", "ReduceSum", "ReduceMax"])
_ROUNDING = frozenset(["Floor", "Clip"])
#: Largest common multiple of the numbers of elements.
_MOST = 1 << 24
#: Largest result, and largest row or column of windows: more is in no network that a chip holds.
_MOST_ELEMENTS = 1 << 24


def is_rounded(model: OnnxModel, node: Node, arithmetic: Collection[str]) -> bool:
    """Return True when arithmetic after a node makes its result an integer of known range.

    So the node belongs to the integer network, though no layer follows.
    """
    value = node.outputs[0]
    while len(readers := model.readers(value)) == 1:
        node = readers[0]
        if node.op in _ROUNDING or node.op.endswith("RequantShift"):
            return True
        if node.op not in arithmetic and node.op not in RESHAPES:
            return False
        value = node.outputs[0]
    return False


def reduced_window(model: OnnxModel, node: Node, shape: Shape) -> ops.Window:
    """Return the window of a reduction over a value of ``shape``.

    Raises: NotSupported for anything but rows and columns.
    """
    axes = reduced_axes(model, node, shape)
    if axes is None:
        raise NotSupported(f"{node.label}: its axes are no constants", EXPORT_HINT)
    if len(shape) not in (3, 4) or not axes or min(axes) < 2:
        raise NotSupported(
            f"{node.label}: it reduces axes {sorted(axes)} of {list(shape)}: only rows and columns"
            " of an image are supported",
            "reduce the axes behind the channels; a sum over channels is a Conv of 1x1",
        )
    kept = 3 if len(shape) == 4 else None
    if not node.attributes.get("keepdims", 1) and kept in axes and 2 not in axes:
        raise NotSupported(
            f"{node.label}: it drops the columns of {list(shape)} and keeps the rows",
            "export it with keepdims=1",
        )
    sizes = [shape[axis] if axis in axes else 1 for axis in range(2, len(shape))]
    kernel = (1, *sizes)[-2:]
    return ops.Window(kernel=(kernel[0], kernel[1]), strides=(kernel[0], kernel[1]))


@dataclass(frozen=True, slots=True)
class BorderMean:
    """A mean whose windows see fewer elements at the border: a sum, and a factor per position.

    Attributes:
        window: Window of the sum.
        factors: Factors of the sums, shape (1, H, W) of the output.
        divisor: Divisor of sum * factor.
    """

    window: ops.Window
    factors: Array
    divisor: int


def border_mean(node: Node, shape: Shape) -> BorderMean | None:
    """Return the layers of an AveragePool over ``shape``; None when all windows are full.

    Pads count with count_include_pad = 1. What ceil_mode adds after them never does, as in
    PyTorch and in the reference of ONNX. Raises: NotSupported, naming the node.
    """
    if node.op != "AveragePool":
        return None
    kernel = node.attributes.get("kernel_shape") or ()
    size = shape[2:]
    window = window_of(node, kernel, size)
    given = window_of(node, kernel, size, ceil=False)
    extents = (1, *size)[-2:]
    rows, columns = (_outputs(window, axis, extent) for axis, extent in enumerate(extents))
    largest = max(rows * columns, rows * window.kernel[0], columns * window.kernel[1])
    if largest > _MOST_ELEMENTS:
        raise NotSupported(
            f"{node.label}: {rows} x {columns} windows of {window.kernel[0]} x {window.kernel[1]}"
            " are more than any chip computes",
            EXPORT_HINT,
        )
    counts = [
        _counts(node, window, given.pads, axis, extent) for axis, extent in enumerate(extents)
    ]
    if all((count == k).all() for count, k in zip(counts, window.kernel, strict=True)):
        return None
    number = counts[0][:, None] * counts[1][None, :]
    divisor = lcm(*(int(n) for n in np.unique(number)))
    if divisor > _MOST:
        raise NotSupported(
            f"{node.label}: its windows see so different numbers of elements at the border that no"
            " common divisor is known",
            "export the pool with count_include_pad=True and ceil_mode=False",
        )
    return BorderMean(window, Array((divisor // number)[None]), divisor)


def _outputs(window: ops.Window, axis: int, extent: int) -> int:
    """Return the windows along an axis of ``size`` elements."""
    reach = (window.kernel[axis] - 1) * window.dilations[axis] + 1
    padded = extent + window.pads[axis] + window.pads[axis + 2]
    return (padded - reach) // window.strides[axis] + 1


def _counts(
    node: Node, window: ops.Window, pads: Sequence[int], axis: int, extent: int
) -> npt.NDArray[np.int64]:
    """Return how many elements count for each row or column of the output."""
    before, behind = pads[axis], pads[axis + 2]
    starts = np.arange(_outputs(window, axis, extent)) * window.strides[axis] - before
    taps = starts[:, None] + np.arange(window.kernel[axis])[None, :] * window.dilations[axis]
    counted = (0, extent)
    if node.attributes.get("count_include_pad", 0):
        counted = (-before, extent + behind)
    found: npt.NDArray[np.int64] = ((taps >= counted[0]) & (taps < counted[1])).sum(axis=1)
    return np.maximum(found, 1)
