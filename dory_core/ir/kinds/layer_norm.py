"""Layer normalisation in binary32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.binary32 import (
    EPSILONS,
    LANES,
    PACKET,
    REAL_SCALES,
    Floats,
    layer_norm,
    norm_in_order,
    norm_in_packets,
    single,
)
from dory_core.ir.bounds import Accumulator, Apply
from dory_core.ir.features import Feature
from dory_core.ir.kinds.fields import as_text, real, word
from dory_core.ir.kinds.normalising import Normalising
from dory_core.ir.kinds.operator import Sample, Tensors, Values, moved_steps
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Shape

#: With more channels the sum in binary64 might be rounded.
_MOST_CHANNELS = 1 << 16


class NormForm(StrEnum):
    """How a :class:`LayerNorm` is computed."""

    #: Over the root of the variance: 8 channels and more.
    LAYER = "centred"
    #: Over the root of the mean square, in the same order of sums: 16 channels and more.
    RMS = "rms"
    #: The same as a quotient by the root, with squares added in order: fewer than 16 channels.
    SHORT_RMS = "short_rms"
    #: Over the root of the mean square, as a sum in packets: a multiple of 4 channels.
    PACKED_RMS = "packed_rms"
    #: The same, times the inverse of the root.
    PACKED_INVERSE = "packed_inverse"
    #: Over the root of the sum of squares, in this order as well; 0 where all elements are 0.
    L2 = "l2"


_PACKED = (NormForm.PACKED_RMS, NormForm.PACKED_INVERSE)
#: Channels that a form has at least, and at most.
_CHANNELS: Mapping[NormForm, tuple[int, int]] = MappingProxyType(
    {
        NormForm.LAYER: (LANES, _MOST_CHANNELS),
        NormForm.RMS: (2 * LANES, _MOST_CHANNELS),
        NormForm.SHORT_RMS: (1, 2 * LANES - 1),
        NormForm.PACKED_RMS: (PACKET, _MOST_CHANNELS),
        NormForm.PACKED_INVERSE: (PACKET, _MOST_CHANNELS),
        NormForm.L2: (1, _MOST_CHANNELS),
    }
)
_MOST_WEIGHT = 2.0**30
# Beyond what any accumulator is clipped to.
_FAR = 1 << 23


_FORM = word(f"({'|'.join(NormForm)})", lambda form: str(form), lambda match: NormForm(match[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNorm(Normalising):
    """Layer normalisation over the channels of each pixel, as onnxruntime computes it.

    Elements mean f32(scale * (element - zero_point)). The accumulator is even(f32(y / out_scale))
    of y = fused((x - mean) / sqrt(variance + epsilon) * weight + bias), by the inverse root, with
    the order of sums of ``dory_core.ir.binary32.layer_norm``. Other forms have no mean and no bias;
    those in order and in packets are ``norm_in_order`` and ``norm_in_packets`` there.

    Attributes:
        weights: Shape (C,), bits of binary32.
        bias: Shape (C,), bits of binary32, or none.
        scale: What a step of the input means.
        zero_point: What is taken off the elements.
        epsilon: What is added to the variance.
        out_scale: What a step of the result means.
        form: Which normalisation it is.
    """

    scale: float = field(metadata=as_text(real("scale")))
    zero_point: int = 0
    epsilon: float = field(metadata=as_text(real("epsilon")))
    out_scale: float = field(metadata=as_text(real("to")))
    form: NormForm = field(default=NormForm.LAYER, metadata=as_text(_FORM))

    has_offsets: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("layer_norm",)

    def output_shape(self, sources: Tensors) -> Shape:
        [source] = sources
        shape = self.checked(source)
        least, most = _CHANNELS[self.form]
        wrong = self.form in _PACKED and source.channels % PACKET
        if wrong or not least <= source.channels <= most:
            raise self.refused(
                f"{source.channels} channels; possible are {least} to {most}: onnxruntime adds up"
                " others in another order"
            )
        if self.form != NormForm.LAYER and self.bias is not None:
            raise self.refused(f"a bias in the form {self.form}")
        return shape

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        [source] = sources
        ends = (source.lo - self.zero_point, source.hi - self.zero_point)
        if max(map(abs, ends)) > 255:
            raise self.refused(f"values in [{source.lo}, {source.hi}]; possible are those of bytes")
        for name, value, (lo, hi) in (
            ("scale", self.scale, REAL_SCALES),
            ("out_scale", self.out_scale, REAL_SCALES),
            ("epsilon", self.epsilon, (0.0, 0.0) if self.form == NormForm.L2 else EPSILONS),
        ):
            if not lo <= value <= hi or float(single(value)) != value:
                raise self.refused(f"{name} {value:g}; possible are numbers in [{lo:g}, {hi:g}]")
        weights, bias = self._reals()
        sizes = np.abs(weights.astype(np.float64)), np.abs(single(0) if bias is None else bias)
        if not isfinite(sum(map(np.sum, sizes))) or max(map(np.max, sizes)) > _MOST_WEIGHT:
            raise self.refused(f"weights or biases beyond {_MOST_WEIGHT:g}")
        # No deviation exceeds the root of C times the mean square.
        reach = (np.sqrt(source.channels) * 1.001 * sizes[0] + sizes[1]) / self.out_scale
        most = np.minimum(np.ceil(reach) + 1, _FAR).astype(np.int64)
        return Accumulator.of(-most, most)

    def _reals(self) -> tuple[Floats, Floats | None]:
        weights, bias = (
            None if array is None else array.values.astype(np.int32).view(np.float32)
            for array in (self.weights, self.bias)
        )
        assert weights is not None
        return weights, bias

    def compute(self, inputs: Sequence[Values]) -> Values:
        reals = (inputs[0] - self.zero_point).astype(np.float32) * single(self.scale)
        weights, bias = self._reals()
        if self.form in (NormForm.LAYER, NormForm.RMS):
            centred = self.form == NormForm.LAYER
            normal = layer_norm(reals, weights, bias, self.epsilon, centred=centred)
        elif self.form in _PACKED:
            by_inverse = self.form == NormForm.PACKED_INVERSE
            normal = norm_in_packets(reals, weights, self.epsilon, by_inverse=by_inverse)
        else:
            of_mean = self.form == NormForm.SHORT_RMS
            normal = norm_in_order(reals, weights, self.epsilon, of_mean=of_mean)
        found = normal / single(self.out_scale)
        return np.asarray(np.clip(np.rint(found), -_FAR, _FAR).astype(np.int64))

    def features(self, sources: Tensors) -> frozenset[Feature]:
        return frozenset({Feature.REALS})

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the zero point, and the steps."""
        steps = moved_steps(self.requants, 0, after)
        return replace(self, zero_point=self.zero_point + before[0], requants=steps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        (_, height, width), (lo, hi) = draw.shape(), draw.byte()
        form = draw.pick(*NormForm)
        least, most = _CHANNELS[form]
        channels = draw.integer(least, min(most, 30))
        if form in _PACKED:
            channels -= channels % PACKET
        reals = draw.numbers.normal(1, 0.5, channels), draw.numbers.normal(0, 0.5, channels)
        weights, bias = (Array(single(each).view(np.int32)) for each in reals)
        fields = {
            "weights": weights,
            "bias": draw.pick(None, bias) if form == NormForm.LAYER else None,
            "scale": float(single(draw.numbers.uniform(0.001, 0.2))),
            "zero_point": draw.integer(lo, hi),
            "epsilon": 0.0 if form == NormForm.L2 else float(single(draw.pick(1e-5, 1e-12, 1.0))),
            "form": form,
            "out_scale": float(single(draw.numbers.uniform(0.01, 0.05))),
            "requants": (requant(1, draw.integer(-20, 20), 1, -128, 127),),
        }
        return Sample(fields, ((channels, height, width, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        numbers = np.random.default_rng(9)
        fields = {
            "weights": Array(single(numbers.normal(1, 0.5, 12)).view(np.int32)),
            "bias": Array(single(numbers.normal(0, 0.5, 12)).view(np.int32)),
            "scale": 0.03125,
            "epsilon": float(single(1e-5)),
            "out_scale": 0.025390625,
            "requants": (requant(1, -3, 1, -128, 127),),
        }
        source = (12, 15, 14, -128, 127)
        others = {"bias": None, "form": NormForm.L2, "epsilon": 0.0}
        return {
            "layer_norm": Sample(fields, (source,)),
            "l2_norm_of_reals": Sample({**fields, **others}, (source,)),
        }
