"""Steps after accumulators: in binary32, with two addends, tables of sums, and what they become."""

from __future__ import annotations

from dataclasses import replace

import cortex_m7
import numpy as np
import pytest
from cortex_m7 import CortexM7
from dory_stm32h7.backend import pairs
from dory_stm32h7.backend.conv import ConvKernel
from dory_stm32h7.backend.depthwise import DepthwiseKernel
from dory_stm32h7.backend.epilogue import epilogue
from dory_stm32h7.backend.linear import LinearKernel
from dory_stm32h7.backend.pairs import AddKernel
from dory_stm32h7.backend.sums import SumTablesKernel, find_sums
from stm32h7_layers import POINT, SAME, conv_layer, even_step

from dory_core.api import Requant, ops, requantisation
from dory_core.importing import Array, requant
from dory_core.testing import make_tile
from dory_core.testing.kernels import HostLibrary, alone, make_case, typed, whole_case


def test_double_rounding_is_a_product_with_two_addends() -> None:
    """The requantisation of TensorFlow Lite Micro behind a linear layer."""
    random = np.random.default_rng(4)
    weights = Array(random.integers(-127, 128, (16, 64)))
    half, small = 1 << 38, 1 << 30
    mul = random.integers(1 << 30, 1 << 31, 16).tolist()
    step = requant(mul, half + small - (5 << 39), 1 << 39, -128, 127, half - small - (5 << 39))
    bias = Array(random.integers(-3000, 3000, 16))
    linear = alone(ops.Linear, weights=weights, bias=bias, requants=(step,))
    layer = typed(linear, (64, 1, 1, -128, 127))
    found = epilogue(layer)
    assert found.turned and found.channel_bytes == 20 and found.steps[0].shift == 32
    HostLibrary([whole_case(LinearKernel(), layer, random) for _ in range(9)]).check()


EVENS = {
    "ties of powers of two": ([1 / 64, 1 / 32, 1 / 256, 0.5], 3, (-128, 127)),
    "scales far apart": ([0.9, 2.0**-30, 2.0**-45, 0.0123], 0, (0, 255)),
    "one scale with other bounds": ([0.003], 128, (10, 200)),
    "near ties": ([0.6 / 256, 0.3, 0.7 / 255, 1 / 3], -7, (-128, 127)),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", EVENS)
def test_steps_in_binary32_are_exact_on_this_machine_and_the_chip(name: str) -> None:
    scales, zero, bounds = EVENS[name]
    random = np.random.default_rng(7)
    step = requantisation.float_requant(
        [float(np.float32(scale)) for scale in scales], zero, *bounds
    )
    weights = random.integers(-127, 128, (4, 16)) // np.array([[16], [8], [2], [1]])
    bias = Array(np.array([17, -900, 0, 40]))
    linear = alone(ops.Linear, weights=Array(weights), bias=bias, requants=(step,))
    layer = typed(linear, (16, 1, 1, -128, 127))
    assert LinearKernel().accepts(layer) is None
    assert epilogue(layer).even
    cases = [whole_case(LinearKernel(), layer, random) for _ in range(60)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_steps_in_binary32_of_convolutions() -> None:
    """In assembly and in C, pairs of channels and single ones, depthwise layers of both kinds."""
    random = np.random.default_rng(9)
    layers = [
        (ConvKernel(), conv_layer(16, 7, (5, 3), POINT, steps=(even_step(7, 16 << 14),), lo=-128)),
        (ConvKernel(), conv_layer(4, 6, (4, 4), SAME, steps=(even_step(6, 36 << 14),), lo=-128)),
        (ConvKernel(), conv_layer(5, 5, (3, 3), POINT, steps=(even_step(5, 5 << 14),), lo=-128)),
    ]
    for image in ((14, 14), (3, 3)):
        steps = (even_step(6, 9 << 14),)
        layer = conv_layer(6, 6, image, SAME, groups=6, steps=steps, lo=-128)
        layers.append((DepthwiseKernel(), layer))
    cases = [whole_case(kernel, layer, random) for kernel, layer in layers for _ in range(8)]
    assert any("_pairs" in case.kernel.symbol(case.layer) for case in cases)
    assert any("_planar" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_sums_beyond_the_digits_of_binary32_are_rounded_first() -> None:
    random = np.random.default_rng(10)
    weights = Array(random.integers(60, 128, (4, 4000)))
    linear = alone(ops.Linear, weights=weights, requants=(even_step(4, 4000 << 14),))
    layer = typed(linear, (4000, 1, 1, 0, 255))
    assert layer.ranges.acc_hi > 1 << 25
    cases = [whole_case(LinearKernel(), layer, random) for _ in range(20)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_steps_of_operands_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes milliseconds, and tiling asks for costs tens of thousands of times."""
    searched = []

    def search(stairs: requantisation.Staircase) -> requantisation.Narrow | None:
        searched.append(stairs)
        return narrow_32(stairs)

    narrow_32 = requantisation.narrow_32
    monkeypatch.setattr(pairs.requantisation, "narrow_32", search)
    scaled = requant(3, 5, 16, 0, 255)
    layer = typed(
        alone(ops.Add, operand_requants=(scaled, scaled), requants=(requant(1, 0, 2, 0, 255),)),
        *[(8, 6, 6, 0, 255)] * 2,
    )
    for height in (1, 2, 3):
        assert int(AddKernel().cycles(layer, make_tile(layer, 8, height, 6))) > 0
    assert len(searched) == 2


def test_tables_of_sums_have_all_multipliers_of_tflite() -> None:
    """Scales from tiny to steep, outputs of both signs, a constant for each."""
    random = np.random.default_rng(13)
    cases = []
    for number in range(6):
        first, second = (int(random.integers(1, 1 << 22)) for _ in range(2))
        ends = ((0, 255), (-128, 127))[number % 2]
        div = 1 << int(random.integers(18, 25))
        step = requant(1, int(random.integers(-div, div)), div, *ends)
        operands = requant(first), requant(second, 5 * second)
        layer = alone(ops.Add, operand_requants=operands, requants=(step,))
        shape = (9, 8, 8)
        layer = typed(layer, (*shape, -128, 127), (*shape, 0, 255))
        assert SumTablesKernel().accepts(layer) is None
        cases += [make_case(SumTablesKernel(), layer, random)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_sums_without_tables_are_found_out() -> None:
    """No sum of two numbers is greater for both equal pairs and smaller for both unequal ones."""
    zeros = np.zeros(2)
    assert find_sums(zeros, zeros, np.array([[1, 0], [0, 1]]), (0, 255), 8) is None
    a, b = find_sums(zeros, zeros, np.array([[0, 1], [0, 1]]), (0, 255), 8) or (None, None)
    assert a is not None and np.array_equal((a[:, None] + b) >> 8, [[0, 1], [0, 1]])


@pytest.mark.parametrize(
    ("scale", "shift"), [(1 / 1000, 32), (0.49, 32), (0.6, 31), (3, 29), (100, 22)]
)
def test_products_keep_the_upper_half_while_scales_are_small(scale: float, shift: int) -> None:
    step = requant(int(scale * (1 << 20)), 12345, 1 << 20, 0, 255)
    layer = conv_layer(8, 4, (5, 5), POINT, steps=(step,))
    assert f"_q{shift}_u8" in ConvKernel().symbol(layer)
    HostLibrary([whole_case(ConvKernel(), layer)]).check()


def test_channels_far_apart_have_shifts_of_their_own() -> None:
    """Rounded twice as TensorFlow Lite Micro does: the first rounding depends on the scale."""
    scale = np.geomspace(1e-4, 0.6, 24)
    exponents = np.maximum(-np.floor(np.log2(scale)).astype(int) - 1, 0).tolist()
    first = [round(float(s) * (1 << 31 + e)) for s, e in zip(scale, exponents, strict=True)]
    mul = [m << 19 - e for m, e in zip(first, exponents, strict=True)]
    small = [1 << 49 - e if e else 0 for e in exponents]
    add, below = ([(1 << 49) + sign * s for s in small] for sign in (1, -1))
    step = requant(mul, add, 1 << 50, -128, 127, below)
    layer = conv_layer(64, 24, (5, 5), POINT, steps=(step,), lo=-128)
    assert "_turned_q31up_i8" in ConvKernel().symbol(layer)
    random = np.random.default_rng(8)
    HostLibrary([whole_case(ConvKernel(), layer, random) for _ in range(3)]).check()


@pytest.mark.parametrize("div", [(1 << 16) - 1, ((1 << 20) - 1) // 15, 77777, 1 << 40])
def test_divisors_of_any_kind_become_shifts(div: int) -> None:
    step = Requant((max(1, div // 3000), -(div // 2500) - 1), (div // 7, -div), div, 0, 255)
    layer = conv_layer(9, 2, (8, 8), POINT, steps=(step,))
    assert "_q32_u8" in ConvKernel().symbol(layer)
    HostLibrary([whole_case(ConvKernel(), layer)]).check()


def test_two_steps_are_kept_apart_where_no_single_one_equals_them() -> None:
    steps = (requant(1, 0, 1 << 7, -500, 500), requant(3, 1, 7, -100, 200))
    layer = conv_layer(8, 4, (6, 6), POINT, steps=steps)
    assert "_then_bounds" in ConvKernel().symbol(layer)
    HostLibrary([whole_case(ConvKernel(), layer)]).check()


@pytest.mark.parametrize("bounds", [(0, 0), (0, 1), (-1, 0), (-1, -1), (-50, -1), (7, 7)])
def test_clips_to_few_values(bounds: tuple[int, int]) -> None:
    """A clip that leaves 0 alone has no bits to saturate to."""
    step = requant([300, -300, 80, -9], [1 << 18, -(1 << 19), 0, 5], 1 << 20, *bounds)
    layer = conv_layer(8, 4, (5, 5), POINT, steps=(step,))
    layer = replace(layer, output=replace(layer.output, bits=8))
    HostLibrary([whole_case(ConvKernel(), layer)]).check()


def test_files_of_one_name_are_equal_whatever_side_of_zero_has_the_second_addend() -> None:
    """Networks have layers of both sides; two instances of one name cannot be linked."""
    weights = Array(np.random.default_rng(3).integers(-127, 128, (4, 64)))
    symbols, files = set(), {}
    for less in (-1, 1):
        add = 1 << 38
        step = requant([3 << 28] * 4, add, 1 << 39, -128, 127, add + less * (1 << 30))
        linear = alone(ops.Linear, weights=weights, requants=(step,))
        layer = typed(linear, (64, 1, 1, -128, 127))
        assert epilogue(layer).turned
        symbols.add(LinearKernel().symbol(layer))
        for file in LinearKernel().sources(layer):
            assert files.setdefault(file.path, file.content) == file.content
    assert len(symbols) == 2
