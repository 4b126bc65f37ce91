"""Softmax as plain quotients of integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, one
from dory_core.ir.kinds.operator import Operator, Sample, Tensors, Values, moved_steps
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Shape, Tensor

_UINT32_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares(Operator):
    """Shares of the channels of each pixel, by a table of exponentials: a softmax in integers.

    With e[c] = table[max(x) - x[c]], the accumulator is floor(factor * e[c] / sum(e)). Source:
    Deeploy, iSoftmax and ITAMax, whose exponentials are such tables.

    Attributes:
        table: Shape (256,), from 0 on, and table[0] from 1 on. The largest value of the input is
            at most 255 above the lowest.
        factor: What the shares add up to; products with an entry, and sums of entries, have 32
            bits.
    """

    table: Array
    factor: int

    has_offsets: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("shares",)

    def output_shape(self, sources: Tensors) -> Shape:
        return sources[0].shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        self._check(sources[0])
        return Accumulator.of(one(0), one(self.factor))

    def _check(self, source: Tensor) -> None:
        table = self.table.values.astype(np.int64)
        if table.shape != (256,) or source.hi - source.lo > 255:
            raise self.refused(
                f"a table of shape {table.shape} for values in [{source.lo}, {source.hi}];"
                " possible are 256 entries and as many values"
            )
        if table.min() < 0 or not table[0] or self.factor < 1:
            raise self.refused("entries below 0, or none for the largest channel")
        most = int(table.max())
        if max(most * source.channels, most * self.factor) > _UINT32_MAX:
            raise self.refused(
                f"entries up to {most}, {source.channels} of them in a sum and times"
                f" {self.factor}, exceed 32 bits"
            )

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source] = inputs
        powers = self.table.values.astype(np.int64)[source.max(axis=0) - source]
        return np.asarray(self.factor * powers // powers.sum(axis=0))

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the output: only differences of the inputs matter."""
        return replace(self, requants=moved_steps(self.requants, 0, after))

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, (lo, hi) = draw.shape(), draw.byte()
        falling = np.exp(-np.arange(256) * draw.numbers.uniform(0.0001, 0.6))
        table = np.ceil(falling * draw.pick(200, 15_000, 10_000_000)).astype(np.int64)
        table[draw.integer(1, 256) :] = 0
        factor = draw.pick(127, 255)
        steps = draw.requants(shape[0], factor, draw.pick((-128, 127), (0, 255)))
        moved = (requant(1, -128, 1, -128, 127),)
        fields = {"table": Array(table), "factor": factor, "requants": draw.pick((), moved, steps)}
        return Sample(fields, ((*shape, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        falling = np.ceil(np.exp(-np.arange(256) * 0.02) * 10_000).astype(np.int64)
        return {
            "shares": Sample({"table": Array(falling), "factor": 255}, ((12, 15, 14, -128, 127),))
        }
