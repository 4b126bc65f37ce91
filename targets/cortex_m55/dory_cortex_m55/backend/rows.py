"""Rows of weights by columns of inputs: what convolutions, linear layers and matrices share."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from dory_core.api import (
    Argument,
    Layer,
    Number,
    Operand,
    Rejection,
    Tile,
    WeightBlock,
    ceil_div,
)
from dory_cortex_m55 import calibration as costs
from dory_cortex_m55.backend.base import (
    VectorKernel,
    bytes_of,
    flip_of,
    lift_of,
    places_of,
    reject_elements,
    reject_lifted,
    whole,
)
from dory_cortex_m55.backend.requant import are_sums, form_of, reject_form

EIGHT = 8
VECTOR = 16
# Vectors of a column that stay in registers (dory_cortex_m55_dot.h).
_HELD = 6
# Vectors of a column, and of all rows together, that are few: rows stay there instead.
_MOST_OF_FEW, _FEW = 3, 48
# Pixels that are computed together at most: whose columns are laid in scratch, and others.
_MOST_LAID, _MOST = 32, 64
# Channels whose sums wait for their requantisation (DORY_CORTEX_M55_ROWS), and bytes of sums.
ROWS_OF_SUMS = 128
SUMS_BYTES = 4096
# Bytes after columns that a load or a store may touch (dory_cortex_m55_dot.h).
OVERRUN = 32
COLUMNS = Operand("scratch", offset=SUMS_BYTES)


class RowsKernel(VectorKernel):
    """Rows of weights by columns of inputs, two columns and two rows at a time."""

    file = "conv"
    more = ("finish.c", "finish.h", "dot.h", "runs.h")

    def reject(self, layer: Layer) -> Rejection | None:
        """Return why types, weights or requantisation are not possible."""
        x, y = layer.inputs[0], layer.output
        wrong = reject_elements(x, "input") or reject_lifted(layer)
        if x.bits == 16 and lift_of(layer):
            return Rejection("its weights are no bytes with a sign, and inputs have 16 bits")
        if not are_sums(layer):
            wrong = wrong or reject_elements(y, "output")
        return wrong or reject_form(layer, tables=True)

    def rows(self, layer: Layer) -> npt.NDArray[np.int64]:
        """Return the weights, a row for each output channel; a kernel without weights has none."""
        raise NotImplementedError

    def channels(self, layer: Layer) -> int:
        """Return the channels whose sums are over the same columns."""
        return layer.output.channels

    def places(self, c_out: tuple[int, int], layer: Layer) -> npt.NDArray[np.intp]:
        """Return the channel at each place of parameters and weights, -1 for none."""
        return places_of(c_out)

    def lift(self, layer: Layer) -> int:
        """Return the difference of weights and the bytes that are multiplied."""
        return lift_of(layer)

    def is_lifted(self, layer: Layer) -> bool:
        """Return True when sums get something in addition."""
        return bool(self.lift(layer))

    @abstractmethod
    def is_direct(self, layer: Layer) -> bool:
        """Return True when columns are read where they lie."""

    @abstractmethod
    def length(self, layer: Layer) -> int:
        """Return the elements of a column."""

    def pitch(self, layer: Layer) -> int:
        """Return the bytes of a row of weights, in whole vectors of inputs."""
        return int(whole(self.length(layer), _lanes(layer)))

    def vectors(self, layer: Layer) -> int:
        """Return the vectors of a column."""
        return self.pitch(layer) // _lanes(layer)

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        """Parameters of channels in eights, their rows, a table."""
        form, rows = form_of(layer), whole(tile.c_out, EIGHT)
        return rows * (form.channel_bytes + self.pitch(layer)) + form.table_bytes

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        """Return parameters, rows of weights and a table."""
        form, rows, places = form_of(layer), self.rows(layer), self.places(c_out, layer)
        if are_sums(layer):
            channels = np.arange(c_out[0], c_out[0] + len(places))
            places = np.where(channels < c_out[1], channels, -1)
        parameters = form.parameters(places)
        pitch = self.pitch(layer)
        filled = np.zeros((len(places), pitch), np.int8)
        stored = rows[places] - lift_of(layer)
        filled[:, : rows.shape[1]] = np.where(places[:, None] < 0, 0, stored)
        data = filled.reshape(-1, 2, self.vectors(layer), _lanes(layer))
        if self.vectors(layer) > _HELD:
            data = data.swapaxes(1, 2)
        parts = {"mul": 0, "weights": len(parameters)}
        block = parameters + data.tobytes()
        if form.table is not None:
            parts["add"] = len(block)
            block += (form.table & 0xFF).astype(np.uint8).tobytes()
        return WeightBlock(block, parts)

    def pixels(self, layer: Layer) -> int:
        """Return how many pixels are computed together: an even number, as the sums have room."""
        rows = min(int(whole(self.channels(layer), EIGHT)), ROWS_OF_SUMS)
        most = _MOST if self.is_direct(layer) else _MOST_LAID
        return min(SUMS_BYTES // (4 * rows), most) // 2 * 2

    @abstractmethod
    def columns_bytes(self, layer: Layer) -> int:
        """Return the bytes of the columns of pixels that are computed together."""

    def members(self, layer: Layer) -> dict[str, Argument]:
        """Return the members of the struct that all layers have."""
        form, length = form_of(layer), self.length(layer)
        return {
            "x": Operand("x"),
            "y": Operand("y"),
            "weights": Operand("weights", "const int8_t *"),
            "sums": Operand("scratch", "int32_t *"),
            "more": None,
            "lift": self.lift(layer),
            "x_bytes": bytes_of(layer.inputs[0]),
            "y_bytes": bytes_of(layer.output),
            "length": length,
            "pitch": self.pitch(layer),
            "pixels": self.pixels(layer),
            "flip": flip_of(layer.inputs[0]),
            "requant": form.struct(),
        }

    def products_cycles(
        self, layer: Layer, channels: Number, lines: Number, length: Number
    ) -> Number:
        """Return the cycles of all sums of lines of outputs, and their requantisation."""
        most, pixels = self.pixels(layer), lines * length
        vectors = self.vectors(layer)
        eights = ceil_div(channels, EIGHT)
        groups = lines * ceil_div(length, most) * ceil_div(channels, ROWS_OF_SUMS)
        finish = form_of(layer).finish_cycles(eights, pixels, groups)
        if self.is_lifted(layer):
            lift = costs.LIFT + vectors * costs.LIFT_VECTOR + eights * costs.LIFT_EIGHT
            finish += pixels * lift
        rows = min(int(whole(self.channels(layer), EIGHT)), ROWS_OF_SUMS)
        if vectors <= _MOST_OF_FEW and rows * vectors <= _FEW:
            each, count = (costs.FOUR_OF_1, 2) if vectors == 1 else (costs.TWO_OF[vectors], 4)
            few = eights * count * (groups * costs.FEW + pixels * each)
            return groups * costs.GROUP + few + finish
        if vectors <= _HELD:
            pixel = costs.HELD + vectors * costs.HELD_LOAD
            eight = 4 * (costs.HELD_TWO + 2 * vectors * costs.PRODUCT)
            return groups * costs.GROUP + pixels * (pixel + eights * eight) + finish
        pair = 4 * (costs.BLOCK + vectors * costs.BLOCK_ROUND)
        one = 4 * (costs.BLOCK + vectors * costs.ONE_ROUND)
        pairs, rest = lines * (length // 2), lines * (length % 2)
        return groups * costs.GROUP + eights * (pairs * pair + rest * one) + finish


def _lanes(layer: Layer) -> int:
    """Return how many inputs a vector has."""
    return VECTOR // bytes_of(layer.inputs[0])
