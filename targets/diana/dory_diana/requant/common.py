"""What both arrays share: the steps of a layer over the sums of its products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dory_core.api import Layer, Requant, ops, requantisation
from dory_core.importing import requant

Integers = npt.NDArray[np.int64]

_SAFE = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What happens to the sums of products of a layer.

    steps: requantisations, first to last; a bias is one of them. lo, hi: reachable sums without
    bias, int64, shape (C,), C output channels.
    """

    steps: tuple[Requant, ...]
    lo: Integers
    hi: Integers

    def values(self, acc: Integers) -> npt.NDArray[Any]:
        """Return the outputs of sums, exact for any. acc: shape (C,), one sum per channel."""
        value: npt.NDArray[Any] = acc
        for step in self.steps:
            largest = max(abs(int(value.min())), abs(int(value.max())), 1)
            if largest * max(abs(m) for m in step.mul) + max(abs(a) for a in step.add) >= _SAFE:
                value = value.astype(object)
            value = step.apply(value)
        return value

    def stairs(self) -> requantisation.Staircase | None:
        """Return the staircase of the steps, None when it has too many to be listed."""
        return requantisation.staircase(self.steps, self.lo, self.hi)


def steps_of(layer: Layer) -> Steps | None:
    """Return the steps of a layer, None when its outputs are the sums themselves.

    A part of a layer with some of its channels has the steps of all: its operator is the same.
    """
    if not layer.op.requants:
        return None
    steps, *bounds = requantisation.steps_of_sums(layer)
    weights = getattr(layer.op, "weights", None)
    channels = layer.output.channels if weights is None else weights.shape[0]
    lo, hi = (np.broadcast_to(b, (channels,)).copy() for b in bounds)
    return Steps(steps, lo, hi)


def sum_steps(layer: Layer) -> Steps | None:
    """Return the steps of an Add over the plain sum of its operands, None when there are none.

    The operands' own steps can be moved after the sum when they have equal factors, no divisor
    and no clip.
    """
    first, second = (
        requant() if step is None else step for step in layer.of(ops.Add).operand_requants
    )
    if first.mul != second.mul or first.div != 1 or second.div != 1:
        return None
    for step, x in zip((first, second), layer.inputs, strict=True):
        ends = [step.scalar(v, c) for v in (x.lo, x.hi) for c in range(len(step.mul))]
        if step.lo is not None and step.hi is not None:
            free = replace(step, lo=None, hi=None)
            if ends != [free.scalar(v, c) for v in (x.lo, x.hi) for c in range(len(step.mul))]:
                return None
    a, b = (np.array(step.add, dtype=np.int64) for step in (first, second))
    channels = layer.output.channels
    both = requant(list(first.mul), (a + b).tolist())
    lo = np.full(channels, sum(x.lo for x in layer.inputs), dtype=np.int64)
    hi = np.full(channels, sum(x.hi for x in layer.inputs), dtype=np.int64)
    return Steps((both, *layer.op.requants), lo, hi)


def clipped(
    stairs: requantisation.Staircase, bounds: tuple[int, int]
) -> requantisation.Staircase | None:
    """Return the staircase with other bounds as its clip, None when its values exceed them."""
    if int(stairs.first.min()) < bounds[0] or int(stairs.last.max()) > bounds[1]:
        return None
    return replace(stairs, clip=bounds)


def slopes(steps: Sequence[Requant], channels: int) -> npt.NDArray[np.float64]:
    """Return y per accumulator, shape (channels,), clips and rounding apart."""
    slope = np.ones(channels)
    for step in steps:
        slope = slope * (np.array(step.mul, dtype=np.float64) / step.div)
    return slope
