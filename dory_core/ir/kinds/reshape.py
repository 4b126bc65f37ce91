"""Another shape of the same elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dory_core.ir.bounds import Interval
from dory_core.ir.kinds.channels import Links, Selection
from dory_core.ir.kinds.moving import Mover, all_places
from dory_core.ir.kinds.operator import Intervals, Places, Sample, Tensors, Triple, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Mover):
    """Another shape of the elements, which keep their order in memory (HWC).

    Attributes:
        shape: (C, H, W).
    """

    shape: Triple

    is_view: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("reshape",)

    def output_shape(self, sources: Tensors) -> Shape:
        elements = sources[0].elements
        if int(np.prod(self.shape)) != elements:
            raise self.refused(f"{elements} elements in a shape {self.shape}")
        return self.shape

    def arranged(self, inputs: Sequence[Values]) -> Values:
        channels, height, width = self.shape
        return inputs[0].transpose(1, 2, 0).reshape(height, width, channels).transpose(2, 0, 1)

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the elements of each channel.

        Elements keep their order, in which channels change fastest.
        """
        pixels = sources[0].height * sources[0].width
        lo, hi = (
            np.tile(end, pixels).reshape(-1, self.shape[0])
            for end in (intervals[0].lo, intervals[0].hi)
        )
        return Interval(lo.min(axis=0), hi.max(axis=0))

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return that an element may come from anywhere."""
        return all_places(axis, source, output)

    def byte_offsets(self, sources: Tensors, output: Tensor) -> tuple[int, ...] | None:
        same = output.channels == sources[0].channels or output.bits >= 8
        return (0,) if same else None

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """Link what a new shape puts together; None where pixels are cut in the middle."""
        before, after = sources[0].channels, output.channels
        if max(before, after) % min(before, after):
            return None
        wider = np.arange(max(before, after))
        return ((0, wider % before, wider % after),)

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        return {"shape": (len(selection.kept), *self.shape[1:])}

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape = draw.pick((6, 4, 2), (1, 8, 6), (12, 2, 2), (48, 1, 1), (3, 1, 16), (5, 7, 1))
        others = [
            (c, h, int(np.prod(shape)) // (c * h))
            for c in range(1, 49)
            for h in range(1, 49)
            if np.prod(shape) % (c * h) == 0
        ]
        source = (*shape, *draw.pick(*draw.space.inputs))
        return Sample({"shape": draw.pick(*others)}, (source,))
