"""Softmax over channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, one
from dory_core.ir.features import Feature
from dory_core.ir.fixed_point import SUM_SHIFT, softmax
from dory_core.ir.kinds.operator import Operator, Sample, Tensors, Values, moved_steps
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Shape, Tensor

_INT32_MAX = 2**31 - 1
_INFINITE = 0x7F800000  # bits of the infinity of binary32


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Operator):
    """Softmax over the channels of each pixel, in the integers of TensorFlow Lite.

    With e[c] = table[max(x) - x[c]], sum = sum of round(e[c] / 2^12), n = leading zeros of sum in
    32 bits and r = the fixed-point reciprocal of sum * 2^n (``dory_core.ir.fixed_point``), the
    accumulator is round(high(r * e[c]) / 2^(43 - share_bits - n)): 2^share_bits times the share of
    c, at most 2^share_bits. The requantisation adds the zero point and clips. Source: TensorFlow
    Lite, reference/softmax.h.

    Attributes:
        table: Shape (256,), exp(-difference) in Q0.31, falling from at most 2^31 - 1; 0 where the
            reference skips the element. The largest value of the input is at most 255 above the
            lowest.
        factor: 0; or the accumulator is even(e[c] * factor / sum), with a sum of e in binary32 in
            the order of the channels and a quotient that is not rounded before, and the table
            holds e as bits of binary32. Source: onnxruntime, QLinearSoftmax.
        share_bits: 8, or 16 for results of 16 bits.
    """

    table: Array
    factor: int = 0
    share_bits: int = 8

    has_offsets: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("softmax", "wide_softmax")

    def output_shape(self, sources: Tensors) -> Shape:
        return sources[0].shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        self._check(sources[0])
        return Accumulator.of(one(0), one(self.factor or 1 << self.share_bits))

    def _check(self, source: Tensor) -> None:
        table = self.table.values.astype(np.int64)
        if table.shape != (256,) or source.hi - source.lo > 255:
            raise self.refused(
                f"a table of shape {table.shape} for values in [{source.lo}, {source.hi}];"
                " possible are 256 entries and as many values"
            )
        if self.share_bits not in ((8,) if self.factor else (8, 16)):
            raise self.refused(
                f"shares of {self.share_bits} bits; possible are 8, and 16 without a factor"
            )
        falls = bool((np.diff(table) <= 0).all()) and table[-1] >= 0
        if self.factor and falls and table[0] < _INFINITE and 0 < self.factor < 1 << 20:
            return
        least = 1 << SUM_SHIFT + self.share_bits - 8  # no share is shifted to the left
        if not falls or not least <= int(table[0]) <= _INT32_MAX:
            raise self.refused("its table does not fall from a large number to 0")
        if source.channels << 31 - SUM_SHIFT > _INT32_MAX:
            raise self.refused(
                f"the sum over {source.channels} channels exceeds 32 bits",
                f"split it: {(_INT32_MAX >> 31 - SUM_SHIFT)} channels fit",
            )

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source] = inputs
        differences = source.max(axis=0) - source
        if not self.factor:
            return softmax(differences, self.table.values.astype(np.int64), self.share_bits)
        powers = self.table.values.astype(np.int32).view(np.float32)[differences]
        total = np.zeros(source.shape[1:], np.float32)
        for channel in powers:
            total = total + channel
        # In binary64 no result of up to 2^12 is a tie that is none, nor the other way round.
        shares = powers.astype(np.float64) * self.factor / total.astype(np.float64)
        return np.asarray(np.rint(shares).astype(np.int64))

    def features(self, sources: Tensors) -> frozenset[Feature]:
        if self.factor:
            return frozenset({Feature.REALS})
        return frozenset({Feature.WIDE_SHARES} if self.share_bits > 8 else ())

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the output: only differences of the inputs matter."""
        return replace(self, requants=moved_steps(self.requants, 0, after))

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, (lo, hi) = draw.shape(), draw.byte()
        falling = np.exp(-np.arange(256) * draw.numbers.uniform(0.0001, 0.6))
        table = np.minimum(np.floor(falling * 2**31), _INT32_MAX).astype(np.int64)
        table[draw.integer(1, 256) :] = 0
        bits = 16 if name == "wide_softmax" else 8
        most = (1 << bits) - 1
        zero = draw.pick(-(most + 1) // 2, 0)
        steps = (requant(1, zero, 1, zero, zero + most),)
        fields = {"table": Array(table), "share_bits": bits, "requants": steps}
        return Sample(fields, ((*shape, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        falling = np.floor(np.exp(-np.arange(256) * 0.02) * 2**31)
        fields = {
            "table": Array(np.minimum(falling, _INT32_MAX).astype(np.int64)),
            "requants": (requant(1, -128, 1, -128, 127),),
        }
        return {"softmax": Sample(fields, ((12, 15, 14, -128, 127),))}
