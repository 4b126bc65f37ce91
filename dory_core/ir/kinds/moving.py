"""What operators share that move elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from dory_core.ir.bounds import Accumulator, Apply, one
from dory_core.ir.kinds.operator import Bare, Offsets, Operator, Places, Tensors, Values
from dory_core.ir.tensor import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover(Operator):
    """Elements of the inputs at other places: no arithmetic."""

    bare: ClassVar[Bare] = Bare.AS_INPUTS

    @abstractmethod
    def arranged(self, inputs: Sequence[Values]) -> Values:
        """Return the elements of the output, which may be a view of an input."""

    def compute(self, inputs: Sequence[Values]) -> Values:
        return self.arranged(inputs).copy()

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        lo, hi = min(s.lo for s in sources), max(s.hi for s in sources)
        return Accumulator.of(one(lo), one(hi))

    @property
    def offsets(self) -> Offsets:
        return Offsets.SHARED

    def moved(self, before: Sequence[int], after: int) -> Self:
        """Return an equal layer."""
        return replace(self)


def all_places(axis: int, source: Tensor, output: Tensor) -> Places:
    """Return that every output element of an axis needs all of the input."""
    return ((0, source.shape[axis + 1] - 1),) * output.shape[axis + 1]


def shifted_places(first: int, step: int, count: int) -> Places:
    """Return one input element per output element, at equal distances."""
    return tuple((first + n * step, first + n * step) for n in range(count))


def follow_in_memory(tensor: Tensor, axis: int) -> bool:
    """Return True when what has successive places along an axis (C, H, W) is a range of bytes."""
    if axis == 1:
        return True
    if axis == 2:
        return tensor.height == 1
    return (tensor.height, tensor.width) == (1, 1) and tensor.bits >= 8
