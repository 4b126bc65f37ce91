"""AVERAGE_POOL_2D, MAX_POOL_2D, MEAN, SUM, REDUCE_MAX and REDUCE_MIN."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from dory_core.api import ops, requantisation
from dory_core.importing import Array, requant
from dory_tflite.fixed_point import quantize_multiplier
from dory_tflite.grids import MOST_PIXELS, canonical_shape, is_grid
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.common import (
    ACTIVATION,
    DIMENSIONS,
    IMAGE,
    SAME_QUANTISATION,
    SAME_TYPE,
    activations,
    byte_tensors,
    constant,
)
from dory_tflite.operators.tables import falling_table
from dory_tflite.places import Bound
from dory_tflite.preparation import mean_multiplier, same_padding
from dory_tflite.requantisation import rescaling

_CHANNELS, _HEIGHT, _WIDTH = 0, 1, 2


def _window(node: Node) -> ops.Window:
    _, height, width = canonical_shape(node.input())
    kernel = (node.option("FilterHeight"), node.option("FilterWidth"))
    strides = (node.option("StrideH"), node.option("StrideW"))
    pads = [(0, 0), (0, 0)]
    if node.option("Padding") == "SAME":
        pads = [
            same_padding(size, k, s, 1)
            for size, k, s in zip((height, width), kernel, strides, strict=True)
        ]
    (top, bottom), (left, right) = pads
    return ops.Window(kernel=kernel, strides=strides, pads=(top, left, bottom, right))


def _average(node: Node) -> None:
    name, window, bounds = node.network.value(node.input()), _window(node), node.clip(node.output())
    if any(window.pads):
        step = requant(1, 0, 1, *bounds)
        node.emit(
            ops.AvgPool, node.output(), name, window=window, counts_padding=False, requants=(step,)
        )
        return
    step = requantisation.mean_requant(window.taps, *bounds)
    node.emit(ops.AvgPool, node.output(), name, window=window, requants=(step,))


def _maximum(node: Node) -> None:
    name, bounds = node.network.value(node.input()), node.clip(node.output())
    read = node.network.tensors[name]
    clips = not bounds[0] <= read.lo <= read.hi <= bounds[1]
    node.emit(
        ops.MaxPool,
        node.output(),
        name,
        window=_window(node),
        requants=(requant(1, 0, 1, *bounds),) if clips else (),
    )


def _reduce(node: Node) -> None:
    source, output = node.input(), node.output()
    rank = len(source.shape)
    dimensions = sorted({dimension % rank for dimension in node.integers(1)})
    if is_grid(source):
        _reduce_grid(node, dimensions)
        return
    axes = node.network.axes(source)
    if _CHANNELS in {axes[d] for d in dimensions}:
        node.network.value(source)
        axes = node.network.axes(source)
    reduced = {axes[d] for d in dimensions} - {None}
    result = _reduced(node, node.network.place(source).name, reduced)
    kept = [
        None if d in dimensions else axis
        for d, axis in enumerate(axes)
        if node.option("KeepDims") or d not in dimensions
    ]
    bound = Bound(result, tuple(kept))
    node.network.bind(output, bound)
    if not node.network.in_order(bound):
        node.network.unnamed(result)


def _reduced(node: Node, name: str, axes: set[int | None]) -> str:
    """Append the layers that reduce some of the axes (C, H, W); return their output."""
    read = node.network.tensors[name]
    kernel = (read.height if _HEIGHT in axes else 1, read.width if _WIDTH in axes else 1)
    window = ops.Window(kernel=kernel, strides=kernel)
    reduce = _EXTREMES.get(node.op.code, _summed)
    return reduce(node, name, window, _CHANNELS in axes)


def _reduce_grid(node: Node, dimensions: list[int]) -> None:
    """Reduce a tensor with more dimensions than axes: neighbours that stay together are one."""
    source, sizes, go = node.input(), list[int](), list[bool]()
    for dimension, size in enumerate(source.shape):
        goes = dimension in dimensions
        if size > 1 and go and go[-1] == goes:
            sizes[-1] *= size
        elif size > 1:
            sizes.append(size)
            go.append(goes)
    steps = list[tuple[int, int, int]]()
    while len(sizes) > 3 and node.op.code in _EXTREMES:
        # The last of those that are reduced goes first; its neighbours are one then.
        last = len(go) - 1 - go[::-1].index(True)
        steps.append((prod(sizes[:last]), sizes[last], prod(sizes[last + 1 :])))
        joined = sizes[last - 1] * prod(sizes[last + 1 : last + 2])
        sizes[last - 1 : last + 2] = [joined]
        go[last - 1 : last + 2] = [False]
    sizes, go = [1] * (3 - len(sizes)) + sizes, [False] * (3 - len(go)) + go
    rows = max(size for height, width, *_ in (*steps, sizes) for size in (height, width))
    if len(sizes) > 3 or rows > MOST_PIXELS:
        raise node.error(
            f"dimensions {dimensions} of {list(source.shape)}: too many that are reduced apart; "
            "reduce them one after another"
        )
    shapes = [(channels, height, width) for height, width, channels in (*steps, sizes)]
    name = node.network.reshaped(source, shapes[0])
    for (_, _, width), shape in pairwise(shapes):
        window = ops.Window(kernel=(1, width), strides=(1, width))
        name = node.network.shaped(_narrowed(node, name, window), shape)
    axes = {axis for axis, goes in zip((_HEIGHT, _WIDTH, _CHANNELS), go, strict=True) if goes}
    node.network.bind(node.output(), Bound(_reduced(node, name, {*axes})))


def _summed(node: Node, name: str, window: ops.Window, channels: bool) -> str:
    """Append the layer of a MEAN or SUM over windows, and over all channels; return its output."""
    read, source = node.network.tensors[name], node.input()
    count = window.taps * (read.channels if channels else 1)
    x, y = node.quantisation(source), node.quantisation(node.output())
    factor = quantize_multiplier(x.scale / y.scale)
    if node.op.code == "MEAN":
        factor = mean_multiplier(x.scale, y.scale, count)
    reach = (count * (read.lo - x.zero_point), count * (read.hi - x.zero_point))
    if not channels:
        step = rescaling([factor], [reach], y.zero_point, y.bounds, turn=count * x.zero_point)
        return _emit(node, ops.AvgPool, name, window=window, requants=(step,))
    step = rescaling([factor], [reach], y.zero_point, y.bounds)
    offset = -count * x.zero_point
    return _emit(
        node,
        ops.Conv,
        name,
        window=window,
        weights=Array(np.ones((1, read.channels, *window.kernel), np.int64)),
        weight_bits=8,
        bias=Array(np.array([offset])) if offset else None,
        requants=(step,),
    )


def _narrowed(node: Node, name: str, window: ops.Window) -> str:
    """Append the layers of a REDUCE_MAX or REDUCE_MIN over windows; return their output."""
    network = node.network
    if node.op.code == "REDUCE_MAX":
        return network.hidden(ops.MaxPool, f"{node.label} first", (name,), window=window)
    falling = falling_table(node.quantisation(node.input()))
    name = network.hidden(ops.Lut, f"{node.label} falling first", (name,), table=falling)
    name = network.hidden(ops.MaxPool, f"{node.label} first", (name,), window=window)
    return network.hidden(ops.Lut, f"{node.label} rising", (name,), table=falling)


def _largest(node: Node, name: str, window: ops.Window, channels: bool) -> str:
    """Append the layers of a REDUCE_MAX over windows, and over all channels; return the output."""
    kind, name, fields = _pooled(node, name, window, channels)
    return _emit(node, kind, name, **fields)


def _smallest(node: Node, name: str, window: ops.Window, channels: bool) -> str:
    """Append a REDUCE_MIN: the largest of the values in falling order."""
    network, falling = node.network, falling_table(node.quantisation(node.input()))
    name = network.hidden(ops.Lut, f"{node.label} falling", (name,), table=falling)
    kind, name, fields = _pooled(node, name, window, channels)
    name = network.hidden(kind, f"{node.label} largest", (name,), **fields)
    return _emit(node, ops.Lut, name, table=falling)


_EXTREMES = {"REDUCE_MAX": _largest, "REDUCE_MIN": _smallest}


def _pooled(
    node: Node, name: str, window: ops.Window, channels: bool
) -> tuple[type[ops.Operator], str, dict[str, Any]]:
    """Append all layers but the last of the largest over windows; return the last one.

    Channels become rows for that: a pool works only along rows and columns.
    """
    if not channels:
        return ops.MaxPool, name, {"window": window}
    network, swapped = node.network, (1, 0, 2)
    if window.taps > 1:
        name = network.hidden(ops.MaxPool, f"{node.label} rows and columns", (name,), window=window)
    rows = network.hidden(ops.Transpose, f"{node.label} channels as rows", (name,), perm=swapped)
    column = (network.tensors[rows].height, 1)
    most = network.hidden(
        ops.MaxPool, f"{node.label} rows", (rows,), window=ops.Window(kernel=column, strides=column)
    )
    return ops.Transpose, most, {"perm": swapped}


def _emit(node: Node, kind: type[ops.Operator], name: str, **fields: Any) -> str:
    network, output = node.network, node.output()
    if is_grid(node.input()):
        network.placed(kind, node.label, output, (name,), **fields)
        return network.place(output).name
    return network.emit(kind, node.label, output, (name,), ordered=False, **fields)


def _sizes(node: Node) -> bool:
    names = ("FilterHeight", "FilterWidth", "StrideH", "StrideW")
    return all(1 <= node.option(name) <= MOST_PIXELS for name in names)


_POOL = (
    activations(),
    IMAGE,
    SAME_TYPE,
    ACTIVATION,
    SAME_QUANTISATION,
    Constraint(f"filter and strides are 1 to {MOST_PIXELS}", _sizes),
)
_REDUCE = (
    activations(),
    SAME_TYPE,
    constant(1, "the tensor of dimensions"),
    DIMENSIONS,
    Constraint("it takes at least one dimension", lambda node: bool(node.integers(1))),
)

OPERATORS = (
    Operator("AVERAGE_POOL_2D", "AvgPool", _average, _POOL),
    Operator("MAX_POOL_2D", "MaxPool", _maximum, _POOL),
    Operator("MEAN", "AvgPool, or Conv over channels", _reduce, _REDUCE),
    Operator("SUM", "AvgPool, or Conv over channels", _reduce, _REDUCE),
    Operator(
        "REDUCE_MAX",
        "MaxPool, and Transpose for channels",
        _reduce,
        (byte_tensors(), *_REDUCE, SAME_QUANTISATION),
    ),
    Operator(
        "REDUCE_MIN",
        "MaxPool between Luts, and Transpose for channels",
        _reduce,
        (byte_tensors(), *_REDUCE, SAME_QUANTISATION),
    ),
)
