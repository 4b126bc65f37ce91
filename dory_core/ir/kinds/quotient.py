"""Quotient of two operands in binary32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dory_core.ir.array import Array
from dory_core.ir.binary32 import REAL_SCALES, single
from dory_core.ir.bounds import Accumulator, Apply, Bounds
from dory_core.ir.features import Feature
from dory_core.ir.kinds.fields import as_text, real, word
from dory_core.ir.kinds.operator import Sample, Tensors, Values
from dory_core.ir.kinds.pairwise import Pairwise
from dory_core.ir.kinds.random_parts import RandomParts
from dory_core.ir.requant import requant

#: Beyond what any accumulator is clipped to.
_FAR = 1 << 23
_MOST_OPERAND = 255

_Ends = tuple[Bounds, Bounds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotient(Pairwise):
    """The first operand over the second one, each after its step, as onnxruntime divides reals.

    The operands mean a = f32(scale * x1) and b = f32(scale2 * x2), and the accumulator is
    even(f32(f32(a / b) / out_scale)), at most 2^23 in size. Over 0 it is 2^23 of the sign of a, and
    -2^23 where a is 0 as well: so a quotient that is no number becomes the lowest value.

    Attributes:
        scale: What a step of the first operand means.
        scale2: What a step of the second operand means.
        out_scale: What a step of the result means.
        turned: It is the second operand over the first one.
    """

    scale: float = field(metadata=as_text(real("scale")))
    scale2: float = field(metadata=as_text(real("by")))
    out_scale: float = field(metadata=as_text(real("to")))
    turned: bool = field(
        default=False, metadata=as_text(word("turned", lambda _: "turned", lambda _: True))
    )

    samples: ClassVar[tuple[str, ...]] = ("quotient",)

    def accumulator(self, sources: Tensors, apply: Apply) -> Accumulator:
        lo, hi = REAL_SCALES
        for value in (self.scale, self.scale2, self.out_scale):
            if not lo <= value <= hi or float(single(value)) != value:
                raise self.refused(f"a scale {value:g}; possible are numbers in [{lo:g}, {hi:g}]")
        return super(Quotient, self).accumulator(sources, apply)

    def pair(self, first: Values, second: Values) -> Values:
        a, b = (
            value.astype(np.float32) * single(scale)
            for value, scale in ((first, self.scale), (second, self.scale2))
        )
        if self.turned:
            a, b = b, a
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.rint(a / b / single(self.out_scale))
        inside = np.clip(np.nan_to_num(found, nan=-_FAR), -_FAR, _FAR)
        return np.asarray(inside.astype(np.int64))

    def pair_of_bounds(self, first: _Ends, second: _Ends) -> _Ends:
        if max(int(np.abs(end).max()) for end in (*first, *second)) > _MOST_OPERAND:
            raise self.refused(f"operands beyond {_MOST_OPERAND}, once zero points are taken off")
        divisor = first if self.turned else second
        corners = np.stack([self.pair(*np.broadcast_arrays(a, b)) for a in first for b in second])
        is_apart = (divisor[0] > 0) | (divisor[1] < 0)
        lo = np.where(is_apart, corners.min(axis=0), -_FAR)
        return lo, np.where(is_apart, corners.max(axis=0), _FAR)

    def features(self, sources: Tensors) -> frozenset[Feature]:
        return super(Quotient, self).features(sources) | {Feature.REALS}

    @classmethod
    def random(cls, draw: RandomParts, name: str) -> Sample:
        shape, ranges = draw.shape(), (draw.byte(), draw.byte())
        small = np.where(draw.numbers.random(3) < 0.7, shape, 1).tolist()
        c, h, w = draw.pick(shape, tuple(small), (shape[0], 1, 1), (1, 1, 1))
        lo, hi = draw.pick((-128, 127), (0, 255))
        scales = [_scale(draw) for _ in range(3)]
        fields = {
            "scale": scales[0],
            "scale2": scales[1],
            "out_scale": draw.pick(scales[2], 2.0**-6),
            "turned": draw.pick(True, False),
            "operand_requants": tuple(
                draw.pick(None, requant(1, -draw.integer(low, high))) for low, high in ranges
            ),
            "requants": (requant(1, draw.integer(lo, hi), 1, lo, hi),),
        }
        if draw.integer(0, 2) == 0:
            constant = draw.numbers.integers(ranges[1][0], ranges[1][1] + 1, (c, h, w))
            return Sample({**fields, "constant": Array(constant)}, ((*shape, *ranges[0]),))
        return Sample(fields, ((*shape, *ranges[0]), (c, h, w, *ranges[1])))

    @classmethod
    def examples(cls) -> Mapping[str, Sample]:
        fields = {
            "scale": float(single(0.013)),
            "scale2": 0.015625,
            "out_scale": 0.03125,
            "operand_requants": (requant(1, 7), requant(1, -100)),
            "requants": (requant(1, -3, 1, -128, 127),),
        }
        source = (12, 15, 14, -128, 127)
        return {"quotient": Sample(fields, (source, (12, 15, 14, 0, 255)))}


def _scale(draw: RandomParts) -> float:
    power = float(2.0 ** draw.integer(-9, 2))
    return draw.pick(power, float(single(draw.numbers.uniform(0.002, 0.2))))
