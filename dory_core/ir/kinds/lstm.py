"""Long short-term memory: a layer that goes through the rows of its input one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, Bounds, dot_products, one
from dory_core.ir.fixed_point import sigmoid, tanh
from dory_core.ir.kinds.fields import WIDE_BITS, Steps, as_text, number
from dory_core.ir.kinds.operator import Axes, Operator, Places, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import Requant, requant
from dory_core.ir.tensor import Shape, Tensor

#: What the steps of an Lstm follow: the sums over the input for the gates in the order of the
#: weights, those over the hidden state, then the four values of a cell.
LSTM_STEPS = ("xi", "xf", "xg", "xo", "hi", "hf", "hg", "ho", "kept", "added", "argument", "hidden")

_WORD = (-(1 << 15), (1 << 15) - 1)
_BYTE = (-128, 127)
_PRODUCT = 1 << 30  # of two values in Q0.15, or of one and a cell
_FINENESS = 3  # arguments of functions are three times as fine as gates: 2^-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Lstm(Operator):
    """Long short-term memory over the rows of the input, in the integers of TensorFlow Lite.

    Inputs: x of shape (F, T, 1) and the state of shape (S, 3, 1), output of shape (S, T + 2, 1).
    The state's rows are the hidden state, and the low and the high byte of the cell: 256 * high +
    (low & 255). The first T rows of the output are the hidden state after each row of x, the last
    three are the state for the next inference. With a hidden state of 16 bits the cell is one row:
    the state has the shape (S, 2, 1), the output (S, T + 1, 1).

    Per row, with S-vectors and ``step_NAME`` the steps of ``LSTM_STEPS``: gate k is step_xk(weights
    of x @ x + bias) + step_hk(weights of h @ h + bias), clipped to 16 bits; then
    cell = step_kept(sigmoid(f) * cell) + step_added(sigmoid(i) * tanh(g)), clipped to 16 bits and
    to [-clip, clip] unless clip is 0; then h = step_hidden(tanh(step_argument(cell)) * sigmoid(o)).
    Arguments of tanh are those of :func:`dory_core.ir.fixed_point.tanh`; the gate's is three times
    the gate. Source: tflite-micro, kernels/lstm_eval.h.

    Attributes:
        weights: Shape (4, S, F + S), gates in the order input, forget, cell, output.
        bias: Shape (2, 4, S), of the sums over x and of those over h.
        gates: Twelve steps.
        table: Shape (256,), the sigmoid of n / 24 in Q0.16.
        clip: Largest magnitude of a cell, 0 for none.
        state_bits: Of the hidden state, 8 or 16. With 16 bits sums may leave 32 bits.
    """

    weights: Array
    bias: Array
    gates: tuple[Requant, ...] = field(metadata=as_text(Steps(LSTM_STEPS)))
    table: Array
    clip: int = 0
    state_bits: int = field(default=8, metadata=as_text(number("state")))

    samples: ClassVar[tuple[str, ...]] = ("lstm", "lstm_of_words")

    @property
    def sum_bits(self) -> int:
        return 32 if self.state_bits == 8 else WIDE_BITS

    @property
    def cell_rows(self) -> int:
        """The number of rows of the cell."""
        return 2 if self.state_bits == 8 else 1

    @property
    def bounds(self) -> tuple[int, int]:
        """Bounds of the hidden state."""
        return _BYTE if self.state_bits == 8 else _WORD

    @property
    def steps(self) -> tuple[Requant, ...]:
        return (*self.gates, *self.requants)

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return self.weights.values.size + self.bias.values.size

    @property
    def operands(self) -> int | None:
        return 2

    def output_shape(self, sources: Tensors) -> Shape:
        source, state = sources
        units, features = state.channels, source.channels
        if self.state_bits not in (8, 16):
            raise self.refused(f"a hidden state of {self.state_bits} bits")
        if source.width != 1 or state.shape != (units, 1 + self.cell_rows, 1):
            raise self.refused(f"an input of {source.shape} and a state of {state.shape}")
        found = self.weights.shape, self.bias.shape, self.table.shape, len(self.gates)
        expected = (4, units, features + units), (2, 4, units), (256,), len(LSTM_STEPS)
        if found != expected:
            raise self.refused(
                f"weights, biases, table and steps are {found}, expected {expected} for {features}"
                f" features and {units} units"
            )
        return units, source.height + self.cell_rows, 1

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        source, state = sources
        table, features = self.table.values.astype(np.int64), source.channels
        if table[0] != 1 << 15 or table[-1] >= 1 << 16 or (np.diff(table) < 0).any():
            raise self.refused("its table does not rise from 1/2 to below 1")
        if self.requants or not 0 <= self.clip <= _WORD[1]:
            raise self.refused(f"a step behind it, or a clip of {self.clip}")
        if not (self.bounds[0] <= state.lo and state.hi <= self.bounds[1]):
            raise self.refused(f"its state is {state.type_name}, possible is i{self.state_bits}")
        reached = []
        for position, step in enumerate(self.gates[:8]):
            side, gate = divmod(position, 4)
            columns = slice(features, None) if side else slice(None, features)
            lo, hi = (state.lo, state.hi) if side else (source.lo, source.hi)
            rows = self.weights.values[gate, :, columns]
            bias = self.bias.values[side, gate].astype(np.int64)
            low, high = dot_products(rows, min(lo, 0), max(hi, 0))
            self._check_range(_WORD, apply(step, low + bias, high + bias))
            reached += [low, high, low + bias, high + bias]
        product = one(-_PRODUCT), one(_PRODUCT)
        kept, added, argument, hidden = self.gates[8:]
        for step in (kept, added):
            self._check_range(_WORD, apply(step, *product))
        apply(argument, one(_WORD[0]), one(_WORD[1]))
        self._check_range(self.bounds, apply(hidden, *product))
        least, most = self.bounds
        return Accumulator.of(one(least), one(most), *reached, *product)

    def _check_range(self, most: tuple[int, int], found: tuple[Bounds, Bounds]) -> None:
        lo, hi = int(found[0].min()), int(found[1].max())
        if lo < most[0] or most[1] < hi:
            raise self.refused(f"a step gives [{lo}, {hi}], beyond {list(most)}")

    def compute(self, inputs: Sequence[Values]) -> Values:
        x, state = inputs
        steps = dict(zip(LSTM_STEPS, self.gates, strict=True))
        table, bias = self.table.values.astype(np.int64), self.bias.values.astype(np.int64)
        weights = self.weights.values.astype(np.int64)
        features = x.shape[0]

        def step(name: str, values: Values) -> Values:
            return steps[name].apply(values.reshape(-1, 1, 1)).reshape(-1)

        hidden, cell = state[:, 0, 0], state[:, 1, 0]
        if self.state_bits == 8:
            cell = (state[:, 2, 0] << 8) + (cell & 255)
        rows = []
        for row in x[:, :, 0].T:
            gates = []
            for at, gate in enumerate("ifgo"):
                of_x, of_h = weights[at, :, :features], weights[at, :, features:]
                first = step(f"x{gate}", of_x @ row + bias[0, at])
                second = step(f"h{gate}", of_h @ hidden + bias[1, at])
                value = _FINENESS * np.clip(first + second, *_WORD)
                gates.append(tanh(value, table) if gate == "g" else sigmoid(value, table))
            taken, kept, candidate, shown = gates
            cell = step("kept", kept * cell) + step("added", taken * candidate)
            cell = np.clip(cell, *_WORD)
            if self.clip:
                cell = np.clip(cell, -self.clip, self.clip)
            hidden = step("hidden", tanh(step("argument", cell), table) * shown)
            rows.append(hidden)
        kept_rows = [cell]
        if self.state_bits == 8:
            kept_rows = [((cell & 255) ^ 128) - 128, cell >> 8]
        return np.asarray(np.stack([*rows, *kept_rows], axis=1)[:, :, None], dtype=np.int64)

    def macs(self, sources: Tensors, output: Tensor) -> int:
        return sources[0].height * int(self.weights.values.size)

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Every row needs all rows before it."""
        return ((0, source.shape[axis + 1] - 1),) * output.shape[axis + 1]

    def whole_axes(self, operand: int, source: Tensor, output: Tensor) -> Axes:
        """Return that a tile takes all of the state."""
        return (True, True, True) if operand else (False, False, False)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        features, rows, units = (draw.integer(1, 9) for _ in range(3))
        lo, hi = draw.pick(*draw.space.inputs)
        reach = max(abs(lo), abs(hi))
        weights = draw.numbers.integers(-128, 128, (4, units, features + units))
        sums = (draw.integer(8, 16) - reach.bit_length(), draw.integer(1, 8))
        half, wide = 1 << 15, name == "lstm_of_words"
        least, most = _WORD if wide else _BYTE
        coarse = (16, 16 << 8 if wide else 16)
        table = np.minimum(np.rint(65536 / (1 + np.exp(-np.arange(256) / 24))), 65535)
        hidden = 1 << draw.integer(22, 24)
        steps = (
            *(
                requant(1 << max(size, 0), 77, div, *_WORD)
                for size, div in zip(sums, coarse, strict=True)
                for _ in range(4)
            ),
            requant(1, half // 2, half, *_WORD),
            requant(draw.integer(1, 3), half // 2, half, *_WORD, add_negative=half // 2 - 1),
            requant(3, draw.integer(0, 3), draw.pick(1, 4)),
            requant(256 if wide else 1, hidden * draw.integer(-90, 90), hidden, least, most),
        )
        fields = {
            "weights": Array(weights),
            "bias": Array(draw.numbers.integers(-9000, 9000, (2, 4, units))),
            "gates": steps,
            "table": Array(table.astype(np.int64)),
            "clip": draw.pick(0, draw.integer(1, 32767)),
            "state_bits": 16 if wide else 8,
        }
        return Sample(fields, ((features, rows, 1, lo, hi), (units, 3 - wide, 1, least, most)))
