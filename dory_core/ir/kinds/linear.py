"""Fully connected layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, Interval
from dory_core.ir.kinds.channels import Ints, Mask
from dory_core.ir.kinds.operator import Intervals, Loads, Sample, Tensors, Values, moved_steps
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.kinds.weighted import Weighted
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(Weighted):
    """Fully connected layer over the whole input tensor.

    Attributes:
        weights: Shape (Cout, H * W * C), columns in the HWC order of the input tensor.
    """

    reads_vector: ClassVar[bool] = True
    has_channel_groups: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("linear",)

    def output_shape(self, sources: Tensors) -> Shape:
        outputs, columns = self.weights.shape
        elements = sources[0].elements
        if columns != elements:
            raise self.refused(f"weights for {columns} inputs on {elements} elements")
        return self.checked((outputs, 1, 1))

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        return self.sums_of(sources[0].lo, sources[0].hi)

    def compute(self, inputs: Sequence[Values]) -> Values:
        columns = inputs[0].transpose(1, 2, 0).reshape(-1).astype(np.float64)
        sums = (self.weights.values.astype(np.float64) @ columns).astype(np.int64)
        return self.with_bias(sums.reshape(-1, 1, 1))

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the sums over all pixels of each channel."""
        pixels = sources[0].height * sources[0].width
        lo, hi = (np.tile(end, pixels)[None] for end in (intervals[0].lo, intervals[0].hi))
        return self.interval_of(lo, hi)

    def macs(self, sources: Tensors, output: Tensor) -> int:
        return int(self.weights.values.size)

    def loads(self, source: Tensor) -> Loads:
        """Return an input and a weight for each product."""
        return Loads(source.elements, source.elements)

    def needed_inputs(self, rows: Mask, interval: Interval, source: Tensor) -> Mask:
        """Return channels that change where a weight is not zero."""
        weights = self.weights.values[rows].reshape(-1, source.channels)
        return np.asarray(~interval.constant & weights.any(axis=0))

    def by_channel(self, source: Tensor) -> npt.NDArray[Any]:
        weights = self.weights.values.reshape(self.weights.shape[0], -1, source.channels)
        return np.asarray(weights.transpose(0, 2, 1))

    def as_stored(self, weights: Ints) -> Array:
        return Array(weights.transpose(0, 2, 1).reshape(len(weights), -1))

    def constant_sums(self, weights: Ints, interval: Interval, source: Tensor) -> Ints:
        """Return the sums of constants."""
        seen = np.where(interval.constant, interval.lo, 0)
        return np.asarray(np.einsum("oct,c->o", weights, seen))

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Let the bias take back what the inputs are higher by."""
        steps = moved_steps(self.requants, 0, after)
        return replace(self, bias=self.moved_bias(before[0]), requants=steps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        bits = draw.pick(*draw.space.weight_bits)
        c_out = draw.pick(1, 2, 3, 4, 5, 8, 9, 16, 17, 20)
        source = draw.source(draw.pick(1, 3, 8, 16), draw.pick(1, 1, 2, 3), draw.pick(1, 1, 4))
        weights = draw.weights(c_out, source[0] * source[1] * source[2], bits=bits)
        fields = {
            "weights": weights,
            "weight_bits": bits,
            "bias": draw.bias(c_out),
            "requants": draw.steps(c_out, weights, source),
        }
        return Sample(fields, (source,))
