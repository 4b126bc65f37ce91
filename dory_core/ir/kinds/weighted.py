"""What operators share that add up products with weights."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dory_core.ir.array import Array
from dory_core.ir.bounds import INT32, Accumulator, Interval, dot_products
from dory_core.ir.kinds.channels import Ints, Links, Selection
from dory_core.ir.kinds.fields import WIDE, WIDE_BITS, always, as_text, word
from dory_core.ir.kinds.operator import Bare, Operator, Tensors, Values
from dory_core.ir.tensor import Shape, Tensor

_BITS = word(r"w(\d+)", lambda bits: f"w{bits}", lambda match: int(match[1]), always)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted(Operator):
    """Sums of products with weights.

    Attributes:
        weights: Of each output channel.
        weight_bits: Width that the file gives the weights.
        bias: Shape (Cout,), added to the accumulator.
        wide: The accumulator may leave 32 bits, as one of 64 bits in the format does.
    """

    weights: Array
    weight_bits: int = field(default=8, metadata=as_text(_BITS))
    bias: Array | None = None
    wide: bool = field(default=False, metadata=as_text(WIDE))

    has_offsets: ClassVar[bool] = True
    bare: ClassVar[Bare] = Bare.ACCUMULATOR

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return self.weights.values.size + (0 if self.bias is None else self.bias.values.size)

    @property
    def sum_bits(self) -> int:
        return WIDE_BITS if self.wide and self.requants else 32

    def checked(self, shape: Shape) -> Shape:
        """Return the shape of the output.

        Raises:
            NotSupported: When the bias does not fit it.
        """
        if self.bias is not None and self.bias.shape != shape[:1]:
            raise self.refused("its bias has another number of channels")
        return shape

    def sums_of(self, lo: int, hi: int) -> Accumulator:
        """Return the accumulators of elements in [lo, hi]."""
        weights = self.weights.values.reshape(self.weights.shape[0], -1)
        bias = np.zeros(1, dtype=np.int64)
        if self.bias is not None:
            bias = self.bias.values.astype(np.int64)
            if int(bias.min()) < INT32[0] or int(bias.max()) > INT32[1]:
                raise self.refused("its bias exceeds 32 bits")
        complete = dot_products(weights, lo, hi)
        partial = dot_products(weights, min(lo, 0), max(hi, 0))
        return Accumulator(
            lo=complete[0] + bias,
            hi=complete[1] + bias,
            partial_lo=int((partial[0] + np.minimum(bias, 0)).min()),
            partial_hi=int((partial[1] + np.maximum(bias, 0)).max()),
        )

    def with_bias(self, sums: Values) -> Values:
        """Return sums (C, H, W) and the bias."""
        if self.bias is not None:
            sums = sums + self.bias.values.astype(np.int64).reshape(-1, 1, 1)
        return sums

    def interval_of(self, lo: Ints, hi: Ints) -> Interval:
        """Return the intervals of the sums.

        Args:
            lo: Lowest elements that a row of weights meets, shape (groups, row).
            hi: Highest elements.
        """
        groups, weights = len(lo), self.weights.values.reshape(self.weights.shape[0], -1)
        rows = weights.reshape(groups, len(weights) // groups, -1).astype(np.float64)
        positive, negative = np.maximum(rows, 0), np.minimum(rows, 0)
        low, high = (end[:, :, None].astype(np.float64) for end in (lo, hi))
        bias = 0 if self.bias is None else self.bias.values.astype(np.int64)
        ends = (positive @ low + negative @ high, positive @ high + negative @ low)
        acc_lo, acc_hi = (end.reshape(-1).astype(np.int64) + bias for end in ends)
        return Interval(acc_lo, acc_hi)

    @property
    def is_dense(self) -> bool:
        return True

    def channel_links(self, sources: Tensors, output: Tensor) -> Links | None:
        """Of a dense layer nothing is linked."""
        return ()

    @abstractmethod
    def by_channel(self, source: Tensor) -> npt.NDArray[Any]:
        """Return the weights of a dense layer as (Cout, Cin, taps)."""

    @abstractmethod
    def as_stored(self, weights: Ints) -> Array:
        """Return weights of shape (Cout, Cin, taps) in the shape that the layer has them."""

    @abstractmethod
    def constant_sums(self, weights: Ints, interval: Interval, source: Tensor) -> Ints:
        """Return the sums that input channels which go add to each output at every place.

        Their shape is (Cout,). Where the channels would add something else at other places, or for
        other inputs, their weights are 0, or the output is constant.

        Args:
            weights: Of these channels, shape (Cout, C, taps).
            interval: Of these channels.
            source: The input.
        """

    def selected(self, selection: Selection, sources: Tensors) -> dict[str, Any]:
        """Return weights and bias of a dense layer: what channels that go add is in the bias."""
        [inputs], [source], out = selection.inputs, sources, selection.kept
        weights = self.by_channel(source).astype(np.int64)[out]
        bias = np.zeros(len(weights), np.int64)
        if self.bias is not None:
            bias += self.bias.values[out]
        if not inputs.all():
            interval = selection.intervals[self.inputs[0]]
            bias += self.constant_sums(weights[:, ~inputs], interval[~inputs], source)
            still = selection.intervals[self.output].constant[out]
            acc = self.channel_intervals([interval], sources)
            assert acc is not None, "it has weights"
            weights = np.where(still[:, None, None], 0, weights)
            bias = np.where(still, acc.nearest[out], bias)
        return {
            "weights": self.as_stored(weights[:, inputs]),
            "bias": None if self.bias is None and not bias.any() else Array(bias),
        }

    def moved_bias(self, before: int) -> Array | None:
        """Return the bias that takes back what the inputs are higher by."""
        if not before:
            return self.bias
        weights = self.weights.values.astype(np.int64)
        bias = -before * weights.reshape(len(weights), -1).sum(axis=1)
        return Array(bias if self.bias is None else bias + self.bias.values)
