"""Convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, Interval
from dory_core.ir.features import Feature
from dory_core.ir.kinds.channels import Ints, Links, Mask, Selection
from dory_core.ir.kinds.operator import Intervals, Loads, Sample, Tensors, Values, moved_steps
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.kinds.weighted import Weighted
from dory_core.ir.kinds.window import Window, taps_of
from dory_core.ir.kinds.windowed import (
    output_size,
    pad_features,
    padding_of,
    seen_range,
    under_taps,
)
from dory_core.ir.tensor import Shape, Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedWeights(Weighted):
    """Sums of products with weights of what a window sees.

    Attributes:
        window: What one output sees.
    """

    window: Window

    def features(self, sources: Tensors) -> frozenset[Feature]:
        return pad_features(self.window)

    @property
    def sliding(self) -> Window | None:
        return self.window

    @property
    def padding(self) -> int:
        return padding_of(self.window)

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Move the padding; the bias takes back what the inputs are higher by."""
        window = replace(self.window, pad_value=self.window.pad_value + before[0])
        steps = moved_steps(self.requants, 0, after)
        return replace(self, window=window, bias=self.moved_bias(before[0]), requants=steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv(WindowedWeights):
    """Convolution, 2-D or 1-D (H = 1), any groups.

    Attributes:
        weights: Shape (Cout, Cin / groups, kh, kw).
        window: Where its taps lie.
        groups: Number of groups of channels, each of which reads channels of its own.
    """

    groups: int = 1

    has_channel_groups: ClassVar[bool] = True
    samples: ClassVar[tuple[str, ...]] = ("conv", "grouped", "pointwise", "depthwise")

    @property
    def is_depthwise(self) -> bool:
        """One filter per input channel and one output channel per filter."""
        return self.groups > 1 and self.weights.shape[:2] == (self.groups, 1)

    @property
    def is_pointwise(self) -> bool:
        """A dense 1x1 filter, whatever the stride."""
        return self.groups == 1 and self.window.kernel == (1, 1)

    def output_shape(self, sources: Tensors) -> Shape:
        [source] = sources
        channels, fan_in = self.weights.shape[:2]
        if self.groups < 1 or fan_in * self.groups != source.channels or channels % self.groups:
            raise self.refused(
                f"weights {list(self.weights.shape)} in {self.groups} groups do not fit an input"
                f" of {source.channels} channels"
            )
        if self.weights.shape[2:] != self.window.kernel:
            raise self.refused(
                f"weights {list(self.weights.shape)} do not fit a kernel {list(self.window.kernel)}"
            )
        return self.checked((channels, *output_size(self, self.window, source)))

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        return self.sums_of(*seen_range(self, self.window, sources[0]))

    def compute(self, inputs: Sequence[Values]) -> Values:
        # products of matrices of doubles are exact: every partial sum has 32 bits
        views = self.window.views(inputs[0].astype(np.float64), self.window.pad_value)
        weights, groups = self.weights.values.astype(np.float64), self.groups
        (c_out, fan_in), (height, width) = weights.shape[:2], views[0].shape[1:]
        if fan_in == 1:  # depthwise: a sum of shifted images is faster than thin matrix products
            sums = np.zeros((c_out, height, width))
            for position, view in enumerate(views):
                repeated = view if c_out == groups else np.repeat(view, c_out // groups, axis=0)
                sums += repeated * weights.reshape(c_out, -1)[:, position, None, None]
        else:
            taps = [view.reshape(groups, fan_in, height * width) for view in views]
            columns = taps[0] if len(taps) == 1 else np.concatenate(taps, axis=1)
            rows = weights.transpose(0, 2, 3, 1).reshape(groups, c_out // groups, -1)
            sums = (rows @ columns).reshape(c_out, height, width)
        return self.with_bias(sums.astype(np.int64))

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        """Return the sums over what each tap sees."""
        lo, hi = under_taps(self.window, intervals[0], sources[0])
        return self.interval_of(lo.reshape(self.groups, -1), hi.reshape(self.groups, -1))

    def macs(self, sources: Tensors, output: Tensor) -> int:
        _, c_in, kh, kw = self.weights.shape
        return output.elements * c_in * kh * kw

    def loads(self, source: Tensor) -> Loads:
        """Return an input and a weight for each product."""
        products = self.weights.values[0].size
        return Loads(products, products)

    @property
    def title(self) -> str:
        """The window, and the groups."""
        if self.is_depthwise:
            return f"depthwise Conv {self.window.title}"
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"Conv {self.window.title}{groups}"

    def channel_groups(self, source: Tensor, output: Tensor) -> int | None:
        return self.groups if self.groups > 1 else None

    def of_channels(self, channels: int, total: int) -> Self | None:
        """Only with one input channel per filter: a kernel may compute groups of several together.

        A part of one filter's channels would be a dense convolution.
        """
        groups = self.groups * channels // total
        if self.weights.shape[1] > 1 or groups < 2:
            return None
        return replace(self, groups=groups)

    @property
    def is_dense(self) -> bool:
        return self.groups == 1

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """All channels of a group stay or go together."""
        if self.is_dense:
            return ()
        before, after = np.arange(sources[0].channels), np.arange(output.channels)
        fan_in, fan_out = len(before) // self.groups, len(after) // self.groups
        return (
            (0, before, before // fan_in * fan_out),
            (0, after // fan_out * fan_in, after),
        )

    def needed_inputs(self, rows: Mask, interval: Interval, source: Tensor) -> Mask:
        """Return channels that change where a weight is not zero.

        A constant one is needed where its sum depends on the place: at the border of the image
        padding stands for it.
        """
        by_tap = self.weights.values[rows].any(axis=0).reshape(source.channels, -1)
        taps = taps_of(self.window, source)
        varying = ~interval.constant & by_tap[:, ~taps.outside].any(axis=1)
        other = interval.constant & (interval.lo != self.window.pad_value)
        return np.asarray(varying | (other & by_tap[:, taps.mixed].any(axis=1)))

    def by_channel(self, source: Tensor) -> npt.NDArray[Any]:
        return self.weights.values.reshape(*self.weights.shape[:2], -1)

    def as_stored(self, weights: Ints) -> Array:
        return Array(weights.reshape(*weights.shape[:2], *self.window.kernel))

    def constant_sums(self, weights: Ints, interval: Interval, source: Tensor) -> Ints:
        """Return the sums of constants, or of the padding where a tap sees nothing else."""
        seen = np.where(interval.constant, interval.lo, 0)[:, None]
        seen = np.repeat(seen, weights.shape[2], axis=1)
        seen[:, taps_of(self.window, source).outside] = self.window.pad_value
        return np.asarray(np.einsum("oct,ct->o", weights, seen))

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        if self.is_dense:
            return Weighted.selected(self, selection, sources)
        return {
            "weights": Array(self.weights.values[selection.kept]),
            "bias": None if self.bias is None else Array(self.bias.values[selection.kept]),
            "groups": len(selection.kept) * self.groups // len(selection.output),
        }

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        bits = draw.pick(*draw.space.weight_bits)
        c_out = draw.pick(1, 2, 3, 4, 5, 8, 9, 16, 17, 20)
        if name == "pointwise":
            window = Window(kernel=(1, 1), strides=draw.pick((1, 1), (2, 2), (1, 3)))
        else:
            window = draw.window(draw.pick(*draw.space.kernels))
        groups, per_group = 1, draw.pick(1, 2, 3, 4, 5, 7, 8, 16, 33)
        if name == "depthwise":
            groups, per_group = draw.pick(2, 3, 4, 5, 8, 9, 17), 1
            c_out = groups * draw.pick(*draw.space.filters_per_channel)
        if name == "grouped":
            groups, per_group = draw.pick(2, 3, 4, 6), draw.pick(2, 3, 4, 5, 8)
            c_out = groups * draw.pick(1, 2, 3, 4, 6)
        source = draw.source(groups * per_group, *draw.image(window))
        window = draw.padded(window, source)
        weights = draw.weights(c_out, per_group, *window.kernel, bits=bits)
        fields = {
            "weights": weights,
            "weight_bits": bits,
            "bias": draw.bias(c_out),
            "window": window,
            "groups": groups,
            "requants": draw.steps(c_out, weights, source),
        }
        return Sample(fields, (source,))
