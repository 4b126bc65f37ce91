"""Elements at equal distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dory_core.ir.bounds import Interval
from dory_core.ir.kinds.channels import Links, Selection
from dory_core.ir.kinds.moving import Mover, follow_in_memory, shifted_places
from dory_core.ir.kinds.operator import Intervals, Places, Sample, Tensors, Triple, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Mover):
    """``y[i] = x[begin + i * step]`` along every axis, with ``size`` elements.

    Steps may be negative, never 0. A split is several of them.

    Attributes:
        begin, size, step: Along channels, rows and columns.
    """

    begin: Triple
    size: Triple
    step: Triple = (1, 1, 1)

    is_view: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("slice",)

    def output_shape(self, sources: Tensors) -> Shape:
        [source] = sources
        for extent, begin, count, step in zip(
            source.shape, self.begin, self.size, self.step, strict=True
        ):
            ends = begin, begin + (count - 1) * step
            if step == 0 or count < 1 or min(ends) < 0 or max(ends) >= extent:
                raise self.refused(f"it reads beyond an input of {source.shape}")
        return self.size

    def arranged(self, inputs: Sequence[Values]) -> Values:
        places = (
            begin + step * np.arange(size)
            for begin, size, step in zip(self.begin, self.size, self.step, strict=True)
        )
        return inputs[0][np.ix_(*places)]

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the intervals of the channels that are taken."""
        return intervals[0][self.begin[0] + np.arange(self.size[0]) * self.step[0]]

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return the elements that are taken."""
        first, step, total = self.begin[axis + 1], self.step[axis + 1], output.shape[axis + 1]
        if (first, step, source.shape[axis + 1]) == (0, 1, total):
            return None
        return shifted_places(first, step, total)

    def channel_groups(self, source: Tensor, output: Tensor) -> int | None:
        whole = (self.begin[0], self.step[0], self.size[0]) == (0, 1, source.channels)
        return output.channels if whole else None

    def byte_offsets(self, sources: Tensors, output: Tensor) -> tuple[int, ...] | None:
        [x] = sources
        axis = next((n for n in range(3) if self.size[n] != x.shape[n]), 1)
        whole = all(
            n == axis or (self.begin[n], self.step[n], self.size[n]) == (0, 1, x.shape[n])
            for n in range(3)
        )
        if whole and self.step[axis] == 1 and follow_in_memory(x, axis):
            return (self.begin[axis] * (x.size_bytes * 8 // x.shape[axis]) // 8,)
        return None

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """Each channel goes with its copy, where they lie side by side."""
        if abs(self.step[0]) != 1:
            return None
        taken = np.arange(self.size[0])
        return ((0, self.begin[0] + taken * self.step[0], taken),)

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        [before], begin = selection.inputs, self.begin[0]
        first = int(before[:begin].sum())
        if self.step[0] < 0:
            first = int(before[: begin + 1].sum()) - 1
        count = len(selection.kept)
        return {"begin": (first, *self.begin[1:]), "size": (count, *self.size[1:])}

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape = draw.integer(1, 15), draw.integer(1, 14), draw.integer(1, 14)
        axes = []
        for extent in shape:
            stride = draw.pick(1, 1, 2, 3, -1, -2)
            if draw.integer(0, 2) == 0:
                axes.append((0, extent, 1))
                continue
            first, last = sorted(draw.integer(0, extent - 1) for _ in range(2))
            start = first if stride > 0 else last
            axes.append((start, (last - first) // abs(stride) + 1, stride))
        begin, size, step = zip(*axes, strict=True)
        fields = {"begin": begin, "size": size, "step": step}
        return Sample(fields, ((*shape, *draw.pick(*draw.space.inputs)),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        fields = {"begin": (2, 14, 1), "size": (6, 5, 12), "step": (1, -3, 1)}
        return {"slice": Sample(fields, ((12, 15, 14, -128, 127),))}
