"""Shapes of the results of two operands, whose axes may be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dory_core.api import NotSupported
from dory_onnx.model import Node, OnnxModel

Shape = tuple[int, ...]


def broadcast(model: OnnxModel, node: Node, shapes: Mapping[str, Shape]) -> Shape | None:
    """Return the shape of a function of two values by elements; None where it is unknown."""
    operands: list[Shape] = []
    for value in node.inputs:
        content = model.constant(value)
        shape = shapes.get(value) if content is None else tuple(content.shape)
        if shape is None:
            return None
        operands.append(shape)
    try:
        return tuple(int(d) for d in np.broadcast_shapes(*operands))
    except ValueError:
        shown = " and ".join(str(list(s)) for s in operands)
        raise NotSupported(f"{node.label}: operands of shapes {shown} do not match") from None


def multiplied(node: Node, operands: Sequence[Shape | None]) -> Shape | None:
    """Return the shape of a product of matrices; None where it is unknown."""
    first, second = operands
    if first is None or second is None or min(len(first), len(second)) < 2:
        return None
    if first[-1] != second[-2]:
        raise NotSupported(
            f"{node.label}: matrices of shapes {list(first)} and {list(second)} cannot be"
            " multiplied"
        )
    try:
        front = np.broadcast_shapes(first[:-2], second[:-2])
    except ValueError:
        raise NotSupported(
            f"{node.label}: operands of shapes {list(first)} and {list(second)} do not match"
        ) from None
    return (*map(int, front), first[-2], second[-1])
