"""AVERAGE_POOL_2D, MAX_POOL_2D, MEAN and SUM."""

from __future__ import annotations

from dory_core.api import AvgPool, MaxPool, Window, mean_requant, requant
from dory_tflite.fixed_point import quantize_multiplier
from dory_tflite.network import MOST_PIXELS, Bound, canonical_shape
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.common import (
    ACTIVATION,
    SAME_QUANTISATION,
    SAME_TYPE,
    byte_tensors,
    constant,
)
from dory_tflite.preparation import mean_multiplier, same_padding
from dory_tflite.requantisation import rescaling

_CHANNELS, _HEIGHT, _WIDTH = 0, 1, 2


def _window(node: Node) -> Window:
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
    return Window(kernel=kernel, strides=strides, pads=(top, left, bottom, right))


def _average(node: Node) -> None:
    name, window, bounds = node.network.value(node.input()), _window(node), node.clip(node.output())
    if any(window.pads):
        step = requant(1, 0, 1, *bounds)
        node.emit(
            AvgPool, node.output(), name, window=window, counts_padding=False, requants=(step,)
        )
        return
    step = mean_requant(window.taps, *bounds)
    node.emit(AvgPool, node.output(), name, window=window, requants=(step,))


def _maximum(node: Node) -> None:
    name, bounds = node.network.value(node.input()), node.clip(node.output())
    read = node.network.tensors[name]
    clips = not bounds[0] <= read.lo <= read.hi <= bounds[1]
    node.emit(
        MaxPool,
        node.output(),
        name,
        window=_window(node),
        requants=(requant(1, 0, 1, *bounds),) if clips else (),
    )


def _reduce(node: Node) -> None:
    source, output = node.input(), node.output()
    rank = len(source.shape)
    dimensions = sorted({dimension % rank for dimension in node.integers(1)})
    axes = node.network.axes(source)
    if _CHANNELS in {axes[d] for d in dimensions}:
        node.network.value(source)
        axes = node.network.axes(source)
    reduced = {axes[d] for d in dimensions} - {None}
    name = node.network.place(source).name
    if _CHANNELS in reduced:
        raise node.error("it reduces the channels", "transpose the tensor before")
    read = node.network.tensors[name]
    kernel = (
        read.height if _HEIGHT in reduced else 1,
        read.width if _WIDTH in reduced else 1,
    )
    count = kernel[0] * kernel[1]
    x, y = node.quantisation(source), node.quantisation(output)
    factor = quantize_multiplier(x.scale / y.scale)
    if node.op.code == "MEAN":
        factor = mean_multiplier(x.scale, y.scale, count)
    reach = (count * (read.lo - x.zero_point), count * (read.hi - x.zero_point))
    step = rescaling([factor], [reach], y.zero_point, y.bounds, turn=count * x.zero_point)
    result = node.network.emit(
        AvgPool,
        node.label,
        output,
        (name,),
        ordered=False,
        window=Window(kernel=kernel, strides=kernel),
        requants=(step,),
    )
    kept = [
        None if d in dimensions else axis
        for d, axis in enumerate(axes)
        if node.option("KeepDims") or d not in dimensions
    ]
    bound = Bound(result, tuple(kept))
    node.network.bind(output, bound)
    if not node.network.in_order(bound):
        node.network.unnamed(result)


def _dimensions_in_range(node: Node) -> bool:
    rank = len(node.input().shape)
    values = node.integers(1)
    return bool(values) and all(-rank <= value < rank for value in values)


def _sizes(node: Node) -> bool:
    names = ("FilterHeight", "FilterWidth", "StrideH", "StrideW")
    return all(1 <= node.option(name) <= MOST_PIXELS for name in names)


_POOL = (
    byte_tensors(),
    SAME_TYPE,
    ACTIVATION,
    SAME_QUANTISATION,
    Constraint(f"filter and strides are 1 to {MOST_PIXELS}", _sizes),
)
_REDUCE = (
    byte_tensors(),
    SAME_TYPE,
    constant(1, "the tensor of dimensions"),
    Constraint("the dimensions are those of the input", _dimensions_in_range),
)

OPERATORS = (
    Operator("AVERAGE_POOL_2D", "AvgPool", _average, _POOL),
    Operator("MAX_POOL_2D", "MaxPool", _maximum, _POOL),
    Operator("MEAN", "AvgPool", _reduce, _REDUCE),
    Operator("SUM", "AvgPool", _reduce, _REDUCE),
)
