"""Resize and Upsample: the nearest neighbour on stored integers, or linear with integer weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dory_core.api import Requant, ops
from dory_core.importing import Array, requant
from dory_qdq.call import Call
from dory_qdq.network import standard_axes
from dory_qdq.numerics import Floats, Integers, single
from dory_qdq.operators.products import scaled
from dory_qdq.values import Place, Real

#: Sum of the weights of two rows or columns. Rounding them moves a result by a quarter of a step.
_WHOLE = 1 << 10
# Of a Resize; beyond them the file is damaged.
_LARGEST_SCALE = 1 << 16
_LARGEST_SIZE = 1 << 16
# Where a Resize says how places of outputs lie in the input.
_OPSET_OF_PLACES = 11


#: Returns per output element (first, second, weight of first, weight of second) for the places of
#: outputs in a dimension of the given size.
_Taps = Callable[[Call, Floats, int], Integers]


def lower_nearest(call: Call, source: Real) -> Place:
    """Append a Resize to the nearest neighbour."""
    return _resized(call, source.place, _nearest)


def lower_linear(call: Call) -> Place:
    """Append a linear Resize, which onnxruntime computes in reals."""
    source = call.real()
    x, y, clip, one = source.x, call.output, call.clip(), _WHOLE * _WHOLE
    if (x.scale, x.zero_point) == (y.scale, y.zero_point):
        step = requant(1, one // 2, one, *clip)
    else:
        factor = single(x.scale / (one * y.scale))
        step = scaled(call, np.asarray(factor), y.zero_point, clip, one * x.zero_point)
    return _resized(call, source.place, _linear, step)


def _resized(call: Call, place: Place, taps_of: _Taps, *steps: Requant) -> Place:
    if len(place.shape) not in (3, 4):
        raise call.error(f"an input of shape {list(place.shape)} is no image")
    sizes, scales = _sizes(call, place)
    name = call.image(place)
    taps = []
    for dimension in range(2, len(place.shape)):
        whole, size, scale = place.shape[dimension], sizes[dimension], scales[dimension]
        taps.append(taps_of(call, _places(call, whole, size, scale), whole))
    if len(taps) == 1:
        taps.insert(0, np.array([(0, 0, _WHOLE if steps else 1, 0)]))
    rows, columns = (Array(each) for each in taps)
    output = call.emit(ops.Resize, name, rows=rows, columns=columns, requants=steps)
    shape = tuple(sizes)
    return call.network.placed(output, shape, standard_axes(shape) or ())


def _sizes(call: Call, place: Place) -> tuple[list[int], list[float]]:
    """Return the shape of the result and by how much each dimension grows."""
    old = call.node.op == "Upsample" or len(call.inputs) == 2
    position = 1 if old else 2
    rank = len(place.shape)
    if not old and call.has(3) and call.constant(3).size:
        sizes = [int(v) for v in call.constant(3).reshape(-1)]
        scales = [s / whole for s, whole in zip(sizes, place.shape, strict=False)]
    elif call.has(position) and call.constant(position).size:
        scales = [float(v) for v in call.constant(position).reshape(-1)]
        if not all(0 < scale <= _LARGEST_SCALE for scale in scales):
            raise call.error(f"its scales are {scales}", "export the network again")
        sizes = [int(np.floor(w * s)) for w, s in zip(place.shape, scales, strict=False)]
    else:
        raise call.error("it has neither sizes nor scales")
    fits = len(sizes) == rank and sizes[:2] == list(place.shape[:2]) and min(sizes) >= 1
    if not fits or max(scales) > _LARGEST_SCALE or max(sizes) > _LARGEST_SIZE:
        raise call.error(f"shape {list(place.shape)} becomes {sizes}", "export the network again")
    return sizes, scales


def _is_old(call: Call) -> bool:
    """Return True when the operator is of before opset 11, which has no attributes for places."""
    return call.node.op == "Upsample" or call.network.opset < _OPSET_OF_PLACES


def _places(call: Call, whole: int, size: int, scale: float) -> Floats:
    """Return where each output along a dimension lies in the input, as onnxruntime computes it."""
    out = np.arange(size, dtype=np.float32)
    factor = np.float32(scale)
    how = call.attribute("coordinate_transformation_mode", "half_pixel")
    if _is_old(call):
        how = "asymmetric"
    if how == "asymmetric":
        return np.asarray(out / factor)
    if how == "align_corners":
        return np.asarray(out * np.float32(whole - 1) / np.float32(max(size - 1, 1)))
    if how in ("half_pixel", "pytorch_half_pixel"):
        if how == "pytorch_half_pixel" and size == 1:
            return np.zeros(1, np.float32)
        return np.asarray((out + np.float32(0.5)) / factor - np.float32(0.5))
    raise call.error(f"coordinate_transformation_mode '{how}' is not supported")


def _nearest(call: Call, places: Floats, whole: int) -> Integers:
    rounding = call.attribute("nearest_mode", "round_prefer_floor")
    if _is_old(call):
        rounding = "ceil" if len(places) < whole else "floor"
    if rounding == "round_prefer_floor":
        found = np.ceil(places - np.float32(0.5))
    elif rounding == "round_prefer_ceil":
        found = np.floor(places + np.float32(0.5))
    elif rounding in ("floor", "ceil"):
        found = np.floor(places) if rounding == "floor" else np.ceil(places)
    else:
        raise call.error(f"nearest_mode '{rounding}' is not supported")
    return np.array([(k, k, 1, 0) for k in np.clip(found, 0, whole - 1).astype(np.int64)])


def _linear(call: Call, places: Floats, whole: int) -> Integers:
    inside = np.clip(places.astype(np.float64), 0, whole - 1)
    first = np.floor(inside).astype(np.int64)
    second = np.minimum(first + 1, whole - 1)
    weight = np.where(second > first, np.rint((inside - first) * _WHOLE), 0).astype(np.int64)
    second = np.where(weight > 0, second, first)
    return np.stack([first, second, _WHOLE - weight, weight], axis=1)
