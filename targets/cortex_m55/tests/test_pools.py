"""Means in binary32, and averages of elements of 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from dory_cortex_m55.backend.pools import AvgPoolKernel, MeanKernel
from emulated import Qemu, choose_compiler, require_qemu

from dory_core.api import Layer, ops
from dory_core.importing import requant
from dory_core.testing.kernel_cases import takes
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, make_case, typed

BYTE, HALF = (-128, 127), (-(1 << 15), (1 << 15) - 1)


def real_mean(random: np.random.Generator, scale: float, values: tuple[int, int]) -> Layer:
    """Return a mean in binary32 of a window that lies partly outside."""
    h, w = random.integers(1, 5, 2).tolist()
    top, left, bottom, right = (int(random.integers(0, size)) for size in (h, w, h, w))
    factor = float(np.float32(random.uniform(0.3, 2)))
    zeros = random.integers(*values, 2).tolist()
    layer = alone(
        ops.AvgPool,
        window=ops.Window(kernel=(h, w), pads=(top, left, bottom, right)),
        counts_padding=bool(random.integers(2)),
        real=ops.RealMean(scale, zeros[0], float(np.float32(scale * factor)), zeros[1]),
        requants=(requant(1, 0, 1, *values),),
    )
    return typed(layer, (6, 8, 8, *values))


def average_of_halves(random: np.random.Generator, output: tuple[int, int]) -> Layer:
    """Return an average of 16 bits as TensorFlow Lite computes it: ties round away from zero."""
    window, half = ops.Window(kernel=(3, 4), pads=(1, 2, 1, 1)), 1 << 29
    mul = int(random.integers(1 << 28, 1 << 29)) // 12 * (output[1] + 1) >> 15
    step = requant(mul, half, half * 2, *output, add_negative=half - 1)
    return typed(alone(ops.AvgPool, window=window, requants=(step,)), (13, 8, 8, *HALF))


def cases_of(seed: int) -> list[KernelCase]:
    """Return random means and averages in tiles."""
    random, cases = np.random.default_rng(seed), []
    for _ in range(12):
        scale = float(np.float32(random.uniform(0.001, 3)))
        layer = real_mean(random, scale, [BYTE, (0, 255)][int(random.integers(2))])
        cases.append(make_case(MeanKernel(), layer, random))
    for output in (HALF, BYTE):
        layer = average_of_halves(random, output)
        assert takes(AvgPoolKernel(), layer)
        cases += [make_case(AvgPoolKernel(), layer, random) for _ in range(3)]
    return cases


def test_means_and_averages_are_exact() -> None:
    HostLibrary(cases_of(1)).check()


@pytest.mark.parametrize("compiler", ["gcc", "zig"])
def test_helium_computes_the_same(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_qemu()
    choose_compiler(compiler, monkeypatch)
    Qemu(cases_of(2 if compiler == "gcc" else 3)).check()


def test_sums_that_may_be_subnormal_are_not_for_the_vector_unit() -> None:
    layer = real_mean(np.random.default_rng(4), 2.0**-140, BYTE)
    rejection = MeanKernel().accepts(layer)
    assert rejection is not None and "normal numbers" in rejection.reason
