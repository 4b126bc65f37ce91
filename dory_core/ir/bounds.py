"""Reachable accumulators: of whole tensors, and of each of their channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.ir.requant import Requant
from dory_core.ir.tensor import Tensor

# Bounds per channel, or one for all channels: int64, or Python integers where those are short.
Bounds = npt.NDArray[Any]
#: Returns the bounds after a step, for the bounds before it.
Apply = Callable[[Requant, Bounds, Bounds], tuple[Bounds, Bounds]]
_Ints = npt.NDArray[np.int64]

INT32 = (-(2**31), 2**31 - 1)


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Bounds of the complete sum per channel, and of all partial sums of the layer.

    Attributes:
        lo: Lowest complete sum of each channel, or of all.
        hi: Highest complete sum of each channel, or of all.
        partial_lo: Lowest value on the way.
        partial_hi: Highest value on the way.
    """

    lo: Bounds
    hi: Bounds
    partial_lo: int
    partial_hi: int

    @classmethod
    def of(cls, lo: Bounds, hi: Bounds, *others: Bounds) -> Accumulator:
        """Return the accumulator of [lo, hi] that takes the values of others on the way."""
        low = min(int(b.min()) for b in (lo, *others))
        high = max(int(b.max()) for b in (hi, *others))
        return cls(lo, hi, low, high)


def one(value: int) -> Bounds:
    """Return a bound of all channels."""
    return np.array([value], dtype=np.int64)


def sums_by_sign(rows: Bounds) -> tuple[Bounds, Bounds]:
    """Return the sums of the positive and of the negative elements of each row."""
    positive = np.maximum(rows, 0).sum(axis=-1, dtype=np.int64)
    return positive, np.minimum(rows, 0).sum(axis=-1, dtype=np.int64)


def dot_products(rows: Bounds, lo: int, hi: int) -> tuple[Bounds, Bounds]:
    """Return the bounds of products of rows of weights with elements of [lo, hi]."""
    positive, negative = sums_by_sign(rows)
    return positive * lo + negative * hi, positive * hi + negative * lo


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Lowest and highest value of each channel.

    Attributes:
        lo, hi: Shape (C,).
    """

    lo: _Ints
    hi: _Ints

    @classmethod
    def whole(cls, tensor: Tensor) -> Interval:
        """Return the range of a tensor for each of its channels."""
        return cls(*(np.full(tensor.channels, end, np.int64) for end in (tensor.lo, tensor.hi)))

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Which channels have one value, at every place and for every input."""
        return np.equal(self.lo, self.hi)

    @property
    def nearest(self) -> _Ints:
        """The value of each interval that is nearest to 0."""
        return np.minimum(np.maximum(self.lo, 0), self.hi)

    def __getitem__(self, channels: _Ints | npt.NDArray[np.bool_]) -> Interval:
        return Interval(self.lo[channels], self.hi[channels])

    def including(self, value: int) -> Interval:
        """Return the intervals that also hold another value."""
        return Interval(np.minimum(self.lo, value), np.maximum(self.hi, value))

    def after(self, step: Requant) -> Interval:
        """Return the intervals after a requantisation of each channel.

        It rises or falls on either side of its turn, so that the ends of both sides say all.
        """
        ends = (self.lo, np.minimum(self.hi, step.turn - 1), np.maximum(self.lo, step.turn))
        seen = np.stack([np.clip(end, self.lo, self.hi) for end in (*ends, self.hi)], axis=1)
        values = step.apply(seen)
        return Interval(values.min(axis=1), values.max(axis=1))
