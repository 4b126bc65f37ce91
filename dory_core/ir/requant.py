"""Requantisation: the one formula every frontend lowers to.

y = clip(floor((mul[c] * acc + add[c]) / div), lo, hi)

where accumulators below a turning point may have another addend: rounding that is symmetric around
a zero point is that. Steps of formats that rescale in binary32 are marked (``Requant.float32``):

y = clip(even(f32(f32(acc - turn) * S[c])) + add / div, lo, hi), S[c] = mul[c] / div

with f32 the rounding to binary32 and even that to the nearest integer, both with ties to even.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Requant:
    """One requantisation step in normal form; build it with :func:`requant`.

    Attributes:
        mul, add: Exact integers, one per output channel or a single one for all channels.
        add_negative: The addend where acc < turn, None where it is the same one.
        turn: 0 unless the accumulator counts from somewhere else, as a stored value with a zero
            point does.
        div: Positive divisor; nearly always a power of two, 2^k - 1 occurs in real files.
        lo, hi: Clip bounds, both None when the graph has no Clip.
        float32: The step is computed in binary32, with one add for all channels, a multiple of div.
    """

    mul: tuple[int, ...]
    add: tuple[int, ...]
    div: int
    lo: int | None = None
    hi: int | None = None
    add_negative: tuple[int, ...] | None = None
    turn: int = 0
    float32: bool = False

    @property
    def is_identity(self) -> bool:
        """True when the step returns its operand unchanged for every value."""
        return self == _IDENTITY

    @property
    def addends(self) -> tuple[tuple[int, ...], ...]:
        """The addend, or both: for acc >= turn and for acc < turn."""
        return (self.add,) if self.add_negative is None else (self.add, self.add_negative)

    @property
    def parameters(self) -> tuple[tuple[int, ...], ...]:
        """What has a value per channel, or one for all: mul and the addends."""
        return (self.mul, *self.addends)

    @property
    def is_channelwise(self) -> bool:
        """True when a parameter differs from channel to channel."""
        return any(len(values) > 1 for values in self.parameters)

    @property
    def rises(self) -> bool:
        """True when a larger accumulator never gives a smaller result."""
        add, below = (np.array(self.addends[n], dtype=object) for n in (0, -1))
        return not self.float32 and min(self.mul) >= 0 and bool((below <= add).all())

    @property
    def offset(self) -> int | None:
        """The one number that the step adds before it clips; None when it does more than that."""
        plain = (self.mul, self.div, self.add_negative) == ((1,), 1, None) and not self.float32
        return self.add[0] if plain and len(self.add) == 1 else None

    @property
    def scales(self) -> npt.NDArray[np.float32]:
        """Quotients mul / div in binary32, one per channel or one for all; exact for float32."""
        return np.array([m / self.div for m in self.mul], dtype=np.float32)

    @property
    def shift(self) -> int | None:
        """log2(div) when div is a power of two, else None."""
        return self.div.bit_length() - 1 if self.div & (self.div - 1) == 0 else None

    def moved(self, before: int = 0, after: int = 0) -> Requant:
        """Return the step for ``acc + before`` that gives what this one gives for acc, + after."""
        if not before and not after:
            return self
        if self.float32:
            low, high = (b if b is None else b + after for b in (self.lo, self.hi))
            zero = (self.add[0] + after * self.div,)
            return replace(self, add=zero, lo=low, hi=high, turn=self.turn + before)
        channels = max(len(values) for values in self.parameters)
        mul, *addends = (values * (channels // len(values)) for values in self.parameters)
        add, *other = (
            tuple(a - m * before + after * self.div for m, a in zip(mul, addend, strict=True))
            for addend in addends
        )
        lo, hi = (None if bound is None else bound + after for bound in (self.lo, self.hi))
        negative = other[0] if other else None
        return requant(self.mul, add, self.div, lo, hi, negative, self.turn + before)

    def from_turn(self) -> Requant:
        """Return the step as a function of ``acc - turn``, whose own turn is 0."""
        return self.moved(before=-self.turn)

    def apply(self, acc: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the step applied to ``acc``, shape (C, ...), int64; exact by range analysis."""
        shape = (-1,) + (1,) * (acc.ndim - 1)
        if self.float32:
            return self._rounded(acc, self.scales.reshape(shape))
        # Sums have 64 bits, which addends of a step that counts from far away may not have.
        fits = all(_INT64[0] <= a <= _INT64[1] for values in self.parameters for a in values)
        exact: type = np.int64 if fits else object
        arrays: list[npt.NDArray[Any]] = [
            np.array(values, dtype=exact).reshape(shape) for values in self.parameters
        ]
        mul, add, *other = arrays
        if other:
            add = np.where(acc < self.turn, other[0], add)
        value: npt.NDArray[Any] = (acc * mul + add) // self.div
        if self.lo is not None and self.hi is not None:
            value = np.clip(value, self.lo, self.hi)
        return value.astype(np.int64, copy=False)

    def scalar(self, acc: int, channel: int) -> int:
        """Return the step applied to one accumulator value of one channel, in Python integers."""
        if self.float32:
            scales = self.scales[channel if len(self.mul) > 1 else 0 :][:1]
            return int(self._rounded(np.array([acc], dtype=np.int64), scales)[0])
        mul = self.mul[channel if len(self.mul) > 1 else 0]
        addends = self.addends[-1 if acc < self.turn else 0]
        add = addends[channel if len(addends) > 1 else 0]
        value = (acc * mul + add) // self.div
        if self.lo is not None and self.hi is not None:
            value = min(max(value, self.lo), self.hi)
        return value

    def _rounded(
        self, acc: npt.NDArray[np.int64], scales: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.int64]:
        """Return the float32 step with the scales of the accumulators."""
        assert self.lo is not None and self.hi is not None
        zero = self.add[0] // self.div
        product = (acc - self.turn).astype(np.float32) * scales
        inside = np.clip(np.rint(product), self.lo - zero, self.hi - zero)
        return np.asarray(inside.astype(np.int64) + zero)


_INT64 = (-(2**63), 2**63 - 1)
_IDENTITY = Requant((1,), (0,), 1)


def _uniform(values: tuple[int, ...]) -> tuple[int, ...]:
    return values[:1] if len(set(values)) == 1 else values


def requant(
    mul: int | Iterable[int] = 1,
    add: int | Iterable[int] = 0,
    div: int = 1,
    lo: int | None = None,
    hi: int | None = None,
    add_negative: int | Iterable[int] | None = None,
    turn: int = 0,
) -> Requant:
    """Build a Requant in normal form, so that equal arithmetic gives equal objects.

    mul, the addends and div are divided by their common divisor, values equal for all channels
    become one value, and two equal addends become one.

    Args:
        mul: One integer for all channels, or one per channel.
        add: Like ``mul``.
        div: Positive divisor.
        lo: The lower clip bound, None for no clip.
        hi: The upper one; both or none are given.
        add_negative: Like ``add``, where acc < turn; None for the same addend.
        turn: The accumulator at which the addend changes.

    Raises:
        ValueError: When div is not positive or only one clip bound is given.
    """
    if div <= 0:
        raise ValueError(f"divisor must be positive, not {div}")
    if (lo is None) != (hi is None):
        raise ValueError("a clip has two bounds")
    given = (mul, add) if add_negative is None else (mul, add, add_negative)
    values = [tuple(int(v) for v in ([p] if isinstance(p, int) else p)) for p in given]
    common = gcd(div, *(v for p in values for v in p))
    muls, adds, *other = (_uniform(tuple(v // common for v in p)) for p in values)
    negative = other[0] if other and other[0] != adds else None
    return Requant(muls, adds, div // common, lo, hi, negative, 0 if negative is None else turn)


def mean_requant(count: int, lo: int | None = None, hi: int | None = None) -> Requant:
    """Return the step from a sum of ``count`` values to their mean, ties away from zero, clipped.

    Source: the integer average pools of TensorFlow Lite.
    """
    half = count // 2
    return requant(1, half, count, lo, hi, add_negative=count - 1 - half)


#: Clip bounds of float32 steps: integers up to here are numbers of binary32.
LARGEST_FLOAT_BOUND = 1 << 23


def float_requant(
    scales: Iterable[float], zero_point: int, lo: int, hi: int, turn: int = 0
) -> Requant:
    """Return ``clip(even(f32(f32(acc - turn) * scale)) + zero_point, lo, hi)`` in normal form.

    Args:
        scales: Positive normal numbers of binary32, one per channel or one for all.
        zero_point: What is added after rounding.
        lo: The lower clip bound.
        hi: The upper one.
        turn: What is subtracted from the accumulator first.

    Raises:
        ValueError: For other scales, and for bounds that leave no room for the rounding.
    """
    given = [float(scale) for scale in scales]
    for scale in given:
        if not _is_normal(scale):
            raise ValueError(f"{scale} is no positive normal number of binary32")
    ratios = [scale.as_integer_ratio() for scale in given]
    if not -LARGEST_FLOAT_BOUND < lo - zero_point <= hi - zero_point < LARGEST_FLOAT_BOUND:
        raise ValueError(f"bounds of {lo} and {hi} with the zero point {zero_point}")
    div = max(div for _, div in ratios)
    muls = _uniform(tuple(mul * (div // own) for mul, own in ratios))
    return Requant(muls, (zero_point * div,), div, lo, hi, None, turn, float32=True)


def _is_normal(scale: float) -> bool:
    single = np.float32(scale)
    return bool(np.isfinite(single)) and float(single) == scale and bool(single >= _TINY)


_TINY = np.finfo(np.float32).tiny
