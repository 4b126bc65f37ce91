"""Averages in binary32 by sums of integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from dory_core.api import (
    Feature,
    FunctionCall,
    Layer,
    Number,
    Rejection,
    Symbol,
    ops,
    reject_type,
    requantisation,
)
from dory_gap8 import calibration as cal
from dory_gap8.backend.conv import geometry_arguments
from dory_gap8.backend.instance import (
    ClusterKernel,
    Instance,
    c_type,
    call_text,
    tile_arguments,
    vector_macros,
)
from dory_gap8.backend.pool import TILE
from dory_gap8.backend.pool_bytes import pool_cycles, reject_window

if TYPE_CHECKING:
    from dory_core.api import Tile

_BYTES = ("u8", "i8")
# Half a unit in the last place of binary32, and a little more.
_ROUNDING = Fraction(51, 50) / (1 << 24)
# Scales whose means have all digits of binary32.
_SCALES = (2.0**-60, 2.0**60)
_MOST_SHIFT = 31


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean is the nearest integer of (sum * mul) / 2^shift + zero.

    It is unless a tie is closer than margin / 2^shift, and then it may be or not.
    """

    mul: int
    shift: int
    margin: int


@requantisation.cached_per_layer
def exact_mean(layer: Layer) -> Mean | None:
    """Return the mean from the sum of element - zero_point; None where too many are near a tie."""
    op, x = layer.of(ops.AvgPool), layer.inputs[0]
    real, taps = op.real, op.window.taps
    if real is None or not all(
        _SCALES[0] < one < _SCALES[1] for one in (real.scale, real.out_scale)
    ):
        return None
    ratio = Fraction(real.scale) / Fraction(real.out_scale)
    most = max(abs(x.lo - real.zero_point), abs(x.hi - real.zero_point))
    # A product and an addition for each tap, two divisions; then the zero point is added.
    value = most * ratio
    error = (value * (taps + 4) + value + abs(real.out_zero) + 1) * _ROUNDING
    for shift in range(_MOST_SHIFT, 15, -1):
        mul = round(ratio / taps * (1 << shift))
        if mul < 1 << 31:
            margin = ceil(error * (1 << shift)) + most * taps // 2 + 2
            return Mean(mul, shift, margin) if 8 * margin < 1 << shift else None
    return None


@requantisation.cached_per_layer
def share_near_ties(layer: Layer) -> Fraction:
    """Return the part of all sums of a window whose means are near a tie.

    Of equal scales and a window of 2 x 2 it is each fourth one.
    """
    found, real = exact_mean(layer), layer.of(ops.AvgPool).real
    assert found is not None and real is not None
    x, taps, one = layer.inputs[0], layer.window.taps, 1 << found.shift
    sums = np.arange(taps * (x.lo - real.zero_point), taps * (x.hi - real.zero_point) + 1)
    rest = (sums * found.mul + one // 2) & (one - 1)
    near = (rest < found.margin) | (rest > one - found.margin)
    return Fraction(int(near.sum()), len(sums))


@dataclass(frozen=True)
class RealPoolKernel(ClusterKernel):
    """Average over a window in binary32, as onnxruntime computes it."""

    name = "dory_gap8_realpool"
    summary = "average pooling in binary32, by integers"
    features = ClusterKernel.features | {Feature.REALS, Feature.MEAN_INSIDE}

    def accepts(self, layer: Layer) -> Rejection | None:
        """Windows of neighbouring taps and one size; only a clip follows."""
        op = layer.op
        if not isinstance(op, ops.AvgPool) or op.real is None:
            return Rejection("it computes averages in binary32 only", other_kind=True)
        if any(op.window.pads) and not op.counts_padding:
            return Rejection("at borders it divides by other numbers than inside")
        steps = op.requants
        clips = len(steps) == 1 and (steps[0].mul, steps[0].add, steps[0].div) == ((1,), (0,), 1)
        if not clips or steps[0].lo is None:
            return Rejection("what follows it is more than a clip")
        rejection = (
            reject_window(layer)
            or reject_type(layer.inputs[0], "input", _BYTES)
            or reject_type(layer.output, "output", _BYTES)
        )
        if rejection is None and exact_mean(layer) is None:
            return Rejection("rounding in binary32 moves its means too far")
        return rejection

    def cycles(self, layer: Layer, tile: Tile) -> Number:
        """Rows of a window, their taps, and the means of four channels."""
        kernel_h, kernel_w = layer.window.kernel
        row = cal.POOL_BYTES_ROW + kernel_w * cal.AVGPOOL_BYTES_TAP
        done = cal.AVGPOOL_BYTES_GROUP + 4 * cal.REALPOOL_OUTPUT
        near = round(4 * share_near_ties(layer) * layer.window.taps * cal.REALPOOL_TAP)
        return pool_cycles(self.cores, tile, done + near + kernel_h * row)

    def label(self, layer: Layer) -> str:
        """Types."""
        return f"{self.name}_{layer.inputs[0].type_name}_{layer.output.type_name}"

    def call(self, layer: Layer) -> FunctionCall:
        """One call with the tile's sizes and padding."""
        op, found = layer.of(ops.AvgPool), exact_mean(layer)
        real, step = op.real, op.requants[0]
        assert real is not None and found is not None
        add = (2 * real.out_zero + 1) << found.shift - 1
        pool = (*tile_arguments(*TILE), *geometry_arguments(op.window))
        arguments = (
            *((f"pool.{name}", value) for name, value in pool),
            ("add", Symbol(f"INT64_C({add})")),
            ("mul", found.mul),
            ("shift", found.shift),
            ("margin", found.margin),
            ("lo", step.lo),
            ("hi", step.hi),
            ("zero_point", real.zero_point),
            ("out_zero", real.out_zero),
            ("taps", op.window.taps),
            ("scale", Symbol(f"{real.scale.hex()}f")),
            ("out_scale", Symbol(f"{real.out_scale.hex()}f")),
        )
        return call_text(self.symbol(layer), "realpool", arguments)

    def instance(self, layer: Layer) -> Instance:
        """The template with its macros."""
        x, y = layer.inputs[0].type_name, layer.output.type_name
        macros = (
            *vector_macros(x),
            ("DORY_Y_T", c_type(y)),
            ("DORY_CORES", str(self.cores)),
        )
        purpose = f"Average pooling in binary32, {x} to {y}."
        return Instance("realpool", self.label(layer), purpose, macros)
