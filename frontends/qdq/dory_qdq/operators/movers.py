"""Operators that move elements or keep some: results have the quantisation of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from dory_onnx import window_of

from dory_core.api import ops
from dory_core.importing import Array
from dory_qdq.call import Call
from dory_qdq.grids import refined
from dory_qdq.network import standard_axes
from dory_qdq.operators.tables import requantised
from dory_qdq.values import Grid, Place, Real

_MOST = 1 << 62
# Beyond them the file is damaged.
_MOST_PLACES = 1 << 14


def reshape(call: Call, source: Real) -> Place:
    """Reshape, Flatten, Squeeze, Unsqueeze and Identity: another shape, the same order."""
    place, op = source.place, call.node.op
    shape = place.shape
    if op == "Reshape":
        wanted = call.integers(1) or []
        keep = not call.attribute("allowzero", 0)
        sizes = [
            shape[n] if s == 0 and keep and n < len(shape) else s for n, s in enumerate(wanted)
        ]
        if sizes.count(-1) == 1:
            known = prod(size for size in sizes if size != -1)
            sizes[sizes.index(-1)] = prod(shape) // known if known else 0
        shape = tuple(sizes)
    elif op == "Flatten":
        axis = int(call.attribute("axis", 1)) % (len(shape) + 1)
        shape = (prod(shape[:axis]), prod(shape[axis:]))
    elif op == "Squeeze":
        axes = call.integers(1, "axes")
        gone = (
            _dimensions(call, axes, len(shape))
            if axes
            else [n for n, size in enumerate(shape) if size == 1]
        )
        if any(shape[n] != 1 for n in gone):
            raise call.error(f"axes {gone} of shape {list(shape)} are not of size 1")
        shape = tuple(size for n, size in enumerate(shape) if n not in gone)
    elif op == "Unsqueeze":
        axes = call.integers(1, "axes") or []
        new = _dimensions(call, axes, len(shape) + len(axes))
        rest = list(shape)
        shape = tuple(1 if n in new else rest.pop(0) for n in range(len(shape) + len(new)))
    if prod(shape) != prod(place.shape) or min(shape, default=1) < 1:
        raise call.error(f"shape {list(place.shape)} becomes {list(shape)}")
    return replace(place, shape=shape)


def transpose(call: Call, source: Real) -> Place:
    """Transpose: no element moves until a layer needs another order."""
    place = source.place
    rank = len(place.shape)
    perm = [int(p) for p in call.attribute("perm", tuple(reversed(range(rank))))]
    if sorted(perm) != list(range(rank)):
        raise call.error(f"{perm} is no order of {rank} dimensions")
    return permuted(call, place, perm)


def permuted(call: Call, place: Place, perm: Sequence[int]) -> Place:
    """Return a value whose dimension n is dimension ``perm[n]`` of another one."""
    axes, shape = call.network.axes(place), tuple(place.shape[p] for p in perm)
    if axes is not None:
        return Place(place.tensor, shape, tuple(a for p in perm if (a := axes[p]) is not None))
    found = refined(call.network.grid(place), place.shape)
    if found is not None:
        grid, groups = found
        order = tuple(n for p in perm for n in groups[p])
        return Place(place.tensor, shape, (), Grid(grid.sizes, order))
    name, _ = call.tensor(replace(place, shape=(prod(place.shape),)), (0,))
    return permuted(call, Place(name, place.shape, (0,)), perm)


def blocks(call: Call, source: Real) -> Place:
    """DepthToSpace and SpaceToDepth: blocks of pixels become channels, or channels blocks."""
    place, size = source.place, int(call.attribute("blocksize", 0))
    is_depth = call.node.op == "DepthToSpace"
    if len(place.shape) != 4 or place.shape[0] != 1 or size < 1:
        raise call.error(f"an input of shape {list(place.shape)} in blocks of {size}")
    _, channels, height, width = place.shape
    parts = (channels % (size * size),) if is_depth else (height % size, width % size)
    if any(parts):
        raise call.error(f"shape {list(place.shape)} is not of whole blocks of {size}")
    if not is_depth:
        split = (channels, height // size, size, width // size, size)
        perm: tuple[int, ...] = (2, 4, 0, 1, 3)
        shape = (1, channels * size * size, height // size, width // size)
    else:
        inner = channels // (size * size)
        rows_first = call.attribute("mode", "DCR") in ("DCR", b"DCR")
        split = (
            (size, size, inner, height, width) if rows_first else (inner, size, size, height, width)
        )
        perm = (2, 3, 0, 4, 1) if rows_first else (0, 3, 1, 4, 2)
        shape = (1, inner, height * size, width * size)
    return replace(permuted(call, replace(place, shape=split), perm), shape=shape)


def repeated(call: Call, source: Real) -> Place:
    """Tile, Expand and Gather with constant indices: elements along dimensions, by places."""
    place, op = source.place, call.node.op
    shape = place.shape
    given = call.integers(1)
    if given is None:
        raise call.error("its second input is missing")
    if op == "Gather":
        (dimension,) = _dimensions(call, [int(call.attribute("axis", 0))], len(shape))
        size = shape[dimension]
        if not given or not all(-size <= n < size for n in given):
            raise call.error(f"indices {given} of {list(shape)} along dimension {dimension}")
        found = _taken_at(call, place, dimension, [n % size for n in given])
        rank = np.ndim(call.constant(1))
        whole = (*shape[:dimension], *np.shape(call.constant(1)), *shape[dimension + 1 :])
        return replace(found, shape=whole) if rank != 1 else found
    if op == "Expand":
        rank = max(len(shape), len(given))
        place = replace(place, shape=(1,) * (rank - len(shape)) + shape)
        wide = [1] * (rank - len(given)) + given
        pairs = list(zip(place.shape, wide, strict=True))
        if any((1 not in pair and pair[0] != pair[1]) or min(pair) < 1 for pair in pairs):
            raise call.error(f"{list(shape)} does not become {given}")
        times = [most if size == 1 else 1 for size, most in pairs]
    else:
        times = given
    if len(times) != len(place.shape) or min(times, default=1) < 1:
        raise call.error(f"repeats {times} of {list(place.shape)}")
    for dimension, count in enumerate(times):
        if count > 1:
            places = list(range(place.shape[dimension])) * count
            place = _taken_at(call, place, dimension, places)
    return place


def _taken_at(call: Call, place: Place, dimension: int, places: Sequence[int]) -> Place:
    """Return elements along a dimension by their places, as a Resize takes them."""
    shape = (*place.shape[:dimension], len(places), *place.shape[dimension + 1 :])
    if list(places) == list(range(place.shape[dimension])):
        return place
    if len(places) > _MOST_PLACES:
        raise call.error(f"{len(places)} elements along dimension {dimension}")
    axes = call.network.axes(place) or standard_axes(place.shape)
    if axes is None or axes[dimension] not in (1, 2):
        others = [n for n, size in enumerate(place.shape) if size > 1 and n != dimension]
        if len(others) > 2:
            raise call.error(f"an input of shape {list(place.shape)} has too many dimensions")
        spread = dict(zip(reversed(others), (0, 2), strict=False)) | {dimension: 1}
        axes = tuple(spread.get(n) for n in range(len(place.shape)))
    name, axes = call.tensor(place, axes)
    _, height, width = call.network.tensors[name].shape
    taps: list[Sequence[int]] = [range(height), range(width)]
    taps[(axes[dimension] or 1) - 1] = places
    rows, columns = (Array([(n, n, 1, 0) for n in each]) for each in taps)
    output = call.emit(ops.Resize, name, rows=rows, columns=columns)
    return call.network.placed(output, shape, axes)


def _spread(call: Call, place: Place) -> tuple[int | None, ...]:
    """Return an axis for each dimension that is larger than 1, in the order of memory."""
    wide = [n for n, size in enumerate(place.shape) if size > 1]
    if len(wide) > 3:
        raise call.error(f"shape {list(place.shape)} has more than three dimensions")
    axes: list[int | None] = [None] * len(place.shape)
    for dimension, axis in zip(wide, (1, 2, 0)[3 - len(wide) :], strict=True):
        axes[dimension] = axis
    return tuple(axes)


def max_pool(call: Call, source: Real) -> Place:
    """MaxPool or GlobalMaxPool over stored values."""
    place = source.place
    name = call.image(place)
    kernel = call.attribute("kernel_shape", ())
    if call.node.op == "GlobalMaxPool":
        kernel = place.shape[2:]
    window = window_of(call.node, kernel, place.shape[2:])
    output = call.emit(ops.MaxPool, name, window=window)
    return pooled(call, output, place)


def pooled(call: Call, output: str, place: Place) -> Place:
    """Return the place of the result of a pool."""
    _, height, width = call.network.tensors[output].shape
    spatial = (height, width) if len(place.shape) == 4 else (width,)
    shape = (1, place.shape[1], *spatial)
    return call.network.placed(output, shape, standard_axes(shape) or ())


def slice_of(call: Call, source: Real) -> Place:
    """Slice: begin, end and step of some dimensions."""
    place = source.place
    rank = len(place.shape)
    starts, ends = call.integers(1, "starts"), call.integers(2, "ends")
    if starts is None or ends is None or len(starts) != len(ends):
        raise call.error("its starts and ends do not fit together")
    dimensions = _dimensions(call, call.integers(3, "axes") or list(range(len(starts))), rank)
    steps = call.integers(4) or [1] * len(starts)
    if not len(dimensions) == len(steps) == len(starts) or 0 in steps:
        raise call.error("its axes and steps do not fit its starts")
    ranges = [range(size) for size in place.shape]
    for dimension, start, end, step in zip(dimensions, starts, ends, steps, strict=True):
        whole = place.shape[dimension]
        stop = None if end <= -_MOST else end
        ranges[dimension] = range(whole)[slice(start, stop, step)]
        if not ranges[dimension]:
            raise call.error(f"nothing of dimension {dimension} is left")
    return _taken(call, place, ranges)


def _taken(call: Call, place: Place, ranges: Sequence[range]) -> Place:
    """Return some elements of each dimension."""
    shape = tuple(len(r) for r in ranges)
    if shape == place.shape and all(r.step == 1 for r in ranges):
        return place
    name, axes = call.tensor(place)
    begin, step, size = [0, 0, 0], [1, 1, 1], list(call.network.tensors[name].shape)
    for dimension, axis in enumerate(axes):
        if axis is not None:
            begin[axis], step[axis] = ranges[dimension].start, ranges[dimension].step
            size[axis] = shape[dimension]
    output = call.emit(ops.Slice, name, begin=tuple(begin), size=tuple(size), step=tuple(step))
    return call.network.placed(output, shape, axes)


def split(call: Call, source: Real) -> list[Place]:
    """Split: every output is a part."""
    place = source.place
    (dimension,) = _dimensions(call, [int(call.attribute("axis", 0))], len(place.shape))
    whole, count = place.shape[dimension], len(call.node.outputs)
    each = -(-whole // count)
    parts = call.integers(1, "split") or [min(each, whole - n * each) for n in range(count)]
    if len(parts) != count or sum(parts) != whole or min(parts) < 1:
        raise call.error(f"parts {parts} of {whole}")
    found, at = [], 0
    for part in parts:
        ranges = [range(size) for size in place.shape]
        ranges[dimension] = range(at, at + part)
        found.append(_taken(call, place, ranges))
        at += part
    return found


def pad(call: Call, source: Real) -> Place:
    """Pad with a constant, which is quantised as the input is."""
    place = source.place
    mode = call.attribute("mode", "constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    pads = call.integers(1, "pads") or []
    rank = len(place.shape)
    if call.has(3):
        axes = _dimensions(call, call.integers(3) or [], rank)
        full = [0] * (2 * rank)
        for n, axis in enumerate(axes):
            full[axis], full[rank + axis] = pads[n], pads[len(axes) + n]
        pads = full
    if len(pads) != 2 * rank or min(pads) < 0:
        raise call.error(f"pads {pads} do not fit shape {list(place.shape)}")
    if mode != "constant":
        return _padded(call, place, pads, mode)
    given = call.constant(2) if call.has(2) else np.asarray(call.attribute("value", 0.0))
    stored = _stored(call, source, given)
    shape = tuple(s + b + a for s, b, a in zip(place.shape, pads[:rank], pads[rank:], strict=True))
    name, axes = call.tensor(place)
    before, after = [0, 0, 0], [0, 0, 0]
    for dimension, axis in enumerate(_with_axes(call, axes, shape)):
        if axis is not None:
            before[axis], after[axis] = pads[dimension], pads[rank + dimension]
    output = call.emit(ops.Pad, name, before=tuple(before), after=tuple(after), value=stored)
    return call.network.placed(output, shape, _with_axes(call, axes, shape))


def _padded(call: Call, place: Place, pads: Sequence[int], mode: str) -> Place:
    """Return padding with elements of the input: reflect, edge or wrap."""
    rank = len(place.shape)
    for dimension, size in enumerate(list(place.shape)):
        first, last = pads[dimension], pads[rank + dimension]
        places = np.arange(-first, size + last)
        if mode == "reflect" and max(first, last) >= size and first + last:
            raise call.error(f"pads {list(pads)} of shape {list(place.shape)} reflect too much")
        if mode == "reflect":
            places = size - 1 - np.abs(size - 1 - np.abs(places))
        elif mode == "edge":
            places = np.clip(places, 0, size - 1)
        else:
            places = places % size
        place = _taken_at(call, place, dimension, places.tolist())
    return place


def _stored(call: Call, source: Real, value: npt.NDArray[Any]) -> int:
    """Return the integer to which a real number is quantised, with the type of a tensor."""
    lo, hi = source.x.bounds
    zero = source.x.zero_point
    with np.errstate(over="ignore"):
        steps = np.rint(np.asarray(value, np.float32) / np.float32(source.x.scale)).reshape(-1)
    if steps.size != 1 or np.isnan(steps[0]):
        raise call.error(f"it pads with {value.tolist()}, which is no number", "pad with a number")
    return int(np.clip(steps[0], lo - zero, hi - zero)) + zero


def _with_axes(
    call: Call, axes: tuple[int | None, ...], shape: tuple[int, ...]
) -> tuple[int | None, ...]:
    """Return an axis for every dimension that is larger than 1 in ``shape``."""
    standard = standard_axes(shape)
    free = [axis for axis in range(3) if axis not in axes]
    found = list(axes)
    for dimension, size in enumerate(shape):
        if size > 1 and found[dimension] is None:
            wanted = None if standard is None else standard[dimension]
            if not free:
                raise call.error(f"shape {list(shape)} has more than three dimensions")
            found[dimension] = wanted if wanted in free else free[0]
            free.remove(found[dimension] if found[dimension] is not None else free[0])
    return tuple(found)


def concat(call: Call) -> Place:
    """Concat: each input goes through a table where its quantisation is another one."""
    y = call.output
    reals = [call.real(n) for n in range(len(call.inputs))]
    shapes = [real.place.shape for real in reals]
    rank = len(shapes[0])
    (dimension,) = _dimensions(call, [int(call.attribute("axis", 0))], rank)
    if any(
        len(s) != rank
        or s[:dimension] != shapes[0][:dimension]
        or s[dimension + 1 :] != shapes[0][dimension + 1 :]
        for s in shapes
    ):
        raise call.error(f"its inputs have the shapes {[list(s) for s in shapes]}")
    shape = list(shapes[0])
    shape[dimension] = sum(s[dimension] for s in shapes)
    axes = standard_axes(tuple(shape)) or _spread(call, Place("", tuple(shape), ()))
    names = [
        requantised(call, call.tensor(real.place, axes)[0], real.x, y, call.clip())
        for real in reals
    ]
    axis = axes[dimension]
    if axis is None or len(names) == 1:
        if len(names) > 1:
            raise call.error("it joins along the batch")
        return call.network.placed(names[0], tuple(shape), axes)
    output = call.emit(ops.Concat, *names, axis=axis)
    return call.network.placed(output, tuple(shape), axes)


def _dimensions(call: Call, given: Sequence[int], rank: int) -> list[int]:
    if any(not -rank <= n < rank for n in given):
        raise call.error(f"axes {list(given)} of {rank} dimensions")
    return [n % rank for n in given]
