"""Transposed convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, Interval, dot_products
from dory_core.ir.kinds.channels import Ints, Mask
from dory_core.ir.kinds.fields import as_text, number
from dory_core.ir.kinds.operator import Intervals, Places, Sample, Tensors, Values, moved_steps
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.kinds.weighted import Weighted
from dory_core.ir.kinds.window import Window
from dory_core.ir.requant import requant
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTranspose(Weighted):
    """Transposed convolution: every input element adds its filter to the output.

    Input row r adds tap k to output row r * stride + k * dilation - top, likewise for columns; taps
    that fall outside of the output are lost. The output has (H - 1) * stride + (kh - 1) * dilation
    + 1 - top - bottom rows. bottom and right may be negative: rows and columns that nothing reaches
    get only the bias.

    Attributes:
        weights: Shape (Cout, Cin, kh, kw).
        window: Where its taps lie.
        zero_point: Subtracted from every input element, because the number of elements that an
            output sees depends on its place.
    """

    window: Window
    zero_point: int = field(default=0, metadata=as_text(number("zero")))

    samples: ClassVar[tuple[str, ...]] = ("convtranspose",)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) of the output for an input of the given size."""
        (kh, kw), (sh, sw) = self.window.kernel, self.window.strides
        (dh, dw), (top, left, bottom, right) = self.window.dilations, self.window.pads
        return (
            (height - 1) * sh + (kh - 1) * dh + 1 - top - bottom,
            (width - 1) * sw + (kw - 1) * dw + 1 - left - right,
        )

    def output_shape(self, sources: Tensors) -> Shape:
        [source], shape = sources, self.weights.shape
        if shape[1] != source.channels:
            raise self.refused(f"weights {list(shape)} do not fit {source.channels} input channels")
        if shape[2:] != self.window.kernel:
            raise self.refused(
                f"weights {list(shape)} do not fit a kernel {list(self.window.kernel)}"
            )
        if min(self.window.pads[:2]) < 0:
            raise self.refused(f"its pads {list(self.window.pads)} begin below 0")
        return self.checked((shape[0], *self.output_size(source.height, source.width)))

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        # with all taps, or any of them: which ones depends on the place
        weights = self.weights.values.reshape(self.weights.shape[0], -1)
        bias = np.zeros(1, np.int64) if self.bias is None else self.bias.values.astype(np.int64)
        low, high = (end - self.zero_point for end in (sources[0].lo, sources[0].hi))
        lo, hi = dot_products(weights, min(low, 0), max(high, 0))
        return Accumulator.of(lo + bias, hi + bias, lo, hi, bias)

    def compute(self, inputs: Sequence[Values]) -> Values:
        [source] = inputs
        weights = self.weights.values.astype(np.float64)
        (kh, kw), (sh, sw) = self.window.kernel, self.window.strides
        (dh, dw), (top, left, bottom, right) = self.window.dilations, self.window.pads
        channels, height, width = source.shape
        rows, columns = (height - 1) * sh + (kh - 1) * dh + 1, (width - 1) * sw + (kw - 1) * dw + 1
        sums = np.zeros((len(weights), rows + max(-bottom, 0), columns + max(-right, 0)), np.int64)
        centred = (source - self.zero_point).reshape(channels, -1).astype(np.float64)
        for y in range(kh):
            for x in range(kw):
                image = (weights[:, :, y, x] @ centred).astype(np.int64)
                down, along = y * dh, x * dw
                sums[
                    :,
                    down : down + (height - 1) * sh + 1 : sh,
                    along : along + (width - 1) * sw + 1 : sw,
                ] += image.reshape(-1, height, width)
        return self.with_bias(sums[:, top : rows - bottom, left : columns - right])

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return bounds with all taps, or any of them: which ones depends on the place."""
        lo, hi = (end - self.zero_point for end in (intervals[0].lo, intervals[0].hi))
        moved = Interval(lo, hi).including(0)
        weights = self.by_channel(sources[0]).astype(np.int64)
        positive, negative = np.maximum(weights, 0).sum(axis=2), np.minimum(weights, 0).sum(axis=2)
        bias = 0 if self.bias is None else self.bias.values.astype(np.int64)
        return Interval(
            positive @ moved.lo + negative @ moved.hi + bias,
            positive @ moved.hi + negative @ moved.lo + bias,
        )

    def macs(self, sources: Tensors, output: Tensor) -> int:
        c_out, _, kh, kw = self.weights.shape
        return sources[0].elements * c_out * kh * kw

    def places(self, axis: int, source: Tensor, output: Tensor) -> Places | None:
        """Return the elements whose filters reach an output."""
        stride, before = self.window.strides[axis], self.window.pads[axis]
        reach = (self.window.kernel[axis] - 1) * self.window.dilations[axis]
        return tuple(
            (-((reach - n - before) // stride), (n + before) // stride)
            for n in range(output.shape[axis + 1])
        )

    def needed_inputs(self, rows: Mask, interval: Interval, source: Tensor) -> Mask:
        """Return channels with a weight that is not zero, unless they rest at the zero point."""
        by_tap = self.weights.values[rows].any(axis=0).reshape(source.channels, -1)
        depends = ~(interval.constant & (interval.lo == self.zero_point))
        return np.asarray(depends & by_tap.any(axis=1))

    def by_channel(self, source: Tensor) -> npt.NDArray[Any]:
        return self.weights.values.reshape(*self.weights.shape[:2], -1)

    def as_stored(self, weights: Ints) -> Array:
        return Array(weights.reshape(*weights.shape[:2], *self.window.kernel))

    def constant_sums(self, weights: Ints, interval: Interval, source: Tensor) -> Ints:
        """Return zeros: channels that go are at the zero point."""
        return np.zeros(len(weights), np.int64)

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the zero point."""
        steps = moved_steps(self.requants, 0, after)
        return replace(self, zero_point=self.zero_point + before[0], requants=steps)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        window = draw.window(draw.pick((1, 1), (2, 2), (3, 3), (2, 4), (1, 3)))
        bits, (lo, hi) = draw.pick(*draw.space.weight_bits), draw.pick(*draw.space.inputs)
        c_out, c_in, h, w = (draw.integer(1, 7) for _ in range(4))
        weights = draw.weights(c_out, c_in, *window.kernel, bits=bits)
        fields = {
            "weights": weights,
            "window": window,
            "weight_bits": bits,
            "bias": draw.bias(c_out),
            "zero_point": draw.pick(0, draw.integer(lo, hi)),
            "requants": draw.steps(c_out, weights, (c_in, h, w, lo, hi)),
        }
        return Sample(fields, ((c_in, h, w, lo, hi),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        window = Window(kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1))
        fields = {
            "weights": Array(np.random.default_rng(3).integers(-128, 128, (9, 7, 3, 3))),
            "window": window,
            "bias": Array(np.arange(9) * 37),
            "zero_point": -5,
            "requants": (requant(range(3, 12), 77, 1 << 13, -128, 127),),
        }
        return {"conv_transpose": Sample(fields, ((7, 6, 5, -128, 127),))}
