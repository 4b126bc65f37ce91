"""Reachable interval of every channel of every tensor, from the actual weights.

``dory_core.ir.ranges`` bounds whole tensors, which decides storage and arithmetic. Here each
channel has its own bounds, so that channels are found that have one value whatever the input is.
They never exceed those of the tensor: all arithmetic here fits 64 bits, as is proven there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from dory_core.ir import Graph, Layer, Requant, Tensor, ops

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Lowest and highest value of each channel. lo, hi: shape (C,)."""

    lo: _Ints
    hi: _Ints

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which channels have one value, at every place and for every input."""
        return np.equal(self.lo, self.hi)

    def __getitem__(self, channels: _Ints | npt.NDArray[np.bool_]) -> Interval:
        return Interval(self.lo[channels], self.hi[channels])

    def including(self, value: int) -> Interval:
        """Return the intervals that hold another value, too."""
        return Interval(np.minimum(self.lo, value), np.maximum(self.hi, value))

    def behind(self, step: Requant) -> Interval:
        """Return the intervals behind a requantisation of each channel.

        It rises or falls on either side of its turn, so that the ends of both sides say all.
        """
        ends = (self.lo, np.minimum(self.hi, step.turn - 1), np.maximum(self.lo, step.turn))
        seen = np.stack([np.clip(end, self.lo, self.hi) for end in (*ends, self.hi)], axis=1)
        values = step.apply(seen)
        return Interval(values.min(axis=1), values.max(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """Where the taps of a window lie over all outputs, row by row: shape (kh * kw,).

    inside: always in the image. outside: always in the padding. Others are in either.
    """

    inside: npt.NDArray[np.bool_]
    outside: npt.NDArray[np.bool_]

    @property
    def mixed(self) -> npt.NDArray[np.bool_]:
        """Taps that lie in the image for some outputs and in the padding for others."""
        return np.asarray(~(self.inside | self.outside))


def taps_of(window: ops.Window, source: Tensor, output: Tensor) -> Taps:
    """Return where the taps of a window lie that slides over ``source``."""
    inside, outside = [], []
    for axis, (extent, size) in enumerate(
        ((source.height, output.height), (source.width, output.width))
    ):
        first = np.arange(window.kernel[axis]) * window.dilations[axis] - window.pads[axis]
        last = first + (size - 1) * window.strides[axis]
        before = np.maximum(-(first // window.strides[axis]), 0)  # outputs in front of the image
        inside.append((first >= 0) & (last < extent))
        outside.append((before >= size) | (first + before * window.strides[axis] >= extent))
    return Taps(
        np.logical_and.outer(*inside).reshape(-1), np.logical_or.outer(*outside).reshape(-1)
    )


def channel_intervals(graph: Graph) -> dict[str, Interval]:
    """Return the reachable interval of each channel of every tensor by name.

    A kind of layer that is not known here has the range of its output in all channels.
    """
    found = {name: _whole(graph.tensors[name]) for name in graph.sources}
    for typed in graph.layers:
        output = typed.output
        acc = accumulator(typed, [found[name] for name in typed.op.inputs])
        if acc is None:
            found[output.name] = _whole(output)
            continue
        for step in typed.op.requants:
            acc = acc.behind(step)
        lo, hi = (np.clip(end, output.lo, output.hi) for end in (acc.lo, acc.hi))
        found[output.name] = Interval(lo, hi)
    return found


def accumulator(layer: Layer, sources: Sequence[Interval]) -> Interval | None:
    """Return the intervals of the accumulators of a layer, bias included.

    sources: of its inputs. None for a kind that mixes all channels, or is not known.
    """
    op, source = layer.op, sources[0]
    if isinstance(op, ops.Conv | ops.Linear):
        return _dot_products(op, source, layer.inputs[0], layer.output)
    if isinstance(op, ops.MaxPool):
        return source
    if isinstance(op, ops.AvgPool):
        if op.real is not None:
            return None
        if not op.counts_padding:
            return source
        lo, hi = _under_taps(op.window, source, layer.inputs[0], layer.output)
        return Interval(lo.sum(axis=1), hi.sum(axis=1))
    if isinstance(op, ops.Pairwise):
        return _pair(op, sources)
    if isinstance(op, ops.ConvTranspose):
        return _transposed(op, source)
    if isinstance(op, ops.Lut):
        return _table(op, source)
    if isinstance(op, ops.Resize):
        return _interpolated(op, source)
    return _moved(op, sources, layer.inputs[0], layer.output)


def reached(acc: Interval) -> _Ints:
    """Return the value of each interval that is nearest to 0."""
    return np.minimum(np.maximum(acc.lo, 0), acc.hi)


def _whole(tensor: Tensor) -> Interval:
    return Interval(*(np.full(tensor.channels, end, np.int64) for end in (tensor.lo, tensor.hi)))


def _under_taps(
    window: ops.Window, source: Interval, inputs: Tensor, output: Tensor
) -> tuple[_Ints, _Ints]:
    """Return the bounds of what each tap sees of each channel, shape (C, kh * kw)."""
    taps, pad = taps_of(window, inputs, output), window.pad_value
    lo, hi = (np.repeat(end[:, None], window.taps, axis=1) for end in (source.lo, source.hi))
    lo[:, taps.outside] = hi[:, taps.outside] = pad
    lo[:, taps.mixed] = np.minimum(lo[:, taps.mixed], pad)
    hi[:, taps.mixed] = np.maximum(hi[:, taps.mixed], pad)
    return lo, hi


def _dot_products(
    op: ops.Conv | ops.Linear, source: Interval, inputs: Tensor, output: Tensor
) -> Interval:
    """Return the intervals of sums over a window or over the whole input."""
    weights = op.weights.values.reshape(len(op.weights.values), -1)
    if isinstance(op, ops.Linear):
        lo, hi = (
            np.tile(end, inputs.height * inputs.width)[None] for end in (source.lo, source.hi)
        )
    else:
        lo, hi = (
            end.reshape(op.groups, -1) for end in _under_taps(op.window, source, inputs, output)
        )
    groups = len(lo)
    rows = weights.reshape(groups, len(weights) // groups, -1).astype(np.float64)
    positive, negative = np.maximum(rows, 0), np.minimum(rows, 0)
    low, high = (end[:, :, None].astype(np.float64) for end in (lo, hi))
    bias = 0 if op.bias is None else op.bias.values.astype(np.int64)
    ends = (positive @ low + negative @ high, positive @ high + negative @ low)
    acc_lo, acc_hi = (end.reshape(-1).astype(np.int64) + bias for end in ends)
    return Interval(acc_lo, acc_hi)


def _pair(op: ops.Pairwise, sources: Sequence[Interval]) -> Interval | None:
    operands = list(sources)
    if op.constant is not None:
        rows = op.constant.values.reshape(op.constant.shape[0], -1).astype(np.int64)
        operands.append(Interval(rows.min(axis=1), rows.max(axis=1)))
    channels = len(operands[0].lo)
    for number, step in enumerate(op.operand_requants):
        one = operands[number]
        operands[number] = one = Interval(
            *(np.broadcast_to(end, channels) for end in (one.lo, one.hi))
        )
        if step is not None:
            operands[number] = one.behind(step)
    first, second = operands
    if isinstance(op, ops.Add):
        return Interval(first.lo + second.lo, first.hi + second.hi)
    if isinstance(op, ops.Mul):
        corners = [a * b for a, b in product((first.lo, first.hi), (second.lo, second.hi))]
        return Interval(np.min(corners, axis=0), np.max(corners, axis=0))
    if isinstance(op, ops.Maximum | ops.Minimum):
        pick = np.maximum if isinstance(op, ops.Maximum) else np.minimum
        return Interval(pick(first.lo, second.lo), pick(first.hi, second.hi))
    return None


def _transposed(op: ops.ConvTranspose, source: Interval) -> Interval:
    """Return bounds with all taps, or any of them: which ones depends on the place."""
    moved = Interval(source.lo - op.zero_point, source.hi - op.zero_point).including(0)
    weights = op.weights.values.reshape(*op.weights.shape[:2], -1).astype(np.int64)
    positive, negative = np.maximum(weights, 0).sum(axis=2), np.minimum(weights, 0).sum(axis=2)
    bias = 0 if op.bias is None else op.bias.values.astype(np.int64)
    return Interval(
        positive @ moved.lo + negative @ moved.hi + bias,
        positive @ moved.hi + negative @ moved.lo + bias,
    )


def _table(op: ops.Lut, source: Interval) -> Interval:
    rows = op.table.values.reshape(-1, 256)
    ends = []
    for channel, (lo, hi) in enumerate(zip(source.lo.tolist(), source.hi.tolist(), strict=True)):
        seen = rows[channel if len(rows) > 1 else 0, np.arange(lo, hi + 1) & 255]
        ends.append((int(seen.min()), int(seen.max())))
    lows, highs = zip(*ends, strict=True)
    return Interval(np.array(lows, np.int64), np.array(highs, np.int64))


def _interpolated(op: ops.Resize, source: Interval) -> Interval:
    rows, columns = (taps.values[:, 2:].astype(np.int64) for taps in (op.rows, op.columns))
    weights = np.einsum("ra,cb->rcab", rows, columns).reshape(-1, 4)
    positive, negative = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    lows = np.multiply.outer(source.lo, positive) + np.multiply.outer(source.hi, negative)
    highs = np.multiply.outer(source.hi, positive) + np.multiply.outer(source.lo, negative)
    return Interval(lows.min(axis=1), highs.max(axis=1))


def _moved(
    op: ops.Op, sources: Sequence[Interval], inputs: Tensor, output: Tensor
) -> Interval | None:
    source = sources[0]
    if isinstance(op, ops.Concat):
        if op.axis == 0:
            return Interval(*(np.concatenate(ends) for ends in _both(sources)))
        lows, highs = _both(sources)
        return Interval(np.min(lows, axis=0), np.max(highs, axis=0))
    if isinstance(op, ops.Slice):
        return source[op.begin[0] + np.arange(op.size[0]) * op.step[0]]
    if isinstance(op, ops.Pad):
        inner = source.including(op.value) if any(op.before[1:] + op.after[1:]) else source
        around = (op.before[0], op.after[0])
        return Interval(
            *(np.pad(end, around, constant_values=op.value) for end in (inner.lo, inner.hi))
        )
    if isinstance(op, ops.Transpose) and op.perm[0] == 0:
        return source
    if isinstance(op, ops.Reshape):  # elements keep their order, channels change fastest
        pixels = inputs.height * inputs.width
        lo, hi = (
            np.tile(end, pixels).reshape(-1, output.channels) for end in (source.lo, source.hi)
        )
        return Interval(lo.min(axis=0), hi.max(axis=0))
    return None


def _both(sources: Iterable[Interval]) -> tuple[list[_Ints], list[_Ints]]:
    listed = list(sources)
    return [one.lo for one in listed], [one.hi for one in listed]
