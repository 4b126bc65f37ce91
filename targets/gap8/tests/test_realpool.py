"""Averages in binary32, of sums of integers where those have the same nearest integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from dory_gap8.backend import RealPoolKernel, realpool

from dory_core.api import Layer, ops
from dory_core.importing import requant
from dory_core.testing import make_tile, reference
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, make_case, typed, whole_case

BYTE = (-128, 127)


def mean(
    window: ops.Window,
    scales: tuple[float, float] = (0.37, 0.21),
    zeros: tuple[int, int] = (-3, 5),
    shape: tuple[int, int, int] = (13, 9, 8),
    bounds: tuple[int, int] = BYTE,
    inside: bool = False,
) -> Layer:
    x, y = (float(np.float32(scale)) for scale in scales)
    layer = alone(
        ops.AvgPool,
        window=window,
        counts_padding=not inside,
        real=ops.RealMean(x, zeros[0], y, zeros[1]),
        requants=(requant(1, 0, 1, *bounds),),
    )
    return typed(layer, (*shape, *bounds))


@pytest.mark.sample(3)
@pytest.mark.parametrize("cores", [1, 4, 8])
def test_means_are_those_of_the_reference(cores: int) -> None:
    """Scales, zero points, windows, padding and tiles at random."""
    random = np.random.default_rng(cores)
    cases = []
    for number in range(32):
        h, w = random.integers(1, 8, 2).tolist()
        pads = tuple(int(random.integers(0, size)) for size in (h, w, h, w))
        window = ops.Window(
            kernel=(h, w),
            strides=tuple(random.integers(1, 3, 2).tolist()),
            pads=pads if number % 2 else (0, 0, 0, 0),
        )
        bounds = BYTE if number % 3 else (0, 255)
        zeros = tuple(random.integers(bounds[0], bounds[1] + 1, 2).tolist())
        unit, ratio = 2.0 ** random.uniform(-9, (3, 2))
        scales = (unit * ratio, unit) if number % 4 else (0.3, 0.1)
        channels = int(random.integers(1, 20))
        layer = mean(window, scales, zeros, (channels, 9, 8), bounds, inside=number % 2 == 0)
        cases.append(make_case(RealPoolKernel(cores), layer, random))
    HostLibrary(cases).check()


def _all_sums(scales: tuple[float, float], zeros: tuple[int, int]) -> KernelCase:
    """Return a case with every sum of a window of 2 x 2 that lies in the middle."""
    sums = np.arange(-512, 509)
    rows = np.stack([(sums + k) // 4 for k in range(4)]).reshape(2, 2, 1, -1)
    x = np.moveaxis(rows, -1, 0)[:, :, :, 0]
    layer = mean(ops.Window(kernel=(2, 2)), scales, zeros, (len(sums), 2, 2))
    return whole_case(RealPoolKernel(), layer, (x.astype(np.int64),))


def test_near_ties_the_mean_is_computed_as_it_is_defined() -> None:
    """Every sum; ties of equal and of related scales, which binary32 takes to one side or other."""
    pairs = [(0.1, 0.1), (0.3, 0.1), (0.05, 0.1), (1 / 3, 1 / 6), (0.7, 0.35), (0.5, 0.25)]
    cases = [_all_sums(pair, zeros) for pair in pairs for zeros in ((0, 0), (-3, 1), (-128, -128))]
    HostLibrary(cases).check()
    different = 0
    for case in cases:
        found, real = realpool.exact_mean(case.layer), case.layer.of(ops.AvgPool).real
        assert found is not None and real is not None
        sums = case.inputs[0].sum(axis=(1, 2)) - 4 * real.zero_point
        near = (sums * found.mul + (2 * real.out_zero + 1) * (1 << found.shift - 1)) >> found.shift
        expected = reference.run_layer(case.layer, case.inputs)[:, 0, 0]
        different += int((np.clip(near, *BYTE) != expected).sum())
    assert different > 100  # sums of integers alone are wrong there


def test_few_means_are_near_a_tie() -> None:
    """What a mean costs is that of a sum: for windows of a real network."""
    for size in (2, 5, 8):
        found = realpool.exact_mean(mean(ops.Window(kernel=(size, size))))
        assert found is not None and 200 * found.margin < 1 << found.shift


def test_ties_are_counted() -> None:
    """Each fourth mean of four values of the same scale is a tie, and costs what one costs."""
    equal = mean(ops.Window(kernel=(2, 2)), (0.1, 0.1))
    other = mean(ops.Window(kernel=(2, 2)), (0.1, 0.1003))
    assert abs(realpool.share_near_ties(equal) - Fraction(1, 4)) < Fraction(1, 100)
    assert realpool.share_near_ties(other) < Fraction(1, 100)
    tile = make_tile(equal, 8, 8, 7)
    kernel = RealPoolKernel()
    assert kernel.cycles(equal, tile) > 3 * kernel.cycles(other, tile)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (mean(ops.Window(kernel=(2, 2), pads=(1, 0, 0, 0)), inside=True), "at borders"),
        (mean(ops.Window(kernel=(2, 2)), (1e3, 1e-3)), "too far"),
        (mean(ops.Window(kernel=(2, 2)), (1e-25, 1e-25)), "too far"),
        (mean(ops.Window(kernel=(2, 2), dilations=(2, 1))), "dilated"),
    ],
)
def test_what_is_left_to_others(layer: Layer, reason: str) -> None:
    rejection = RealPoolKernel().accepts(layer)
    assert rejection is not None and reason in rejection.reason
