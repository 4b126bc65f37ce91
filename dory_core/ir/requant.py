"""Requantisation: the one formula every frontend lowers to.

y = clip(floor((mul[c] * acc + add[c]) / div), lo, hi)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Requant:
    """One requantisation step in normal form; build it with :func:`requant`.

    mul, add: exact integers, one per output channel or a single one for all channels.
    div: positive divisor; nearly always a power of two, 2^k - 1 occurs in real files.
    lo, hi: clip bounds, both None when the graph has no Clip.
    """

    mul: tuple[int, ...]
    add: tuple[int, ...]
    div: int
    lo: int | None = None
    hi: int | None = None

    @property
    def is_identity(self) -> bool:
        """True when the step returns its operand unchanged for every value."""
        return self.mul == (1,) and self.add == (0,) and self.div == 1 and self.lo is None

    @property
    def shift(self) -> int | None:
        """log2(div) when div is a power of two, else None."""
        return self.div.bit_length() - 1 if self.div & (self.div - 1) == 0 else None

    def apply(self, acc: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the step applied to ``acc``, shape (C, ...), int64; exact by range analysis."""
        shape = (-1,) + (1,) * (acc.ndim - 1)
        mul = np.array(self.mul, dtype=np.int64).reshape(shape)
        add = np.array(self.add, dtype=np.int64).reshape(shape)
        value = (acc * mul + add) // self.div
        if self.lo is not None and self.hi is not None:
            value = np.clip(value, self.lo, self.hi)
        return value

    def scalar(self, acc: int, channel: int) -> int:
        """Return the step applied to one accumulator value of one channel, in Python integers."""
        mul = self.mul[channel if len(self.mul) > 1 else 0]
        add = self.add[channel if len(self.add) > 1 else 0]
        value = (acc * mul + add) // self.div
        if self.lo is not None and self.hi is not None:
            value = min(max(value, self.lo), self.hi)
        return value


def _uniform(values: tuple[int, ...]) -> tuple[int, ...]:
    return values[:1] if len(set(values)) == 1 else values


def requant(
    mul: int | Iterable[int] = 1,
    add: int | Iterable[int] = 0,
    div: int = 1,
    lo: int | None = None,
    hi: int | None = None,
) -> Requant:
    """Build a Requant in normal form, so that equal arithmetic gives equal objects.

    mul, add and div are divided by their common divisor, and values equal for all channels become
    one value. Raises ValueError when div is not positive or only one clip bound is given.
    """
    if div <= 0:
        raise ValueError(f"divisor must be positive, not {div}")
    if (lo is None) != (hi is None):
        raise ValueError("a clip has two bounds")
    muls = tuple(int(m) for m in ([mul] if isinstance(mul, int) else mul))
    adds = tuple(int(a) for a in ([add] if isinstance(add, int) else add))
    common = gcd(div, *muls, *adds)
    muls = _uniform(tuple(m // common for m in muls))
    adds = _uniform(tuple(a // common for a in adds))
    return Requant(muls, adds, div // common, lo, hi)
