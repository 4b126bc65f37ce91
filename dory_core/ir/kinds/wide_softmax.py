"""Softmax of elements of 16 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, one
from dory_core.ir.kinds.fields import Steps, as_text
from dory_core.ir.kinds.operator import Operator, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import Requant, requant
from dory_core.ir.tensor import Shape

_MOST = (1 << 16) - 1
_ENTRIES = 513
_PIECE_BITS = 7
_INT16_MAX = (1 << 15) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WideSoftmax(Operator):
    """Softmax over the channels of each pixel, by two functions with 513 values each.

    A function has the values of its table at multiples of 2^7, and between them those of a straight
    line, rounded. With e[c] = exps(argument(x[c] - max(x))), sum = sum of e, n = leading zeros of
    sum in 32 bits and r = inverses(round(sum * 2^n / 2^15) - 2^16), the accumulator is
    round(e[c] * r / 2^(31 - n)). Source: TensorFlow Lite, reference/softmax.h, int16.

    Attributes:
        exps: Shape (513,), rising, from 0 to 2^15 - 1 at most.
        inverses: Shape (513,), of 1 / (1 + a), from 0 to 2^15 - 1.
        argument: One step, the same for all channels, with the bounds 0 and 2^16 - 1.
    """

    exps: Array
    inverses: Array
    argument: tuple[Requant, ...] = field(metadata=as_text(Steps(("argument",))))

    samples: ClassVar[tuple[str, ...]] = ("softmax_of_words",)

    @property
    def steps(self) -> tuple[Requant, ...]:
        return (*self.argument, *self.requants)

    def output_shape(self, sources: Tensors) -> Shape:
        return sources[0].shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        [source] = sources
        self._check(source.channels)
        apply(self.argument[0], one(source.lo - source.hi), one(0))
        # A share is at most the product of the largest values over the least power of two.
        return Accumulator.of(one(0), one(1 << 17))

    def _check(self, channels: int) -> None:
        [step], tables = self.argument, (self.exps, self.inverses)
        if any(table.shape != (_ENTRIES,) for table in tables):
            raise self.refused(f"tables of shapes {self.exps.shape} and {self.inverses.shape}")
        if any(not 0 <= table.bounds[0] <= table.bounds[1] <= _INT16_MAX for table in tables):
            raise self.refused("its tables have values beyond 15 bits")
        values = self.exps.values.astype(np.int64)
        if (np.diff(values) < 0).any() or values[-2] <= 1 << 14:
            raise self.refused("its exponentials do not rise to a large number")
        if (step.lo, step.hi) != (0, _MOST) or step.is_channelwise:
            raise self.refused(f"its argument has the bounds {step.lo} and {step.hi}")
        if step.scalar(0, 0) != _MOST:
            raise self.refused("its argument of the largest channel is not the largest one")
        if channels > 1 << 16:
            raise self.refused(f"the sum over {channels} channels exceeds 32 bits")

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source] = inputs
        exps = _looked_up(self.exps, self.argument[0].apply(source - source.max(axis=0)))
        total = exps.sum(axis=0)
        digits = np.frompyfunc(int.bit_length, 1, 1)(total.astype(object)).astype(np.int64)
        shifted = ((total << (31 - digits)) + (1 << 13)) >> 14
        inverse = _looked_up(self.inverses, np.clip(shifted - (1 << 16), 0, _MOST))
        shift = digits - 1
        return np.asarray((exps * inverse + (np.int64(1) << (shift - 1))) >> shift)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        source = draw.source(*draw.shape())
        factor = draw.integer(1, max(1, 2 * _MOST // max(1, source[4] - source[3])))
        steps = (requant(1, 0, 1, 0, _INT16_MAX),)
        return Sample({**_example(factor), "requants": steps}, (source,))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        fields = {**_example(100), "requants": (requant(1, 0, 256, 0, 127),)}
        return {"wide_softmax": Sample(fields, ((12, 15, 14, -128, 127),))}


def _looked_up(table: Array, at: Values) -> Values:
    """Return a function at places of 16 bits."""
    values = table.values.astype(np.int64)
    piece, inside = at >> _PIECE_BITS, at & ((1 << _PIECE_BITS) - 1)
    rounded = (np.diff(values)[piece] * inside + (1 << _PIECE_BITS - 1)) >> _PIECE_BITS
    return np.asarray(values[piece] + rounded)


def _example(factor: int) -> dict[str, object]:
    places = np.arange(_ENTRIES) / (_ENTRIES - 1)
    return {
        "exps": Array(np.floor(np.exp(10 * (places - 1)) * _INT16_MAX).astype(np.int64)),
        "inverses": Array(np.floor(_INT16_MAX / (1 + places)).astype(np.int64)),
        "argument": (requant(factor, _MOST, 1, 0, _MOST),),
    }
