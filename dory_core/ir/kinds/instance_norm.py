"""Normalisation of each channel over its rows and columns, in binary32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.binary32 import EPSILONS, PACKET, REAL_SCALES, instance_norm, single
from dory_core.ir.bounds import Accumulator, Apply
from dory_core.ir.features import Feature
from dory_core.ir.kinds.channels import Selection
from dory_core.ir.kinds.fields import as_text, real
from dory_core.ir.kinds.moving import all_places
from dory_core.ir.kinds.normalising import Normalising
from dory_core.ir.kinds.operator import Places, Sample, Tensors, Values, moved_steps
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Shape, Tensor

_MOST_WEIGHT = 2.0**30
_MOST_ELEMENTS = 1 << 20
# Beyond what any accumulator is clipped to.
_FAR = 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNorm(Normalising):
    """Normalisation over the rows and columns of each channel, as onnxruntime computes it.

    Elements mean x = f32(scale * (element - zero_point)), in the order of rows and columns. The
    accumulator is even(f32(y / out_scale)) of y = x * s + (bias - mean * s) with s = weight /
    sqrt(variance + epsilon), by the inverse root, every operation rounded, with the order of sums
    of ``dory_core.ir.binary32.instance_norm``.

    Attributes:
        weights: Shape (C,), bits of binary32.
        bias: Shape (C,), bits of binary32.
        starts: Elements of a channel before the first packet of its sum, shape (C,).
        scale: What a step of the input means.
        zero_point: What is taken off the elements.
        epsilon: What is added to the variance.
        out_scale: What a step of the result means.
    """

    starts: Array
    scale: float = field(metadata=as_text(real("scale")))
    zero_point: int = 0
    epsilon: float = field(metadata=as_text(real("epsilon")))
    out_scale: float = field(metadata=as_text(real("to")))

    is_channelwise: ClassVar[bool] = True
    has_offsets: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("instance_norm",)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Weights, biases and starts."""
        return (*super(InstanceNorm, self).arrays, self.starts)

    def output_shape(self, sources: Tensors) -> Shape:
        [source] = sources
        shape = self.checked(source)
        if self.bias is None:
            raise self.refused("it has no bias")
        if not 0 <= int(self.starts.values.min()) <= int(self.starts.values.max()) < PACKET:
            raise self.refused(f"starts beyond [0, {PACKET - 1}]")
        if source.height * source.width > _MOST_ELEMENTS:
            raise self.refused(f"{source.height} x {source.width} elements of a channel")
        return shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        [source] = sources
        if max(abs(source.lo - self.zero_point), abs(source.hi - self.zero_point)) > 255:
            raise self.refused(f"values in [{source.lo}, {source.hi}]; possible are those of bytes")
        for name, value, (lo, hi) in (
            ("scale", self.scale, REAL_SCALES),
            ("out_scale", self.out_scale, REAL_SCALES),
            ("epsilon", self.epsilon, EPSILONS),
        ):
            if not lo <= value <= hi or float(single(value)) != value:
                raise self.refused(f"{name} {value:g}; possible are numbers in [{lo:g}, {hi:g}]")
        sizes = [np.abs(_reals(array).astype(np.float64)) for array in self.arrays[:2]]
        if not all(np.isfinite(size).all() and size.max() <= _MOST_WEIGHT for size in sizes):
            raise self.refused(f"weights or biases beyond {_MOST_WEIGHT:g}")
        # |x - mean| / sqrt(variance + epsilon) is at most the root of the elements, and at most
        # the reach of x over the root of epsilon; roundings of x * s and mean * s add to it.
        reach = 255 * self.scale / np.sqrt(self.epsilon)
        most_deviation = min(np.sqrt(source.height * source.width), reach) + 1
        most = (most_deviation * sizes[0] * 1.01 + 2.0**-20 * reach * sizes[0] + sizes[1]) * 1.01
        bound = np.minimum(np.ceil(most / self.out_scale) + 1, _FAR).astype(np.int64)
        return Accumulator.of(-bound, bound)

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source] = inputs
        reals = (source - self.zero_point).astype(np.float32) * single(self.scale)
        assert self.bias is not None
        found = instance_norm(
            reals.reshape(len(reals), prod(reals.shape[1:])),
            _reals(self.weights),
            _reals(self.bias),
            self.epsilon,
            self.starts.values.astype(np.int64),
        )
        steps = np.rint(found / single(self.out_scale)).reshape(source.shape)
        return np.asarray(np.clip(steps, -_FAR, _FAR).astype(np.int64))

    def features(self, sources: Tensors) -> frozenset[Feature]:
        return frozenset({Feature.REALS})

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        return all_places(axis, source, output)

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        return {
            "weights": selection.of_rows(self.weights),
            "bias": selection.of_rows(self.bias),
            "starts": selection.of_rows(self.starts),
        }

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the zero point, and the steps."""
        steps = moved_steps(self.requants, 0, after)
        return replace(self, zero_point=self.zero_point + before[0], requants=steps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, (lo, hi) = draw.shape(), draw.byte()
        channels = shape[0]
        reals = draw.numbers.normal(1, 0.5, channels), draw.numbers.normal(0, 0.5, channels)
        weights, bias = (Array(single(each).view(np.int32)) for each in reals)
        fields = {
            "weights": weights,
            "bias": bias,
            "starts": Array(draw.numbers.integers(0, PACKET, channels)),
            "scale": float(single(draw.numbers.uniform(0.001, 0.2))),
            "zero_point": draw.integer(lo, hi),
            "epsilon": float(single(draw.pick(1e-5, 1e-12, 1.0))),
            "out_scale": float(single(draw.numbers.uniform(0.01, 0.05))),
            "requants": (requant(1, draw.integer(-20, 20), 1, -128, 127),),
        }
        return Sample(fields, ((*shape, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        numbers = np.random.default_rng(9)
        fields = {
            "weights": Array(single(numbers.normal(1, 0.5, 12)).view(np.int32)),
            "bias": Array(single(numbers.normal(0, 0.5, 12)).view(np.int32)),
            "starts": Array(np.arange(12) % PACKET),
            "scale": 0.03125,
            "epsilon": float(single(1e-5)),
            "out_scale": 0.025390625,
            "requants": (requant(1, -3, 1, -128, 127),),
        }
        return {"instance_norm": Sample(fields, ((12, 15, 14, -128, 127),))}


def _reals(array: Array) -> Any:
    return array.values.astype(np.int32).view(np.float32)
