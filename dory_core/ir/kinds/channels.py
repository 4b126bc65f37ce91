"""Which channels of a layer stay when those that cannot change go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dory_core.ir.array import Array
from dory_core.ir.bounds import Interval
from dory_core.ir.requant import Requant, requant

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
#: (input number, its channels, channels of the output) that stay or go together.
Links = Sequence[tuple[int, Ints, Ints]]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The channels of a layer that stay.

    Attributes:
        inputs: Mask of the channels of each input.
        output: Mask of the channels of the output.
        intervals: Intervals of all channels of the tensors by name.
    """

    inputs: tuple[Mask, ...]
    output: Mask
    intervals: Mapping[str, Interval]

    @property
    def all(self) -> bool:
        """Whether every channel stays."""
        return all(bool(mask.all()) for mask in (*self.inputs, self.output))

    @property
    def kept(self) -> Ints:
        """Numbers of the output channels that stay."""
        return np.flatnonzero(self.output)

    def of_rows(self, array: Array | None) -> Array | None:
        """Return the rows of an array that stay; one row serves all channels."""
        if array is None or len(array.values) == 1:
            return array
        return Array(array.values[self.kept])

    def of_step(self, step: Requant) -> Requant:
        """Return a requantisation of the channels that stay."""
        mul, add, *other = (
            values if len(values) == 1 else tuple(values[c] for c in self.kept)
            for values in step.parameters
        )
        if step.float32:
            return replace(step, mul=mul)
        negative = other[0] if other else None
        return requant(mul, add, step.div, step.lo, step.hi, negative, step.turn)


def same_channels(count: int, number: int = 0) -> Links:
    """Return the links of each channel of an input with the same one of the output."""
    same = np.arange(count)
    return ((number, same, same),)
