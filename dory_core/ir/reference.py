"""Bit-exact execution of a Graph in numpy: the golden for everything behind the Graph.

Sums are computed as matrix products of doubles. That is exact: range analysis proves that every
partial sum of integers stays within 32 bits, far below the 2^53 that a double counts to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import UsageError
from dory_core.ir import Graph, Layer, Tensor, ops
from dory_core.ir.execution import compute

Values = npt.NDArray[np.int64]

# Beyond every element of a byte: means in binary32 are bounded by it before they are integers.
LARGEST = 1 << 23


def run(
    graph: Graph,
    inputs: Mapping[str, npt.NDArray[Any]],
    state: Mapping[str, npt.NDArray[Any]] | None = None,
) -> dict[str, Values]:
    """Return every tensor of the network by name, shape (C, H, W), int64.

    inputs: by tensor name, shape (C, H, W), integers within the range of the tensor. They and the
    result are values as in the file: the elements of a tensor have ``Tensor.offset`` more. state:
    of an inference that is not the first one, what :func:`next_state` gives of the one before.

    Raises: UsageError for a missing input, a wrong shape or values out of range.
    """
    tensors: dict[str, Values] = {}
    for name in graph.inputs:
        if name not in inputs:
            raise UsageError(f"no values for the network input '{name}'")
        tensors[name] = _checked(graph.tensors[name], inputs[name])
    for one in graph.states:
        values = one.initial.values if state is None else state[one.read]
        tensors[one.read] = _checked(graph.tensors[one.read], values)
    for typed in graph.layers:
        operands = tuple(tensors[name] for name in typed.op.inputs)
        tensors[typed.op.output] = run_layer(typed, operands)
    for name, tensor in graph.tensors.items():
        if tensor.offset:
            tensors[name] = tensors[name] - tensor.offset
    return tensors


def next_state(graph: Graph, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Return what the next inference finds as state, of the tensors of one inference."""
    return {state.read: tensors[state.written] for state in graph.states}


def run_sequence(
    graph: Graph, sequence: Iterable[Mapping[str, npt.NDArray[Any]]]
) -> Iterator[dict[str, Values]]:
    """Yield the tensors of inferences one after the other; each finds the state of the last one."""
    state = None
    for inputs in sequence:
        tensors = run(graph, inputs, state)
        state = next_state(graph, tensors)
        yield tensors


def run_layer(typed: Layer, inputs: tuple[Values, ...]) -> Values:
    """Return the output of one layer, shape (C, H, W), for inputs of the same form: elements."""
    layer = typed.op
    source = inputs[0]
    if isinstance(layer, ops.Conv):
        value = _convolve(layer, source, typed.output)
    elif isinstance(layer, ops.Linear):
        columns = source.transpose(1, 2, 0).reshape(-1).astype(np.float64)
        value = (layer.weights.values.astype(np.float64) @ columns).astype(np.int64)
        value = value.reshape(-1, 1, 1)
    elif isinstance(layer, ops.MaxPool):
        padded = _pad(source, layer.window, np.iinfo(np.int64).min)
        value = np.full(typed.output.shape, np.iinfo(np.int64).min, dtype=np.int64)
        for view in _taps(padded, layer.window, typed.output):
            np.maximum(value, view, out=value)
    elif isinstance(layer, ops.AvgPool):
        value = _average(layer, source, typed.output)
    else:
        value = compute(layer, inputs)
    if typed.bias is not None:
        value += typed.bias.values.astype(np.int64).reshape(-1, 1, 1)
    for step in layer.requants:
        value = step.apply(value)
    return value


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Values]:
    """Return reproducible inputs, (C, H, W) by name, over the whole range of each network input."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.integers(
            graph.tensors[name].lo - graph.tensors[name].offset,
            graph.tensors[name].hi - graph.tensors[name].offset,
            graph.tensors[name].shape,
            endpoint=True,
            dtype=np.int64,
        )
        for name in graph.inputs
    }


def _checked(tensor: Tensor, values: npt.NDArray[Any]) -> Values:
    values = np.asarray(values)
    if values.shape != tensor.shape:
        raise UsageError(
            f"input '{tensor.name}' has shape {values.shape}, the network expects (C, H, W) ="
            f" {tensor.shape}"
        )
    if values.dtype.kind not in "iub":
        raise UsageError(f"input '{tensor.name}' holds {values.dtype}, not integers")
    lo, hi = int(values.min()), int(values.max())
    least, most = tensor.lo - tensor.offset, tensor.hi - tensor.offset
    if lo < least or hi > most:
        raise UsageError(
            f"input '{tensor.name}' holds values in [{lo}, {hi}], the network expects"
            f" [{least}, {most}]",
            "give values of that range, or compile with --input-bits and --input-signed or"
            " --input-unsigned as the network was trained",
        )
    return values.astype(np.int64) + tensor.offset


def _convolve(layer: ops.Conv, source: Values, output: Tensor) -> Values:
    padded = _pad(source, layer.window, layer.window.pad_value).astype(np.float64)
    groups, pixels = layer.groups, output.height * output.width
    weights = layer.weights.values.astype(np.float64)
    fan_in = weights.shape[1]
    if fan_in == 1:  # depthwise: a sum of shifted images is faster than thin matrix products
        per_group = weights.shape[0] // groups
        sums = np.zeros(output.shape)
        for position, view in enumerate(_taps(padded, layer.window, output)):
            repeated = view if per_group == 1 else np.repeat(view, per_group, axis=0)
            sums += repeated * weights.reshape(len(weights), -1)[:, position, None, None]
    else:
        taps = [
            view.reshape(groups, fan_in, pixels) for view in _taps(padded, layer.window, output)
        ]
        columns = taps[0] if len(taps) == 1 else np.concatenate(taps, axis=1)
        rows = weights.transpose(0, 2, 3, 1).reshape(groups, len(weights) // groups, -1)
        sums = (rows @ columns).reshape(output.shape)
    return sums.astype(np.int64)


def _average(layer: ops.AvgPool, source: Values, output: Tensor) -> Values:
    """Return the accumulator: the sum, or the mean of the elements inside the image."""
    if layer.real is not None:
        return _real_average(layer, layer.real, source, output)
    fill = layer.window.pad_value if layer.counts_padding else layer.origin
    value = np.zeros(output.shape, dtype=np.int64)
    for view in _taps(_pad(source, layer.window, fill), layer.window, output):
        value += view
    if layer.counts_padding:
        return value
    inside = _pad(np.ones((1, *source.shape[1:]), dtype=np.int64), layer.window, 0)
    count = sum(_taps(inside, layer.window, output))
    value -= layer.window.taps * layer.origin
    magnitude: Values = (np.abs(value) + count // 2) // count
    return np.where(value < 0, layer.origin - magnitude, layer.origin + magnitude)


def _real_average(layer: ops.AvgPool, real: ops.RealMean, source: Values, output: Tensor) -> Values:
    """Return the mean of reals in binary32, in the order in which they are added."""
    reals = (source - real.zero_point).astype(np.float32) * np.float32(real.scale)
    total = np.zeros(output.shape, dtype=np.float32)
    for view in _taps(_pad(reals, layer.window, 0), layer.window, output):
        total = total + view
    count: npt.NDArray[np.float32] = np.full(output.shape, layer.window.taps, dtype=np.float32)
    if not layer.counts_padding:
        inside = _pad(np.ones((1, *source.shape[1:]), dtype=np.int64), layer.window, 0)
        count = np.asarray(sum(_taps(inside, layer.window, output)), dtype=np.float32)
    scaled = total / count / np.float32(real.out_scale) + np.float32(real.out_zero)
    return np.asarray(np.rint(np.clip(scaled, -LARGEST, LARGEST)).astype(np.int64))


def _pad(source: npt.NDArray[Any], window: ops.Window, fill: int) -> npt.NDArray[Any]:
    top, left, bottom, right = window.pads
    if not any(window.pads):
        return source
    return np.pad(source, ((0, 0), (top, bottom), (left, right)), constant_values=fill)


def _taps(padded: npt.NDArray[Any], window: ops.Window, output: Tensor) -> list[npt.NDArray[Any]]:
    """Return per filter tap, row by row, the (C, H, W) elements that it sees."""
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    rows, columns = (output.height - 1) * sh + 1, (output.width - 1) * sw + 1
    return [
        padded[:, y * dh : y * dh + rows : sh, x * dw : x * dw + columns : sw]
        for y in range(kh)
        for x in range(kw)
    ]
