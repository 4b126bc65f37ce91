"""Layers that go through the rows of their input one after the other: what an Lstm computes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dory_core.ir.ops import LSTM_STEPS, Lstm

Values = npt.NDArray[np.int64]

WORD = (-(1 << 15), (1 << 15) - 1)
#: What arguments of ``sigmoid`` and ``tanh`` are three times as fine as: 2^-12.
FINENESS = 3


def sigmoid(argument: Values, table: Values) -> Values:
    """Return the sigmoid in Q0.15 of arguments in units of 2^-12 / 3.

    table: sigmoid of n / 24 in Q0.16, between whose entries lie straight lines. Source:
    tflite-micro, reference/integer_ops/logistic.h.
    """
    place = np.abs(argument)
    whole = np.minimum(place >> 9, 254)
    lower, upper = table[whole], table[whole + 1]
    between = (lower << 9) + (place & 511) * (upper - lower)
    found = np.where(place >> 9 >= 255, 32767 << 10, between)
    return np.asarray(np.where(argument >= 0, found + 512, (1 << 25) - found + 511) >> 10)


def tanh(argument: Values, table: Values) -> Values:
    """Return the hyperbolic tangent in Q0.15 of arguments in units of 2^-12 / 3.

    table: that of :func:`sigmoid`. Source: tflite-micro, reference/integer_ops/tanh.h.
    """
    place = np.abs(argument)
    whole = np.minimum(place >> 8, 254)
    lower, upper = table[whole], table[whole + 1]
    between = (lower << 8) + (place & 255) * (upper - lower)
    found = np.where(place >> 8 >= 255, 65535 << 8, between) - (1 << 23)
    return np.asarray(np.where(argument >= 0, found + 128, 127 - found) >> 8)


def lstm(layer: Lstm, x: Values, state: Values) -> Values:
    """Return the output, shape (S, T + 2, 1), of inputs of shapes (F, T, 1) and (S, 3, 1)."""
    steps = dict(zip(LSTM_STEPS, layer.gates, strict=True))
    table, bias = layer.table.values.astype(np.int64), layer.bias.values.astype(np.int64)
    weights = layer.weights.values.astype(np.int64)
    features = x.shape[0]

    def step(name: str, values: Values) -> Values:
        return steps[name].apply(values.reshape(-1, 1, 1)).reshape(-1)

    hidden, cell = state[:, 0, 0], (state[:, 2, 0] << 8) + (state[:, 1, 0] & 255)
    rows = []
    for row in x[:, :, 0].T:
        gates = []
        for number, gate in enumerate("ifgo"):
            of_x, of_h = weights[number, :, :features], weights[number, :, features:]
            first = step(f"x{gate}", of_x @ row + bias[0, number])
            second = step(f"h{gate}", of_h @ hidden + bias[1, number])
            value = FINENESS * np.clip(first + second, *WORD)
            gates.append(tanh(value, table) if gate == "g" else sigmoid(value, table))
        taken, kept, candidate, shown = gates
        cell = step("kept", kept * cell) + step("added", taken * candidate)
        cell = np.clip(cell, *WORD)
        if layer.clip:
            cell = np.clip(cell, -layer.clip, layer.clip)
        hidden = step("hidden", tanh(step("argument", cell), table) * shown)
        rows.append(hidden)
    low = ((cell & 255) ^ 128) - 128
    return np.asarray(np.stack([*rows, low, cell >> 8], axis=1)[:, :, None], dtype=np.int64)
