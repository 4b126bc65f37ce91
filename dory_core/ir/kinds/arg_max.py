"""Index of the largest channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dory_core.ir.bounds import Accumulator, Apply, one
from dory_core.ir.kinds.operator import Bare, Operator, Sample, Tensors, Values
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.tensor import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgMax(Operator):
    """Index of the largest channel of each pixel, the first one of equals; output (1, H, W)."""

    bare: ClassVar[Bare] = Bare.ACCUMULATOR
    samples: ClassVar[tuple[str, ...]] = ("argmax",)

    def output_shape(self, sources: Tensors) -> Shape:
        return 1, sources[0].height, sources[0].width

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        return Accumulator.of(one(0), one(sources[0].channels - 1))

    def compute(self, inputs: Sequence[Values]) -> Values:
        return np.asarray(inputs[0].argmax(axis=0)[None], dtype=np.int64)

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        return Sample({}, ((*draw.shape(), *draw.pick(*draw.space.inputs)),))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        return {"argmax": Sample({}, ((12, 15, 14, -128, 127),))}
