"""Products of two tensors of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import ClassVar, Self

import numpy as np

from dory_core.ir.bounds import Accumulator, Apply, Interval, one
from dory_core.ir.kinds.channels import Ints
from dory_core.ir.kinds.fields import WIDE, WIDE_BITS, as_text, word
from dory_core.ir.kinds.moving import all_places
from dory_core.ir.kinds.operator import (
    Axes,
    Bare,
    Intervals,
    Loads,
    Operator,
    Places,
    Sample,
    Tensors,
    Values,
    moved_steps,
)
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.tensor import Shape, Tensor

_ZEROS = word(
    r"zeros (-?\d+),(-?\d+)",
    lambda zeros: f"zeros {zeros[0]},{zeros[1]}",
    lambda match: (int(match[1]), int(match[2])),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul(Operator):
    """``y[i, k] = sum over j of (x2[i, j] - z2) * (x[j, k] - z1)`` for each matrix of a tensor.

    A row of the image is a matrix: rows of the matrix are its columns (W), columns are channels.
    So x2 @ x is computed: pixels of the output are sums of the pixels of the first input, whose
    factors the second one has. An input with one matrix is multiplied with all of the other.

    Attributes:
        zero_points: (z1, z2) of the first and of the second input.
        wide: The accumulator may leave 32 bits, as one of 64 bits in the format does.
    """

    zero_points: tuple[int, int] = field(default=(0, 0), metadata=as_text(_ZEROS))
    wide: bool = field(default=False, metadata=as_text(WIDE))

    has_offsets: ClassVar[bool] = True
    bare: ClassVar[Bare] = Bare.ACCUMULATOR
    samples: ClassVar[tuple[str, ...]] = ("matmul",)

    @property
    def sum_bits(self) -> int:
        return WIDE_BITS if self.wide and self.requants else 32

    @property
    def operands(self) -> int | None:
        return 2

    def output_shape(self, sources: Tensors) -> Shape:
        x, factors = sources
        if x.width != factors.channels:
            raise self.refused(
                f"a matrix of {factors.width} x {factors.channels} on one of {x.width} x"
                f" {x.channels}"
            )
        if x.height != factors.height and 1 not in (x.height, factors.height):
            raise self.refused(f"{factors.height} matrices on {x.height}")
        return x.channels, max(x.height, factors.height), factors.width

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        x, factors = sources
        low, high = self._sums(
            (one(x.lo), one(x.hi)), (one(factors.lo), one(factors.hi)), factors.channels
        )
        # Kernels may add up the products of the stored elements first.
        plain = replace(self, zero_points=(0, 0))._sums(
            (one(x.lo), one(x.hi)), (one(factors.lo), one(factors.hi)), factors.channels
        )
        return Accumulator.of(low, high, one(0), *plain)

    def _sums(
        self, x: tuple[Ints, Ints], factors: tuple[Ints, Ints], count: int
    ) -> tuple[Ints, Ints]:
        """Return the bounds of sums of ``count`` products."""
        first, second = self.zero_points
        pairs = product((end - first for end in x), [end - second for end in factors])
        corners = np.stack([count * a * b for a, b in pairs])
        return corners.min(axis=0), corners.max(axis=0)

    def compute(self, inputs: Sequence[Values]) -> Values:
        # Doubles, whose sums are exact below 2^53.
        x, factors = (
            (values - zero).transpose(1, 2, 0).astype(np.float64)
            for values, zero in zip(inputs, self.zero_points, strict=True)
        )
        return (factors @ x).transpose(2, 0, 1).astype(np.int64)

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the sums of a channel of the first input with any of the second one."""
        x, factors = intervals
        ends = factors.lo.min(keepdims=True), factors.hi.max(keepdims=True)
        return Interval(*self._sums((x.lo, x.hi), ends, len(factors.lo)))

    def macs(self, sources: Tensors, output: Tensor) -> int:
        return output.elements * sources[0].width

    def loads(self, source: Tensor) -> Loads:
        """Return the elements of both inputs that one output is a sum over."""
        return Loads(source.width, 0)

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return that an output reads all columns of the first input."""
        if axis == 0 and source.height == output.height:
            return None
        return all_places(axis, source, output)

    def whole_axes(self, operand: int, source: Tensor, output: Tensor) -> Axes:
        """Return that a tile has whole rows of the second matrix."""
        if operand == 0:
            return False, False, False
        return True, source.height != output.height, False

    def follows_output(self, operand: int) -> bool:
        return operand == 1

    def channel_groups(self, source: Tensor, output: Tensor) -> int | None:
        return output.channels

    def of_channels(self, channels: int, total: int) -> Self | None:
        return self

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the zero points."""
        first, second = (z + b for z, b in zip(self.zero_points, before, strict=True))
        steps = moved_steps(self.requants, 0, after)
        return replace(self, zero_points=(first, second), requants=steps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        rows, inner, columns = (draw.pick(1, 2, 3, 4, 5, 8, 9, 12, 17) for _ in range(3))
        heights = draw.pick((1, 1), (2, 2), (3, 3), (1, 3), (2, 1))
        x = draw.source(columns, heights[0], inner)
        factors = draw.source(inner, heights[1], rows)
        zeros = tuple(draw.pick(0, draw.integer(lo, hi)) for *_, lo, hi in (x, factors))
        reach = inner * max(abs(x[3]), x[4]) * max(1, max(abs(factors[3]), factors[4]) // 2)
        steps = draw.requants(columns, reach, draw.pick(*draw.space.outputs))
        fields = {"zero_points": zeros, "requants": draw.pick((), steps, steps, steps)}
        return Sample(fields, (x, factors))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        sources = ((20, 2, 33, -128, 127), (33, 2, 14, -128, 127))
        return {"matmul_of_heads": Sample({"zero_points": (-5, 3)}, sources)}
