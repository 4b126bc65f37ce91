"""Shapes of layers: what an output is for the inputs, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dory_core.errors import NotSupported
from dory_core.ir import Tensor, ops

_MOST_WINDOWS = 1 << 20
Shape = tuple[int, int, int]


def output_shape(layer: ops.Op, sources: Sequence[Tensor]) -> Shape:
    """Return (C, H, W) of the output of a layer.

    Raises: NotSupported, naming the layer, when its parameters do not fit the sources.
    """
    _check_count(layer, len(sources))
    shape = _shape(layer, sources)
    if min(shape) < 1:
        raise _refused(layer, f"its output has the shape {shape}")
    bias = layer.bias if isinstance(layer, ops.Conv | ops.Linear | ops.ConvTranspose) else None
    if bias is not None and bias.shape != shape[:1]:
        raise _refused(layer, "its bias has another number of channels")
    for step in layer.steps:
        for name, values in zip(("mul", "add", "add_negative"), step.parameters, strict=False):
            if len(values) not in (1, shape[0]):
                raise _refused(layer, f"{len(values)} values of {name} for {shape[0]} channels")
    return shape


def label(layer: ops.Op) -> str:
    """Return how messages name a layer."""
    return f"{layer.kind} '{layer.name}'"


def _refused(layer: ops.Op, reason: str) -> NotSupported:
    return NotSupported(f"{label(layer)}: {reason}")


def _check_count(layer: ops.Op, count: int) -> None:
    if isinstance(layer, ops.Concat):
        if count < 1:
            raise _refused(layer, "it has no input")
        return
    two = isinstance(layer, ops.Lstm) or (
        isinstance(layer, ops.Pairwise) and layer.constant is None
    )
    expected = 2 if two else 1
    if count != expected:
        raise _refused(layer, f"{count} inputs, expected {expected}")


def _shape(layer: ops.Op, sources: Sequence[Tensor]) -> Shape:
    source = sources[0]
    if isinstance(layer, ops.Conv | ops.MaxPool | ops.AvgPool):
        return _windowed(layer, source)
    if isinstance(layer, ops.ConvTranspose):
        return _transposed(layer, source)
    if isinstance(layer, ops.Linear):
        outputs, columns = layer.weights.shape
        if columns != source.elements:
            raise _refused(layer, f"weights for {columns} inputs on {source.elements} elements")
        return outputs, 1, 1
    if isinstance(layer, ops.Pairwise):
        _check_second(layer, sources)
    elif isinstance(layer, ops.Lut):
        if layer.table.shape not in ((256,), (source.channels, 256)):
            raise _refused(layer, f"a table of shape {layer.table.shape} for {source.shape}")
    elif isinstance(layer, ops.Lstm):
        return _recurrent(layer, *sources)
    elif isinstance(layer, ops.ArgMax):
        return 1, source.height, source.width
    elif isinstance(layer, ops.Concat):
        return _joined(layer, sources)
    elif isinstance(layer, ops.Slice | ops.Pad | ops.Resize | ops.Transpose | ops.Reshape):
        return _moved(layer, source)
    return source.shape


def _recurrent(layer: ops.Lstm, source: Tensor, state: Tensor) -> Shape:
    units, features = state.channels, source.channels
    if source.width != 1 or state.shape != (units, 3, 1):
        raise _refused(layer, f"an input of {source.shape} and a state of {state.shape}")
    found = layer.weights.shape, layer.bias.shape, layer.table.shape, len(layer.gates)
    expected = (4, units, features + units), (2, 4, units), (256,), len(ops.LSTM_STEPS)
    if found != expected:
        raise _refused(
            layer,
            f"weights, biases, table and steps are {found}, expected {expected} for {features}"
            f" features and {units} units",
        )
    return units, source.height + 2, 1


def _windowed(layer: ops.Conv | ops.MaxPool | ops.AvgPool, source: Tensor) -> Shape:
    window = layer.window
    channels = source.channels
    if isinstance(layer, ops.Conv):
        channels, fan_in = layer.weights.shape[:2]
        if layer.groups < 1 or fan_in * layer.groups != source.channels or channels % layer.groups:
            raise _refused(
                layer,
                f"weights {list(layer.weights.shape)} in {layer.groups} groups do not fit an input"
                f" of {source.channels} channels",
            )
        _check_taps(layer)
    height, width = window.output_size(source.height, source.width)
    if min(height, width) < 1:
        raise _refused(
            layer,
            f"its window {list(window.kernel)} does not fit into an input of"
            f" {source.height} x {source.width}",
        )
    if isinstance(layer, ops.MaxPool) or (
        isinstance(layer, ops.AvgPool) and not layer.counts_padding
    ):
        _check_no_empty_window(layer, window, source, (height, width))
    return channels, height, width


def _check_taps(layer: ops.Conv | ops.ConvTranspose) -> None:
    if layer.weights.shape[2:] != layer.window.kernel:
        raise _refused(
            layer,
            f"weights {list(layer.weights.shape)} do not fit a kernel {list(layer.window.kernel)}",
        )


def _check_no_empty_window(
    layer: ops.MaxPool | ops.AvgPool, window: ops.Window, source: Tensor, size: tuple[int, int]
) -> None:
    for axis, extent in enumerate((source.height, source.width)):
        pad, stride, dilation = window.pads[axis], window.strides[axis], window.dilations[axis]
        before = min(size[axis], -(-pad // stride))  # windows that begin before the image
        last = (size[axis] - 1) * stride - pad
        empty = (window.kernel[axis] - 1) * dilation < pad or last >= extent
        if not empty and dilation > extent:  # the image may lie between two taps
            if before > _MOST_WINDOWS:
                raise _refused(layer, f"pads {list(window.pads)} are too large")
            firsts = (np.arange(before, dtype=np.int64) * stride - pad) % dilation
            empty = bool((firsts >= extent).any())
        if empty:
            raise _refused(layer, f"pads {list(window.pads)} leave windows without an element")


def _transposed(layer: ops.ConvTranspose, source: Tensor) -> Shape:
    channels, fan_in = layer.weights.shape[:2]
    if fan_in != source.channels:
        raise _refused(
            layer,
            f"weights {list(layer.weights.shape)} do not fit {source.channels} input channels",
        )
    _check_taps(layer)
    if min(layer.window.pads[:2]) < 0:
        raise _refused(layer, f"its pads {list(layer.window.pads)} begin below 0")
    return (channels, *layer.output_size(source.height, source.width))


def _check_second(layer: ops.Pairwise, sources: Sequence[Tensor]) -> None:
    first = sources[0].shape
    second = sources[1].shape if layer.constant is None else layer.constant.shape
    if len(second) != 3 or any(b not in (1, a) for a, b in zip(first, second, strict=True)):
        raise _refused(layer, f"operands of shapes {first} and {second}")


def _joined(layer: ops.Concat, sources: Sequence[Tensor]) -> Shape:
    if layer.axis not in range(3):
        raise _refused(layer, f"axis {layer.axis} is none of 0 (C), 1 (H) and 2 (W)")
    sizes = list(sources[0].shape)
    for source in sources[1:]:
        other = list(source.shape)
        sizes[layer.axis] += other[layer.axis]
        other[layer.axis] = sizes[layer.axis]
        if other != sizes:
            shapes = ", ".join(str(one.shape) for one in sources)
            raise _refused(layer, f"inputs of shapes {shapes}")
    return sizes[0], sizes[1], sizes[2]


def _moved(
    layer: ops.Slice | ops.Pad | ops.Resize | ops.Transpose | ops.Reshape, source: Tensor
) -> Shape:
    if isinstance(layer, ops.Transpose):
        if sorted(layer.perm) != [0, 1, 2]:
            raise _refused(layer, f"{list(layer.perm)} is no permutation of 0, 1, 2")
        a, b, c = layer.perm
        return source.shape[a], source.shape[b], source.shape[c]
    if isinstance(layer, ops.Reshape):
        if int(np.prod(layer.shape)) != source.elements:
            raise _refused(layer, f"{source.elements} elements in a shape {layer.shape}")
        return layer.shape
    if isinstance(layer, ops.Pad):
        if min(*layer.before, *layer.after) < 0:
            raise _refused(layer, "it takes elements away; that is a Slice")
        c, h, w = (sum(p) for p in zip(source.shape, layer.before, layer.after, strict=True))
        return c, h, w
    if isinstance(layer, ops.Resize):
        for taps, size in ((layer.rows, source.height), (layer.columns, source.width)):
            found = taps.values
            if found.ndim != 2 or found.shape[1] != 4:
                raise _refused(layer, f"taps of shape {taps.shape}, expected (size, 4)")
            if int(found[:, :2].min()) < 0 or int(found[:, :2].max()) >= size:
                raise _refused(layer, f"it reads beyond an input of {source.shape}")
        return source.channels, layer.rows.shape[0], layer.columns.shape[0]
    for size, begin, count, step in zip(
        source.shape, layer.begin, layer.size, layer.step, strict=True
    ):
        ends = begin, begin + (count - 1) * step
        if step == 0 or count < 1 or min(ends) < 0 or max(ends) >= size:
            raise _refused(layer, f"it reads beyond an input of {source.shape}")
    return layer.size
