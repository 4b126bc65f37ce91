"""A layer of fewer channels that computes the same values in those that stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dory_core.ir import Array, Layer, Requant, Tensor, ops, requant
from dory_core.ir.intervals import Interval, accumulator, reached, taps_of
from dory_core.passes.channel_links import Dense, is_dense

_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The channels of a layer that stay, as masks. inputs: of each input. output: of the output."""

    inputs: tuple[_Mask, ...]
    output: _Mask

    @property
    def all(self) -> bool:
        """Whether every channel stays."""
        return all(bool(mask.all()) for mask in (*self.inputs, self.output))


def select(layer: Layer, selection: Selection, intervals: Mapping[str, Interval]) -> ops.Op:
    """Return the layer with the channels that stay.

    intervals: of all channels of the tensors by name. Constant input channels that go are part of
    the bias. Output channels that are constant and stay read nothing where inputs go.
    """
    op, out = layer.op, np.flatnonzero(selection.output)
    changes: dict[str, object] = {"requants": _steps(op.requants, out)}
    if is_dense(layer):
        changes |= _dense(layer, selection, intervals)
    elif isinstance(op, ops.Conv):
        changes |= {
            "weights": Array(op.weights.values[out]),
            "bias": None if op.bias is None else Array(op.bias.values[out]),
            "groups": len(out) * op.groups // len(selection.output),
        }
    elif isinstance(op, ops.Pairwise):
        first, second = op.operand_requants
        changes["operand_requants"] = (_step(first, out), _step(second, out))
        changes["constant"] = _rows(op.constant, out)
    elif isinstance(op, ops.Lut):
        changes["table"] = _rows(op.table, out) if len(op.table.shape) > 1 else op.table
    elif isinstance(op, ops.Slice):
        changes |= _slice(op, selection)
    elif isinstance(op, ops.Pad):
        before, inner = op.before[0], len(selection.inputs[0])
        kept = int(selection.output[:before].sum()), int(selection.output[before + inner :].sum())
        changes |= {"before": (kept[0], *op.before[1:]), "after": (kept[1], *op.after[1:])}
    elif isinstance(op, ops.Reshape):
        changes["shape"] = (len(out), *op.shape[1:])
    return replace(op, **changes)  # type: ignore[arg-type]


def _steps(steps: tuple[Requant, ...], channels: _Ints) -> tuple[Requant, ...]:
    return tuple(_of_channels(step, channels) for step in steps)


def _step(step: Requant | None, channels: _Ints) -> Requant | None:
    return None if step is None else _of_channels(step, channels)


def _of_channels(step: Requant, channels: _Ints) -> Requant:
    """Return a requantisation of some of its channels."""
    mul, add, *other = (
        values if len(values) == 1 else tuple(values[c] for c in channels)
        for values in step.parameters
    )
    if step.float32:
        return replace(step, mul=mul)
    negative = other[0] if other else None
    return requant(mul, add, step.div, step.lo, step.hi, negative, step.turn)


def _rows(array: Array | None, channels: _Ints) -> Array | None:
    """Return rows of an array; one row serves all channels."""
    if array is None or len(array.values) == 1:
        return array
    return Array(array.values[channels])


def _slice(op: ops.Slice, selection: Selection) -> dict[str, object]:
    [before] = selection.inputs
    begin, count = op.begin[0], int(selection.output.sum())
    first = int(before[:begin].sum())
    if op.step[0] < 0:
        first = int(before[: begin + 1].sum()) - 1
    return {"begin": (first, *op.begin[1:]), "size": (count, *op.size[1:])}


def _dense(
    layer: Layer, selection: Selection, intervals: Mapping[str, Interval]
) -> dict[str, object]:
    """Return weights and bias of a layer that reads all its input channels."""
    op, [inputs], out = layer.op, selection.inputs, selection.output
    assert isinstance(op, Dense)
    weights = _by_channel(op, layer.inputs[0])[out]
    bias = np.zeros(len(weights), np.int64)
    if op.bias is not None:
        bias += op.bias.values[out]
    if not inputs.all():
        source = intervals[op.inputs[0]]
        bias += _folded(layer, weights[:, ~inputs], source[~inputs])
        still = intervals[op.output].constant[out]
        acc = accumulator(layer, [source])
        assert acc is not None, "it has weights"
        resting = reached(acc)[out]
        weights, bias = np.where(still[:, None, None], 0, weights), np.where(still, resting, bias)
    return {
        "weights": Array(_as_stored(op, weights[:, inputs])),
        "bias": None if op.bias is None and not bias.any() else Array(bias),
    }


def _folded(layer: Layer, weights: _Ints, source: Interval) -> _Ints:
    """Return what input channels add to each output at every place, shape (Cout,).

    weights: of these channels, shape (Cout, C, taps). Where they would add something else at other
    places, or for other inputs, their weights are 0, or the output is constant.
    """
    op = layer.op
    if isinstance(op, ops.ConvTranspose):
        return np.zeros(len(weights), np.int64)  # such channels are at the zero point
    seen = np.repeat(np.where(source.constant, source.lo, 0)[:, None], weights.shape[2], axis=1)
    if isinstance(op, ops.Conv):
        outside = taps_of(op.window, layer.inputs[0], layer.output).outside
        seen[:, outside] = op.window.pad_value
    return np.asarray(np.einsum("oct,ct->o", weights, seen))


def _by_channel(op: Dense, source: Tensor) -> _Ints:
    """Return the weights as (Cout, Cin, taps); those of a Linear are the places of its input."""
    weights = op.weights.values.astype(np.int64)
    if isinstance(op, ops.Linear):
        return weights.reshape(len(weights), -1, source.channels).transpose(0, 2, 1)
    return weights.reshape(*weights.shape[:2], -1)


def _as_stored(op: Dense, weights: _Ints) -> _Ints:
    """Return weights of shape (Cout, Cin, taps) in the shape that the layer has them."""
    if isinstance(op, ops.Linear):
        return weights.transpose(0, 2, 1).reshape(len(weights), -1)
    return weights.reshape(*weights.shape[:2], *op.weights.shape[2:])
