"""Bit-exact accumulators of the kinds that slide no window, for the reference executor."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.ir import LogSoftmax, Lstm, ops
from dory_core.ir.fixed_point import log_softmax, softmax
from dory_core.ir.recurrence import lstm

Values = npt.NDArray[np.int64]


def compute(layer: ops.Op, inputs: tuple[Values, ...]) -> Values:
    """Return the accumulator of a layer without its bias, shape (C, H, W), as a new array."""
    source = inputs[0]
    if isinstance(layer, ops.Pairwise):
        return _pair(layer, inputs)
    if isinstance(layer, ops.ConvTranspose):
        return _transposed(layer, source)
    if isinstance(layer, ops.Resize):
        return _interpolated(layer, source)
    if isinstance(layer, ops.Lut):
        table = layer.table.values.astype(np.int64)
        channels = np.arange(len(source)).reshape(-1, 1, 1)
        return np.asarray(table[source & 255] if table.ndim == 1 else table[channels, source & 255])
    if isinstance(layer, ops.Softmax):
        if layer.factor:
            return _real_softmax(layer, source)
        table = layer.table.values.astype(np.int64)
        return softmax(source.max(axis=0) - source, table, layer.share_bits)
    if isinstance(layer, LogSoftmax):
        table = layer.table.values.astype(np.int64)
        return log_softmax(source.max(axis=0) - source, table)
    if isinstance(layer, Lstm):
        return lstm(layer, *inputs)
    if isinstance(layer, ops.ArgMax):
        return np.asarray(source.argmax(axis=0)[None], dtype=np.int64)
    return np.array(_moved(layer, inputs))


def _real_softmax(layer: ops.Softmax, source: Values) -> Values:
    table = layer.table.values.astype(np.int32).view(np.float32)
    powers = table[source.max(axis=0) - source]
    total = np.zeros(source.shape[1:], np.float32)
    for channel in powers:
        total = total + channel
    return np.asarray(np.rint(powers * np.float32(layer.factor) / total).astype(np.int64))


def _pair(layer: ops.Pairwise, inputs: tuple[Values, ...]) -> Values:
    constants = () if layer.constant is None else (layer.constant.values.astype(np.int64),)
    shape = inputs[0].shape
    first, second = (
        operand if step is None else step.apply(operand)
        for operand, step in zip(
            (np.broadcast_to(one, shape) for one in (*inputs, *constants)),
            layer.operand_requants,
            strict=True,
        )
    )
    if isinstance(layer, ops.Add):
        return first + second
    if isinstance(layer, ops.Mul):
        return first * second
    return (
        np.maximum(first, second) if isinstance(layer, ops.Maximum) else np.minimum(first, second)
    )


def _moved(layer: ops.Op, inputs: tuple[Values, ...]) -> Values:
    source = inputs[0]
    if isinstance(layer, ops.Concat):
        return np.concatenate(inputs, axis=layer.axis)
    if isinstance(layer, ops.Pad):
        widths = tuple(zip(layer.before, layer.after, strict=True))
        return np.pad(source, widths, constant_values=layer.value)
    if isinstance(layer, ops.Slice):
        places = (
            begin + step * np.arange(size)
            for begin, size, step in zip(layer.begin, layer.size, layer.step, strict=True)
        )
        return source[np.ix_(*places)]
    if isinstance(layer, ops.Transpose):
        return source.transpose(layer.perm)
    assert isinstance(layer, ops.Reshape)
    channels, height, width = layer.shape
    return source.transpose(1, 2, 0).reshape(height, width, channels).transpose(2, 0, 1)


def _interpolated(layer: ops.Resize, source: Values) -> Values:
    rows, columns = layer.rows.values.astype(np.int64), layer.columns.values.astype(np.int64)
    first, second = (source[:, rows[:, k]] * rows[None, :, 2 + k, None] for k in (0, 1))
    between = first + second
    first, second = (between[:, :, columns[:, k]] * columns[:, 2 + k] for k in (0, 1))
    return first + second


def _transposed(layer: ops.ConvTranspose, source: Values) -> Values:
    """Return the sums: every tap adds an image with gaps, cut at the borders of the output."""
    weights = layer.weights.values.astype(np.float64)
    (kh, kw), (sh, sw) = layer.window.kernel, layer.window.strides
    (dh, dw), (top, left, bottom, right) = layer.window.dilations, layer.window.pads
    channels, height, width = source.shape
    rows, columns = (height - 1) * sh + (kh - 1) * dh + 1, (width - 1) * sw + (kw - 1) * dw + 1
    sums = np.zeros((len(weights), rows + max(-bottom, 0), columns + max(-right, 0)), np.int64)
    centred = (source - layer.zero_point).reshape(channels, -1).astype(np.float64)
    for y in range(kh):
        for x in range(kw):
            image = (weights[:, :, y, x] @ centred).astype(np.int64).reshape(-1, height, width)
            down, along = y * dh, x * dw
            sums[
                :,
                down : down + (height - 1) * sh + 1 : sh,
                along : along + (width - 1) * sw + 1 : sw,
            ] += image
    return sums[:, top : rows - bottom, left : columns - right]
