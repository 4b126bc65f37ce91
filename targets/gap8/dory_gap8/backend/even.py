"""Requantisation in binary32, as onnxruntime rescales: clip(even(f32(f32(x) * S)) + zero).

x is the accumulator with its bias. A product whose fraction is not near a half rounds like any
other: its upper word with a half added says what it becomes. Where that lies within ``ZONE`` above
an integer, the whole product says whether binary32 rounds it to a tie, and ties go to the even
integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Layer, Rejection, Requant, ops, requantisation
from dory_gap8.backend.steps import INT32, fits

# Accumulators of steps in binary32 that are numbers of it; their largest scale and product.
_DIGITS = 1 << 24
_LARGEST_PRODUCT = 1 << 30
_LARGEST_SCALE = 1.0
# Fractions below 2^-ZONE are looked at again. Half of that is added to all products: ties of
# binary32 reach over 2^-17 to either side where outputs are bytes, and an upper word with LEAST
# digits of fraction is wrong by less than 3 * 2^-15.
_ZONE = 11
_LEAST = 14
# Bits of a scale in a word beyond the 24 of binary32, which larger addends may take.
_SPARE = 7
# The shift of a channel with one output, whose multiplier is 0.
_CONSTANT = 22


def reject_even(layer: Layer, step: Requant) -> Rejection | None:
    """Return why a step in binary32 is not possible."""
    ends = (layer.ranges.acc_lo - step.turn, layer.ranges.acc_hi - step.turn)
    if not fits(INT32, layer.ranges.acc_lo, layer.ranges.acc_hi, *ends):
        return Rejection("its accumulator exceeds 32 bits")
    if isinstance(layer.op, ops.Pairwise) or float(step.scales.max()) >= _LARGEST_SCALE:
        return Rejection("a step in binary32 follows sums of products, with a scale below 1")
    if max(map(abs, ends)) * float(step.scales.max()) > _LARGEST_PRODUCT:
        return Rejection("what a step in binary32 makes of its accumulator exceeds 31 bits")
    zero = step.add[0] // step.div
    if step.lo is None or step.hi is None or step.hi - zero > 256 or step.lo - zero < -256:
        return Rejection("a step in binary32 ends in bytes")
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Even:
    """Parameters of a step in binary32.

    records: int64, shape (C, words) or (1, words), as ``dory_gap8_requant_impl.h`` has them. up:
    bits by which accumulators are shifted before the product whose upper word counts; None: the
    roundings of binary32 are made one after the other. wide: accumulators have more digits than
    binary32.
    """

    records: npt.NDArray[np.int64]
    up: int | None = None
    wide: bool = False


def even_form(layer: Layer) -> Even:
    """Return the parameters of a step in binary32 that :func:`reject_even` lets pass."""
    return _upper_word(layer) or _one_after_the_other(layer)


def _scales(step: Requant) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return m and k with S = m / 2^k, m of 24 bits, shape (C,) or (1,)."""
    fractions, exponents = np.frexp(step.scales.astype(np.float64))
    return (fractions * _DIGITS).astype(np.int64), 24 - exponents.astype(np.int64)


def _offsets(layer: Layer) -> npt.NDArray[np.int64]:
    """Return the addend of sums of products before the step: biases, minus its turn."""
    bias = np.zeros(1, np.int64) if layer.bias is None else layer.bias.values.astype(np.int64)
    offsets: npt.NDArray[np.int64] = bias - layer.op.requants[0].turn
    return offsets


def _upper_word(layer: Layer) -> Even | None:
    step, offset = layer.op.requants[0], _offsets(layer)
    _, lo, hi = requantisation.steps_of_sums(layer)
    if len(offset) == len(step.mul) == 1:
        lo, hi = lo.min(keepdims=True), hi.max(keepdims=True)
    return upper_word(step, offset, lo, hi)


def upper_word(
    step: Requant,
    offset: npt.NDArray[np.int64],
    lo: npt.NDArray[np.int64],
    hi: npt.NDArray[np.int64],
) -> Even | None:
    """Return records of mul, add, shift and offset; None where a channel has no such parameters.

    With x << up and mul = m * 2^(7 - drop), the upper word of their product is x * S * 2^shift for
    shift = k + up - 25 - drop. ``drop`` makes room for a zero point larger than the products, as
    a smaller ``up`` does where 7 bits do not suffice.

    Args:
        step: Of sums with their offset, less its turn.
        offset: Added to the sums, shape (C,) or (1,).
        lo: The least sum of products, likewise.
        hi: The largest one.
    """
    zero = step.add[0] // step.div
    scale, k = _scales(step)
    lo, hi, offset, scale, k = np.broadcast_arrays(lo.astype(np.int64), hi, offset, scale, k)
    ends = np.stack([lo + offset, hi + offset])
    first, last = (step.apply(end + step.turn) for end in ends)
    moving = first != last
    if not moving.any():
        return None
    most = np.abs(ends).max(axis=0)
    sums = np.maximum(np.maximum(np.abs(lo), np.abs(hi)), most)
    if most[moving].max() > _DIGITS:
        return None
    up = 31 - int(sums[moving].max()).bit_length()
    room = np.floor(31 - np.log2(most * step.scales.astype(np.float64) + abs(zero) + 2))
    drop = np.where(moving, np.maximum(k + up - 25 - room.astype(np.int64), 0), 0)
    fewer = max(int(drop.max()) - _SPARE, 0)
    up, drop = up - fewer, np.maximum(drop - fewer, 0)
    shift = np.where(moving, k + up - 25 - drop, _CONSTANT)
    if up < 0 or shift.min() < _LEAST:
        return None
    offset = np.where(moving, offset, 0)
    mul = np.where(moving, scale << _SPARE - drop, 0)
    add = (zero << shift) + (1 << shift - 1) + (1 << shift - _ZONE - 1)
    down = np.maximum(25 + drop - up, 1)
    of_offset = ((offset * scale << np.maximum(up - 25 - drop, 0) + 1) + (1 << down)) >> down + 1
    add = np.where(moving, add + of_offset, (first << shift) + (1 << shift - 1))
    return Even(np.stack([mul, add, shift, offset], axis=1), up)


def _one_after_the_other(layer: Layer) -> Even:
    """Return records of offset, mul, shift: factors of 32 bits after at least 32 digits."""
    step, offset = layer.op.requants[0], _offsets(layer)
    scale, digits = _scales(step)
    up = np.maximum(32 - digits, 0)
    mul, shift = scale << up, digits + up - 32
    mul, shift = np.where(shift > 31, 0, mul), np.minimum(shift, 31)  # products below a quarter
    columns: list[npt.NDArray[Any]] = list(np.broadcast_arrays(offset, mul, shift))
    ends = (layer.ranges.acc_lo - step.turn, layer.ranges.acc_hi - step.turn)
    wide = not fits((-_DIGITS, _DIGITS), *ends)
    return Even(np.stack(columns, axis=1), wide=wide)
