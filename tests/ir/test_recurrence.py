"""Lstm: what it computes is what reals give, to the quantisation; what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dory_core.errors import NotSupported
from dory_core.ir import Array, Graph, Layer, Lstm, reference, requant
from dory_core.ir.fixed_point import sigmoid, tanh
from dory_core.testing.kernels import alone, typed
from dory_core.testing.kind_cases import KINDS_NETWORKS
from dory_core.testing.random_layers import LayerSpace, RandomLayers

TABLE = np.minimum(np.rint(65536 / (1 + np.exp(-np.arange(256) / 24))), 65535).astype(np.int64)
WORD = (-(1 << 15), (1 << 15) - 1)
FEATURES, ROWS, UNITS = 4, 6, 3
X, STATE = (FEATURES, ROWS, 1, -128, 127), (UNITS, 3, 1, -128, 127)


def layer(**changes: Any) -> Lstm:
    """Inputs and hidden state in 2^-7, weights in 2^-6, cells in 2^-11."""
    random, half = np.random.default_rng(1), 1 << 15
    sums = requant(1, 1, 2, *WORD)  # from 2^-13 to 2^-12
    fields: dict[str, Any] = {
        "weights": Array(random.integers(-90, 91, (4, UNITS, FEATURES + UNITS))),
        "bias": Array(random.integers(-4000, 4001, (2, 4, UNITS))),
        "gates": (
            *(sums for _ in range(8)),
            requant(1, half // 2, half, *WORD),
            requant(1, half * 8, half * 16, *WORD),
            requant(6),
            requant(1, 1 << 22, 1 << 23, -128, 127),
        ),
        "table": Array(TABLE),
    }
    return alone(Lstm, inputs=("input", "state"), **{**fields, **changes})


def of_reals(op: Lstm, x: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hidden states and the last cell of an LSTM in binary64."""
    weights, bias = op.weights.values / 64, op.bias.values.sum(axis=0) / 2**13
    hidden = state[:, 0, 0] / 128
    cell = (256 * state[:, 2, 0] + state[:, 1, 0] % 256) / 2**11
    rows = []
    for row in x[:, :, 0].T / 128:
        taken, kept, candidate, shown = weights @ np.concatenate([row, hidden]) + bias
        share = 1 / (1 + np.exp(-np.stack([taken, kept, shown])))
        cell = np.clip(share[1] * cell + share[0] * np.tanh(candidate), -16, 16)
        if op.clip:
            cell = np.clip(cell, -op.clip / 2**11, op.clip / 2**11)
        hidden = np.clip(share[2] * np.tanh(cell), -1, 127 / 128)
        rows.append(hidden)
    return np.stack(rows, axis=1), cell


@pytest.mark.parametrize("clip", [0, 1500])
def test_it_is_that_of_reals_to_the_quantisation(clip: int) -> None:
    op = layer(clip=clip)
    net, random = typed(op, X, STATE), np.random.default_rng(2)
    for _ in range(20):
        x = random.integers(-128, 128, X[:3])
        state = random.integers(-128, 128, STATE[:3])
        found = reference.run_layer(net, (x, state))
        assert found.shape == (UNITS, ROWS + 2, 1) == net.output.shape
        hidden, cell = of_reals(op, x, state)
        assert np.abs(found[:, :ROWS, 0] / 128 - hidden).max() < 0.03
        bytes_of_cell = 256 * found[:, ROWS + 1, 0] + found[:, ROWS, 0] % 256
        assert np.abs(bytes_of_cell / 2**11 - cell).max() < 0.05
        assert not clip or np.abs(bytes_of_cell).max() <= clip


def test_a_sequence_is_the_sequence_of_its_halves() -> None:
    random = np.random.default_rng(3)
    x, state = random.integers(-128, 128, X[:3]), random.integers(-128, 128, STATE[:3])
    whole = reference.run_layer(typed(layer(), X, STATE), (x, state))
    half = typed(layer(), (FEATURES, ROWS // 2, 1, -128, 127), STATE)
    first = reference.run_layer(half, (x[:, : ROWS // 2], state))
    second = reference.run_layer(half, (x[:, ROWS // 2 :], first[:, -3:]))
    assert np.array_equal(second[:, -3:], whole[:, -3:])


def test_functions_are_those_of_reals() -> None:
    arguments = np.arange(-200_000, 200_001, 7)
    reals = arguments / 3 / 2**12
    assert np.abs(sigmoid(arguments, TABLE) / 2**15 - 1 / (1 + np.exp(-reals))).max() < 2e-4
    assert np.abs(tanh(arguments, TABLE) / 2**15 - np.tanh(reals)).max() < 3e-4


def test_a_tile_takes_both_inputs_whole() -> None:
    net = typed(layer(), X, STATE)
    assert net.places(0) == ((0, ROWS - 1),) * (ROWS + 2)
    assert (net.whole_axes(0), net.whole_axes(1)) == ((False,) * 3, (True,) * 3)
    assert net.macs == ROWS * 4 * UNITS * (FEATURES + UNITS)


def test_values_stay_within_what_is_proven() -> None:
    draw = RandomLayers(LayerSpace(), seed=5)
    for _ in range(20):
        net: Layer = draw.layer("lstm")
        assert net.ranges.acc_lo <= -(1 << 30) and net.ranges.acc_hi >= 1 << 30
        inputs = tuple(draw.numbers.integers(t.lo, t.hi + 1, t.shape) for t in net.inputs)
        found = reference.run_layer(net, inputs)
        assert net.output.lo <= found.min() and found.max() <= net.output.hi


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"weights": Array(np.ones((4, UNITS, 9), np.int8))},
            "weights, biases, table and steps are",
        ),
        ({"gates": layer().gates[1:]}, "weights, biases, table and steps are"),
        ({"table": Array(TABLE[::-1])}, "does not rise"),
        ({"clip": -4}, "a clip of -4"),
        ({"bias": Array(np.full((2, 4, UNITS), (1 << 31) - 9))}, "beyond 32 bits"),
        ({"gates": (requant(100), *layer().gates[1:])}, "a step gives .* beyond"),
        ({"gates": (*layer().gates[:-1], requant(1, 0, 9, 0, 255))}, "a step gives .0, 255."),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotSupported, match=reason):
        typed(layer(**changes), X, STATE)


@pytest.mark.parametrize(
    ("x", "state", "reason"),
    [
        ((FEATURES, ROWS, 2, -128, 127), STATE, "an input of"),
        (X, (UNITS, 2, 1, -128, 127), "a state of"),
        (X, (UNITS, 3, 1, 0, 255), "its state is u8"),
    ],
)
def test_other_inputs_are_refused(x: Any, state: Any, reason: str) -> None:
    with pytest.raises(NotSupported, match=reason):
        typed(layer(), x, state)


def test_state_lives_between_inferences() -> None:
    graph: Graph = dict(KINDS_NETWORKS)["recurrent"]()
    sequence = [reference.random_inputs(graph, n) for n in range(4)]
    kept = [one["layer_02"] for one in reference.run_sequence(graph, [*sequence, sequence[0]])]
    assert not np.array_equal(kept[0], kept[-1]) and len(np.unique(np.stack(kept))) > 5
    again = next(iter(reference.run_sequence(graph, sequence)))
    assert np.array_equal(again["layer_02"], kept[0])
