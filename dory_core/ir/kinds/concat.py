"""Inputs one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import numpy as np

from dory_core.ir.bounds import Interval
from dory_core.ir.kinds.channels import Links
from dory_core.ir.kinds.moving import Mover, all_places, follow_in_memory
from dory_core.ir.kinds.operator import Axes, Intervals, Places, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Mover):
    """The inputs one after another along an axis.

    Their elements are copied: all inputs have the same quantisation. The other axes agree.

    Attributes:
        axis: 0 channels, 1 rows, 2 columns.
    """

    axis: int

    is_view: ClassVar[bool] = True
    holds_inputs: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("concat",)

    @property
    def operands(self) -> int | None:
        return None

    def output_shape(self, sources: Tensors) -> Shape:
        if self.axis not in range(3):
            raise self.refused(f"axis {self.axis} is none of 0 (C), 1 (H) and 2 (W)")
        sizes = list(sources[0].shape)
        for source in sources[1:]:
            other = list(source.shape)
            sizes[self.axis] += other[self.axis]
            other[self.axis] = sizes[self.axis]
            if other != sizes:
                shapes = ", ".join(str(one.shape) for one in sources)
                raise self.refused(f"inputs of shapes {shapes}")
        return sizes[0], sizes[1], sizes[2]

    def arranged(self, inputs: Sequence[Values]) -> Values:
        return np.concatenate(inputs, axis=self.axis)

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the intervals of all inputs, joined where channels are."""
        lows, highs = [one.lo for one in intervals], [one.hi for one in intervals]
        if self.axis == 0:
            return Interval(np.concatenate(lows), np.concatenate(highs))
        return Interval(np.min(lows, axis=0), np.max(highs, axis=0))

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return that a tile takes all of the joined axis."""
        return all_places(axis, source, output) if self.axis == axis + 1 else None

    def whole_axes(self, operand: int, source: Tensor, output: Tensor) -> Axes:
        """Return that a tile takes all of the joined axis."""
        return self.axis == 0, self.axis == 1, self.axis == 2

    def channel_groups(self, source: Tensor, output: Tensor) -> int | None:
        return output.channels if self.axis else None

    def byte_offsets(self, sources: Tensors, output: Tensor) -> tuple[int, ...] | None:
        sizes = [source.size_bytes for source in sources]
        found = tuple(accumulate(sizes[:-1], initial=0))
        return found if follow_in_memory(output, self.axis) else None

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """Each channel goes with its copy."""
        links, at = [], 0
        for number, source in enumerate(sources):
            channels = np.arange(source.channels)
            links.append((number, channels, channels + at))
            at += 0 if self.axis else source.channels
        return links

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, axis, bounds = draw.shape(), draw.integer(0, 2), draw.pick(*draw.space.inputs)
        sources = []
        for _ in range(draw.pick(1, 2, 2, 3, 4)):
            c, h, w = (draw.integer(1, 5) if n == axis else size for n, size in enumerate(shape))
            lo, hi = draw.pick(bounds, bounds, draw.pick(*draw.space.inputs))
            sources.append((c, h, w, lo, hi))
        return Sample({"axis": axis}, tuple(sources))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        return {
            "concat_channels": Sample({"axis": 0}, ((12, 15, 14, -128, 127),) * 2),
            # of sizes at which the second input cannot lie in the output
            "concat_rows": Sample({"axis": 1}, ((11, 13, 9, -128, 127),) * 2),
        }
