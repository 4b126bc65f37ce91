"""Operators between layers that move integers and compute none: Concat, Upsample and Resize."""

from __future__ import annotations

import numpy as np

from dory_core.api import Array, NotSupported
from dory_onnx.model import Node, OnnxModel

#: How elements are found with which a Resize by whole factors repeats each of them.
_REPEATING = frozenset(
    [
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
    ]
)
_RESIZES = ("Upsample", "Resize")
MOVERS = frozenset(["Concat", *_RESIZES])
_LARGEST_FACTOR = 1 << 10


def check_concat(node: Node, rank: int) -> None:
    """Raise NotSupported for an axis other than the channels'."""
    axis = int(node.attributes.get("axis", 1))
    if axis % rank != 1:
        raise NotSupported(
            f"{node.label}: it joins along axis {axis}, only axis 1 is supported",
            "join the channels, or end the exported network before it",
        )


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
