"""Interpolation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, Interval, one
from dory_core.ir.kinds.operator import Bare, Intervals, Operator, Places, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(Operator):
    """Interpolation from two rows and two columns of the input; the requantisation divides.

    Output row h is rows[h] = (first, second, weight of first, weight of second), likewise for
    columns. The accumulator is the sum of the four elements times both their weights. The nearest
    neighbour has weights 1 and 0, and needs no requantisation.

    Attributes:
        rows: Shape (height, 4).
        columns: Shape (width, 4).
    """

    rows: Array
    columns: Array

    bare: ClassVar[Bare] = Bare.AS_INPUTS
    is_channelwise: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("resize",)

    @property
    def taps(self) -> npt.NDArray[Any]:
        """The taps of all rows, then of all columns: shape (height + width, 4)."""
        return np.concatenate([self.rows.values, self.columns.values])

    @property
    def is_gather(self) -> bool:
        """Every output is one element of the input."""
        return all(
            bool((taps.values[:, 2] == 1).all() and (taps.values[:, 3] == 0).all())
            for taps in (self.rows, self.columns)
        )

    def output_shape(self, sources: Tensors) -> Shape:
        [source] = sources
        for taps, size in ((self.rows, source.height), (self.columns, source.width)):
            found = taps.values
            if found.ndim != 2 or found.shape[1] != 4:
                raise self.refused(f"taps of shape {taps.shape}, expected (size, 4)")
            if int(found[:, :2].min()) < 0 or int(found[:, :2].max()) >= size:
                raise self.refused(f"it reads beyond an input of {source.shape}")
        return source.channels, self.rows.shape[0], self.columns.shape[0]

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        signs = []
        for taps in (self.rows, self.columns):
            weights = taps.values[:, 2:].astype(np.int64)
            same = taps.values[:, 0] == taps.values[:, 1]  # at a border: one element, one weight
            weights[same] = np.stack([weights[same].sum(axis=1), np.zeros(same.sum())], axis=1)
            signs.append((np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)))
        (up, down), (right, left) = signs
        positive = np.multiply.outer(up, right) + np.multiply.outer(down, left)
        negative = np.multiply.outer(up, left) + np.multiply.outer(down, right)
        lo, hi = sources[0].lo, sources[0].hi
        complete = positive * lo + negative * hi, positive * hi + negative * lo
        low, high = min(lo, 0), max(hi, 0)
        partial = positive * low + negative * high, positive * high + negative * low
        least, most = one(int(complete[0].min())), one(int(complete[1].max()))
        return Accumulator.of(least, most, *partial)

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source] = inputs
        rows, columns = self.rows.values.astype(np.int64), self.columns.values.astype(np.int64)
        first, second = (source[:, rows[:, k]] * rows[None, :, 2 + k, None] for k in (0, 1))
        between = first + second
        first, second = (between[:, :, columns[:, k]] * columns[:, 2 + k] for k in (0, 1))
        return first + second

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the weighted sums of the intervals."""
        [source] = intervals
        rows, columns = (taps.values[:, 2:].astype(np.int64) for taps in (self.rows, self.columns))
        weights = np.einsum("ra,cb->rcab", rows, columns).reshape(-1, 4)
        positive, negative = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
        lows = np.multiply.outer(source.lo, positive) + np.multiply.outer(source.hi, negative)
        highs = np.multiply.outer(source.hi, positive) + np.multiply.outer(source.lo, negative)
        return Interval(lows.min(axis=1), highs.max(axis=1))

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return the two elements of each tap."""
        taps = (self.columns if axis else self.rows).values[:, :2].tolist()
        return tuple((min(pair), max(pair)) for pair in taps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, gathers = draw.shape(), bool(draw.integer(0, 1))
        steps = () if gathers else draw.pick((), (requant(1, 1 << 19, 1 << 20),))
        rows, columns = (_random_taps(draw, size, gathers) for size in shape[1:])
        fields = {"rows": rows, "columns": columns, "requants": steps}
        return Sample(fields, ((*shape, *draw.pick(*draw.space.inputs)),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        image = (12, 15, 14, -128, 127)
        steps = (requant(1, 1 << 19, 1 << 20, add_negative=(1 << 19) - 1),)
        bilinear = {"rows": linear_taps(15, 22), "columns": linear_taps(14, 9), "requants": steps}
        nearest = {"rows": _nearest_taps(15, 30), "columns": _nearest_taps(14, 28)}
        return {
            "resize_bilinear": Sample(bilinear, (image,)),
            "resize_nearest": Sample(nearest, (image,)),
        }


def linear_taps(size: int, count: int) -> Array:
    """Return the taps of an interpolation with half-pixel centres and 10-bit fractions."""
    scale = (1024 * size + count // 2) // count
    place = np.arange(count) * scale + scale // 2 - 512
    lower = np.clip(place // 1024, 0, size - 1)
    upper = np.clip(-(-place // 1024), 0, size - 1)
    weight = place - 1024 * lower
    return Array(np.stack([lower, upper, 1024 - weight, weight], axis=1))


def _nearest_taps(size: int, count: int) -> Array:
    place = np.arange(count) * size // count
    return Array(np.stack([place, place, np.ones_like(place), np.zeros_like(place)], axis=1))


def _random_taps(draw: RandomParts, size: int, gathers: bool) -> Array:
    """Return rising places between the elements of an axis, now and then any ones."""
    count = draw.integer(1, 12)
    first = np.sort(draw.numbers.integers(0, size, count))
    if draw.integer(0, 3) == 0:
        draw.numbers.shuffle(first)
    if gathers:
        rows = [first, first, np.ones(count), np.zeros(count)]
    else:
        fraction = draw.numbers.integers(0, 1025, count)
        rows = [first, np.minimum(first + 1, size - 1), 1024 - fraction, fraction]
    return Array(np.stack(rows, axis=1).astype(np.int64))
