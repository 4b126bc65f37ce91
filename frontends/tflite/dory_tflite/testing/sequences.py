"""Files with layers that go through a sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_tflite.testing.builder import TfliteBuilder

#: What stands in for an input of the operator: a call that adds a tensor, or -1 for none.
Change = Callable[[TfliteBuilder], int] | int


def lstm_network(
    features: int = 5,
    rows: int = 6,
    units: int = 7,
    *,
    layers: int = 1,
    gain: float = 2.0,
    power: int = -11,
    zero: int = 0,
    hidden: float = 2.0**-7,
    clip: float = 0.0,
    time_major: bool = False,
    activation: str = "TANH",
    type: str = "INT8",
    changes: Mapping[int, Change] | None = None,
    seed: int = 0,
) -> bytes:
    """Return a file with UNIDIRECTIONAL_SEQUENCE_LSTM, several in sequence.

    Args:
        features: Features of each of the ``rows`` of the network's input.
        gain: Spread of the gates.
        power: The cell's scale is 2^power.
        hidden, zero: Scale and zero point of the hidden state.
        type: Of input, output and hidden state; those of INT16 have the zero point 0.
        clip: Clip of the cell, 0 for none.
        changes: Other inputs of the first operator, by their number.
    """
    random, b = np.random.default_rng(seed), TfliteBuilder()

    def shape(size: int) -> tuple[int, int, int]:
        return (rows, 1, size) if time_major else (1, rows, size)

    def weights(columns: int) -> int:
        values = random.integers(-127, 128, (units, columns)).astype(np.int8)
        scale = np.float32(gain * random.uniform(0.5, 1.5) / 127 / np.sqrt(columns))
        return b.constant(values, (float(scale),))

    scale = float(np.float32(random.uniform(0.005, 0.05)))
    words = type == "INT16"
    zero_x = int(random.integers(-128, 128))
    if words:
        scale, hidden, zero, zero_x = scale / 256, hidden / 256, 0, 0
    x = b.input(shape(features), scale, zero_x, type)
    for layer in range(layers):
        of_x = [weights(units if layer else features) for _ in range(4)]
        of_h = [weights(units) for _ in range(4)]
        biases = [
            b.constant(_bias(random.integers(-3000, 3000, units), words), (scale * 0.01,))
            for _ in range(4)
        ]
        state = [
            b.variable((1, units), hidden, zero, type),
            b.variable((1, units), 2.0**power, 0, "INT16"),
        ]
        inputs = [x, *of_x, *of_h, *[-1] * 3, *biases, *[-1] * 2, *state, *[-1] * 4]
        for number, change in ({} if layer else changes or {}).items():
            inputs[number] = change if isinstance(change, int) else change(b)
        x = b.tensor(shape(units), hidden, zero, type)
        options = {"FusedActivationFunction": activation, "CellClip": clip, "TimeMajor": time_major}
        b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (x,), **options)
    return b.build((x,))


def _bias(values: npt.NDArray[np.int64], words: bool) -> npt.NDArray[Any]:
    """Return a bias of 32 bits, or of 64 for activations of 16 bits."""
    return values * 256 if words else values.astype(np.int32)
