"""The plugin module: Distance, and its kernel for every target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dory_core.api import (
    Constraint,
    FunctionCall,
    Kernel,
    Layer,
    Number,
    Operand,
    OutputFile,
    Rejection,
    Tensor,
    Tile,
    WeightBlock,
    hookimpl,
    ops,
    reject_type,
    size,
)
from dory_core.importing import Array

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance(ops.Operator):
    """The sum over the channels of each pixel of the distances from a point, in steps.

    Attributes:
        centre: the point, shape (C,).
        coarse: distances are multiples of this number, rounded down.
        limits: the least and the greatest distance of a channel that counts.
    """

    centre: Array
    coarse: int = 1
    limits: tuple[int, int] = field(
        default=(0, 255),
        metadata=ops.as_text(
            ops.word(
                r"from (\d+) to (\d+)",
                lambda limits: f"from {limits[0]} to {limits[1]}",
                lambda match: (int(match[1]), int(match[2])),
            )
        ),
    )

    bare: ClassVar[ops.Bare] = ops.Bare.ACCUMULATOR
    samples: ClassVar[tuple[str, ...]] = ("distance",)

    def output_shape(self, sources: Sequence[Tensor]) -> tuple[int, int, int]:
        [x] = sources
        if self.centre.shape != (x.channels,):
            raise self.refused(f"a point of shape {self.centre.shape} for {x.channels} channels")
        return 1, x.height, x.width

    def accumulator(self, sources: Sequence[Tensor], apply: Any) -> ops.Accumulator:
        lo, hi = (np.array([n * sources[0].channels]) for n in (0, self.limits[1]))
        return ops.Accumulator.of(lo, hi)

    def compute(self, inputs: Sequence[Any]) -> Any:
        distances = abs(inputs[0] - self.centre.values.reshape(-1, 1, 1).astype(np.int64))
        distances = distances // self.coarse * self.coarse
        counted = np.where(distances < self.limits[0], 0, np.minimum(distances, self.limits[1]))
        return counted.sum(axis=0, keepdims=True)

    @classmethod
    def random(cls, draw: ops.RandomParts, name: str) -> ops.Sample:
        c, h, w = draw.shape()
        fields = {
            "centre": Array(draw.numbers.integers(-128, 128, c)),
            "coarse": draw.pick(1, 1, 3),
            "limits": (draw.pick(0, 7), draw.pick(255, 100)),
        }
        return ops.Sample(fields, ((c, h, w, -128, 127),))

    @classmethod
    def examples(cls) -> Mapping[str, ops.Sample]:
        fields = {"centre": Array(np.arange(12) * 9 - 50)}
        return {"distance": ops.Sample(fields, ((12, 15, 14, -128, 127),))}


class DistanceKernel(Kernel):
    """Distances of int8 elements; the point is the constant of the layer."""

    name = "dory_distance"
    summary = "sums of distances from a point in plain C"

    def accepts(self, layer: Layer) -> Rejection | None:
        op = layer.op
        if not isinstance(op, Distance):
            return Rejection("it computes distances", other_kind=True)
        if op.requants or (op.coarse, op.limits) != (1, (0, 255)):
            return Rejection("it counts all distances as they are")
        return reject_type(layer.inputs[0], "input", ("i8",))

    def constraints(self, layer: Layer, tile: Tile) -> tuple[Constraint, ...]:
        return ()

    def weight_bytes(self, layer: Layer, tile: Tile) -> Number:
        return (layer.inputs[0].channels + 7) // 8 * 8

    def weight_block(
        self, layer: Layer, c_out: tuple[int, int], c_in: tuple[int, int]
    ) -> WeightBlock:
        data = layer.of(Distance).centre.values.astype(np.int8).tobytes()
        return WeightBlock(data + bytes(-len(data) % 8), {"weights": 0})

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        return 20 + tile.h * tile.w * (5 + 4 * tile.c_in)

    def symbol(self, layer: Layer) -> str:
        return "dory_distance"

    def call(self, layer: Layer) -> FunctionCall:
        arguments = {
            "x": Operand("x", "const int8_t *"),
            "centre": Operand("weights", "const int8_t *"),
            "y": Operand("y", "int32_t *"),
            "pixels": size("y_h") * size("y_w"),
            "channels": size("x_c"),
        }
        return FunctionCall("dory_distance", arguments)

    def headers(self, layer: Layer) -> tuple[str, ...]:
        return ("dory_distance.h",)

    def sources(self, layer: Layer) -> tuple[OutputFile, ...]:
        names = ("dory_distance.c", "dory_distance.h")
        return tuple(OutputFile.from_package(HERE / name, f"kernels/{name}") for name in names)


@hookimpl
def dory_operators() -> list[type[ops.Operator]]:
    return [Distance]


@hookimpl
def dory_kernels() -> list[Kernel]:
    return [DistanceKernel()]
