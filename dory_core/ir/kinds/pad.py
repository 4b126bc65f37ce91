"""Elements about the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from dory_core.ir.bounds import Accumulator, Apply, Interval, one
from dory_core.ir.kinds.channels import Links, Selection
from dory_core.ir.kinds.fields import always, as_text, number
from dory_core.ir.kinds.moving import Mover, shifted_places
from dory_core.ir.kinds.operator import Intervals, Places, Sample, Tensors, Triple, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Mover):
    """Elements of one value around the input.

    Attributes:
        before, after: How many along channels, rows and columns.
        value: The value, as an element of the output.
    """

    before: Triple
    after: Triple
    value: int = field(default=0, metadata=as_text(number("value", always)))

    samples: ClassVar[tuple[str, ...]] = ("pad",)

    def output_shape(self, sources: Tensors) -> Shape:
        if min(*self.before, *self.after) < 0:
            raise self.refused("it takes elements away; that is a Slice")
        c, h, w = (sum(p) for p in zip(sources[0].shape, self.before, self.after, strict=True))
        return c, h, w

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        lo, hi = min(sources[0].lo, self.value), max(sources[0].hi, self.value)
        return Accumulator.of(one(lo), one(hi))

    def arranged(self, inputs: Sequence[Values]) -> Values:
        widths = tuple(zip(self.before, self.after, strict=True))
        return np.pad(inputs[0], widths, constant_values=self.value)

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the intervals with the value, and the value for new channels."""
        inner, around = intervals[0], (self.before[0], self.after[0])
        if any(self.before[1:] + self.after[1:]):
            inner = inner.including(self.value)
        lo, hi = (np.pad(end, around, constant_values=self.value) for end in (inner.lo, inner.hi))
        return Interval(lo, hi)

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return places of the input, and beyond it."""
        total = output.shape[axis + 1]
        if source.shape[axis + 1] == total:
            return None
        return shifted_places(-self.before[axis + 1], 1, total)

    def channel_groups(self, source: Tensor, output: Tensor) -> int | None:
        return output.channels if self.before[0] == self.after[0] == 0 else None

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """Each channel goes with its copy."""
        same = np.arange(sources[0].channels)
        return ((0, same, self.before[0] + same),)

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        before, inner = self.before[0], len(selection.inputs[0])
        first = int(selection.output[:before].sum())
        last = int(selection.output[before + inner :].sum())
        return {"before": (first, *self.before[1:]), "after": (last, *self.after[1:])}

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the value."""
        return replace(self, value=self.value + before[0])

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        bounds = draw.pick(*draw.space.inputs)
        before, after = (tuple(draw.pick(0, 0, 1, 2, 5) for _ in range(3)) for _ in range(2))
        fields = {
            "before": before,
            "after": after,
            "value": draw.pick(0, bounds[0], bounds[1], 77),
        }
        return Sample(fields, ((*draw.shape(), *bounds),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        fields = {"before": (0, 1, 2), "after": (3, 0, 1), "value": -128}
        return {"pad": Sample(fields, ((12, 15, 14, -128, 127),))}
