"""Logarithm of the softmax over channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, one
from dory_core.ir.fixed_point import log_softmax
from dory_core.ir.kinds.operator import Operator, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Shape, Tensor

_INT32_MAX = 2**31 - 1
_ONE_Q19 = 1 << 19
#: Sixteenths of -20 - log(4096), rounded away.
_LEAST = -454


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSoftmax(Operator):
    """Logarithm of the softmax over the channels of each pixel, in the integers of TensorFlow Lite.

    With n = max(x) - x[c] and sum = sum of table[0, n], the accumulator is round((table[1, n] -
    log(sum)) / 2^22), halves away from zero, with the fixed-point logarithm in Q5.26 of a sum in
    Q12.19 (``dory_core.ir.fixed_point``): sixteenths, at most 0. The requantisation adds the zero
    point and clips. Source: TensorFlow Lite, reference/log_softmax.h.

    Attributes:
        table: Shape (2, 256). First exp(-difference) in Q12.19, falling from 2^19, 0 where the
            reference skips the element; then minus the difference in Q5.26, falling from 0 to at
            least -20 * 2^26. The largest value of the input is at most 255 above the lowest.
    """

    table: Array

    samples: ClassVar[tuple[str, ...]] = ("log_softmax",)

    def output_shape(self, sources: Tensors) -> Shape:
        return sources[0].shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        self._check(sources[0])
        return Accumulator.of(one(_LEAST), one(1))

    def _check(self, source: Tensor) -> None:
        table = self.table.values.astype(np.int64)
        if table.shape != (2, 256) or source.hi - source.lo > 255:
            raise self.refused(
                f"a table of shape {table.shape} for values in [{source.lo}, {source.hi}];"
                " possible are 2 x 256 entries and as many values"
            )
        powers, differences = table
        falls = bool((np.diff(table, axis=1) <= 0).all())
        whole = powers[0] == _ONE_Q19 and powers[-1] >= 0
        if not falls or not whole or differences[0] or differences[-1] < -20 << 26:
            raise self.refused("its tables do not fall from 1 and from 0")
        if source.channels * _ONE_Q19 > _INT32_MAX:
            raise self.refused(
                f"the sum over {source.channels} channels exceeds 32 bits",
                f"split it: {_INT32_MAX // _ONE_Q19} channels fit",
            )

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source] = inputs
        return log_softmax(source.max(axis=0) - source, self.table.values.astype(np.int64))

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, (lo, hi) = draw.shape(), draw.byte()
        differences = np.arange(256) * draw.numbers.uniform(0.001, 0.3)
        powers = np.rint(np.exp(-differences) * 2**19).astype(np.int64)
        powers[draw.integer(1, 256) :] = 0
        table = np.stack([powers, -np.minimum(differences * 2**26, 20 * 2**26).astype(np.int64)])
        step = requant(1, 127, 1, *draw.pick((-128, 127), (0, 127)))
        return Sample({"table": Array(table), "requants": (step,)}, ((*shape, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        differences = np.arange(256) * 0.05
        powers = np.rint(np.exp(-differences) * 2**19)
        fields = {
            "table": Array(np.stack([powers, -differences * 2**26]).astype(np.int64)),
            "requants": (requant(1, 127, 1, -128, 127),),
        }
        return {"log_softmax": Sample(fields, ((12, 15, 14, -128, 127),))}
