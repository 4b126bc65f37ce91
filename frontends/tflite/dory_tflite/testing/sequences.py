"""Files with layers that go through a sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

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
    changes: Mapping[int, Change] | None = None,
    seed: int = 0,
) -> bytes:
    """Return a file with UNIDIRECTIONAL_SEQUENCE_LSTM, several in sequence.

    Args:
        features: Features of each of the ``rows`` of the network's input.
        gain: Spread of the gates.
        power: The cell's scale is 2^power.
        hidden, zero: Scale and zero point of the hidden state.
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
    x = b.input(shape(features), scale, int(random.integers(-128, 128)))
    for layer in range(layers):
        of_x = [weights(units if layer else features) for _ in range(4)]
        of_h = [weights(units) for _ in range(4)]
        biases = [
            b.constant(random.integers(-3000, 3000, units).astype(np.int32), (scale * 0.01,))
            for _ in range(4)
        ]
        state = [
            b.variable((1, units), hidden, zero),
            b.variable((1, units), 2.0**power, 0, "INT16"),
        ]
        inputs = [x, *of_x, *of_h, *[-1] * 3, *biases, *[-1] * 2, *state, *[-1] * 4]
        for number, change in ({} if layer else changes or {}).items():
            inputs[number] = change if isinstance(change, int) else change(b)
        x = b.tensor(shape(units), hidden, zero)
        options = {"FusedActivationFunction": activation, "CellClip": clip, "TimeMajor": time_major}
        b.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, (x,), **options)
    return b.build((x,))
