"""Assembly of the STM32H7's kernels: numbers of pixels, widths of outputs, both compilers."""

from __future__ import annotations

import cortex_m7
import numpy as np
import pytest
from cortex_m7 import CortexM7
from dory_stm32h7.backend.conv import ConvKernel
from dory_stm32h7.backend.depthwise import DepthwiseKernel
from dory_stm32h7.backend.linear import LinearKernel

from dory_core.api import Layer, ops
from dory_core.importing import Array, requant
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case

COMPILERS = pytest.mark.parametrize(
    "compiler", [cortex_m7.ZIG, cortex_m7.GCC], ids=["ziglang", "gcc"]
)
# Ends of outputs of 8, 16 and 32 bits.
ENDS = ((-128, 127), (-32768, 32767), (-1 << 16, (1 << 16) - 1))


def _layer(shape: tuple[int, int, int], outputs: int, ends: tuple[int, int]) -> Layer:
    """Return a layer of points, or of one pixel, whose narrow outputs reach both ends."""
    random = np.random.default_rng(shape)
    weights = random.integers(-127, 128, (outputs, shape[0], 1, 1))
    scale = min(((ends[1] - ends[0]) << 16) // (shape[0] << 12), 1 << 13, (1 << 17) // shape[0])
    muls = [scale + 7 * c for c in range(outputs)]
    steps = (requant(muls, random.integers(-9999, 9999, outputs).tolist(), 1 << 16, *ends),)
    if shape[1:] == (1, 1):
        flat = Array(weights.reshape(outputs, -1))
        return typed(alone(ops.Linear, weights=flat, requants=steps), (*shape, -128, 127))
    conv = alone(ops.Conv, weights=Array(weights), window=ops.Window(kernel=(1, 1)), requants=steps)
    return typed(conv, (*shape, -128, 127))


@COMPILERS
@pytest.mark.parametrize("ends", ENDS)
def test_blocks_of_one_pixel_to_seven(ends: tuple[int, int], compiler: tuple[str, ...]) -> None:
    """Three pixels, two, and one; vectors of one round and of two; with an odd last channel."""
    cortex_m7.require(compiler)
    layers = [_layer((c, 1, w), 5, ends) for c, w in ((3, 2), (16, 3), (20, 4), (68, 5), (7, 7))]
    layers.append(_layer((5, 2, 1), 4, ends))
    assert all("_pairs_" in ConvKernel().symbol(layer) for layer in layers)
    cases = [whole_case(ConvKernel(), layer) for layer in layers]
    HostLibrary(cases).check()
    CortexM7(cases, compiler).check()


@COMPILERS
@pytest.mark.parametrize("ends", ENDS)
def test_outputs_of_fours_of_rows(ends: tuple[int, int], compiler: tuple[str, ...]) -> None:
    """One four and several, with and without rows behind them."""
    cortex_m7.require(compiler)
    layers = [_layer((n, 1, 1), outputs, ends) for n, outputs in ((3, 4), (21, 9), (64, 15))]
    cases = [whole_case(LinearKernel(), layer) for layer in layers]
    HostLibrary(cases).check()
    CortexM7(cases, compiler).check()


@COMPILERS
@pytest.mark.parametrize("less", [-1, 1])
def test_strips_whose_sums_turn(less: int, compiler: tuple[str, ...]) -> None:
    """Depthwise filters of all sizes and steps, with another addend on each side of zero."""
    cortex_m7.require(compiler)
    windows = [
        ops.Window(kernel=(n, n), strides=(step, step), pads=(n // 2,) * 4)
        for n in (3, 5, 7)
        for step in (1, 2)
    ]
    windows.append(ops.Window(kernel=(1, 9), pads=(0, 4, 0, 4)))
    cases = []
    for window in windows:
        random = np.random.default_rng(window.taps)
        mul = (1 << 39) // (window.taps << 6)
        muls = [mul + int(m) for m in random.integers(0, mul, 6)]
        add = 1 << 38
        steps = (requant(muls, add, 1 << 39, -128, 127, add + less * (1 << 30)),)
        weights = Array(random.integers(-127, 128, (6, 1, *window.kernel)))
        conv = alone(ops.Conv, weights=weights, window=window, groups=6, requants=steps)
        cases.append(whole_case(DepthwiseKernel(), typed(conv, (6, 22, 23, -128, 127))))
    symbols = [case.kernel.symbol(case.layer) for case in cases]
    assert all("_planar" in symbol and "_turned_" in symbol for symbol in symbols)
    HostLibrary(cases).check()
    CortexM7(cases, compiler).check()
