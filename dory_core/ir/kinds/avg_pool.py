"""Sum or mean over a window."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dory_core.ir.bounds import Accumulator, Apply, Interval, one
from dory_core.ir.features import Feature
from dory_core.ir.kinds.fields import as_text, number, word
from dory_core.ir.kinds.operator import (
    Bare,
    Intervals,
    Sample,
    Tensors,
    Values,
    moved_steps,
)
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.kinds.windowed import (
    Pool,
    check_no_empty_window,
    output_size,
    pad_features,
    padding_of,
    seen_range,
    under_taps,
)
from dory_core.ir.requant import Requant
from dory_core.ir.tensor import Shape

# Beyond every element of a byte: means in binary32 are bounded by it before they are integers.
_LARGEST = 1 << 23
# Beyond what any accumulator holds, and within 64 bits.
_FAR = float(1 << 40)


@dataclass(frozen=True, slots=True)
class RealMean:
    """A mean that is computed in binary32, ties of every operation to even.

    Elements mean f32(scale * (element - zero_point)). They are added one after the other, row by
    row; the accumulator is even(f32(f32(mean / out_scale) + out_zero)). Source: onnxruntime,
    QLinearAveragePool.

    Attributes:
        scale, zero_point: What an element of the input means.
        out_scale, out_zero: What an element of the output means.
    """

    scale: float
    zero_point: int
    out_scale: float
    out_zero: int

    def bounds(self, lo: int, hi: int, padded: bool) -> tuple[int, int]:
        """Return bounds of the mean of elements in [lo, hi]; rounding moves it by less than one."""
        factor = self.scale / self.out_scale
        ends = [(end - self.zero_point) * factor for end in (lo, hi)]
        ends += [0.0] if padded else []
        ends = [min(max(end, -_FAR), _FAR) for end in ends]
        return floor(min(ends)) - 1 + self.out_zero, ceil(max(ends)) + 1 + self.out_zero


def _show_real(real: RealMean) -> str:
    return f"real {real.scale} {real.zero_point} to {real.out_scale} {real.out_zero}"


def _read_real(match: re.Match[str]) -> RealMean:
    return RealMean(float(match[1]), int(match[2]), float(match[3]), int(match[4]))


_REAL = word(r"real ([\d.e+-]+) (-?\d+) to ([\d.e+-]+) (-?\d+)", _show_real, _read_real)
_INSIDE = word("inside", lambda _: "inside", lambda _: False)
_ORIGIN = number("origin", lambda op: not op.counts_padding)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPool(Pool):
    """Sum over a window (the accumulator); the division is part of the requantisation.

    Attributes:
        window: What is added up.
        counts_padding: Padding belongs to the window. Otherwise the accumulator is the mean of the
            elements of the window that lie in the image, rounded with ties away from ``origin``:
            origin + round(sum of (element - origin) / their number). Frontends use it only where
            that number varies.
        origin: From where ties are rounded away.
        real: The mean is that of reals instead, of as many as ``counts_padding`` says; padding is
            0.
    """

    counts_padding: bool = field(default=True, metadata=as_text(_INSIDE))
    origin: int = field(default=0, metadata=as_text(_ORIGIN))
    real: RealMean | None = field(default=None, metadata=as_text(_REAL))

    has_offsets: ClassVar[bool] = True
    bare: ClassVar[Bare] = Bare.ACCUMULATOR
    samples: ClassVar[tuple[str, ...]] = ("avgpool",)

    def output_shape(self, sources: Tensors) -> Shape:
        height, width = output_size(self, self.window, sources[0])
        if not self.counts_padding:
            check_no_empty_window(self, self.window, sources[0])
        return sources[0].channels, height, width

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        [source], count = sources, self.window.taps
        if self.real is not None:
            lo, hi = self.real.bounds(source.lo, source.hi, bool(any(self.window.pads)))
            return Accumulator(one(lo), one(hi), lo, hi)
        if self.counts_padding:
            lo, hi = (end * count for end in seen_range(self, self.window, source))
            return Accumulator(one(lo), one(hi), min(lo, 0), max(hi, 0))
        lo, hi = (end - self.origin for end in (source.lo, source.hi))
        low, high = min(lo, source.lo, 0) * count, max(hi, source.hi, 0) * count
        return Accumulator(one(source.lo), one(source.hi), low, high)

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source] = inputs
        if self.real is not None:
            return self._mean_of_reals(self.real, source)
        fill = self.window.pad_value if self.counts_padding else self.origin
        value: Values = np.asarray(sum(self.window.views(source, fill)))
        if self.counts_padding:
            return value
        count = self._inside(source)
        value -= self.window.taps * self.origin
        magnitude: Values = (np.abs(value) + count // 2) // count
        return np.where(value < 0, self.origin - magnitude, self.origin + magnitude)

    def _inside(self, source: Values) -> Values:
        """Return the number of elements inside the image per window, shape (1, H, W)."""
        ones = np.ones((1, *source.shape[1:]), dtype=np.int64)
        return np.asarray(sum(self.window.views(ones, 0)))

    def _mean_of_reals(self, real: RealMean, source: Values) -> Values:
        """Return the mean of reals in binary32, in the order in which they are added."""
        reals = (source - real.zero_point).astype(np.float32) * np.float32(real.scale)
        views = self.window.views(reals, 0)
        total = np.zeros(views[0].shape, dtype=np.float32)
        for view in views:
            total = total + view
        count: npt.NDArray[Any] = np.full(total.shape, self.window.taps, dtype=np.float32)
        if not self.counts_padding:
            count = self._inside(source).astype(np.float32)
        scaled = total / count / np.float32(real.out_scale) + np.float32(real.out_zero)
        return np.asarray(np.rint(np.clip(scaled, -_LARGEST, _LARGEST)).astype(np.int64))

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the sums over what each tap sees, or the range of means."""
        if self.real is not None:
            return None
        if not self.counts_padding:
            return intervals[0]
        lo, hi = under_taps(self.window, intervals[0], sources[0])
        return Interval(lo.sum(axis=1), hi.sum(axis=1))

    def features(self, sources: Tensors) -> frozenset[Feature]:
        found = {Feature.REALS} if self.real else set()
        if not self.counts_padding:
            return frozenset(found | {Feature.MEAN_INSIDE})
        return frozenset(found | pad_features(self.window))

    @property
    def padding(self) -> int:
        return padding_of(self.window) if self.counts_padding else 0

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the padding, the origin or the zero point, and the sums."""
        each = before[0]
        if self.real is not None:
            real = replace(self.real, zero_point=self.real.zero_point + each)
            return replace(self, real=real, requants=moved_steps(self.requants, 0, after))
        if not self.counts_padding:
            steps = moved_steps(self.requants, each, after)
            return replace(self, requants=steps, origin=self.origin + each)
        window = replace(self.window, pad_value=self.window.pad_value + each)
        steps = moved_steps(self.requants, each * self.window.taps, after)
        return replace(self, window=window, requants=steps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        window = draw.window(draw.pick((2, 2), (3, 3), (1, 3), (4, 2), (7, 7)))
        source = draw.source(draw.pick(1, 2, 3, 4, 7, 8, 17), *draw.image(window))
        window = draw.padded(window, source)
        steps: tuple[Requant, ...] = ()
        if draw.integer(0, 5):
            reach = window.taps * max(abs(source[3]), source[4])
            steps = draw.requants(1, reach, draw.pick(*draw.space.outputs))
        return Sample({"window": window, "requants": steps}, (source,))
