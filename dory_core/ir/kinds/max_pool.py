"""Maximum over a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from dory_core.ir.bounds import Accumulator, Apply, Interval, one
from dory_core.ir.kinds.operator import (
    Bare,
    Intervals,
    Offsets,
    Sample,
    Tensors,
    Values,
    moved_steps,
)
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.kinds.windowed import Pool, check_no_empty_window, output_size
from dory_core.ir.tensor import Shape

_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool(Pool):
    """Maximum over a window; padding never wins.

    Attributes:
        window: What one output element reads.
    """

    bare: ClassVar[Bare] = Bare.AS_INPUTS
    samples: ClassVar[tuple[str, ...]] = ("maxpool",)

    def output_shape(self, sources: Tensors) -> Shape:
        height, width = output_size(self, self.window, sources[0])
        check_no_empty_window(self, self.window, sources[0])
        return sources[0].channels, height, width

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        lo, hi = sources[0].lo, sources[0].hi
        return Accumulator(one(lo), one(hi), lo, hi)

    def compute(self, inputs: Sequence[Values]) -> Values:
        first, *others = self.window.views(inputs[0], _LEAST)
        value = first.copy()
        for view in others:
            np.maximum(value, view, out=value)
        return value

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the intervals of the input."""
        return intervals[0]

    @property
    def offsets(self) -> Offsets:
        return Offsets.EACH if self.requants else Offsets.SHARED

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the steps, where there are some."""
        if not self.requants:
            return replace(self)
        return replace(self, requants=moved_steps(self.requants, before[0], after))

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        window = draw.window(draw.pick((2, 2), (3, 3), (1, 3), (4, 2), (7, 7)))
        source = draw.source(draw.pick(1, 2, 3, 4, 7, 8, 17), *draw.image(window))
        return Sample({"window": draw.padded(window, source)}, (source,))
