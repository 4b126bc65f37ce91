"""Convolution whose neighbouring sums become one, their maximum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dory_core.ir.array import Array
from dory_core.ir.bounds import Accumulator, Apply, Interval
from dory_core.ir.kinds.channels import Ints, Mask
from dory_core.ir.kinds.conv import Conv, WindowedWeights
from dory_core.ir.kinds.fields import always, as_text, word
from dory_core.ir.kinds.operator import Intervals, Loads, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.kinds.window import Window
from dory_core.ir.kinds.windowed import output_size
from dory_core.ir.tensor import Shape, Tensor


def _read_pool(match: Any) -> tuple[int, int]:
    return int(match[1]), int(match[2])


_POOL = word(r"pool (\d+)x(\d+)", lambda pool: f"pool {pool[0]}x{pool[1]}", _read_pool, always)


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledConv(WindowedWeights):
    """Dense convolution and the maximum of its sums over blocks of places, then requantisation.

    Steps that rise with the sum give the values of a MaxPool after the requantised convolution.

    Attributes:
        weights: Shape (Cout, Cin, kh, kw).
        window: What one output sees: the windows of all sums of its block.
        pool: Rows and columns of sums of a block; blocks do not overlap.
    """

    pool: tuple[int, int] = field(metadata=as_text(_POOL))

    samples: ClassVar[tuple[str, ...]] = ("pooledconv",)

    @classmethod
    def of(cls, conv: Conv, pool: tuple[int, int], **names: Any) -> Self:
        """Return a dense convolution without dilation and the pool of its outputs as one layer.

        Args:
            conv: The convolution.
            pool: Rows and columns of a block.
            **names: Of the layer: index, name, output, tensor.
        """
        same = ("inputs", "requants", "weights", "weight_bits", "bias", "wide")
        fields = {name: getattr(conv, name) for name in same}
        return cls(**names, **fields, window=_grown(conv.window, pool), pool=pool)

    @property
    def conv(self) -> Conv:
        """The convolution that gives the sums."""
        (down, right), (rows, columns) = self.window.strides, self.pool
        kernel, strides = self.weights.shape[2:], (down // rows, right // columns)
        return Conv(
            index=self.index,
            name=self.name,
            inputs=self.inputs,
            output=self.output,
            weights=self.weights,
            weight_bits=self.weight_bits,
            bias=self.bias,
            wide=self.wide,
            window=replace(self.window, kernel=(kernel[0], kernel[1]), strides=strides),
        )

    def output_shape(self, sources: Tensors) -> Shape:
        channels, *_ = self.conv.output_shape(sources)
        if self.window != _grown(self.conv.window, self.pool) or self.window.dilations != (1, 1):
            raise self.refused(
                f"a window {self.window.title} is none of {self.pool[0]} x {self.pool[1]} filters"
                f" {list(self.weights.shape[2:])}"
            )
        return channels, *output_size(self, self.window, sources[0])

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        return self.conv.accumulator(sources, apply)

    def compute(self, inputs: Sequence[Values]) -> Values:
        sums = self.conv.compute(inputs)
        height, width = self.window.output_size(*inputs[0].shape[1:])
        rows, columns = self.pool
        blocks = sums[:, : height * rows, : width * columns]
        return np.asarray(blocks.reshape(-1, height, rows, width, columns).max(axis=(2, 4)))

    def channel_intervals(self, intervals: Intervals, sources: Tensors) -> Interval | None:
        return self.conv.channel_intervals(intervals, sources)

    def macs(self, sources: Tensors, output: Tensor) -> int:
        """Return the products of all sums of the blocks."""
        return output.elements * prod(self.pool) * prod(self.weights.shape[1:])

    def loads(self, source: Tensor) -> Loads:
        """Return an input and a weight for each product of a block."""
        products = prod(self.pool) * prod(self.weights.shape[1:])
        return Loads(products, products)

    @property
    def title(self) -> str:
        """Those of the convolution and of the pool."""
        return f"{self.conv.title}, MaxPool {self.pool[0]}x{self.pool[1]}"

    def needed_inputs(self, rows: Mask, interval: Interval, source: Tensor) -> Mask:
        return self.conv.needed_inputs(rows, interval, source)

    def by_channel(self, source: Tensor) -> npt.NDArray[Any]:
        return self.conv.by_channel(source)

    def as_stored(self, weights: Ints) -> Array:
        return self.conv.as_stored(weights)

    def constant_sums(self, weights: Ints, interval: Interval, source: Tensor) -> Ints:
        return self.conv.constant_sums(weights, interval, source)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        """Return a convolution of :class:`Conv` and a block, in an image of at least one."""
        drawn = Conv.random(draw, "conv")
        window = replace(drawn.fields["window"], dilations=(1, 1))
        pool = draw.pick((2, 2), (2, 2), (1, 2), (3, 2))
        seen = _grown(window, pool)
        channels, _, _, lo, hi = drawn.sources[0]
        fields = {**drawn.fields, "window": seen, "pool": pool}
        del fields["groups"]
        return Sample(fields, ((channels, *draw.image(seen), lo, hi),))


def _grown(window: Window, pool: tuple[int, int]) -> Window:
    """Return the window of a block of windows."""
    (height, width), (down, right), (rows, columns) = window.kernel, window.strides, pool
    kernel = (height + (rows - 1) * down, width + (columns - 1) * right)
    return replace(window, kernel=kernel, strides=(down * rows, right * columns))
