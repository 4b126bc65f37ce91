"""Two operands whose dimensions lie along the same axes, as broadcasting has it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dory_qdq.call import Call
from dory_qdq.network import Axes
from dory_qdq.values import Place, Shape


@dataclass(frozen=True, slots=True)
class Aligned:
    """Two operands whose dimensions lie along the same axes.

    Attributes:
        order: Numbers that they have in the file; the first one has the shape of the result.
        names: Their tensors.
        shape, axes: Of the result in the file.
    """

    order: tuple[int, int]
    names: tuple[str, str]
    shape: Shape
    axes: Axes


def aligned(call: Call, one: Place, other: Place) -> Aligned:
    """Bring two operands into tensors, of which the second one repeats along sizes of 1."""
    rank = max(len(one.shape), len(other.shape))
    places = [of_rank(place, rank) for place in (one, other)]
    shape = broadcast(call, places[0].shape, places[1].shape)
    order = (0, 1) if places[0].shape == shape else (1, 0)
    whole, part = (places[n] for n in order)
    if whole.shape != shape:
        raise call.error(
            f"operands of shapes {list(one.shape)} and {list(other.shape)} are both broadcast"
        )
    name, axes = call.tensor(whole, _common(call, whole, part))
    return Aligned(order, (name, call.tensor(part, axes)[0]), shape, axes)


def broadcast(call: Call, one: Shape, other: Shape) -> Shape:
    try:
        return tuple(int(size) for size in np.broadcast_shapes(one, other))
    except ValueError:
        raise call.error(
            f"operands of shapes {list(one)} and {list(other)} do not fit together"
        ) from None


def of_rank(place: Place, rank: int) -> Place:
    """Return a place with leading dimensions of 1, as broadcasting has it."""
    return replace(place, shape=(1,) * (rank - len(place.shape)) + place.shape)


def _common(call: Call, whole: Place, part: Place) -> Axes | None:
    """Return axes in which no operand moves, None where there are none."""
    axes, second = call.network.axes(whole), call.network.axes(part)
    if axes is None or second is None:
        return None
    agree = all(a == b for a, b in zip(axes, second, strict=True) if b is not None)
    return axes if agree else None
