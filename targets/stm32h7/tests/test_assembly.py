"""Assembly of the STM32H7's kernels: numbers of pixels, widths of outputs, both compilers."""

from __future__ import annotations

import cortex_m7
import numpy as np
import numpy.typing as npt
import pytest
from cortex_m7 import CortexM7
from dory_stm32h7.backend.conv import ConvKernel
from dory_stm32h7.backend.depthwise import DepthwiseKernel
from dory_stm32h7.backend.linear import LinearKernel

from dory_core.api import Layer, Requant, ops, requantisation
from dory_core.importing import Array, requant
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case

COMPILERS = pytest.mark.parametrize(
    "compiler", [cortex_m7.ZIG, cortex_m7.GCC], ids=["ziglang", "gcc"]
)
# Ends of outputs of 8, 16 and 32 bits.
ENDS = ((-128, 127), (-32768, 32767), (-1 << 16, (1 << 16) - 1))


def _weights(inputs: int, outputs: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng(inputs).integers(-127, 128, (outputs, inputs))


def _step(inputs: int, outputs: int, ends: tuple[int, int]) -> Requant:
    """Return a step whose narrow outputs reach both ends."""
    scale = min(((ends[1] - ends[0]) << 16) // (inputs << 12), 1 << 13, (1 << 17) // inputs)
    adds = np.random.default_rng(inputs).integers(-9999, 9999, outputs)
    return requant([scale + 7 * c for c in range(outputs)], adds.tolist(), 1 << 16, *ends)


def _points(shape: tuple[int, int, int], outputs: int, step: Requant) -> Layer:
    weights = Array(_weights(shape[0], outputs)[:, :, None, None])
    window = ops.Window(kernel=(1, 1))
    conv = alone(ops.Conv, weights=weights, window=window, requants=(step,))
    return typed(conv, (*shape, -128, 127))


@pytest.mark.sample(4)
@COMPILERS
@pytest.mark.parametrize("ends", ENDS)
def test_blocks_of_one_pixel_to_seven(ends: tuple[int, int], compiler: tuple[str, ...]) -> None:
    """Three pixels, two, and one; vectors of one round and of two; with an odd last channel."""
    inputs = ((3, 2), (16, 3), (20, 4), (68, 5), (7, 7), (64, 1), (68, 1), (5, 1))
    layers = [_points((c, 1, w), 5, _step(c, 5, ends)) for c, w in inputs]
    layers.append(_points((5, 2, 1), 4, _step(5, 4, ends)))
    _check_pairs(layers, compiler)


def _check_pairs(layers: list[Layer], compiler: tuple[str, ...]) -> None:
    cortex_m7.require(compiler)
    assert all("_pairs_" in ConvKernel().symbol(layer) for layer in layers)
    cases = [whole_case(ConvKernel(), layer) for layer in layers]
    HostLibrary(cases).check()
    CortexM7(cases, compiler).check()


@pytest.mark.sample(2)
@COMPILERS
@pytest.mark.parametrize("name", ["turned", "even32"])
def test_blocks_of_other_requantisations(name: str, compiler: tuple[str, ...]) -> None:
    """Two addends, and binary32; blocks of one pixel to three."""
    muls = [(1 << 29) + (c << 24) for c in range(5)]
    step = requant(muls, 1 << 38, 1 << 39, -128, 127, (1 << 38) - (1 << 30))
    if name == "even32":
        scales = [float(np.float32(scale)) for scale in (2.0**-10, 0.0015, 0.002, 2.0**-9, 0.001)]
        step = requantisation.float_requant(scales, -5, -128, 127)
    inputs = ((3, 1), (64, 1), (68, 1), (16, 2), (20, 4), (7, 3))
    layers = [_points((c, 1, w), 5, step) for c, w in inputs]
    assert all(f"_{name}_" in ConvKernel().symbol(layer) for layer in layers)
    _check_pairs(layers, compiler)


@pytest.mark.sample(4)
@COMPILERS
@pytest.mark.parametrize("ends", ENDS)
def test_outputs_of_fours_of_rows(ends: tuple[int, int], compiler: tuple[str, ...]) -> None:
    """One four and several, with and without rows behind them."""
    cortex_m7.require(compiler)
    cases = []
    for n, outputs in ((3, 4), (21, 9), (64, 15)):
        steps = (_step(n, outputs, ends),)
        linear = alone(ops.Linear, weights=Array(_weights(n, outputs)), requants=steps)
        cases.append(whole_case(LinearKernel(), typed(linear, (n, 1, 1, -128, 127))))
    HostLibrary(cases).check()
    CortexM7(cases, compiler).check()


@COMPILERS
def test_two_rows_in_numbers_of_16_bits(compiler: tuple[str, ...]) -> None:
    """Sums at both ends of 24 bits; not with a longer sum, nor with weights of -128."""
    cortex_m7.require(compiler)
    cases, names = [], []
    for inputs, first, second in (
        (516, -127, 127),
        (516, 127, -127),
        (517, 127, -127),
        (40, -128, 127),
    ):
        weights = np.full((9, inputs), first)
        weights[1::2] = second
        weights[4] = np.random.default_rng(inputs).integers(-127, 128, inputs)
        layer = typed(alone(ops.Linear, weights=Array(weights)), (inputs, 1, 1, -128, 127))
        ends = [np.full((inputs, 1, 1), value) for value in (-128, 127)]
        cases += [whole_case(LinearKernel(), layer, (end,)) for end in ends]
        names.append(LinearKernel().symbol(layer))
    assert ["_combined_" in name for name in names] == [True, True, False, False]
    HostLibrary(cases).check()
    CortexM7(cases, compiler).check()


@pytest.mark.sample(4)
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
