"""Sums of bytes by tables, one for each operand: two entries have the output in their top bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Operand,
    Rejection,
    Requant,
    Tile,
    WeightBlock,
    ops,
    reject_type,
    requantisation,
    size,
)
from dory_stm32h7 import calibration as costs
from dory_stm32h7.backend.instance import BYTES, InstanceKernel, c_type, tile_arguments

_Values = npt.NDArray[np.int64]

_TABLE_BYTES = 2 * 256 * 4
# Elements from which tables are worth their transfer.
_LEAST_ELEMENTS = 512
# Entries of the largest table of outputs.
_MOST_RESULTS = 2048
# Bits of an output's fraction in a table; tables have 32 bits.
_SHIFTS = (20, 18, 16, 14, 12)
_LARGEST = (1 << 30) - 1
# Rounds in which entries move into the bounds that the other table leaves them.
_ROUNDS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """n = (first[x & 255] + second[x2 & 255]) >> shift; y = saturated(n), or results[n].

    first, second: int32, shape (256,). results: int64, at most 2048 of them, or None.
    """

    first: npt.NDArray[np.int32]
    second: npt.NDArray[np.int32]
    shift: int
    results: _Values | None = None

    @property
    def bytes(self) -> int:
        """Bytes of all tables, in whole double words."""
        return _TABLE_BYTES + (0 if self.results is None else -(-len(self.results) // 8) * 8)


class SumTablesKernel(InstanceKernel):
    """Sum of two tensors of bytes of one shape, where tables exist for its requantisations."""

    name = "dory_stm32h7_sums"
    template = "sums"
    summary = "Sum of bytes by a table for each operand"
    features = InstanceKernel.features | {Feature.OTHER_OPERAND}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Tables whose sums have the output of each pair of bytes."""
        kind = layer.op
        if not isinstance(kind, ops.Add) or kind.constant is not None:
            return Rejection("it computes sums of two tensors only")
        x, x2, y = *layer.inputs, layer.output
        if x.shape != x2.shape:
            return Rejection("its second operand is smaller")
        if any(step.is_channelwise for step in kind.steps):
            return Rejection("its requantisation differs from channel to channel")
        if y.elements < _LEAST_ELEMENTS:
            return Rejection(f"tables are too large for {y.elements} elements")
        rejection = (
            reject_type(x, "first operand", BYTES)
            or reject_type(x2, "second operand", BYTES)
            or reject_type(y, "output", BYTES)
        )
        if rejection is None and _tables(layer) is None:
            return Rejection("no tables have sums with exactly its outputs")
        return rejection

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """All tables."""
        return self._found(layer).bytes

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """The tables of the first and of the second operand, and that of results."""
        tables = self._found(layer)
        data = np.concatenate([tables.first, tables.second]).astype("<i4").tobytes()
        if tables.results is not None:
            data += (tables.results & 255).astype(np.uint8).tobytes()
        return WeightBlock(data + bytes(tables.bytes - len(data)), {"weights": 0})

    def tenths(self, layer: Layer, tile: Tile) -> Number:
        """Elements."""
        each = costs.SUMS_ELEMENT if self._found(layer).results is None else costs.SUMS_RESULT
        return costs.CALL + tile.h * tile.w * tile.c_out * each

    def label(self, layer: Layer) -> str:
        """Type of the output, shift and whether results are in a table."""
        tables = self._found(layer)
        form = "" if tables.results is None else "_results"
        return f"{self.name}{form}_{layer.output.type_name}_q{tables.shift}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call for all elements of the tile."""
        arguments = (
            *tile_arguments("x", "x2", "y"),
            ("tables", Operand("weights", "const int32_t *")),
            ("count", size("y_h") * size("y_w") * size("y_c")),
        )
        return self.instance_call(layer, arguments)

    def instance_macros(self, layer: Layer) -> tuple[tuple[str, object], ...]:
        """What instances differ in."""
        macros = (
            ("DORY_Y_T", c_type(layer.output)),
            ("DORY_Y_SIGNED", int(layer.output.signed)),
            ("DORY_SHIFT", self._found(layer).shift),
            ("DORY_RESULTS", int(self._found(layer).results is not None)),
        )
        return macros

    @staticmethod
    def _found(layer: Layer) -> Tables:
        tables = _tables(layer)
        assert tables is not None
        return tables


@requantisation.cached_per_layer
def _tables(layer: Layer) -> Tables | None:
    """Return tables, or None where none were found. All pairs of bytes are checked."""
    kind = layer.of(ops.Add)
    first, second = (
        _operand(step, x.lo, x.hi)
        for step, x in zip(kind.operand_requants, layer.inputs, strict=True)
    )
    sums = first[:, None] + second
    outputs, slope = sums, 1.0
    found: tuple[tuple[_Values, _Values], int] | None
    for step in kind.requants:
        outputs, slope = _applied(step, outputs), slope * _slope(step)
    ends = (-128, 127) if layer.output.signed else (0, 255)
    results = None
    found = _any_shift(first * slope, second * slope, outputs, ends)
    if found is None and len(kind.requants) == 2:
        before, last = kind.requants
        inner, slope = _applied(before, sums), _slope(before)
        lowest, count = int(inner.min()), int(inner.max() - inner.min()) + 1
        if count > _MOST_RESULTS:
            return None
        numbers = np.arange(lowest, lowest + count, dtype=np.int64)
        results = _applied(last, numbers[None])[0]
        found = _any_shift(first * slope, second * slope, inner - lowest, (-1, count))
    if found is None:
        return None
    (a, b), shift = found
    x, x2 = layer.inputs
    return Tables(_by_byte(a, x.lo), _by_byte(b, x2.lo), shift, results)


def _applied(step: Requant, values: _Values) -> _Values:
    return step.apply(values.reshape(1, -1)).reshape(values.shape)


def _slope(step: Requant) -> float:
    return float(step.scales[0]) if step.float32 else step.mul[0] / step.div


def _any_shift(
    first: npt.NDArray[np.float64],
    second: npt.NDArray[np.float64],
    outputs: _Values,
    ends: tuple[int, int],
) -> tuple[tuple[_Values, _Values], int] | None:
    """Return the result of :func:`find_sums` with the first shift that has one, and the shift."""
    for shift in _SHIFTS:
        found = find_sums(first, second, outputs, ends, shift)
        if found is not None:
            return found, shift
    return None


def find_sums(
    first: npt.NDArray[np.float64],
    second: npt.NDArray[np.float64],
    outputs: _Values,
    ends: tuple[int, int],
    shift: int,
) -> tuple[_Values, _Values] | None:
    """Return a, b with clip((a[i] + b[j]) >> shift, *ends) == outputs[i, j] for all i, j, or None.

    first, second: real numbers near a and b without their fraction's bits, except for a constant.
    outputs: shape (len(first), len(second)).
    """
    lowest = np.where(outputs > ends[0], outputs << shift, -_LARGEST)
    highest = np.where(outputs < ends[1], ((outputs + 1) << shift) - 1, _LARGEST)
    a, b = (np.rint(values * (1 << shift)) for values in (first, second))
    if max(np.abs(a).max(), np.abs(b).max()) > _LARGEST:
        return None
    a, b = a.astype(np.int64), b.astype(np.int64)
    for number in range(_ROUNDS):
        # The constant first: the middle of what all pairs leave.
        least, most = lowest - b, highest - b
        if number == 0:
            low, high = int((least - a[:, None]).max()), int((most - a[:, None]).min())
            a = a + (low + high) // 2
        else:
            low_row, high_row = least.max(axis=1), most.min(axis=1)
            a = np.where((a < low_row) | (a > high_row), (low_row + high_row) // 2, a)
            least, most = lowest - a[:, None], highest - a[:, None]
            low_row, high_row = least.max(axis=0), most.min(axis=0)
            b = np.where((b < low_row) | (b > high_row), (low_row + high_row) // 2, b)
        if max(np.abs(a).max(), np.abs(b).max()) > _LARGEST:
            return None
        if np.array_equal(np.clip((a[:, None] + b) >> shift, *ends), outputs):
            return a, b
    return None


def _operand(step: Requant | None, lo: int, hi: int) -> _Values:
    values = np.arange(lo, hi + 1, dtype=np.int64)
    return values if step is None else step.apply(values[None])[0]


def _by_byte(values: _Values, lo: int) -> npt.NDArray[np.int32]:
    """Return values of lo, lo + 1, ... by the byte that stores the number; 0 elsewhere."""
    table = np.zeros(256, np.int32)
    table[(lo + np.arange(len(values))) & 255] = values
    return table
