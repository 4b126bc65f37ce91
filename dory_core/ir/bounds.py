"""Reachable accumulators of layers that are no sums of products over a window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.errors import NotSupported
from dory_core.ir import LogSoftmax, Lstm, Requant, Tensor, ops
from dory_core.ir.fixed_point import SUM_SHIFT
from dory_core.ir.recurrence import WORD
from dory_core.ir.shapes import label

# Bounds per channel, or one for all channels: int64, or Python integers where those are short.
Bounds = npt.NDArray[Any]
#: Returns the bounds behind a step, for the bounds in front of it.
Apply = Callable[[Requant, Bounds, Bounds], tuple[Bounds, Bounds]]

_INT32_MAX = 2**31 - 1
_BYTE = (-128, 127)
_PRODUCT = 1 << 30  # of two values in Q0.15, or of one and a cell
_ONE_Q19 = 1 << 19
#: Sixteenths of -20 - log(4096), rounded away.
_LOG_LEAST = -454
_INFINITE = 0x7F800000  # bits of the infinity of binary32


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Bounds of the complete sum per channel, and of all partial sums of the layer."""

    lo: Bounds
    hi: Bounds
    partial_lo: int
    partial_hi: int

    @classmethod
    def of(cls, lo: Bounds, hi: Bounds, *others: Bounds) -> Accumulator:
        """Return the accumulator of [lo, hi] that takes the values of others on the way."""
        low = min(int(b.min()) for b in (lo, *others))
        high = max(int(b.max()) for b in (hi, *others))
        return cls(lo, hi, low, high)


def one(value: int) -> Bounds:
    """Return a bound of all channels."""
    return np.array([value], dtype=np.int64)


def bounds(layer: ops.Op, sources: tuple[Tensor, ...], apply: Apply) -> Accumulator:
    """Return what the accumulator of a layer can be.

    apply: follows values through the step of an operand. Raises: NotSupported, naming the layer,
    when a table does not fit the values of the input.
    """
    if isinstance(layer, ops.Pairwise):
        return _pair(layer, sources, apply)
    if isinstance(layer, ops.ConvTranspose):
        return _transposed(layer, sources[0])
    if isinstance(layer, ops.Lut):
        return _table(layer, sources[0])
    if isinstance(layer, ops.Softmax):
        _check_softmax(layer, sources[0])
        return Accumulator.of(one(0), one(layer.factor or 1 << layer.share_bits))
    if isinstance(layer, LogSoftmax):
        _check_log_softmax(layer, sources[0])
        return Accumulator.of(one(_LOG_LEAST), one(1))
    if isinstance(layer, Lstm):
        return _recurrent(layer, sources[0], sources[1], apply)
    if isinstance(layer, ops.ArgMax):
        return Accumulator.of(one(0), one(sources[0].channels - 1))
    if isinstance(layer, ops.Resize):
        return _interpolated(layer, sources[0])
    values = [layer.value] if isinstance(layer, ops.Pad) else []
    lo = min(*values, *(s.lo for s in sources), sources[0].lo)
    hi = max(*values, *(s.hi for s in sources), sources[0].hi)
    return Accumulator.of(one(lo), one(hi))


def _pair(layer: ops.Pairwise, sources: tuple[Tensor, ...], apply: Apply) -> Accumulator:
    ends: list[tuple[Bounds, Bounds]] = [(one(s.lo), one(s.hi)) for s in sources]
    if layer.constant is not None:
        rows = layer.constant.values.reshape(layer.constant.shape[0], -1).astype(np.int64)
        ends.append((rows.min(axis=1), rows.max(axis=1)))
    for number, step in enumerate(layer.operand_requants):
        if step is not None:
            ends[number] = apply(step, *ends[number])
    first, second = ends
    if isinstance(layer, ops.Add):
        found = first[0] + second[0], first[1] + second[1]
    elif isinstance(layer, ops.Mul):
        corners = np.stack(np.broadcast_arrays(*(a * b for a, b in product(first, second))))
        found = corners.min(axis=0), corners.max(axis=0)
    else:
        pick = np.maximum if isinstance(layer, ops.Maximum) else np.minimum
        found = pick(first[0], second[0]), pick(first[1], second[1])
    return Accumulator.of(*found, *first, *second)


def _table(layer: ops.Lut, source: Tensor) -> Accumulator:
    if not ((source.lo >= 0 and source.hi <= 255) or (source.lo >= -128 and source.hi <= 127)):
        raise NotSupported(
            f"{label(layer)}: its input has values in [{source.lo}, {source.hi}], a table takes"
            " those of one byte"
        )
    if layer.requants:
        raise NotSupported(f"{label(layer)}: a table has no requantisation behind it")
    reached = layer.table.values.reshape(-1, 256)[:, np.arange(source.lo, source.hi + 1) & 255]
    rows = reached.astype(np.int64)
    return Accumulator.of(rows.min(axis=1), rows.max(axis=1))


def _check_softmax(layer: ops.Softmax, source: Tensor) -> None:
    table = layer.table.values.astype(np.int64)
    if table.shape != (256,) or source.hi - source.lo > 255:
        raise NotSupported(
            f"{label(layer)}: a table of shape {table.shape} for values in [{source.lo},"
            f" {source.hi}]; possible are 256 entries and as many values"
        )
    if layer.share_bits not in ((8,) if layer.factor else (8, 16)):
        raise NotSupported(
            f"{label(layer)}: shares of {layer.share_bits} bits; possible are 8, and 16 without a"
            " factor"
        )
    falls = bool((np.diff(table) <= 0).all()) and table[-1] >= 0
    if layer.factor and falls and table[0] < _INFINITE and 0 < layer.factor < 1 << 20:
        return
    least = 1 << SUM_SHIFT + layer.share_bits - 8  # no share is shifted to the left
    if not falls or not least <= int(table[0]) <= _INT32_MAX:
        raise NotSupported(f"{label(layer)}: its table does not fall from a large number to 0")
    if source.channels << 31 - SUM_SHIFT > _INT32_MAX:
        raise NotSupported(
            f"{label(layer)}: the sum over {source.channels} channels exceeds 32 bits",
            f"split it: {(_INT32_MAX >> 31 - SUM_SHIFT)} channels fit",
        )


def _check_log_softmax(layer: LogSoftmax, source: Tensor) -> None:
    table = layer.table.values.astype(np.int64)
    if table.shape != (2, 256) or source.hi - source.lo > 255:
        raise NotSupported(
            f"{label(layer)}: a table of shape {table.shape} for values in [{source.lo},"
            f" {source.hi}]; possible are 2 x 256 entries and as many values"
        )
    powers, differences = table
    falls = bool((np.diff(table, axis=1) <= 0).all())
    whole = powers[0] == _ONE_Q19 and powers[-1] >= 0
    if not falls or not whole or differences[0] or differences[-1] < -20 << 26:
        raise NotSupported(f"{label(layer)}: its tables do not fall from 1 and from 0")
    if source.channels * _ONE_Q19 > _INT32_MAX:
        raise NotSupported(
            f"{label(layer)}: the sum over {source.channels} channels exceeds 32 bits",
            f"split it: {_INT32_MAX // _ONE_Q19} channels fit",
        )


def _recurrent(layer: Lstm, source: Tensor, state: Tensor, apply: Apply) -> Accumulator:
    """Return the bounds of the output's bytes, and of all sums and products on the way."""
    table, features = layer.table.values.astype(np.int64), source.channels
    if table[0] != 1 << 15 or table[-1] >= 1 << 16 or (np.diff(table) < 0).any():
        raise NotSupported(f"{label(layer)}: its table does not rise from 1/2 to below 1")
    if layer.requants or not 0 <= layer.clip <= WORD[1]:
        raise NotSupported(f"{label(layer)}: a step behind it, or a clip of {layer.clip}")
    if not (_BYTE[0] <= state.lo and state.hi <= _BYTE[1]):
        raise NotSupported(f"{label(layer)}: its state is {state.type_name}, possible is i8")
    reached = []
    for number, step in enumerate(layer.gates[:8]):
        side, gate = divmod(number, 4)
        columns = slice(features, None) if side else slice(None, features)
        lo, hi = (state.lo, state.hi) if side else (source.lo, source.hi)
        rows = layer.weights.values[gate, :, columns].astype(np.int64)
        bias = layer.bias.values[side, gate].astype(np.int64)
        low, high = _dot(rows, min(lo, 0), max(hi, 0))
        _check_range(layer, WORD, apply(step, low + bias, high + bias))
        reached += [low, high, low + bias, high + bias]
    product = one(-_PRODUCT), one(_PRODUCT)
    kept, added, argument, hidden = layer.gates[8:]
    for step in (kept, added):
        _check_range(layer, WORD, apply(step, *product))
    apply(argument, one(WORD[0]), one(WORD[1]))
    _check_range(layer, _BYTE, apply(hidden, *product))
    return Accumulator.of(one(_BYTE[0]), one(_BYTE[1]), *reached, *product)


def _dot(rows: Bounds, lo: int, hi: int) -> tuple[Bounds, Bounds]:
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    return positive * lo + negative * hi, positive * hi + negative * lo


def _check_range(layer: Lstm, most: tuple[int, int], found: tuple[Bounds, Bounds]) -> None:
    lo, hi = int(found[0].min()), int(found[1].max())
    if lo < most[0] or most[1] < hi:
        raise NotSupported(f"{label(layer)}: a step gives [{lo}, {hi}], beyond {list(most)}")


def _interpolated(layer: ops.Resize, source: Tensor) -> Accumulator:
    signs = []
    for taps in (layer.rows, layer.columns):
        weights = taps.values[:, 2:].astype(np.int64)
        same = taps.values[:, 0] == taps.values[:, 1]  # at a border: one element, one weight
        weights[same] = np.stack([weights[same].sum(axis=1), np.zeros(same.sum())], axis=1)
        signs.append((np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)))
    (up, down), (right, left) = signs
    positive = np.multiply.outer(up, right) + np.multiply.outer(down, left)
    negative = np.multiply.outer(up, left) + np.multiply.outer(down, right)
    return _sums(positive, negative, source.lo, source.hi)


def _transposed(layer: ops.ConvTranspose, source: Tensor) -> Accumulator:
    """Return bounds with all taps, or any of them: which ones depends on the place."""
    weights = layer.weights.values.reshape(layer.weights.shape[0], -1).astype(np.int64)
    positive, negative = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    bias = np.zeros(1, np.int64) if layer.bias is None else layer.bias.values.astype(np.int64)
    low, high = min(source.lo - layer.zero_point, 0), max(source.hi - layer.zero_point, 0)
    lo, hi = positive * low + negative * high, positive * high + negative * low
    return Accumulator.of(lo + bias, hi + bias, lo, hi, bias)


def _sums(positive: Bounds, negative: Bounds, lo: int, hi: int) -> Accumulator:
    """Return the bounds of sums of products of [lo, hi] with weights of known sums per sign."""
    complete = positive * lo + negative * hi, positive * hi + negative * lo
    low, high = min(lo, 0), max(hi, 0)
    partial = positive * low + negative * high, positive * high + negative * low
    return Accumulator.of(one(int(complete[0].min())), one(int(complete[1].max())), *partial)
