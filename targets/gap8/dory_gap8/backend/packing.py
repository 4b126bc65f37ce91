"""How inputs and weights of 2, 4 and 8 bits meet in the inner loops: slots, groups, weight words.

A column is the inputs of one output. Inputs of whole bytes stand in it as they lie in memory.
Packed ones are taken apart word by word: the elements ``v`` of the four bytes of a word become
vector ``v``. ``slots`` says which input each place of the column then holds, and rows of weights
are stored in that order. ``dory_gap8_packed.h`` and ``dory_gap8_matmul_impl.h`` are its other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Number, ceil_div, ops

WEIGHT_BITS = (2, 4, 8)


def per_byte(bits: int) -> int:
    """Return how many elements share a byte: 1 for those of whole bytes."""
    return 8 // bits if bits < 8 else 1


def packed_bytes(elements: Number, bits: int) -> Number:
    """Return the bytes of neighbouring elements."""
    return elements * (bits // 8) if bits >= 8 else ceil_div(elements, per_byte(bits))


def weight_bits(kind: ops.Conv | ops.Linear) -> int:
    """Return the storage of the weights: what the layer declares, or more where they need it."""
    low, high = kind.weights.bounds
    for bits in WEIGHT_BITS:
        if bits >= kind.weight_bits and -(1 << bits - 1) <= low and high < 1 << bits - 1:
            return bits
    return 8


@dataclass(frozen=True, slots=True)
class Columns:
    """Form of columns and weight rows of the matrix product.

    x_bits: inputs in memory. w_bits: weights. packed: whether the inner loop takes inputs below 8
    bits apart, rather than whatever fills the column.
    """

    x_bits: int
    w_bits: int
    packed: bool = False

    @property
    def vectors(self) -> int:
        """Vectors of four that make whole words of inputs and weights: a group."""
        return max(per_byte(self.w_bits), per_byte(self.x_bits) if self.packed else 1)

    @property
    def group(self) -> int:
        """Slots of a group."""
        return 4 * self.vectors

    @property
    def slot_bytes(self) -> int:
        """Bytes of an input in a column that was filled."""
        return max(self.x_bits // 8, 1)

    def length(self, taps: Number, channels: Number) -> Number:
        """Return the slots of a column of ``taps`` pixels, in whole groups."""
        slots = taps * channels
        if self.x_bits < 8:
            words = ceil_div(taps * packed_bytes(channels, self.x_bits), 4)
            slots = words * 4 * per_byte(self.x_bits)
        return ceil_div(slots, self.group) * self.group

    def row_bytes(self, taps: Number, channels: Number) -> Number:
        """Return the bytes of a weight row."""
        return self.length(taps, channels) * self.w_bits // 8

    def rows(self, weights: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Encode weights, shape (outputs, taps, channels), as rows of bytes."""
        outputs, taps, channels = weights.shape
        order = slots(taps, channels, self.x_bits)
        row = np.zeros((outputs, int(self.length(taps, channels))), dtype=np.int64)
        flat = weights.reshape(outputs, taps * channels).astype(np.int64)
        used = np.flatnonzero(order >= 0)
        row[:, used] = flat[:, order[used]]
        return weight_words(row, self.w_bits)


@dataclass(frozen=True, slots=True)
class Constants:
    """The weight block of a kernel of bytes: parameters of its channels, then their weights.

    channels: of which it holds whole multiples. parameters, weights: bytes per channel.
    """

    channels: int
    parameters: int
    weights: int


def slots(taps: int, channels: int, bits: int) -> npt.NDArray[np.int64]:
    """Return for each slot of a column the input, tap * channels + channel, or -1 for padding."""
    if bits >= 8:
        return np.arange(taps * channels, dtype=np.int64)
    fields = per_byte(bits)
    pixel = int(packed_bytes(channels, bits))
    places = np.arange(-(-taps * pixel // 4) * 4 * fields)
    word, inside = np.divmod(places, 4 * fields)
    field, lane = np.divmod(inside, 4)
    tap, byte = np.divmod(word * 4 + lane, pixel)
    channel = byte * fields + field
    inputs: npt.NDArray[np.int64] = np.where(
        (tap < taps) & (channel < channels), tap * channels + channel, -1
    )
    return inputs


def weight_words(rows: npt.NDArray[Any], bits: int) -> npt.NDArray[np.uint8]:
    """Pack rows of weights so that field ``v`` of a word is the vector ``v`` of its slots.

    rows: shape (outputs, slots), slots in whole words of weights.
    """
    fields = per_byte(bits)
    vectors = rows.astype(np.int64).reshape(len(rows), -1, fields, 4) & ((1 << bits) - 1)
    shifts = np.arange(fields).reshape(1, 1, fields, 1) * bits
    words: npt.NDArray[np.uint8] = (vectors << shifts).sum(axis=2).astype(np.uint8)
    return words.reshape(len(rows), -1)
