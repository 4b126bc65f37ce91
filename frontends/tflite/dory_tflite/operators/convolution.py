"""CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV and FULLY_CONNECTED."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Requant, ops
from dory_core.importing import Array
from dory_tflite.fixed_point import quantize_multiplier
from dory_tflite.grids import MOST_PIXELS, canonical_shape
from dory_tflite.model import FileTensor
from dory_tflite.network import Bound
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.common import (
    ACTIVATION,
    IMAGE,
    SAME_TYPE,
    byte_tensors,
    constant,
    option_is,
)
from dory_tflite.preparation import (
    convolution_factor,
    fully_connected_factor,
    same_padding,
)
from dory_tflite.requantisation import rescaling

Integers = npt.NDArray[np.int64]

_NARROW = (-128, 127)


def _weights(node: Node, tensor: FileTensor) -> Integers:
    """Return the weights minus their zero point, int64, in the layout of the file."""
    if tensor.data is None or tensor.data.dtype.kind not in "iu":
        raise node.error(f"{tensor.label} holds no integer weights")
    if not tensor.scales:
        raise node.error(f"{tensor.label} has no scale")
    if len(set(tensor.zero_points)) != 1:
        raise node.error(f"{tensor.label} has zero points that differ between channels")
    return tensor.data.astype(np.int64) - tensor.zero_points[0]


def bias_of(node: Node, position: int, channels: int) -> Integers:
    """Return a bias that may be missing; raises NotSupported for one of another size."""
    if not node.has(position):
        return np.zeros(channels, np.int64)
    values = node.constant(position)
    if values.dtype.kind != "i" or values.size != channels:
        raise node.error(
            f"{node.input(position).label} is no bias of {channels} integers of 32 bits"
        )
    return values.reshape(-1).astype(np.int64)


def _factors(node: Node, weights: FileTensor, single_float: bool) -> list[float]:
    x, y = node.quantisation(node.input(_SOURCE[node.op.code])), node.quantisation(node.output())
    prepare = fully_connected_factor if single_float else convolution_factor
    return [prepare(x.scale, scale, y.scale) for scale in weights.scales]


_SOURCE = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 0, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 2}


def requants_of(
    node: Node, rows: Integers, bias: Integers, lo: int, hi: int, factors: list[float]
) -> tuple[Requant, ...]:
    """Return the step after sums of ``rows`` (C, taps) with inputs of lo .. hi, and ``bias``."""
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    lows = positive * lo + negative * hi + bias
    highs = positive * hi + negative * lo + bias
    y = node.quantisation(node.output())
    step = rescaling(
        [quantize_multiplier(factor) for factor in factors],
        list(zip(lows.tolist(), highs.tolist(), strict=True)),
        y.zero_point,
        node.clip(node.output()),
    )
    return (step,)


def weight_fields(weights: Integers, bias: Integers) -> dict[str, Any]:
    """Return the fields of a layer with weights, which may be of 16 bits, and a bias."""
    fits = _NARROW[0] <= int(weights.min()) and int(weights.max()) <= _NARROW[1]
    return {
        "weights": Array(weights),
        "weight_bits": 8 if fits else 16,
        "bias": Array(bias) if bias.any() else None,
    }


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
    factors = _factors(node, node.input(1), single_float=not x.signed)
    if len(factors) not in (1, len(weights)):
        raise node.error(f"{len(factors)} scales of weights for {len(weights)} channels")
    node.emit(
        ops.Conv,
        node.output(),
        name,
        window=window,
        groups=groups,
        requants=requants_of(node, rows, bias, lo, hi, factors),
        **weight_fields(weights, bias),
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
    factors = _factors(node, node.input(1), single_float=len(node.input(1).scales) == 1)
    name = node.network.flat(source) if rows == 1 else _rows(node, source, rows, columns, outputs)
    read = node.network.tensors[name]
    requants = requants_of(node, weights, bias, read.lo, read.hi, factors)
    if rows == 1:
        fields = weight_fields(weights, bias)
        node.emit(ops.Linear, node.output(), name, requants=requants, **fields)
        return
    node.emit(
        ops.Conv,
        node.output(),
        name,
        window=ops.Window(kernel=(1, 1)),
        requants=requants,
        **weight_fields(weights[:, :, None, None], bias),
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
    rows = weights.reshape(len(weights), -1)
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
        requants=requants_of(node, rows, bias, lo, hi, _factors(node, node.input(1), False)),
        **weight_fields(weights, bias),
    )


def _rank(position: int, rank: int) -> Constraint:
    return Constraint(
        f"the weights have {rank} dimensions",
        lambda node: (
            len(node.input(position).shape) == rank and 0 not in node.input(position).shape
        ),
    )


def _strides(node: Node) -> bool:
    names = ("StrideH", "StrideW", "DilationHFactor", "DilationWFactor")
    return all(1 <= node.op.options.get(name, 1) <= MOST_PIXELS for name in names)


_WINDOW = Constraint(f"strides and dilations are 1 to {MOST_PIXELS}", _strides)
_COMMON = (byte_tensors(), SAME_TYPE, constant(1, "the weight tensor"), ACTIVATION)

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
            Constraint(
                "input and output are INT8",
                lambda node: node.input(2).type == node.output().type == "INT8",
            ),
            constant(1, "the weight tensor"),
            ACTIVATION,
            _rank(1, 4),
            _WINDOW,
            IMAGE,
        ),
    ),
)
