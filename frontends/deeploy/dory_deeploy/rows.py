"""Deeploy's functions of rows, the last axis of a value, and of single elements, as layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from dory_onnx import LayersOfFile, Node, Step, byte_table, reduced_axes, reduced_window

from dory_core.api import NotSupported, ops
from dory_core.importing import Array, requant
from dory_deeploy.numbers import (
    DOMAINS,
    EXPORT_HINT,
    attribute,
    attribute_within,
    check_attributes,
    check_inputs,
    constant_row,
    power_of_two,
)

_Ints = npt.NDArray[np.int64]
_BYTES = 256
_MOST = (1 << 31) - 1
_MOST_LEVELS = 1 << 16


def _layer_norm(graph: LayersOfFile, node: Node) -> None:
    check_inputs(node, "the value", "weight", "bias")
    _norm(graph, node, centred=True)


def _rms_norm(graph: LayersOfFile, node: Node) -> None:
    check_inputs(node, "the value", "weight")
    _norm(graph, node, centred=False)


def _norm(graph: LayersOfFile, node: Node, centred: bool) -> None:
    """Append a Norm. A layer normalisation wraps to a byte, the other one clips."""
    check_attributes(node, "D", "n_levels")
    divisor = power_of_two(node, "D")
    if "n_levels" in node.attributes:
        attribute_within(node, "n_levels", _BYTES, _BYTES)
    source = graph.as_rows(node, node.input(0)).tensor
    length = graph.chw[source][0]
    weights = constant_row(graph.model, node, 1, length)
    bias = constant_row(graph.model, node, 2, length) if centred else None
    own = requant(1, 0, divisor) if centred else requant(1, 0, divisor, -128, 127)
    common, requants = graph.behind(node, source)
    graph.append(
        ops.Norm(
            **common,
            requants=(own, *requants),
            weights=Array(weights),
            bias=None if bias is None else Array(bias),
            centred=centred,
            wrap_bits=8 + divisor.bit_length() - 1 if centred else 0,
        )
    )


def _shift_softmax(graph: LayersOfFile, node: Node) -> None:
    """Append the softmax of ITA: powers of two of 32nds of the distance to the largest element."""
    check_attributes(node, "n_levels")
    shifts = (np.arange(_BYTES, dtype=np.int64) + 16) >> 5
    _shares(graph, node, np.asarray(_BYTES >> shifts, np.int64))


def _softmax(graph: LayersOfFile, node: Node) -> None:
    """Append the softmax of I-BERT: a parabola for the part of a distance below log(2)."""
    check_attributes(node, "n_levels", "coeffA", "coeffB", "coeffC", "log2")
    a, b, c = (attribute_within(node, f"coeff{name}", 0, _MOST) for name in "ABC")
    log2 = attribute_within(node, "log2", 1, _MOST)
    distances = np.arange(_BYTES)
    shifts = np.minimum(distances // log2, 31)
    rest = shifts * log2 - distances
    _shares(graph, node, np.array([_parabola(a, b, c, n) for n in rest.tolist()]) >> shifts)


def _parabola(a: int, b: int, c: int, n: int) -> int:
    return min(a * (n + b) ** 2 + c, _MOST + 1)  # beyond 32 bits, which the kind refuses


def _shares(graph: LayersOfFile, node: Node, table: _Ints) -> None:
    check_inputs(node, "the value")
    levels = attribute_within(node, "n_levels", 2, _MOST_LEVELS)
    source = graph.as_rows(node, node.input(0)).tensor
    common, requants = graph.behind(node, source)
    graph.append(ops.Shares(**common, requants=requants, table=Array(table), factor=levels - 1))


def _mean(graph: LayersOfFile, node: Node) -> None:
    """Append a mean over leading axes of rows, or over rows and columns; halves are rounded up."""
    check_attributes(node, "axes", "keepdims")
    name = node.input(0)
    shape = graph.shapes[name]
    axes = reduced_axes(graph.model, node, shape) or {0}
    is_image = min(axes) > 1 and graph.value(name).tensor not in graph.by_rows
    if is_image or min(axes) < 1 or len(shape) - 1 in axes:
        source = graph.as_read(node, name).tensor
        window = reduced_window(graph.model, node, shape)
    else:
        source = graph.as_rows(node, name).tensor
        window = _window_of_rows(node, axes, graph.chw[source], len(shape))
    rounding = (Step(node, np.array([0.5]), kind="Add"), Step(node, kind="Floor"))
    common, requants = graph.behind(node, source, window.taps, rounding)
    graph.append(ops.AvgPool(**common, requants=requants, window=window))


def _window_of_rows(node: Node, axes: set[int], chw: tuple[int, ...], rank: int) -> ops.Window:
    """Return the window over leading axes of a tensor (C, H, W) whose channels are the last one."""
    if rank == 4 and axes == {2} and not node.attributes.get("keepdims", 1):
        raise NotSupported(
            f"{node.label}: it drops axis 2 of four and keeps axis 1", "export it with keepdims=1"
        )
    size = (chw[1] if rank == 4 and 1 in axes else 1, chw[2] if rank - 2 in axes else 1)
    return ops.Window(kernel=size, strides=size)


def _gelu(graph: LayersOfFile, node: Node) -> None:
    check_attributes(node, "b", "one")
    b, one = attribute_within(node, "b", -_MOST, -1), attribute(node, "one")

    def gelu(x: _Ints) -> _Ints:
        rest = np.minimum(np.abs(x), -b) + b
        return np.asarray(x * (one + np.sign(x) * (one - rest * rest) >> 1), np.int64)

    _table(graph, node, gelu)


def _hardswish(graph: LayersOfFile, node: Node) -> None:
    check_attributes(node, "three", "six", "one_over_six")
    three, six, factor = (attribute(node, name) for name in ("three", "six", "one_over_six"))

    def hardswish(x: _Ints) -> _Ints:
        return np.asarray(x * (np.clip(x + three, 0, six) * factor), np.int64)

    _table(graph, node, hardswish)


def _table(graph: LayersOfFile, node: Node, function: Callable[[_Ints], _Ints]) -> None:
    """Append a function of one byte with the arithmetic after it, as a table."""
    check_inputs(node, "the value")
    name = node.input(0)
    source = graph.as_it_lies(node, name).tensor
    read = graph.tensors[source]
    if read.lo < -128 or read.hi > 255 or read.hi - read.lo > 255:
        raise NotSupported(
            f"{node.label}: its input '{name}' has values in [{read.lo}, {read.hi}]; functions of"
            " one element take those of a byte",
            "put a RequantShift to 256 levels before it",
        )
    results = function(np.arange(read.lo, read.hi + 1))
    if int(np.abs(results).max()) > _MOST:
        raise NotSupported(f"{node.label}: its results exceed 32 bits", EXPORT_HINT)
    common, requants = graph.behind(node, source)
    graph.append(ops.Lut(**common, table=byte_table(read, results, requants)))


_FUNCTIONS: Mapping[str, Callable[[LayersOfFile, Node], None]] = MappingProxyType(
    {
        "iLayerNorm": _layer_norm,
        "iRMSNorm": _rms_norm,
        "ITAMax": _shift_softmax,
        "iSoftmax": _softmax,
        "iGELU": _gelu,
        "iHardswish": _hardswish,
        "IntegerMean": _mean,
    }
)

#: Kinds of layers of these operators.
KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("iLayerNorm", "iRMSNorm"), "Norm"),
        **dict.fromkeys(("ITAMax", "iSoftmax"), "Shares"),
        **dict.fromkeys(("iGELU", "iHardswish"), "Lut"),
        "IntegerMean": "AvgPool",
    }
)

#: Functions that append the layers of an operator, in the domains that exporters give it.
OWN_LAYERS: Mapping[str, Callable[[LayersOfFile, Node], None]] = MappingProxyType(
    {f"{domain}{name}": call for name, call in _FUNCTIONS.items() for domain in DOMAINS}
)
