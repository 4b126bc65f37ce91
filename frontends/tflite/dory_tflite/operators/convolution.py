"""CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV and FULLY_CONNECTED."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dory_core.api import ops
from dory_tflite.grids import MOST_PIXELS, canonical_shape
from dory_tflite.model import FileTensor
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.common import (
    ACTIVATION,
    IMAGE,
    SAME_TYPE,
    activations,
    constant,
    option_is,
)
from dory_tflite.operators.sums import WEIGHTS, bias_of, sum_fields
from dory_tflite.places import Bound
from dory_tflite.preparation import (
    convolution_factor,
    same_padding,
    unsigned_factor,
)

Integers = npt.NDArray[np.int64]


def _weights(node: Node, tensor: FileTensor) -> Integers:
    """Return the weights minus their zero point, int64, in the layout of the file."""
    if tensor.data is None or tensor.data.dtype.kind not in "iu":
        raise node.error(f"{tensor.label} holds no integer weights")
    if not tensor.scales:
        raise node.error(f"{tensor.label} has no scale")
    if len(set(tensor.zero_points)) != 1:
        raise node.error(f"{tensor.label} has zero points that differ between channels")
    return tensor.data.astype(np.int64) - tensor.zero_points[0]


def _factors(node: Node, weights: FileTensor) -> list[float]:
    x, y = node.quantisation(node.input(_SOURCE[node.op.code])), node.quantisation(node.output())
    prepare = convolution_factor if x.signed else unsigned_factor
    return [prepare(x.scale, scale, y.scale) for scale in weights.scales]


_SOURCE = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 2}


def _source(node: Node) -> tuple[str, Bound]:
    """Return the tensor that a window slides over, and the padding around it."""
    tensor = node.input()
    bound = node.network.place(tensor)
    zero_point = node.quantisation(tensor).zero_point
    if bound.axes is not None or bound.pad_value != zero_point:
        name = node.network.value(tensor)
        return name, node.network.place(tensor)
    if not any(bound.pads):
        name = node.network.value(tensor)
        return name, node.network.place(tensor)
    return bound.name, bound


def _window(node: Node, kernel: tuple[int, int], bound: Bound) -> ops.Window:
    _, height, width = canonical_shape(node.input())
    strides = (node.option("StrideH"), node.option("StrideW"))
    dilations = (node.option("DilationHFactor"), node.option("DilationWFactor"))
    pads = [(0, 0), (0, 0)]
    if node.option("Padding") == "SAME":
        pads = [
            same_padding(*axis)
            for axis in zip((height, width), kernel, strides, dilations, strict=True)
        ]
    outer_top, outer_left, outer_bottom, outer_right = bound.pads
    return ops.Window(
        kernel=kernel,
        strides=strides,
        dilations=dilations,
        pads=(
            pads[0][0] + outer_top,
            pads[1][0] + outer_left,
            pads[0][1] + outer_bottom,
            pads[1][1] + outer_right,
        ),
        pad_value=node.quantisation(node.input()).zero_point,
    )


def _convolve(node: Node, weights: Integers, groups: int) -> None:
    """Append a convolution. weights: (Cout, Cin / groups, kh, kw), zero point subtracted."""
    x = node.quantisation(node.input())
    name, bound = _source(node)
    source = node.network.tensors[name]
    window = _window(node, (weights.shape[2], weights.shape[3]), bound)
    rows = weights.reshape(len(weights), -1)
    bias = bias_of(node, 2, len(weights)) - x.zero_point * rows.sum(axis=1)
    lo, hi = min(source.lo, x.zero_point), max(source.hi, x.zero_point)
    if not any(window.pads):
        window, (lo, hi) = replace(window, pad_value=0), (source.lo, source.hi)
    factors = _factors(node, node.input(1))
    if len(factors) not in (1, len(weights)):
        raise node.error(f"{len(factors)} scales of weights for {len(weights)} channels")
    node.emit(
        ops.Conv,
        node.output(),
        name,
        window=window,
        groups=groups,
        **sum_fields(node, weights, bias, (lo, hi), factors),
    )


def _conv(node: Node) -> None:
    weights = _weights(node, node.input(1)).transpose(0, 3, 1, 2)
    channels = canonical_shape(node.input())[0]
    if channels % weights.shape[1]:
        raise node.error(f"weights for {weights.shape[1]} channels on an input of {channels}")
    _convolve(node, weights, channels // weights.shape[1])


def _depthwise(node: Node) -> None:
    weights = _weights(node, node.input(1))[0].transpose(2, 0, 1)[:, None]
    channels = canonical_shape(node.input())[0]
    if len(weights) % channels:
        raise node.error(f"{len(weights)} filters for an input of {channels} channels")
    _convolve(node, weights, channels)


def _linear(node: Node) -> None:
    source, weights = node.input(), _weights(node, node.input(1))
    x = node.quantisation(source)
    outputs, columns = weights.shape
    rows = source.elements // columns
    if rows * columns != source.elements:
        raise node.error(f"weights for {columns} inputs on {source.elements} elements")
    bias = bias_of(node, 2, outputs) - x.zero_point * weights.sum(axis=1)
    factors = _factors(node, node.input(1))
    name = node.network.flat(source) if rows == 1 else _rows(node, source, rows, columns, outputs)
    read = node.network.tensors[name]
    reach = read.lo, read.hi
    if rows == 1:
        fields = sum_fields(node, weights, bias, reach, factors)
        node.emit(ops.Linear, node.output(), name, **fields)
        return
    node.emit(
        ops.Conv,
        node.output(),
        name,
        window=ops.Window(kernel=(1, 1)),
        **sum_fields(node, weights[:, :, None, None], bias, reach, factors),
    )


def _rows(node: Node, source: FileTensor, rows: int, columns: int, outputs: int) -> str:
    """Return the input as ``rows`` pixels of ``columns`` channels, which lie as the result does."""
    channels, height, width = canonical_shape(node.output())
    if (channels, height * width) != (outputs, rows):
        raise node.error(
            f"{rows} rows of {outputs} elements give {node.output().label} of shape"
            f" {list(node.output().shape)}",
            "the file is damaged; export it again",
        )
    return node.network.reshaped(source, (columns, height, width))


def _transposed(node: Node) -> None:
    source = node.input(2)
    x = node.quantisation(source)
    weights = _weights(node, node.input(1)).transpose(0, 3, 1, 2)
    name = node.network.value(source)
    read = node.network.tensors[name]
    _, height, width = canonical_shape(node.output())
    kernel = (weights.shape[2], weights.shape[3])
    strides = (node.option("StrideH"), node.option("StrideW"))
    pads = []
    for size, out, k, s in zip(
        (read.height, read.width), (height, width), kernel, strides, strict=True
    ):
        total = max(0, (-(-out // s) - 1) * s + k - out) if node.option("Padding") == "SAME" else 0
        pads.append((total // 2, (size - 1) * s + k - out - total // 2))
    bias = bias_of(node, 3, len(weights))
    lo, hi = min(read.lo - x.zero_point, 0), max(read.hi - x.zero_point, 0)
    node.emit(
        ops.ConvTranspose,
        node.output(),
        name,
        window=ops.Window(
            kernel=kernel,
            strides=strides,
            pads=(pads[0][0], pads[1][0], pads[0][1], pads[1][1]),
        ),
        zero_point=x.zero_point,
        **sum_fields(node, weights, bias, (lo, hi), _factors(node, node.input(1)), 3),
    )


def _rank(position: int, rank: int) -> Constraint:
    return Constraint(
        f"the weights have {rank} dimensions",
        lambda node: (
            len(node.input(position).shape) == rank and 0 not in node.input(position).shape
        ),
    )


def _signed(node: Node) -> bool:
    x, y = node.input(2), node.output()
    words = x.type == "INT16" and not any((*x.zero_points, *y.zero_points))
    return x.type == y.type and (words or x.type == "INT8")


def _strides(node: Node) -> bool:
    names = ("StrideH", "StrideW", "DilationHFactor", "DilationWFactor")
    return all(1 <= node.op.options.get(name, 1) <= MOST_PIXELS for name in names)


_WINDOW = Constraint(f"strides and dilations are 1 to {MOST_PIXELS}", _strides)
_COMMON = (activations(), SAME_TYPE, constant(1, "the weight tensor"), *WEIGHTS, ACTIVATION)

OPERATORS = (
    Operator("CONV_2D", "Conv", _conv, (*_COMMON, _rank(1, 4), _WINDOW, IMAGE)),
    Operator(
        "DEPTHWISE_CONV_2D",
        "Conv with groups",
        _depthwise,
        (
            *_COMMON,
            _rank(1, 4),
            _WINDOW,
            IMAGE,
            Constraint(
                "the first dimension of the weights is 1",
                lambda node: node.input(1).shape[0] == 1,
            ),
        ),
    ),
    Operator(
        "FULLY_CONNECTED",
        "Linear, or Conv of 1x1 for several rows",
        _linear,
        (
            *_COMMON,
            _rank(1, 2),
            option_is("WeightsFormat", ("DEFAULT",), "the weights are not shuffled"),
        ),
    ),
    Operator(
        "TRANSPOSE_CONV",
        "ConvTranspose",
        _transposed,
        (
            Constraint("input and output are INT8, or INT16 with the zero point 0", _signed),
            constant(1, "the weight tensor"),
            *WEIGHTS,
            ACTIVATION,
            _rank(1, 4),
            _WINDOW,
            IMAGE,
        ),
    ),
)
