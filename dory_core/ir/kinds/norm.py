"""Layer normalisation and its form without a mean, in plain integers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply
from dory_core.ir.kinds.fields import as_text, word
from dory_core.ir.kinds.normalising import Normalising
from dory_core.ir.kinds.operator import Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Tensor

_INT32_MAX = 2**31 - 1


def _read_centred(_: re.Match[str]) -> bool:
    return True


_CENTRED = word("centred", lambda _: "centred", _read_centred)


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm(Normalising):
    """The channels of each pixel over the root of their mean square, in integers of 32 bits.

    With L channels, m = trunc(sum(x) / L) where they are centred and 0 elsewhere, d = x - m and
    s = isqrt(floor(sum(d^2) / L) + 1), the accumulator is trunc(d[c] * weights[c] / s) + bias[c].
    isqrt is the integer part of the root. Source: Deeploy, iLayerNorm and iRMSNorm.

    Attributes:
        weights: Shape (C,).
        bias: Shape (C,), or none.
        centred: The mean is taken off: a layer normalisation.
        wrap_bits: The accumulator is taken modulo 2^wrap_bits, as a signed number; 0 for as it is.
    """

    centred: bool = field(default=False, metadata=as_text(_CENTRED))
    wrap_bits: int = 0

    samples: ClassVar[tuple[str, ...]] = ("norm",)

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        [source] = sources
        weights, bias = self._constants()
        most = self._most_deviation(source)
        squares = most * most * source.channels
        product = most * int(np.abs(weights).max()) + int(np.abs(bias).max())
        if max(squares, product) > _INT32_MAX:
            raise self.refused(
                f"sums of squares up to {squares} and products up to {product} exceed 32 bits"
            )
        if self.wrap_bits not in (0, *range(2, 33)):
            raise self.refused(f"it wraps to {self.wrap_bits} bits; possible are 2 to 32, or none")
        deviation, root = self._most_in_roots(most, source.channels)
        reach = deviation * np.abs(weights) // root
        lo, hi = bias - reach, bias + reach
        if self.wrap_bits:
            half = 1 << self.wrap_bits - 1
            wraps = (lo < -half) | (hi >= half)
            lo, hi = np.where(wraps, -half, lo), np.where(wraps, half - 1, hi)
        return Accumulator.of(lo, hi)

    def _constants(self) -> tuple[Values, Values]:
        weights = self.weights.values.astype(np.int64)
        return weights, np.int64(0) * weights if self.bias is None else self.bias.values.astype(
            np.int64
        )

    def _most_deviation(self, source: Tensor) -> int:
        """Return the largest magnitude of d."""
        return source.hi - source.lo if self.centred else max(abs(source.lo), abs(source.hi))

    def _most_in_roots(self, most: int, channels: int) -> tuple[int, int]:
        """Return a deviation and the root that it has at least, whose quotient is the largest.

        A deviation d makes the sum of squares at least d^2.
        """
        deviations = np.arange(1, most + 2, dtype=np.int64)
        roots = _roots(deviations**2 // channels + 1)
        # The quotients of numbers of 17 bits differ by more than binary64 rounds.
        best = int((deviations / roots).argmax())
        return int(deviations[best]), int(roots[best])

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source], (weights, bias) = inputs, self._constants()
        channels = len(source)
        mean = _truncated(source.sum(axis=0), channels) if self.centred else np.int64(0)
        deviations = source - mean
        roots = _roots((deviations**2).sum(axis=0) // channels + 1)
        scaled = _truncated(deviations * weights.reshape(-1, 1, 1), roots)
        result = scaled + bias.reshape(-1, 1, 1)
        if self.wrap_bits:
            half = 1 << self.wrap_bits - 1
            result = ((result + half) & (2 * half - 1)) - half
        return np.asarray(result)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, (lo, hi) = draw.shape(), draw.pick(*draw.space.inputs)
        shift, centred = draw.integer(0, 12), draw.pick(True, False)
        most = min((100 << shift), _INT32_MAX // 2 // max(hi - lo, 1))
        weights = draw.numbers.integers(-most, most + 1, shape[0])
        bias = draw.numbers.integers(-most, most + 1, shape[0])
        fields = {
            "weights": Array(weights),
            "bias": draw.pick(None, Array(bias)),
            "centred": centred,
            "wrap_bits": draw.pick(0, 8 + shift),
            "requants": (requant(1, 0, 1 << shift, *draw.pick((-128, 127), (-20, 31))),),
        }
        return Sample(fields, ((*shape, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        numbers = np.random.default_rng(9)
        fields = {
            "weights": Array(numbers.integers(9_000, 15_000, 12)),
            "bias": Array(numbers.integers(-9_000, 9_000, 12)),
            "centred": True,
            "wrap_bits": 16,
            "requants": (requant(1, 0, 256, -128, 127),),
        }
        return {"norm": Sample(fields, ((12, 15, 14, -128, 127),))}


def _truncated(values: Values, by: Values | int) -> Values:
    """Return quotients by positive numbers, rounded towards 0."""
    return np.asarray(np.sign(values) * (np.abs(values) // by))


def _roots(values: Values) -> Values:
    """Return the integer parts of the roots of numbers below 2^52, exact in binary64."""
    return np.asarray(np.floor(np.sqrt(values.astype(np.float64))), dtype=np.int64)
