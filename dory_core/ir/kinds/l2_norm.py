"""Normalisation of the channels by their Euclidean norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from dory_core.ir.bounds import Accumulator, Apply, one
from dory_core.ir.fixed_point import l2_norm
from dory_core.ir.kinds.operator import Operator, Sample, Tensors, Values, moved_steps
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Shape

_INT32_MAX = 2**31 - 1
#: Of 128 times a share of at most 1, rounded.
_MOST = 129


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Norm(Operator):
    """The channels of each pixel over their Euclidean norm, in the integers of TensorFlow Lite.

    With d = x - zero_point, the accumulator is round(128 * d[c] / sqrt(sum(d^2))), by the
    fixed-point inverse root (``dory_core.ir.fixed_point``). The requantisation clips. Source:
    TensorFlow Lite, reference/integer_ops/l2normalization.h.

    Attributes:
        zero_point: What is taken off the elements.
    """

    zero_point: int = 0

    has_offsets: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("l2_norm",)

    def output_shape(self, sources: Tensors) -> Shape:
        return sources[0].shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        [source] = sources
        most = max(self.zero_point - source.lo, source.hi - self.zero_point)
        if most > 255 or most * most * source.channels > _INT32_MAX:
            raise self.refused(
                f"the sum of {source.channels} squares of values in [{source.lo}, {source.hi}]"
                f" around {self.zero_point} is not one of bytes in 32 bits"
            )
        return Accumulator.of(one(-_MOST), one(_MOST))

    def compute(self, inputs: Sequence[Values]) -> Values:
        return l2_norm(inputs[0] - self.zero_point)

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the zero point, and the steps."""
        steps = moved_steps(self.requants, 0, after)
        return replace(self, zero_point=self.zero_point + before[0], requants=steps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, (lo, hi) = draw.shape(), draw.byte()
        zero = draw.pick(0, draw.integer(lo, hi))
        clips = draw.pick((-128, 127), (0, 127))
        fields = {"zero_point": zero, "requants": (requant(1, 0, 1, *clips),)}
        return Sample(fields, ((*shape, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        fields = {"zero_point": -3, "requants": (requant(1, 0, 1, -128, 127),)}
        return {"l2_norm": Sample(fields, ((12, 15, 14, -128, 127),))}
