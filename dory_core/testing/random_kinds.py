"""Random layers of the kinds that slide no window: see ``dory_core.testing.random_layers``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dory_core.ir import Array, Layer, LogSoftmax, Lstm, Requant, ops, requant
from dory_core.testing.kernel_cases import alone, typed
from dory_core.testing.random_parts import RandomParts

__all__ = ["MAKERS"]

_BYTES = ((0, 255), (-128, 127), (0, 127), (-8, 7), (0, 15), (-2, 1))


def _shape(draw: RandomParts) -> tuple[int, int, int]:
    return draw.integer(1, 9), draw.integer(1, 8), draw.integer(1, 8)


def _byte(draw: RandomParts) -> tuple[int, int]:
    """Return a range of an input whose values are stored in a byte each."""
    known = tuple(r for r in draw.space.inputs if r in _BYTES) or _BYTES
    return known[draw.integer(0, len(known) - 1)]


def _pair(kind: type[ops.Pairwise], draw: RandomParts) -> Layer:
    """Return a pair of tensors, of a tensor and a smaller one, or of a tensor and a constant."""
    shape = _shape(draw)
    small = np.where(draw.numbers.random(3) < 0.7, shape, 1).tolist()
    c, h, w = draw.pick(shape, tuple(small), (shape[0], 1, 1), (1, 1, 1))
    ranges = draw.pick(*draw.space.inputs), draw.pick(*draw.space.inputs)
    steps: list[Requant | None] = []
    for lo, hi in ranges:
        zero = requant(1, -draw.integer(lo, hi))
        scale = draw.step(shape[0], max(abs(lo), abs(hi)), draw.pick(None, (-128, 127)))
        steps.append(draw.pick(None, zero, scale))
    reach = 60000 if kind is ops.Mul else 500
    outputs = draw.requants(shape[0], reach, draw.pick(*draw.space.outputs))
    fields: dict[str, Any] = {
        "operand_requants": (steps[0], steps[1]),
        "requants": draw.pick((), outputs, outputs),
    }
    sources = [(*shape, *ranges[0]), (c, h, w, *ranges[1])]
    if draw.integer(0, 2) == 0:
        constant = draw.numbers.integers(ranges[1][0], ranges[1][1] + 1, (c, h, w))
        fields |= {"constant": Array(constant), "inputs": ("input",)}
        sources.pop()
    layer = alone(kind, **fields)
    return typed(layer, *sources, packed=draw.space.packed)


def _lut(draw: RandomParts) -> Layer:
    shape, (lo, hi) = _shape(draw), _byte(draw)
    low, high = draw.pick(*_BYTES, (-3000, 3000), (-100000, 100000))
    rows = draw.pick((), (), (shape[0],))
    table = draw.numbers.integers(low, high + 1, (*rows, 256))
    return typed(alone(ops.Lut, table=Array(table)), (*shape, lo, hi), packed=draw.space.packed)


def _softmax(draw: RandomParts, share_bits: int = 8) -> Layer:
    shape, (lo, hi) = _shape(draw), _byte(draw)
    falling = np.exp(-np.arange(256) * draw.numbers.uniform(0.0001, 0.6))
    table = np.minimum(np.floor(falling * 2**31), 2**31 - 1).astype(np.int64)
    table[draw.integer(1, 256) :] = 0
    most = (1 << share_bits) - 1
    zero = draw.pick(-(most + 1) // 2, 0)
    step = requant(1, zero, 1, zero, zero + most)
    layer = alone(ops.Softmax, table=Array(table), share_bits=share_bits, requants=(step,))
    return typed(layer, (*shape, lo, hi), packed=draw.space.packed)


def _wide_softmax(draw: RandomParts) -> Layer:
    return _softmax(draw, share_bits=16)


def _log_softmax(draw: RandomParts) -> Layer:
    shape, (lo, hi) = _shape(draw), _byte(draw)
    differences = np.arange(256) * draw.numbers.uniform(0.001, 0.3)
    powers = np.rint(np.exp(-differences) * 2**19).astype(np.int64)
    powers[draw.integer(1, 256) :] = 0
    table = np.stack([powers, -np.minimum(differences * 2**26, 20 * 2**26).astype(np.int64)])
    step = requant(1, 127, 1, *draw.pick((-128, 127), (0, 127)))
    layer = alone(LogSoftmax, table=Array(table), requants=(step,))
    return typed(layer, (*shape, lo, hi), packed=draw.space.packed)


def _lstm(draw: RandomParts) -> Layer:
    features, rows, units = (draw.integer(1, 9) for _ in range(3))
    lo, hi = draw.pick(*draw.space.inputs)
    word, reach = (-(1 << 15), (1 << 15) - 1), max(abs(lo), abs(hi))
    weights = draw.numbers.integers(-128, 128, (4, units, features + units))
    sums = (draw.integer(8, 16) - reach.bit_length(), draw.integer(1, 8))
    half = 1 << 15
    table = np.minimum(np.rint(65536 / (1 + np.exp(-np.arange(256) / 24))), 65535)
    hidden = 1 << draw.integer(22, 24)
    steps = (
        *(requant(1 << max(size, 0), 77, 16, *word) for size in sums for _ in range(4)),
        requant(1, half // 2, half, *word),
        requant(draw.integer(1, 3), half // 2, half, *word, add_negative=half // 2 - 1),
        requant(3, draw.integer(0, 3), draw.pick(1, 4)),
        requant(1, hidden * draw.integer(-90, 90), hidden, -128, 127),
    )
    layer = alone(
        Lstm,
        inputs=("input", "state"),
        weights=Array(weights),
        bias=Array(draw.numbers.integers(-9000, 9000, (2, 4, units))),
        gates=steps,
        table=Array(table.astype(np.int64)),
        clip=draw.pick(0, draw.integer(1, 32767)),
    )
    sources = (features, rows, 1, lo, hi), (units, 3, 1, -128, 127)
    return typed(layer, *sources, packed=draw.space.packed)


def _argmax(draw: RandomParts) -> Layer:
    source = (*_shape(draw), *draw.pick(*draw.space.inputs))
    return typed(alone(ops.ArgMax), source, packed=draw.space.packed)


def _concat(draw: RandomParts) -> Layer:
    shape, axis, bounds = _shape(draw), draw.integer(0, 2), draw.pick(*draw.space.inputs)
    sources = []
    for _ in range(draw.pick(1, 2, 2, 3, 4)):
        c, h, w = (draw.integer(1, 5) if n == axis else size for n, size in enumerate(shape))
        lo, hi = draw.pick(bounds, bounds, draw.pick(*draw.space.inputs))
        sources.append((c, h, w, lo, hi))
    names = tuple(f"input_{n}" for n in range(len(sources)))
    return typed(alone(ops.Concat, inputs=names, axis=axis), *sources, packed=draw.space.packed)


def _slice(draw: RandomParts) -> Layer:
    shape = draw.integer(1, 15), draw.integer(1, 14), draw.integer(1, 14)
    axes = []
    for extent in shape:
        stride = draw.pick(1, 1, 2, 3, -1, -2)
        if draw.integer(0, 2) == 0:
            axes.append((0, extent, 1))
            continue
        first, last = sorted(draw.integer(0, extent - 1) for _ in range(2))
        axes.append((first if stride > 0 else last, (last - first) // abs(stride) + 1, stride))
    begin, size, step = zip(*axes, strict=True)
    layer = alone(ops.Slice, begin=begin, size=size, step=step)
    return typed(layer, (*shape, *draw.pick(*draw.space.inputs)), packed=draw.space.packed)


def _pad(draw: RandomParts) -> Layer:
    bounds = draw.pick(*draw.space.inputs)
    before, after = (tuple(draw.pick(0, 0, 1, 2, 5) for _ in range(3)) for _ in range(2))
    layer = alone(ops.Pad, before=before, after=after, value=draw.pick(0, bounds[0], bounds[1], 77))
    return typed(layer, (*_shape(draw), *bounds), packed=draw.space.packed)


def _taps(draw: RandomParts, size: int, gathers: bool) -> Array:
    """Return rising places between the elements of an axis, now and then any ones."""
    count = draw.integer(1, 12)
    first = np.sort(draw.numbers.integers(0, size, count))
    if draw.integer(0, 3) == 0:
        draw.numbers.shuffle(first)
    if gathers:
        rows = [first, first, np.ones(count), np.zeros(count)]
    else:
        fraction = draw.numbers.integers(0, 1025, count)
        rows = [first, np.minimum(first + 1, size - 1), 1024 - fraction, fraction]
    return Array(np.stack(rows, axis=1).astype(np.int64))


def _resize(draw: RandomParts) -> Layer:
    shape, gathers = _shape(draw), bool(draw.integer(0, 1))
    steps = () if gathers else draw.pick((), (requant(1, 1 << 19, 1 << 20),))
    rows, columns = (_taps(draw, size, gathers) for size in shape[1:])
    layer = alone(ops.Resize, rows=rows, columns=columns, requants=steps)
    return typed(layer, (*shape, *draw.pick(*draw.space.inputs)), packed=draw.space.packed)


def _transpose(draw: RandomParts) -> Layer:
    perm = tuple(int(a) for a in draw.numbers.permutation(3))
    source = (*_shape(draw), *draw.pick(*draw.space.inputs))
    return typed(alone(ops.Transpose, perm=perm), source, packed=draw.space.packed)


def _reshape(draw: RandomParts) -> Layer:
    shape = draw.pick((6, 4, 2), (1, 8, 6), (12, 2, 2), (48, 1, 1), (3, 1, 16), (5, 7, 1))
    others = [
        (c, h, int(np.prod(shape)) // (c * h))
        for c in range(1, 49)
        for h in range(1, 49)
        if np.prod(shape) % (c * h) == 0
    ]
    source = (*shape, *draw.pick(*draw.space.inputs))
    return typed(alone(ops.Reshape, shape=draw.pick(*others)), source, packed=draw.space.packed)


def _transposed(draw: RandomParts) -> Layer:
    window = draw.window(draw.pick((1, 1), (2, 2), (3, 3), (2, 4), (1, 3)))
    fields: dict[str, Any] = {"name": "conv_transpose", "window": window}
    bits, (lo, hi) = draw.pick(*draw.space.weight_bits), draw.pick(*draw.space.inputs)
    c_out, c_in, h, w = (draw.integer(1, 7) for _ in range(4))
    weights = draw.weights(c_out, c_in, *window.kernel, bits=bits)
    layer = alone(
        ops.ConvTranspose,
        **fields,
        weights=weights,
        weight_bits=bits,
        bias=draw.bias(c_out),
        zero_point=draw.pick(0, draw.integer(lo, hi)),
        requants=draw.steps(c_out, weights, (c_in, h, w, lo, hi)),
    )
    return typed(layer, (c_in, h, w, lo, hi), packed=draw.space.packed)


#: Returns a random layer of a kind.
MAKERS: dict[str, Callable[[RandomParts], Layer]] = {
    "sum": partial(_pair, ops.Add),
    "mul": partial(_pair, ops.Mul),
    "maximum": partial(_pair, ops.Maximum),
    "minimum": partial(_pair, ops.Minimum),
    "lut": _lut,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "lstm": _lstm,
    "argmax": _argmax,
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
    "resize": _resize,
    "transpose": _transpose,
    "reshape": _reshape,
    "convtranspose": _transposed,
    "wide_softmax": _wide_softmax,
}
