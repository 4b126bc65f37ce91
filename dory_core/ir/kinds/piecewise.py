"""Function of one element by straight pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import INT32, Accumulator, Apply, one
from dory_core.ir.kinds.fields import Steps, as_text
from dory_core.ir.kinds.operator import Operator, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import Requant, requant
from dory_core.ir.tensor import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Piecewise(Operator):
    """A function of one element by straight pieces of equal length.

    With u = argument(x) and k = floor(u / 2^piece_bits), the accumulator is
    ``table[0, k] + table[1, k] * (u mod 2^piece_bits)``.

    Attributes:
        table: Shape (2, N): where each piece begins, and its slope.
        piece_bits: What a piece is long: 2^piece_bits.
        argument: One step from an element to u, the same for all channels, with the bounds 0 and
            N * 2^piece_bits - 1.
    """

    table: Array
    piece_bits: int
    argument: tuple[Requant, ...] = field(metadata=as_text(Steps(("argument",))))

    is_channelwise: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("piecewise",)

    @property
    def steps(self) -> tuple[Requant, ...]:
        return (*self.argument, *self.requants)

    def output_shape(self, sources: Tensors) -> Shape:
        return sources[0].shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        self._check()
        lo, hi = apply(self.argument[0], one(sources[0].lo), one(sources[0].hi))
        starts, slopes = self.table.values.astype(np.int64)
        ends = starts + slopes * ((1 << self.piece_bits) - 1)
        low, high = int(min(starts.min(), ends.min())), int(max(starts.max(), ends.max()))
        return Accumulator.of(one(low), one(high), lo, hi)

    def _check(self) -> None:
        shape, [step] = self.table.shape, self.argument
        if len(shape) != 2 or shape[0] != 2 or not 0 <= self.piece_bits < 16:
            raise self.refused(f"a table of shape {shape}, of pieces of {self.piece_bits} bits")
        last = (shape[1] << self.piece_bits) - 1
        if (step.lo, step.hi) != (0, last) or step.is_channelwise:
            raise self.refused(
                f"its argument has the bounds {step.lo} and {step.hi}, not 0, {last}"
            )
        low, high = self.table.bounds
        if not INT32[0] <= low <= high <= INT32[1]:
            raise self.refused("its table exceeds 32 bits")

    def compute(self, inputs: Sequence[Values]) -> Values:
        at = self.argument[0].apply(inputs[0])
        starts, slopes = self.table.values.astype(np.int64)
        piece, inside = at >> self.piece_bits, at & ((1 << self.piece_bits) - 1)
        return np.asarray(starts[piece] + slopes[piece] * inside)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        source, bits = draw.source(*draw.shape()), draw.integer(0, 9)
        count = draw.integer(1, 40)
        last = (count << bits) - 1
        reach = max(abs(source[3]), source[4], 1)
        argument = requant(draw.integer(1, max(1, last)), last * reach // 2, reach, 0, last)
        starts = draw.numbers.integers(-(1 << 25), 1 << 25, count)
        slopes = draw.numbers.integers(-2000, 2000, count)
        fields = {
            "table": Array(np.stack([starts, slopes])),
            "piece_bits": bits,
            "argument": (argument,),
            "requants": draw.requants(1, 1 << 25, draw.pick(*draw.space.outputs)),
        }
        return Sample(fields, (source,))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        starts = np.arange(40) ** 2 * 1000
        fields = {
            "table": Array(np.stack([starts, np.append(np.diff(starts), 7) >> 5])),
            "piece_bits": 5,
            "argument": (requant(5, 640, 1, 0, 1279),),
            "requants": (requant(1, 512, 1 << 14, -128, 127),),
        }
        return {"piecewise": Sample(fields, ((12, 15, 14, -128, 127),))}
