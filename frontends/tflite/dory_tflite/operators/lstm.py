"""UNIDIRECTIONAL_SEQUENCE_LSTM: one layer that goes through a sequence, and state.

The interpreter keeps the hidden state and the cell in variable tensors: a sequence begins where the
inference before has ended. The layer's last rows are that state. Sources: tflite-micro,
``micro/kernels/lstm_eval.h`` and ``lstm_eval_common.cc``.
"""

from __future__ import annotations

import math

import numpy as np

from dory_core.api import Requant, ops
from dory_core.importing import Array, State, requant
from dory_tflite.fixed_point import (
    INT32_MAX,
    FactorError,
    Integers,
    quantize_multiplier,
    wide_form,
)
from dory_tflite.node import Constraint, Node, Operator
from dory_tflite.operators.sums import MOST_WIDE, with_bias
from dory_tflite.requantisation import rescaling

_X = 0
_OF_X = (1, 2, 3, 4)  # weights of the gates input, forget, cell and output
_OF_H = (5, 6, 7, 8)
_PEEPHOLES, _PROJECTION, _NORMS = (9, 10, 11), (16, 17), (20, 21, 22, 23)
_BIASES = (12, 13, 14, 15)
_HIDDEN, _CELL = 18, 19
_INPUTS = 24

_WORD, _BYTE = (-(1 << 15), (1 << 15) - 1), (-128, 127)
_GATE_SCALE, _UNIT = 2.0**-12, 2.0**-15  # of gates before and after their functions
_PRODUCT = 1 << 30
_HIDDEN_BOUNDS = {8: _BYTE, 16: _WORD}
_BIAS_TYPES = {"INT8": "INT32", "INT16": "INT64"}
_WAY_OUT = "build the layer as keras.layers.LSTM does, or export it unrolled (unroll=True)"
# With cells of 2^2 the argument of the hyperbolic tangent still fits 32 bits.
_LEAST_POWER, _MOST_POWER = -30, 2

#: Entries of the interpreter's table that are one higher than the rounded sigmoid of n / 24.
_HIGHER = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40),
    *(41, 43, 44, 45, 46, 49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)


def sigmoid_table() -> Integers:
    """Return the sigmoid of n / 24 in Q0.16 as the interpreter has it, shape (256,).

    Source: ``sigmoid_table_uint16`` in ``kernels/internal/common.h``.
    """
    table = np.rint(65536 / (1 + np.exp(-np.arange(256) / 24))).astype(np.int64)
    table[list(_HIGHER)] += 1
    return table


def _lstm(node: Node) -> None:
    network, source, hidden = node.network, node.input(_X), node.input(_HIDDEN)
    units, features = node.constant(_OF_X[0]).shape
    rows = source.elements // features
    bits = node.quantisation(source).bits
    kept = (units, 3, 1) if bits == 8 else (units, 2, 1)  # a cell of 16 bits is one row, or two
    name = network.reshaped(source, (features, rows, 1))
    state = network.kept(hidden, kept, _HIDDEN_BOUNDS[bits])
    read = network.tensors[name]
    of_x, of_h = (
        np.stack([node.constant(n) for n in numbers]).astype(np.int64) for numbers in (_OF_X, _OF_H)
    )
    zero_x, zero_h = node.quantisation(source).zero_point, hidden.zero_points[0]
    biases = np.stack([node.constant(n) for n in _BIASES]).astype(np.int64)
    bias = np.stack([biases - zero_x * of_x.sum(axis=2), -zero_h * of_h.sum(axis=2)])
    sums = (
        *_sums(node, _X, _OF_X, of_x, bias[0], (read.lo, read.hi)),
        *_sums(node, _HIDDEN, _OF_H, of_h, bias[1], _HIDDEN_BOUNDS[bits]),
    )
    if bits == 16 and np.abs(bias).max() > INT32_MAX:
        sums = tuple(
            with_bias(step, own) for step, own in zip(sums, bias.reshape(8, -1), strict=True)
        )
        bias = np.zeros_like(bias)
    output = network.hidden(
        ops.Lstm,
        f"{node.label} sequence",
        (name, state),
        weights=Array(np.concatenate([of_x, of_h], axis=2)),
        bias=Array(bias),
        gates=(*sums, *_cell_steps(node)),
        table=Array(sigmoid_table()),
        clip=_clip(node),
        state_bits=bits,
    )
    node.emit(ops.Slice, node.output(), output, begin=(0, 0, 0), size=(units, rows, 1))
    left = network.hidden(
        ops.Slice, f"{node.label} state", (output,), begin=(0, rows - 1, 0), size=kept
    )
    initial = np.zeros(kept, np.int64)
    initial[:, 0] = zero_h
    network.variables.own.append(State(node.label, state, left, Array(initial)))


def _sums(
    node: Node,
    operand: int,
    numbers: tuple[int, ...],
    weights: Integers,
    bias: Integers,
    values: tuple[int, int],
) -> tuple[Requant, ...]:
    """Return the steps after the sums of an operand for each gate."""
    lo, hi = values
    positive, negative = np.maximum(weights, 0).sum(axis=2), np.minimum(weights, 0).sum(axis=2)
    lows, highs = positive * lo + negative * hi + bias, positive * hi + negative * lo + bias
    step_of = _step if node.output().type == "INT8" else _wide_step
    steps = []
    for gate, number in enumerate(numbers):
        product = node.input(operand).scales[0] * node.input(number).scales[0]
        reach = int(lows[gate].min()), int(highs[gate].max())
        steps.append(step_of(product / _GATE_SCALE, reach, 0, _WORD))
    return tuple(steps)


def _cell_steps(node: Node) -> tuple[Requant, ...]:
    """Return the steps of the cell: what is kept, added, seen through tanh, and shown."""
    cell, hidden = node.input(_CELL).scales[0], node.input(_HIDDEN)
    products, bounds = (-_PRODUCT, _PRODUCT), node.quantisation(node.output()).bounds
    return (
        _step(_UNIT * cell / cell, products, 0, _WORD),
        _step(_UNIT * _UNIT / cell, products, 0, _WORD),
        _argument(_power(cell)),
        _step(_UNIT * _UNIT / hidden.scales[0], products, hidden.zero_points[0], bounds),
    )


def _argument(power: int) -> Requant:
    """Return three times the cell in units of 2^-12."""
    shift = power + 12
    if shift >= 0:
        return requant(3 << shift)
    return requant(3, 1 << (-shift - 1), 1 << -shift)


def _step(
    factor: float, reach: tuple[int, int], zero_point: int, bounds: tuple[int, int]
) -> Requant:
    multiplier = quantize_multiplier(factor)
    if max(abs(end) for end in reach) << multiplier.left_shift > INT32_MAX + 1:
        raise FactorError("its scales differ so much that the interpreter's product wraps")
    return rescaling([multiplier], [reach], zero_point, bounds)


def _wide_step(
    factor: float, reach: tuple[int, int], zero_point: int, bounds: tuple[int, int]
) -> Requant:
    """Return the step after a sum of 64 bits."""
    multiplier = quantize_multiplier(factor)
    form, largest = wide_form(multiplier), max(-reach[0], reach[1])
    if largest >= MOST_WIDE or form.at(largest) > INT32_MAX:
        raise FactorError("its scales bring sums beyond 32 bits")
    return rescaling([multiplier], [reach], zero_point, bounds, form_of=wide_form)


def _power(scale: float) -> int:
    return round(math.log2(scale))


def _clip(node: Node) -> int:
    """Return the bound of the cell, 0 for none; truncated as the interpreter does."""
    clip = float(node.option("CellClip"))
    return int(min(clip / node.input(_CELL).scales[0], _WORD[1])) if clip > 0 else 0


def _types(node: Node) -> bool:
    kind = node.output().type
    expected = dict.fromkeys((*_OF_X, *_OF_H), "INT8") | dict.fromkeys((_X, _HIDDEN), kind)
    expected |= dict.fromkeys(_BIASES, _BIAS_TYPES.get(kind, "")) | {_CELL: "INT16"}
    return all(node.input(n).type == wanted for n, wanted in expected.items())


def _without(numbers: tuple[int, ...], sentence: str) -> Constraint:
    """Inputs of a variant of the layer, which the interpreter does not compute."""
    return Constraint(
        sentence,
        lambda node: not any(node.has(number) for number in numbers),
        _WAY_OUT,
    )


def _complete(node: Node) -> bool:
    needed = (_X, *_OF_X, *_OF_H, *_BIASES, _HIDDEN, _CELL)
    return len(node.op.inputs) == _INPUTS and all(node.has(number) for number in needed)


def _constants(node: Node) -> bool:
    return all(node.input(n).data is not None for n in (*_OF_X, *_OF_H, *_BIASES))


def _variables(node: Node) -> bool:
    own = [node.input(number) for number in (_HIDDEN, _CELL)]
    return all(t.variable and node.readers[t.index] == 1 for t in own)


def _shapes(node: Node) -> bool:
    x, y, weights = node.input(_X), node.output(), node.input(_OF_X[0])
    batch = 1 if node.option("TimeMajor") else 0
    if len(x.shape) != 3 or len(weights.shape) != 2 or min(x.shape) < 1 or x.shape[batch] != 1:
        return False
    units, features = weights.shape
    return (
        units >= 1
        and x.shape[2] == features
        and y.shape == (*x.shape[:2], units)
        and all(node.input(n).shape == (units, features) for n in _OF_X)
        and all(node.input(n).shape == (units, units) for n in _OF_H)
        and all(node.input(n).shape == (units,) for n in _BIASES)
        and all(node.input(n).elements == units for n in (_HIDDEN, _CELL))
    )


def _quantised(node: Node) -> bool:
    symmetric = [node.input(n) for n in (*_OF_X, *_OF_H, _CELL)]
    tensors = (node.input(_X), node.input(_HIDDEN), *symmetric)
    if not all(len(t.scales) == 1 and 0 < t.scales[0] < math.inf for t in tensors):
        return False
    zero, zero_x = (node.input(n).zero_points[0] for n in (_HIDDEN, _X))
    fits = _BYTE[0] <= zero <= _BYTE[1] if node.output().type == "INT8" else zero == zero_x == 0
    return fits and not any(t.zero_points[0] for t in symmetric)


def _cell(node: Node) -> bool:
    scale = node.input(_CELL).scales[0]
    return math.frexp(scale)[0] == 0.5 and _LEAST_POWER <= _power(scale) <= _MOST_POWER


_CONVERT = "convert the network with full integer quantisation"

OPERATORS = (
    Operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "Lstm, Slice and state",
        _lstm,
        (
            _without(_PEEPHOLES, "it has no peephole connections"),
            _without(_PROJECTION, "it has no projection"),
            _without(_NORMS, "it has no layer normalisation"),
            Constraint(
                "it has 24 inputs, among them weights and biases of all four gates",
                _complete,
                _WAY_OUT,
            ),
            Constraint(
                "weights are INT8, the cell INT16; input, output and hidden state are INT8 and"
                " biases INT32, or these are INT16 and INT64",
                _types,
                _CONVERT,
            ),
            Constraint(
                "weights and biases are constants",
                _constants,
                "export the network with fixed shapes and parameters",
            ),
            Constraint(
                "hidden state and cell are variable tensors that it alone reads", _variables
            ),
            Constraint(
                "shapes belong to a batch of 1 and the weights",
                _shapes,
                "export the network with a fixed batch of 1",
            ),
            Constraint(
                "tensors have one scale, weights, the cell and those of INT16 the zero point 0",
                _quantised,
                "convert without per-channel weights of dense layers",
            ),
            Constraint(
                f"the cell's scale is a power of 2, 2^{_LEAST_POWER} to 2^{_MOST_POWER}",
                _cell,
                _CONVERT,
            ),
            Constraint(
                "a clip of the cell is at least one step of its scale",
                lambda node: _clip(node) > 0 or not node.option("CellClip") > 0,
            ),
            Constraint(
                "the activation is TANH",
                lambda node: node.option("FusedActivationFunction") == "TANH",
            ),
        ),
    ),
)
