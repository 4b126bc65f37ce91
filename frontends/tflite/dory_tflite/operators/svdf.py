"""SVDF: a fully connected layer whose last results are kept, and a sum over time.

Every inference computes one value per filter (``weights_feature``), keeps the last ``memory`` of
them, and sums them with one weight each (``weights_time``) over the filters of an output. The kept
values are state of the network, one row per inference, so that a new row moves them as a ring does.
Source: ``EvalIntegerSvdfReference`` and ``PrepareSvdf`` in ``micro/kernels/svdf_common.cc``.
"""

from __future__ import annotations

import numpy as np

from dory_core.api import Requant, ops
from dory_core.importing import Array, State
from dory_tflite.fixed_point import Integers, quantize_multiplier
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.common import constant
from dory_tflite.operators.sums import bias_of, weight_fields
from dory_tflite.requantisation import rescaling

_FEATURE, _TIME, _BIAS, _STATE = 1, 2, 3, 4
_BOUNDS = {"INT8": (-128, 127), "INT16": (-(1 << 15), (1 << 15) - 1)}


def _svdf(node: Node) -> None:
    feature, time = (node.constant(n).astype(np.int64) for n in (_FEATURE, _TIME))
    filters, memory = time.shape
    bounds = _BOUNDS[node.input(_STATE).type]
    seen = _features(node, feature, bounds)
    if memory > 1:
        seen = _remembered(node, seen, (filters, memory - 1, 1), bounds)
    units = filters // node.option("Rank")
    weights = time.reshape(units, -1, memory, 1)
    rows = weights.reshape(units, -1)
    state, y = node.input(_STATE), node.quantisation(node.output())
    bias = bias_of(node, _BIAS, units) - state.zero_points[0] * rows.sum(axis=1)
    scales = (state.scales[0], node.input(_TIME).scales[0], y.scale)
    node.emit(
        ops.Conv,
        node.output(),
        seen,
        window=ops.Window(kernel=(memory, 1)),
        groups=units,
        requants=(_step(rows, bias, bounds, scales, y.zero_point, y.bounds),),
        **weight_fields(weights, bias),
    )


def _features(node: Node, weights: Integers, bounds: tuple[int, int]) -> str:
    """Append the fully connected layer; return its output, one value per filter."""
    source, state = node.input(), node.input(_STATE)
    x, network = node.quantisation(source), node.network
    name = network.reshaped(source, (weights.shape[1], 1, 1))
    read = network.tensors[name]
    bias = -x.zero_point * weights.sum(axis=1)
    scales = (x.scale, node.input(_FEATURE).scales[0], state.scales[0])
    zero_point, values = state.zero_points[0], (read.lo, read.hi)
    fields = weight_fields(weights, bias)
    label = f"{node.label} features"
    reached = _step(weights, bias, values, scales, 0, bounds)
    ends = [
        reached.apply(np.array([[[end]] for end in row])) for row in _reach(weights, bias, values)
    ]
    lo, hi = int(np.min(ends)) + zero_point, int(np.max(ends)) + zero_point
    if bounds[0] <= lo and hi <= bounds[1]:
        step = _step(weights, bias, values, scales, zero_point, bounds)
        return network.hidden(ops.Linear, label, (name,), requants=(step,), **fields)
    network.notes.append(
        f"{node.label}: {state.label} has the zero point {zero_point}, and its values can saturate:"
        " this is the arithmetic of versions of TensorFlow Lite Micro that add it behind the clip,"
        " where the sum wraps; later ones add it before"
    )
    name = network.hidden(ops.Linear, label, (name,), requants=(reached,), **fields)
    wrapped = (np.arange(256) + zero_point).astype(np.uint8).astype(np.int8)  # by stored byte
    return network.hidden(ops.Lut, f"{node.label} zero point", (name,), table=Array(wrapped))


def _remembered(node: Node, row: str, shape: tuple[int, int, int], bounds: tuple[int, int]) -> str:
    """Return the values of the last inferences and this one, and keep all but the oldest."""
    state, network = node.input(_STATE), node.network
    old = network.kept(state, shape, bounds)
    seen = network.hidden(ops.Concat, f"{node.label} memory", (old, row), axis=1)
    new = network.hidden(ops.Slice, f"{node.label} state", (seen,), begin=(0, 1, 0), size=shape)
    initial = Array(np.full(shape, state.zero_points[0]))
    network.variables.own.append(State(node.label, old, new, initial))
    return seen


def _step(
    rows: Integers,
    bias: Integers,
    values: tuple[int, int],
    scales: tuple[float, float, float],
    zero_point: int,
    bounds: tuple[int, int],
) -> Requant:
    """Return the step after sums of ``rows``; scales: of both factors and of the result."""
    first, second, result = scales
    lows, highs = _reach(rows, bias, values)
    return rescaling(
        [quantize_multiplier(first * second / result)],
        list(zip(lows.tolist(), highs.tolist(), strict=True)),
        zero_point,
        bounds,
    )


def _reach(rows: Integers, bias: Integers, values: tuple[int, int]) -> tuple[Integers, Integers]:
    """Return the least and the largest sum of each row, with its bias."""
    lo, hi = values
    positive, negative = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    return positive * lo + negative * hi + bias, positive * hi + negative * lo + bias


def _types(node: Node) -> bool:
    feature, time, state = (node.input(n) for n in (_FEATURE, _TIME, _STATE))
    kinds = (node.input().type, feature.type, node.output().type)
    return set(kinds) == {"INT8"} and state.type == time.type and state.type in _BOUNDS


def _shapes(node: Node) -> bool:
    feature, time, state = (node.input(n) for n in (_FEATURE, _TIME, _STATE))
    rank = node.option("Rank")
    if len(feature.shape) != 2 or len(time.shape) != 2 or rank < 1:
        return False
    filters, memory = time.shape
    units = filters // rank
    return (
        min(filters, memory) >= 1
        and units * rank == filters
        and feature.shape == (filters, node.input().elements)
        and state.elements == filters * memory
        and node.output().elements == units
    )


def _quantised(node: Node) -> bool:
    tensors = [node.input(n) for n in (_FEATURE, _TIME, _STATE)]
    symmetric = tensors if tensors[2].type == "INT16" else tensors[:2]
    lo, hi = _BOUNDS[tensors[2].type]
    if not all(lo <= zero <= hi for zero in tensors[2].zero_points):
        return False
    return all(len(t.scales) == 1 and t.scales[0] > 0 for t in tensors) and not any(
        t.zero_points[0] for t in symmetric
    )


OPERATORS = (
    Operator(
        "SVDF",
        "Linear, Concat, Slice, Conv and state",
        _svdf,
        (
            Constraint(
                "input, output and weights_feature are INT8, weights_time and the state both INT8"
                " or INT16",
                _types,
                "convert the network with full integer quantisation",
            ),
            constant(_FEATURE, "weights_feature"),
            constant(_TIME, "weights_time"),
            Constraint("the state is a variable tensor", lambda node: node.input(_STATE).variable),
            Constraint("shapes belong to a batch of 1 and the rank", _shapes),
            Constraint(
                "weights and state have one scale, weights and a state of INT16 the zero point 0",
                _quantised,
            ),
        ),
    ),
)
