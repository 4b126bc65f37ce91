"""Operators between layers that move integers and compute none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dory_core.api import NotSupported
from dory_core.importing import Array
from dory_onnx.model import EXPORT_HINT, Node, OnnxModel, whole_numbers

#: How elements are found with which a Resize by whole factors repeats each of them.
_REPEATING = frozenset(
    [
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
    ]
)
#: Operators that repeat rows and columns.
RESIZES = ("Upsample", "Resize")
MOVERS = frozenset(["Concat", "Transpose", "Slice", "Split", "Gather", *RESIZES])
#: Attributes that these operators had in older versions of ONNX.
OLD_ATTRIBUTES = frozenset(["starts", "ends", "axes", "split", "scales"])
_LARGEST_FACTOR = 1 << 10


def tensor_axes(rank: int, by_rows: bool) -> tuple[int | None, ...]:
    """Return which of (C, H, W) each axis of a value with ``rank`` axes is; None for the batch.

    by_rows: the last axis is C.
    """
    if by_rows:
        return (None, *(1, 2, 0)[4 - rank :]) if rank > 1 else (0,)
    return {2: (None, 0), 3: (None, 0, 2)}.get(rank, (None, 0, 1, 2))


def extents_of(
    taken: Sequence[range], axes: Sequence[int | None]
) -> tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]:
    """Return (begin, size, step) along (C, H, W) of elements taken along axes of a value.

    axes: of :func:`tensor_axes`.
    """
    chw = [range(1)] * 3
    for one, axis in zip(taken, axes, strict=True):
        if axis is not None:
            chw[axis] = one
    return (
        (chw[0].start, chw[1].start, chw[2].start),
        (len(chw[0]), len(chw[1]), len(chw[2])),
        (chw[0].step, chw[1].step, chw[2].step),
    )


def joined_axis(node: Node, rank: int) -> int:
    """Return the axis along which a Concat joins. Raises: NotSupported for the batch."""
    axis = int(node.attributes.get("axis", 1)) % rank
    if axis == 0 and rank > 1:
        raise NotSupported(
            f"{node.label}: it joins along axis 0, the batch: one image is computed at a time",
            "join the channels, or end the exported network before it",
        )
    return axis


def permutation_of(node: Node, rank: int) -> tuple[int, ...] | None:
    """Return the order of a Transpose of ``rank`` axes; None where it is none."""
    order = tuple(int(axis) for axis in node.attributes.get("perm", reversed(range(rank))))
    return order if sorted(order) == list(range(rank)) else None


def turned_axes(node: Node, rank: int) -> tuple[int, ...]:
    """Return the order of axes that a Transpose makes. Raises: NotSupported for the batch."""
    order = permutation_of(node, rank)
    if order is None or order[0] != 0:
        raise NotSupported(
            f"{node.label}: perm = {list(node.attributes.get('perm', ()))} moves the batch",
            "leave the first axis where it is",
        )
    return order


def ranges_of(model: OnnxModel, node: Node, shape: Sequence[int]) -> list[range] | None:
    """Return which elements along each axis a Slice takes; None where they are no constants."""
    given: list[Sequence[int] | None] = []
    for place, name in enumerate(("starts", "ends", "axes", "steps"), start=1):
        content = node.attributes.get(name)
        if content is None and node.input(place):
            content = model.constant(node.input(place))
            if content is None:
                return None
        numbers = None if content is None else whole_numbers(content)
        if content is not None and numbers is None:
            return None
        given.append(numbers)
    starts, ends, axes, steps = given
    if starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    taken = [range(size) for size in shape]
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        return None
    for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
        if not -len(shape) <= axis < len(shape):
            return None
        taken[axis] = range(shape[axis])[slice(*bounds)]
    return taken


def taken_of(model: OnnxModel, node: Node, shape: Sequence[int]) -> dict[str, list[range]]:
    """Return which elements of ``shape`` each result of a Slice or Split takes, by its name.

    Raises: NotSupported where they follow from no constants, and for the batch.
    """
    found: dict[str, list[range]] = {}
    if node.op == "Slice":
        taken = ranges_of(model, node, shape)
        found = {} if taken is None else {node.outputs[0]: taken}
    else:
        axis, sizes = parts_of(model, node, shape) or (0, ())
        begin = 0
        for name, size in zip(node.outputs, sizes, strict=False):
            found[name] = [range(n) for n in shape]
            found[name][axis] = range(begin, begin + size)
            begin += size
    if not found or any(len(axis) == 0 for taken in found.values() for axis in taken):
        raise NotSupported(
            f"{node.label}: what it takes of {list(shape)} follows from no constants, or is"
            " nothing",
            EXPORT_HINT,
        )
    return found


def gathered(model: OnnxModel, node: Node, shape: Sequence[int]) -> dict[str, list[range]]:
    """Return which elements of ``shape`` a Gather takes, by the name of its result.

    Raises: NotSupported unless its indices are constants at equal distances, and for the batch.
    """
    indices = model.constant(node.input(1))
    numbers = None if indices is None or indices.ndim > 1 else whole_numbers(indices)
    axis = int(node.attributes.get("axis", 0))
    if not numbers or not -len(shape) <= axis < len(shape):
        raise NotSupported(
            f"{node.label}: what it takes of {list(shape)} follows from no constants", EXPORT_HINT
        )
    axis %= len(shape)
    places = [number % shape[axis] for number in numbers]
    step = places[1] - places[0] if len(places) > 1 else 1
    found = range(places[0], places[0] + step * len(places), step or 1)
    if list(found) != places or (axis == 0 and shape[0] > 1):
        raise NotSupported(
            f"{node.label}: it takes elements {list(numbers)} of axis {axis} of {list(shape)};"
            " supported are constant indices at equal distances",
            "reorder the constants of the layers around it instead",
        )
    taken = [range(size) for size in shape]
    taken[axis] = found
    return {node.outputs[0]: taken}


def parts_of(
    model: OnnxModel, node: Node, shape: Sequence[int]
) -> tuple[int, tuple[int, ...]] | None:
    """Return (axis, sizes) of a Split; None where they are no constants or do not fit."""
    axis = int(node.attributes.get("axis", 0))
    if not -len(shape) <= axis < len(shape):
        return None
    axis %= len(shape)
    content = node.attributes.get("split", model.constant(node.input(1)) if node.input(1) else None)
    if content is None and node.input(1):
        return None
    count = len(node.outputs)
    if content is None:
        each = -(-shape[axis] // count)
        sizes = (*[each] * (count - 1), shape[axis] - each * (count - 1))
    else:
        found = whole_numbers(content)
        if found is None:
            return None
        sizes = found
    fits = len(sizes) == count and min(sizes) > 0 and sum(sizes) == shape[axis]
    return (axis, sizes) if fits else None


def factors_of(model: OnnxModel, node: Node, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return how often a Resize or Upsample repeats rows and columns of (1, C, H, W).

    None where its scales are no constants. Raises: NotSupported for anything but repeating.
    """
    scales = _scales(model, node, shape)
    if scales is None:
        return None
    whole = np.rint(scales) if bool(np.isfinite(scales).all()) else np.zeros(len(scales))
    in_range = bool((whole == scales).all()) and whole.min() >= 1 and whole.max() <= _LARGEST_FACTOR
    if len(shape) != 4 or len(scales) != 4 or not in_range or max(whole[:2]) != 1:
        shown = ", ".join(f"{scale:g}" for scale in scales)
        raise NotSupported(
            f"{node.label}: it scales {list(shape)} by {shown}: only whole factors of height and"
            " width are supported",
            "export with a whole scale_factor and mode='nearest'",
        )
    _check_mode(node)
    return int(whole[2]), int(whole[3])


def _check_mode(node: Node) -> None:
    mode = _text(node, "mode", "nearest")
    if mode != "nearest":
        raise NotSupported(
            f"{node.label}: mode '{mode}' makes values between integers, only 'nearest' is"
            " supported",
            "export with mode='nearest'",
        )
    if node.op == "Upsample" or len(node.inputs) == 2:
        return  # of older versions of ONNX, which know no other way
    place = _text(node, "coordinate_transformation_mode", "half_pixel")
    nearest = _text(node, "nearest_mode", "round_prefer_floor")
    if (place, nearest) not in _REPEATING:
        raise NotSupported(
            f"{node.label}: coordinates '{place}' with nearest_mode '{nearest}' do not repeat"
            " elements",
            "export with coordinates 'asymmetric' and nearest_mode 'floor'",
        )


def _text(node: Node, name: str, default: str) -> str:
    value = node.attributes.get(name, default)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _scales(model: OnnxModel, node: Node, shape: tuple[int, ...]) -> np.ndarray | None:
    content = node.attributes.get("scales")
    if content is None:
        place = 1 if node.op == "Upsample" or len(node.inputs) == 2 else 2
        content = model.constant(node.input(place))
        if content is None or np.size(content) == 0:
            sizes = model.constant(node.input(3)) if node.input(3) else None
            if sizes is None or np.size(sizes) != len(shape):
                return None
            content = np.reshape(sizes, -1) / np.array(shape, dtype=np.float64)
    return np.asarray(content, dtype=np.float64).reshape(-1)


def repeated(size: int, factor: int) -> Array:
    """Return the rows or columns of a Resize that repeats each of ``size``, shape (size, 4)."""
    first = np.repeat(np.arange(size), factor)
    return Array(np.stack([first, first, np.ones_like(first), np.zeros_like(first)], axis=1))
