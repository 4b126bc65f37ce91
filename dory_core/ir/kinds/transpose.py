"""Axes in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dory_core.ir.bounds import Interval
from dory_core.ir.kinds.channels import Links, same_channels
from dory_core.ir.kinds.moving import Mover, all_places
from dory_core.ir.kinds.operator import Intervals, Places, Sample, Tensors, Triple, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Mover):
    """The same elements with their axes in another order.

    Attributes:
        perm: Axis a of the output is axis ``perm[a]`` of the input; axes are 0 C, 1 H, 2 W.
    """

    perm: Triple

    samples: ClassVar[tuple[str, ...]] = ("transpose",)

    def output_shape(self, sources: Tensors) -> Shape:
        if sorted(self.perm) != [0, 1, 2]:
            raise self.refused(f"{list(self.perm)} is no permutation of 0, 1, 2")
        c, h, w = (sources[0].shape[axis] for axis in self.perm)
        return c, h, w

    def arranged(self, inputs: Sequence[Values]) -> Values:
        return inputs[0].transpose(self.perm)

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the intervals of the input, where channels stay channels."""
        return intervals[0] if self.perm[0] == 0 else None

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return all of the input where another axis takes the place of this one."""
        return all_places(axis, source, output) if self.perm[axis + 1] != axis + 1 else None

    def channel_groups(self, source: Tensor, output: Tensor) -> int | None:
        return output.channels if self.perm[0] == 0 else None

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """Each channel goes with its own, where channels stay channels."""
        return same_channels(output.channels) if self.perm[0] == 0 else None

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        perm = tuple(int(a) for a in draw.numbers.permutation(3))
        return Sample({"perm": perm}, ((*draw.shape(), *draw.pick(*draw.space.inputs)),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        return {"transpose": Sample({"perm": (2, 1, 0)}, ((12, 15, 14, -128, 127),))}
