"""Kernels of the STM32H7 against the reference, tile by tile, element by element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cortex_m7
import numpy as np
import pytest
from cortex_m7 import CortexM7
from dory_stm32h7.backend import builtin_kernels, pairs
from dory_stm32h7.backend.bytes import LutKernel, ResizeKernel, SoftmaxKernel
from dory_stm32h7.backend.conv import ConvKernel
from dory_stm32h7.backend.depthwise import DepthwiseKernel
from dory_stm32h7.backend.epilogue import epilogue
from dory_stm32h7.backend.linear import LinearKernel
from dory_stm32h7.backend.movers import ConcatKernel, MoveKernel
from dory_stm32h7.backend.pairs import AddKernel, MulKernel
from dory_stm32h7.backend.pool import AvgPoolKernel, MaxPoolKernel, RealPoolKernel
from dory_stm32h7.backend.rows import LayerNormKernel, NormKernel, SharesKernel
from dory_stm32h7.backend.sums import SumTablesKernel, find_sums
from dory_stm32h7.backend.weighted import lift_of, weight_bits
from stm32h7_layers import cases_of, turned_cases

from dory_core.api import Kernel, Layer, Requant, ops, requantisation
from dory_core.importing import Array, requant
from dory_core.testing import KernelConformance, make_tile, reference
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernel_cases import KernelCase, takes
from dory_core.testing.kernels import HostLibrary, alone, make_case, typed, whole_case
from dory_core.testing.random_layers import KINDS


@pytest.mark.sample(2)  # of two seeds the first
class TestKernels(KernelConformance):
    cases = staticmethod(cases_of)


# Kinds without sums of products, and the kernel of each.
OTHER_KINDS = {
    "slice": "move",
    "pad": "move",
    "transpose": "transpose",
    "matmul": "matrices",
    "concat": "concat",
    "lut": "lut",
    "resize": "resize",
    "softmax": "softmax",
    "layer_norm": "layernorm",
    "norm": "norm",
    "shares": "shares",
    "sum": "add",
    "mul": "mul",
    "maximum": "maximum",
    "minimum": "minimum",
}
# Those that are a table where their own kernel has no numbers for them.
PAIRS = ("sum", "mul", "maximum", "minimum")


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_other_kinds_are_those_of_the_reference(kind: str) -> None:
    """On this machine and as code of the chip, in tiles of any size."""
    cases = cases_of(kind, 7, 16, most=40)
    tables = {"dory_stm32h7_lut"} if kind in PAIRS else set()
    assert {case.kernel.name for case in cases} - tables == {f"dory_stm32h7_{OTHER_KINDS[kind]}"}
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_more_of_the_other_kinds(kind: str) -> None:
    cases = [case for seed in range(20, 26) for case in cases_of(kind, seed, 20, most=40)]
    HostLibrary(cases).check()
    CortexM7(cases[::3], cortex_m7.require()).check()


# The difference that follows a sigmoid in a network of TensorFlow Lite: its operands keep 19 bits
# below the point and have two addends.
_FAR = requant(-1040384, -133169151, 4, add_negative=-133169150, turn=-128)
_LAST = requant(4210931, -140187728347136, 1 << 40, -128, 127)


@pytest.mark.parametrize(("numbers", "shape"), [(1, (24, 1, 1)), (1, (5, 7, 3)), (5, (5, 7, 3))])
def test_pairs_of_a_tensor_and_numbers_become_tables(
    numbers: int, shape: tuple[int, int, int]
) -> None:
    """Where no 32-bit numbers have the values of a step: by a table, or one for each channel."""
    random = np.random.default_rng(numbers)
    constant = Array(random.integers(-128, 128, (numbers, 1, 1)))
    steps = (_FAR, requant(1 << 20, 1, 2))
    layer = typed(
        alone(
            ops.Add, inputs=("input",), constant=constant, operand_requants=steps, requants=(_LAST,)
        ),
        (*shape, -128, 127),
    )
    assert AddKernel().accepts(layer) is not None
    assert LutKernel().weight_bytes(layer, make_tile(layer, *shape)) == 256 * numbers
    cases = [make_case(LutKernel(), layer, random) for _ in range(3)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_a_table_for_each_channel_of_few_pixels_is_not_worth_it() -> None:
    numbers = Array(np.arange(24).reshape(24, 1, 1))
    layer = alone(ops.Add, inputs=("input",), constant=numbers, requants=(_LAST,))
    rejection = LutKernel().accepts(typed(layer, (24, 3, 5, -128, 127)))
    assert rejection is not None and "15 pixels" in rejection.reason


def _real_mean(random: np.random.Generator, window: ops.Window, channels: int = 6) -> Layer:
    x, y = (float(np.float32(random.uniform(0.001, 3))) for _ in range(2))
    zeros = random.integers(-128, 128, 2).tolist()
    layer = alone(
        ops.AvgPool,
        window=window,
        counts_padding=bool(random.integers(2)),
        real=ops.RealMean(x, zeros[0], y, zeros[1]),
        requants=(requant(1, 0, 1, -128, 127),),
    )
    return typed(layer, (channels, 8, 8, -128, 127))


def test_means_in_binary32() -> None:
    """As onnxruntime: every operation rounded, with and without padding, tiles."""
    random = np.random.default_rng(5)
    cases = []
    for _ in range(20):
        h, w = random.integers(1, 5, 2).tolist()
        pads = tuple(int(random.integers(0, size)) for size in (h, w, h, w))
        layer = _real_mean(random, ops.Window(kernel=(h, w), pads=pads))
        cases.append(make_case(RealPoolKernel(), layer, random))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.parametrize("channels", [1, 10, 37])
def test_softmax_in_binary32(channels: int) -> None:
    """As onnxruntime: sums in the order of the channels, every operation rounded."""
    random = np.random.default_rng(channels)
    powers = np.exp(-np.arange(256) * 0.043 + 7).astype(np.float32)
    table = Array(powers.view(np.int32).astype(np.int64))
    steps = (requant(1, -128, 1, -128, 127),)
    layer = typed(
        alone(ops.Softmax, table=table, factor=256, requants=steps), (channels, 4, 3, -128, 127)
    )
    cases = [whole_case(SoftmaxKernel(), layer, random) for _ in range(4)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(88)  # of every fourth kind seed 0
class TestTwoAddends(KernelConformance):
    """Rounding that is symmetric around some value."""

    cases = staticmethod(turned_cases)

    @pytest.mark.slow
    def test_sanitizers_find_nothing_in_a_sample(self, sanitizer: str, count: int) -> None:
        """Every kind of layer."""
        super().test_sanitizers_find_nothing_in_a_sample(sanitizer, count)

    @pytest.mark.slow
    def test_other_compilers_compute_the_same(self, count: int) -> None:
        """Each installed compiler."""
        super().test_other_compilers_compute_the_same(count)


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


def _even_step(channels: int, reach: int) -> Requant:
    """Return a step in binary32, every third scale a power of two: ties to even."""
    scales = 100 / reach * (1 + np.arange(channels) / channels)
    scales[::3] = 2.0 ** np.floor(np.log2(scales[::3]))
    rounded = [float(np.float32(scale)) for scale in scales]
    return requantisation.float_requant(rounded, -5, -128, 127)


def test_steps_in_binary32_of_convolutions() -> None:
    """In assembly and in C, pairs of channels and single ones, depthwise layers of both kinds."""
    random = np.random.default_rng(9)
    layers = [
        (ConvKernel(), _conv(16, 7, (5, 3), POINT, steps=(_even_step(7, 16 << 14),), lo=-128)),
        (ConvKernel(), _conv(4, 6, (4, 4), SAME, steps=(_even_step(6, 36 << 14),), lo=-128)),
        (ConvKernel(), _conv(5, 5, (3, 3), POINT, steps=(_even_step(5, 5 << 14),), lo=-128)),
    ]
    for image in ((14, 14), (3, 3)):
        steps = (_even_step(6, 9 << 14),)
        layer = _conv(6, 6, image, SAME, groups=6, steps=steps, lo=-128)
        layers.append((DepthwiseKernel(), layer))
    cases = [whole_case(kernel, layer, random) for kernel, layer in layers for _ in range(8)]
    assert any("_pairs" in case.kernel.symbol(case.layer) for case in cases)
    assert any("_planar" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_sums_beyond_the_digits_of_binary32_are_rounded_first() -> None:
    random = np.random.default_rng(10)
    weights = Array(random.integers(60, 128, (4, 4000)))
    linear = alone(ops.Linear, weights=weights, requants=(_even_step(4, 4000 << 14),))
    layer = typed(linear, (4000, 1, 1, 0, 255))
    assert layer.ranges.acc_hi > 1 << 25
    cases = [whole_case(LinearKernel(), layer, random) for _ in range(20)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("compiler", [cortex_m7.ZIG, cortex_m7.GCC], ids=["ziglang", "gcc"])
def test_code_of_the_chip_equals_the_reference(compiler: tuple[str, ...]) -> None:
    """The instructions that the portable form stands for, in every template."""
    cortex_m7.require(compiler)
    cases = [c for kind in KINDS for c in cases_of(kind, 40, 3)]
    cases += [c for kind in KINDS for c in turned_cases(kind, 40, 2)]
    CortexM7(cases, compiler).check()


def _uint8_weights(seed: int) -> list[KernelCase]:
    """Return cases whose weights are bytes without a sign less a zero point."""
    random = np.random.default_rng(seed)
    layers = []
    around = ops.Window(kernel=(3, 3), strides=(1, 2), pads=(1, 1, 1, 1))
    for low, high in ((-255, 0), (-200, 55), (0, 255), (-140, 100)):
        for groups, window in ((12, around), (12, replace(around, dilations=(2, 1))), (3, around)):
            builder = GraphBuilder((12, 9, 7))
            builder.conv(12, window, groups=groups, weights=(low, high))
            layers += builder.graph().layers
        builder = GraphBuilder((3, 14, 12))
        builder.conv(12, around, weights=(low, high), output=(-128, 127))
        builder.conv(12, SAME, groups=12, weights=(low, high))
        builder.conv(11, around, weights=(low, high))
        builder.conv(9, ops.Window(kernel=(5, 4), pads=(2, 2, 2, 2)), weights=(low, high))
        builder.conv(700, POINT, weights=(low, high))
        builder.conv(9, POINT, weights=(low, high), output=(-128, 127))
        builder.linear(7, weights=(low, high), output=(0, 255))
        layers += builder.graph().layers
    kernels = [next(one for one in builtin_kernels() if takes(one, layer)) for layer in layers]
    assert all("_u8" in one.symbol(layer) for one, layer in zip(kernels, layers, strict=True))
    return [make_case(kernel, own, random) for kernel, own in zip(kernels, layers, strict=True)]


@pytest.mark.parametrize("bounds", [(-129, 127), (200, 300), (-300, -200)])
def test_weights_beyond_uint8_files_are_stored_in_16_bits(bounds: tuple[int, int]) -> None:
    builder = GraphBuilder((12, 9, 7))
    builder.conv(12, SAME, weights=bounds)
    builder.linear(7, weights=bounds)
    cases = []
    for kernel, layer in zip((ConvKernel(), LinearKernel()), builder.graph().layers, strict=True):
        assert (weight_bits(layer), lift_of(layer)) == (16, 0)
        cases.append(make_case(kernel, layer, np.random.default_rng(1)))
    HostLibrary(cases).check()


def test_weights_of_uint8_files_are_stored_in_8_bits() -> None:
    cases = _uint8_weights(5)
    assert all(weight_bits(case.layer) == 8 and lift_of(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(41, 46))
def test_more_code_of_the_chip_equals_the_reference(seed: int) -> None:
    cortex_m7.require()
    cases = [c for kind in KINDS for c in cases_of(kind, seed, 8)]
    CortexM7(cases).check()


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


def _step(channels: int, reach: int, hi: int = 255) -> Requant:
    """Return a step per channel that spreads accumulators up to ``reach`` over the outputs."""
    mul = max(1, 200 * (1 << 24) // reach)
    random = np.random.default_rng(channels)
    add = random.integers(-20 << 24, 50 << 24, channels)
    return requant([mul + c for c in range(channels)], add.tolist(), 1 << 24, 0, hi)


def _conv(
    c_in: int,
    c_out: int,
    image: tuple[int, int],
    window: ops.Window,
    *,
    groups: int = 1,
    steps: tuple[Requant, ...] | None = None,
    weights: np.ndarray | None = None,
    lo: int = 0,
    least: int = -128,
) -> Layer:
    random = np.random.default_rng(c_in * 100 + c_out)
    shape = (c_out, c_in // groups, *window.kernel)
    fan_in = c_in // groups * window.taps
    layer = alone(
        ops.Conv,
        weights=Array(random.integers(least, least + 256, shape) if weights is None else weights),
        window=window,
        groups=groups,
        requants=(_step(c_out, fan_in * 64 * 255),) if steps is None else steps,
    )
    return typed(layer, (c_in, *image, lo, 255 if lo == 0 else -1 - lo))


def _linear(
    inputs: int,
    outputs: int,
    steps: tuple[Requant, ...] = (),
    lo: int = 0,
    hi: int = 255,
    least: int = -128,
) -> Layer:
    weights = np.random.default_rng(inputs).integers(least, least + 256, (outputs, inputs))
    layer = alone(ops.Linear, weights=Array(weights), requants=steps)
    return typed(layer, (inputs, 1, 1, lo, hi))


@pytest.mark.slow
def test_columns_of_few_channels_are_copied_in_runs_of_known_size() -> None:
    """Within the image and at its borders; tiles; dilated rows; both sizes of inputs."""
    random = np.random.default_rng(11)
    windows = (
        ops.Window(kernel=(3, 3), strides=(2, 2), pads=(0, 0, 1, 1)),
        ops.Window(kernel=(5, 3), pads=(2, 1, 2, 1), dilations=(2, 1)),
        ops.Window(kernel=(1, 4), pads=(0, 2, 0, 1)),
    )
    cases = []
    for channels, lo in ((3, -128), (1, 0), (5, -1000)):
        for window in windows:
            layer = _conv(channels, 5, (12, 11), window, lo=lo)
            assert f"_odd{channels}_" in ConvKernel().symbol(layer)
            cases += [make_case(ConvKernel(), layer, random) for _ in range(2)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_columns_that_overlap_are_windows_into_strips() -> None:
    """More than a strip, rows that end with one pixel, steps, groups, dilated rows, 16 bits."""
    random = np.random.default_rng(12)
    cases = []
    for window, groups, lo in (
        (ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1)), 1, 0),
        (ops.Window(kernel=(3, 3), strides=(1, 2), pads=(1, 0, 0, 1)), 2, -128),
        (ops.Window(kernel=(2, 5), pads=(2, 2, 0, 2), dilations=(2, 1)), 1, -1000),
        (ops.Window(kernel=(3, 1)), 1, 0),
    ):
        layer = _conv(8, 6, (6, 23), window, groups=groups, lo=lo)
        assert "_window_" in ConvKernel().symbol(layer)
        cases += [whole_case(ConvKernel(), layer, random), make_case(ConvKernel(), layer, random)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_rows_that_are_no_threes_of_pixels_have_a_column_for_each_pixel() -> None:
    assert "_window_" not in ConvKernel().symbol(_conv(64, 32, (8, 8), SAME))
    assert "_window_" in ConvKernel().symbol(_conv(64, 32, (12, 12), SAME))


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


SAME = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
POINT = ops.Window(kernel=(1, 1))


def test_extreme_values_do_not_overflow() -> None:
    """-128 * 255 in every product of a column of 3 * 3 * 33."""
    layer = _conv(33, 4, (3, 3), SAME, weights=np.full((4, 33, 3, 3), -128), steps=())
    case = whole_case(ConvKernel(), layer, (np.full((33, 3, 3), 255, dtype=np.int64),))
    HostLibrary([case]).check()
    assert reference.run_layer(layer, case.inputs).min() == -128 * 255 * 9 * 33


def test_rows_of_bytes_with_all_remainders() -> None:
    """Four rows at a time in assembly; both signs of inputs; vectors of any length."""
    random = np.random.default_rng(15)
    cases = []
    for inputs in (1, 3, 4, 6, 16, 17, 31, 640):
        for lo, hi in ((-128, 127), (0, 255)):
            layer = _linear(inputs, 9, (_step(9, inputs << 14),) if inputs % 2 else (), lo, hi)
            cases.append(whole_case(LinearKernel(), layer, random))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_halves_of_words_reach_their_ends() -> None:
    """-32768 and 32767 times -128 and 127, an odd number of each."""
    layer = _linear(37, 5, lo=-32768, hi=32767)
    values = np.where(np.arange(37) % 3 == 0, -32768, 32767).reshape(37, 1, 1)
    HostLibrary([whole_case(LinearKernel(), layer, (values.astype(np.int64),))]).check()


@pytest.mark.sample(4)
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 2), (2, 1)])
def test_depthwise_from_pairs_of_columns(strides: tuple[int, int]) -> None:
    """All remainders of blocks, strips and channels; padding on every side; both types."""
    random = np.random.default_rng(12)
    cases = []
    for number in range(16):
        pads = tuple(random.integers(0, 3, 4).tolist())
        window = ops.Window(kernel=(3, 3), strides=strides, pads=pads)
        image = tuple(random.integers(13, 24, 2).tolist())
        channels = 4 + number % 5
        layer = _conv(
            channels, channels, image, window, groups=channels, lo=0 if number % 2 else -128
        )
        cases.append(whole_case(DepthwiseKernel(), layer, random))
    assert all("_planar" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("kernel", [(5, 5), (7, 7), (1, 5), (1, 7), (9, 1), (10, 1), (4, 1)])
def test_depthwise_of_wide_filters_from_pairs_of_columns(
    kernel: tuple[int, int], step: int
) -> None:
    """All remainders of blocks, strips and channels, padding on every side, other epilogues."""
    random = np.random.default_rng(14)
    cases = []
    for number in range(12):
        top, left, bottom, right = random.integers(0, 4, 4).tolist()
        is_row = 1 in kernel
        pads = (top * (not is_row), left, bottom * (not is_row), right)
        height, width = 1 if is_row else 19 + number, 24 + number
        if kernel[1] == 1:
            height, width, pads = width, 1, (left, 0, right, 0)
        strides = (step, step) if not is_row else ((step, 1) if kernel[1] == 1 else (1, step))
        window = ops.Window(kernel=kernel, strides=strides, pads=pads)
        channels, taps = 4 + number % 5, kernel[0] * kernel[1]
        steps = ((_step(channels, taps * 255 << 6, 255),), (_even_step(channels, taps << 12),))
        layer = _conv(
            channels,
            channels,
            (height, width),
            window,
            groups=channels,
            lo=0 if number % 2 else -128,
            **({"steps": steps[number % 4 // 3]} if number % 4 > 1 else {}),
        )
        cases.append(whole_case(DepthwiseKernel(), layer, random))
    assert any("_planar" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_depthwise_tiles_of_fewer_than_four_channels(strides: tuple[int, int]) -> None:
    """A layer of more channels ends with such a tile: in fours, in twos, in threes, one by one."""
    random = np.random.default_rng(13)
    window = ops.Window(kernel=(3, 3), strides=strides, pads=(1, 1, 1, 1))
    cases = []
    for together, bits, hi, lo in (
        *((4, 8, 255, 0), (4, 16, 3, -128), (4, 8, 15, 0)),
        *((2, 16, 255, 0), (3, 8, 1, -128), (1, 8, 255, -128)),
    ):
        weights = random.integers(-(1 << bits - 1), 1 << bits - 1, (7, 1, 3, 3))
        steps = (_step(7, 9 * 255 << bits - 2, hi),)
        layer = _conv(7, 7, (12, 13), window, groups=7, steps=steps, weights=weights, lo=lo)
        layer = replace(layer, output=replace(layer.output, bits=8))
        whole = whole_case(DepthwiseKernel(), layer, random)
        _, h, w, c_in = whole.tile
        cases += [replace(whole, tile=(together, *size, c_in)) for size in ((h, w), (3, w - 1))]
    assert all("_planar" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


PADDED = {
    "pairs of columns": ((3, 3), (1, 1), (1, 1), 9),
    "every other pair": ((3, 3), (2, 2), (1, 1), 6),
    "pixels": ((5, 3), (1, 2), (1, 1), 7),
    "far taps": ((3, 3), (1, 1), (2, 2), 6),
    "a row": ((1, 3), (1, 1), (1, 1), 5),
    "three channels": ((3, 4), (1, 1), (1, 1), 3),
}


@pytest.mark.sample(15)
@pytest.mark.parametrize("lo", [0, -128])
@pytest.mark.parametrize("name", PADDED)
def test_depthwise_padding_with_a_value(name: str, lo: int) -> None:
    """On every side, also of images that no window lies in as a whole; whole and in tiles."""
    random = np.random.default_rng(17 - lo)
    kernel, strides, dilations, channels = PADDED[name]
    cases = []
    for image in ((12, 13), (3, 2)):
        most = [(size - 1) * far + 1 for size, far in zip(kernel, dilations, strict=True)]
        pads = tuple(min(size - 1, 2) for size in (*most, *most))
        value = int(random.choice([lo, lo + 255, lo + 9]))
        window = ops.Window(
            kernel=kernel, strides=strides, dilations=dilations, pads=pads, pad_value=value
        )
        size = [n + a + b for n, a, b in zip(image, pads[:2], pads[2:], strict=True)]
        if any(n < reach for n, reach in zip(size, most, strict=True)):
            continue
        layer = _conv(channels, channels, image, window, groups=channels, lo=lo)
        cases.append(whole_case(DepthwiseKernel(), layer, random))
        cases += [make_case(DepthwiseKernel(), layer, random) for _ in range(3)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(2)
@pytest.mark.parametrize("lo", [0, -128])
def test_averages_count_what_padding_is(lo: int) -> None:
    random = np.random.default_rng(18)
    cases = []
    for kernel, pads in (((1, 3), (0, 2, 0, 0)), ((3, 2), (2, 1, 1, 1)), ((4, 4), (3, 0, 2, 3))):
        for value in (lo + 7, lo + 255):
            window = ops.Window(kernel=kernel, pads=pads, pad_value=value)
            step = requant(1 << 10, 5, window.taps << 10, lo, lo + 255)
            layer = alone(ops.AvgPool, window=window, requants=(step,))
            case = typed(layer, (7, 6, 5, lo, lo + 255))
            cases += [make_case(AvgPoolKernel(), case, random) for _ in range(2)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_weights_beyond_a_byte_take_two() -> None:
    """A uint8 network's weights have 9 bits; all kernels, all remainders of their blocks."""
    random = np.random.default_rng(6)
    cases = []
    for channels, outputs in ((8, 6), (5, 7), (3, 3)):
        for window in (POINT, SAME):
            shape = (outputs, channels, *window.kernel)
            weights = random.integers(-256, 256, shape)
            weights.reshape(-1)[:2] = (-32768, 32767)
            layer = _conv(channels, outputs, (5, 6), window, weights=weights)
            cases.append(whole_case(ConvKernel(), layer, random))
        weights = random.integers(-256, 256, (channels, 1, 3, 3))
        layer = _conv(channels, channels, (5, 6), SAME, groups=channels, weights=weights)
        cases.append(whole_case(DepthwiseKernel(), layer, random))
        op = alone(ops.Linear, weights=Array(random.integers(-300, 300, (outputs, channels * 3))))
        cases.append(whole_case(LinearKernel(), typed(op, (channels * 3, 1, 1, 0, 255)), random))
    assert all("_i16_" in case.kernel.symbol(case.layer) for case in cases)
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_weights_lie_in_pairs_of_rows_behind_the_parameters() -> None:
    layer = _conv(3, 3, (4, 4), ops.Window(kernel=(1, 2)))
    block = ConvKernel().weight_block(layer, (0, 3), (0, 3))
    assert dict(block.parts) == {"mul": 0, "weights": 36}
    rows = layer.op.weights.values.transpose(0, 2, 3, 1).reshape(3, 6).astype(np.int8)
    rows = np.pad(rows, ((0, 0), (0, 2)))
    image = np.frombuffer(block.data, np.int8)[36:60].reshape(6, 4)
    pairs = rows[:2].reshape(2, 2, 2, 2).transpose(1, 3, 2, 0)  # vector, parity, element, row
    assert image[:4].tolist() == pairs.reshape(4, 4).tolist()
    assert image[4:].reshape(-1).tolist() == rows[2].tolist()


def test_last_depthwise_block_ends_with_the_last_channel() -> None:
    layer = _conv(6, 6, (4, 4), ops.Window(kernel=(1, 2)), groups=6)
    block = DepthwiseKernel().weight_block(layer, (0, 6), (0, 6))
    image = np.frombuffer(block.data, np.int8)[block.parts["weights"] :].reshape(2, 2, 4)
    weights = layer.op.weights.values[:, 0, 0]
    assert image[0].tolist() == weights[:4].T.tolist()
    assert image[1].tolist() == weights[2:].T.tolist()


@pytest.mark.parametrize(
    ("scale", "shift"), [(1 / 1000, 32), (0.49, 32), (0.6, 31), (3, 29), (100, 22)]
)
def test_products_keep_the_upper_half_while_scales_are_small(scale: float, shift: int) -> None:
    step = requant(int(scale * (1 << 20)), 12345, 1 << 20, 0, 255)
    layer = _conv(8, 4, (5, 5), POINT, steps=(step,))
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
    layer = _conv(64, 24, (5, 5), POINT, steps=(step,), lo=-128)
    assert "_turned_q31up_i8" in ConvKernel().symbol(layer)
    random = np.random.default_rng(8)
    HostLibrary([whole_case(ConvKernel(), layer, random) for _ in range(3)]).check()


@pytest.mark.parametrize("div", [(1 << 16) - 1, ((1 << 20) - 1) // 15, 77777, 1 << 40])
def test_divisors_of_any_kind_become_shifts(div: int) -> None:
    step = Requant((max(1, div // 3000), -(div // 2500) - 1), (div // 7, -div), div, 0, 255)
    layer = _conv(9, 2, (8, 8), POINT, steps=(step,))
    assert "_q32_u8" in ConvKernel().symbol(layer)
    HostLibrary([whole_case(ConvKernel(), layer)]).check()


def test_two_steps_are_kept_apart_where_no_single_one_equals_them() -> None:
    steps = (requant(1, 0, 1 << 7, -500, 500), requant(3, 1, 7, -100, 200))
    layer = _conv(8, 4, (6, 6), POINT, steps=steps)
    assert "_then_bounds" in ConvKernel().symbol(layer)
    HostLibrary([whole_case(ConvKernel(), layer)]).check()


@pytest.mark.parametrize("bounds", [(0, 0), (0, 1), (-1, 0), (-1, -1), (-50, -1), (7, 7)])
def test_clips_to_few_values(bounds: tuple[int, int]) -> None:
    """A clip that leaves 0 alone has no bits to saturate to."""
    step = requant([300, -300, 80, -9], [1 << 18, -(1 << 19), 0, 5], 1 << 20, *bounds)
    layer = _conv(8, 4, (5, 5), POINT, steps=(step,))
    layer = replace(layer, output=replace(layer.output, bits=8))
    HostLibrary([whole_case(ConvKernel(), layer)]).check()


def test_rejections_say_why() -> None:
    def reason(kernel: Kernel, layer: Layer) -> str:
        rejection = kernel.accepts(layer)
        assert rejection is not None
        return rejection.reason

    padded = ops.Window(kernel=(1, 1), pads=(1, 1, 1, 1))
    shared = _conv(3, 6, (5, 5), SAME, groups=3)
    assert "without padding" in reason(ConvKernel(), _conv(4, 4, (5, 5), padded))
    assert "one input channel" in reason(ConvKernel(), shared)
    assert "one filter per channel, not 2" in reason(DepthwiseKernel(), shared)
    wide = _conv(4, 4, (5, 5), POINT, weights=np.full((4, 4, 1, 1), 40_000), steps=())
    assert "not in 16 bits" in reason(ConvKernel(), wide)
    assert "fully connected" in reason(LinearKernel(), shared)
    halves = _linear(8, 4, lo=0, hi=65535)
    assert "reaches 65535" in reason(LinearKernel(), halves)


def _pool(make: type[ops.MaxPool] | type[ops.AvgPool], kernel: int, lo: int = 0) -> Layer:
    bounds = (lo, 255 if lo == 0 else -1 - lo)
    steps = () if make is ops.MaxPool else (requant(1 << 10, 5, kernel * kernel << 10, *bounds),)
    layer = alone(make, window=ops.Window(kernel=(kernel, kernel), strides=(2, 2)), requants=steps)
    return typed(layer, (16, 14, 14, *bounds))


def _sum() -> Layer:
    layer = alone(
        ops.Add,
        operand_requants=(requant(77, 3, 256, 0, 255), None),
        requants=(requant(200, 9, 256, 0, 255),),
    )
    return typed(layer, (16, 8, 8, 0, 255), (16, 8, 8, 0, 255))


def _wide_sum(mul: int = 932966493, shift: int = 17, last: int = 1901167265) -> Layer:
    """As TensorFlow Lite Micro has it for 16 bits: 15 bits below the point, rounded twice."""
    half = 1 << (shift - 1)
    less = 1 << (shift - 3)
    second = requant(mul, half + less, 1 << shift, add_negative=half - less)
    half, nudge = 1 << 43, 1 << 30
    step = requant(last, half + nudge, 1 << 44, -32768, 32767, half - nudge)
    layer = alone(ops.Add, operand_requants=(requant(32768, 1, 2), second), requants=(step,))
    return typed(layer, (16, 8, 8, -32768, 32767), (16, 8, 8, -32768, 32767))


def test_sums_of_16_bits_keep_the_numbers_of_their_steps() -> None:
    """A staircase of their values has too many steps for a search."""
    random = np.random.default_rng(3)
    cases = []
    for shift in range(16, 22):
        mul, last = (int(n) for n in random.integers(1 << 30, 1 << 31, 2))
        layer = _wide_sum(mul, shift, last)
        assert "_scaled_upper_" in AddKernel().symbol(layer)
        cases += [make_case(AddKernel(), layer, random) for _ in range(3)]
    ends = np.array([-32768, -32767, -1, 0, 1, 32766, 32767, 5])
    values = np.broadcast_to(ends, (16, 8, 8))
    cases.append(replace(whole_case(AddKernel(), cases[0].layer), inputs=(values, values)))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_sums_of_large_windows_of_bytes_have_32_bits() -> None:
    pool = alone(ops.AvgPool, window=ops.Window(kernel=(20, 20)))
    # A few elements inside, but their sum alone needs 17 bits before padding makes it smaller.
    beside = ops.Window(kernel=(2, 257), pads=(0, 80, 0, 80), pad_value=-1)
    padded = alone(ops.AvgPool, window=beside, counts_padding=True)
    layers = (typed(pool, (5, 20, 20, 0, 255)), typed(padded, (5, 2, 97, -127, 127)))
    assert all("_wide_" in AvgPoolKernel().symbol(layer) for layer in layers)
    random = np.random.default_rng(2)
    cases = [make_case(AvgPoolKernel(), layer, random) for layer in layers]
    ends = np.full((5, 20, 20), 255)
    cases.append(replace(whole_case(AvgPoolKernel(), layers[0]), inputs=(ends,)))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.parametrize("hi", [32767, (1 << 31) - 1])
def test_moves_of_wide_elements(hi: int) -> None:
    """Padding with any value, slices with steps, in tiles of any size."""
    random = np.random.default_rng(6)
    cases: list[KernelCase] = []
    for n in range(6):
        before, after = (tuple(random.integers(0, 3, 3).tolist()) for _ in range(2))
        value = int(random.integers(-hi - 1, hi, endpoint=True))
        begin, step = tuple(random.integers(0, 3, 3).tolist()), (1, 1 + n % 2, 1 + n // 3)
        for one in (
            alone(ops.Pad, before=before, after=after, value=value),
            alone(ops.Slice, begin=begin, size=(3, 2, 2), step=step),
        ):
            layer = typed(one, (5, 6, 7, -hi - 1, hi))
            assert MoveKernel().accepts(layer) is None
            cases += [make_case(MoveKernel(), layer, random) for _ in range(2)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_windows_of_16_bits() -> None:
    """Depthwise by pairs of columns and pixel by pixel, pools; padding; few channels; tiles."""
    random = np.random.default_rng(4)
    cases: list[KernelCase] = []
    squares = (((3, 3), (1, 1)), ((3, 3), (2, 2)), ((5, 5), (1, 2)))
    for kernel, strides in (*squares, ((1, 5), (1, 1)), ((2, 3), (1, 1))):
        pads = (kernel[0] // 2, kernel[1] // 2) * 2
        for channels, lo in ((3, -32768), (7, -32768), (9, 0)):
            hi = -1 - lo if lo else 32767
            window = ops.Window(kernel=kernel, strides=strides, pads=pads, pad_value=hi // 3)
            weights = random.integers(-128, 128, (channels, 1, *kernel))
            steps = (requant(30014, 1 << 22, 1 << 23, -32768, 32767),)
            filters = alone(
                ops.Conv, weights=Array(weights), window=window, groups=channels, requants=steps
            )
            plain = replace(window, pad_value=0)
            most = alone(ops.MaxPool, window=plain)
            step = requant(1, 2, kernel[0] * kernel[1], -32768, 32767)
            mean = alone(ops.AvgPool, window=plain, counts_padding=True, requants=(step,))
            kernels = (DepthwiseKernel(), MaxPoolKernel(), AvgPoolKernel())
            for one, layer in zip(kernels, (filters, most, mean), strict=True):
                case = typed(layer, (channels, 14, 13, lo, hi))
                assert one.accepts(case) is None
                cases += [make_case(one, case, random) for _ in range(2)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def _sum_in_two_steps() -> Layer:
    """As NEMO has it: the value between the steps is rounded as well."""
    layer = alone(
        ops.Add,
        operand_requants=(requant(63), requant(64)),
        requants=(requant(1, 0, 128), requant(27, 0, 16, 0, 255)),
    )
    return typed(layer, (16, 8, 8, 0, 255), (16, 8, 8, 0, 255))


def _product(second: tuple[int, int, int]) -> Layer:
    zeros, step = (requant(add=5), requant(add=-3)), requant(3000, 1 << 19, 1 << 20, -128, 127)
    layer = alone(ops.Mul, operand_requants=zeros, requants=(step,))
    return typed(layer, (16, 8, 8, -128, 127), (*second, -128, 127))


def _bilinear(channels: int) -> Layer:
    first = np.arange(16) // 2
    taps = Array(np.stack([first, np.minimum(first + 1, 7), 768 - first, 256 + first], axis=1))
    layer = alone(ops.Resize, rows=taps, columns=taps, requants=(requant(1, 1 << 19, 1 << 20),))
    return typed(layer, (channels, 8, 8, -128, 127))


def _nearest() -> Layer:
    first = np.arange(16) // 2
    taps = Array(np.stack([first, first, np.ones(16, int), np.zeros(16, int)], axis=1))
    return typed(alone(ops.Resize, rows=taps, columns=taps), (32, 8, 8, -128, 127))


def _softmax(channels: int) -> Layer:
    table = np.minimum(np.floor(np.exp(-np.arange(256) * 0.06) * 2**31), 2**31 - 1)
    steps = (requant(1, -128, 1, -128, 127),)
    layer = alone(ops.Softmax, table=Array(table.astype(np.int64)), requants=steps)
    return typed(layer, (channels, 1, 1, -128, 127))


def _layer_norm(channels: int) -> Layer:
    random = np.random.default_rng(channels)
    weights, bias = (random.normal(1, 0.3, channels).astype(np.float32) for _ in range(2))
    layer = alone(
        ops.LayerNorm,
        weights=Array(weights.view(np.int32).astype(np.int64)),
        bias=Array(bias.view(np.int32).astype(np.int64)),
        scale=0.03125,
        epsilon=float(np.float32(1e-5)),
        out_scale=0.025390625,
        requants=(requant(1, -3, 1, -128, 127),),
    )
    return typed(layer, (channels, 2, 4, -128, 127))


def _table(*shape: int) -> Layer:
    table = Array(np.random.default_rng(1).integers(-128, 128, shape))
    return typed(alone(ops.Lut, table=table), (16, 10, 10, -128, 127))


def _concat() -> Layer:
    layer = alone(ops.Concat, inputs=("a", "b"), axis=0)
    return typed(layer, (16, 10, 10, -128, 127), (24, 10, 10, -128, 127))


# Bounds of instructions per multiplication: what must be reached (a prototype's 3x3, CMSIS-NN's 1x1
# and depthwise with the replaced requantisation), then a little above what ziglang and gcc reach.
GOALS: dict[str, tuple[Kernel, Layer, float, float, float]] = {
    "3x3 16": (ConvKernel(), _conv(16, 16, (8, 8), SAME), 1.85, 1.33, 1.36),
    "3x3 32": (ConvKernel(), _conv(32, 32, (6, 6), SAME), 1.62, 1.14, 1.16),
    "3x3 64": (ConvKernel(), _conv(64, 64, (4, 4), SAME), 1.53, 1.14, 1.15),
    "1x1 16": (ConvKernel(), _conv(16, 16, (8, 8), POINT), 2.96, 1.95, 1.95),
    "1x1 32": (ConvKernel(), _conv(32, 32, (8, 8), POINT), 2.19, 1.46, 1.46),
    "1x1 64": (ConvKernel(), _conv(64, 64, (4, 4), POINT), 1.80, 1.30, 1.31),
    "depthwise": (DepthwiseKernel(), _conv(16, 16, (12, 12), SAME, groups=16), 6.5, 2.80, 2.85),
    "linear": (LinearKernel(), _linear(256, 16), 2.0, 1.60, 1.75),
}
# As TensorFlow Lite has it for activations of 16 bits.
WIDE_STEP = requant(30014, 1 << 22, 1 << 23, -32768, 32767)
COMPILERS = {"ziglang": cortex_m7.ZIG, "gcc": cortex_m7.GCC}
ESTIMATES: dict[str, tuple[Kernel, Layer]] = {
    "binary32": (
        ConvKernel(),
        _conv(32, 32, (8, 8), POINT, steps=(_even_step(32, 32 << 14),), lo=-128),
    ),
    **{name: (kernel, layer) for name, (kernel, layer, *_) in GOALS.items()},
    "1x1 64, one pixel": (ConvKernel(), _conv(64, 64, (1, 1), POINT)),
    "binary32, one pixel": (
        ConvKernel(),
        _conv(16, 64, (1, 1), POINT, steps=(_even_step(64, 16 << 14),), lo=-128),
    ),
    "first layer": (ConvKernel(), _conv(3, 16, (10, 10), SAME)),
    "odd channels": (ConvKernel(), _conv(15, 15, (7, 7), SAME)),
    "uint8 3x3": (ConvKernel(), _conv(16, 16, (8, 8), SAME, least=-200)),
    "uint8 1x1": (ConvKernel(), _conv(16, 16, (8, 8), POINT, least=-200)),
    "uint8 first layer": (ConvKernel(), _conv(3, 16, (10, 10), SAME, least=-200)),
    "uint8 depthwise": (DepthwiseKernel(), _conv(16, 16, (12, 12), SAME, groups=16, least=-200)),
    "uint8 depthwise, 2x2": (DepthwiseKernel(), _conv(16, 16, (2, 2), SAME, groups=16, least=-200)),
    "uint8 linear": (LinearKernel(), _linear(256, 16, (_step(16, 1 << 22),), least=-200)),
    "depthwise 6x6": (DepthwiseKernel(), _conv(16, 16, (6, 6), SAME, groups=16)),
    "depthwise by twos": (
        DepthwiseKernel(),
        _conv(8, 8, (20, 20), ops.Window(kernel=(3, 3), strides=(2, 2)), groups=8),
    ),
    "depthwise by twos, small": (
        DepthwiseKernel(),
        _conv(8, 8, (8, 8), ops.Window(kernel=(3, 3), strides=(2, 2)), groups=8),
    ),
    "depthwise 5x5": (
        DepthwiseKernel(),
        _conv(8, 8, (12, 12), ops.Window(kernel=(5, 5), pads=(2, 2, 2, 2)), groups=8),
    ),
    "16 bits": (ConvKernel(), _conv(16, 16, (8, 8), POINT, steps=(WIDE_STEP,), lo=-32768)),
    "16 bits, depthwise": (
        DepthwiseKernel(),
        _conv(16, 16, (12, 12), SAME, groups=16, steps=(WIDE_STEP,), lo=-32768),
    ),
    "16 bits, depthwise 2x2": (
        DepthwiseKernel(),
        _conv(16, 16, (2, 2), SAME, groups=16, steps=(WIDE_STEP,), lo=-32768),
    ),
    "16 bits, depthwise 5x5": (
        DepthwiseKernel(),
        _conv(
            *(8, 8, (12, 12), ops.Window(kernel=(5, 5), pads=(2, 2, 2, 2))),
            groups=8,
            steps=(WIDE_STEP,),
            lo=-32768,
        ),
    ),
    "16 bits, maximum": (MaxPoolKernel(), _pool(ops.MaxPool, 2, -32768)),
    "16 bits, average": (AvgPoolKernel(), _pool(ops.AvgPool, 4, -32768)),
    "16 bits, average of all": (AvgPoolKernel(), _pool(ops.AvgPool, 8, -32768)),
    "16 bits, sum": (AddKernel(), _wide_sum()),
    "maximum": (MaxPoolKernel(), _pool(ops.MaxPool, 2)),
    "average": (AvgPoolKernel(), _pool(ops.AvgPool, 4)),
    "average in binary32": (
        RealPoolKernel(),
        _real_mean(np.random.default_rng(0), ops.Window(kernel=(8, 8)), 64),
    ),
    "sum": (AddKernel(), _sum()),
    "sum by tables": (SumTablesKernel(), _sum()),
    "sum by tables, two steps": (SumTablesKernel(), _sum_in_two_steps()),
    "product": (MulKernel(), _product((16, 8, 8))),
    "product by channel": (MulKernel(), _product((16, 1, 1))),
    "bilinear": (ResizeKernel(), _bilinear(32)),
    "nearest": (ResizeKernel(), _nearest()),
    "softmax": (SoftmaxKernel(), _softmax(10)),
    "table": (LutKernel(), _table(256)),
    "table by channel": (LutKernel(), _table(16, 256)),
    "concatenation": (ConcatKernel(), _concat()),
}


# A compiler, and what each layer takes: instructions, and cycles (0 without a disassembler).
Counts = tuple[str, dict[str, tuple[int, float]]]


@pytest.fixture(scope="module", params=COMPILERS)
def counts(request: pytest.FixtureRequest) -> Counts:
    """Return a compiler, instructions and cycles of each layer in one tile, all of them checked."""
    cases = {name: whole_case(kernel, layer) for name, (kernel, layer) in ESTIMATES.items()}
    compiler = cortex_m7.require(COMPILERS[request.param])
    machine = CortexM7(list(cases.values()), compiler)
    found: dict[str, tuple[int, float]] = {}
    for number, (name, case) in enumerate(cases.items()):
        machine.reset()
        got = machine.run(number)
        assert np.array_equal(got, reference.run_layer(case.layer, case.inputs)), name
        found[name] = machine.instructions, machine.cycles
    return request.param, found


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", GOALS)
def test_instructions_per_multiplication(name: str, counts: Counts) -> None:
    compiler, instructions = counts
    _, layer, goal, ziglang, gcc = GOALS[name]
    bound = {"ziglang": ziglang, "gcc": gcc}[compiler]
    assert bound <= goal
    assert instructions[name][0] / layer.macs < bound


@pytest.mark.parametrize("name", ESTIMATES)
def test_estimates_are_those_of_the_pipeline(name: str, counts: Counts) -> None:
    """Within 10 % of the model; 1.1 to 2 instructions per cycle, which needs no disassembler.

    Without what the model leaves out, which the target adds to its kernels.
    """
    compiler, measured = counts
    kernel, layer = ESTIMATES[name]
    estimate = int(kernel.cycles(layer, make_tile(layer, *layer.output.shape)))
    instructions, cycles = measured[name]
    assert 1.1 * estimate < instructions < 2 * estimate
    if compiler == "ziglang" and cycles:
        assert cycles / 1.1 < estimate < 1.1 * cycles


def _norm(channels: int) -> Layer:
    random = np.random.default_rng(channels)
    weights, bias = random.integers(200_000, 270_000, channels), random.integers(0, 99, channels)
    fields = {"weights": Array(weights), "bias": Array(bias), "centred": True, "wrap_bits": 22}
    layer = alone(ops.Norm, **fields, requants=(requant(1, 0, 1 << 14),))
    return typed(layer, (channels, 2, 4, -128, 127))


def _shares(channels: int) -> Layer:
    table = Array((256 >> ((np.arange(256) + 16) >> 5)).astype(np.int64))
    return typed(alone(ops.Shares, table=table, factor=255), (channels, 2, 4, -128, 127))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kernel", "layer_of"),
    [(LayerNormKernel(), _layer_norm), (NormKernel(), _norm), (SharesKernel(), _shares)],
)
def test_estimates_of_rows_are_those_of_the_pipeline(
    kernel: Kernel, layer_of: Callable[[int], Layer]
) -> None:
    """Within 10 % of the model; divisions may take more cycles than instructions."""
    cases = [whole_case(kernel, layer_of(channels)) for channels in (16, 64, 67, 192)]
    machine = CortexM7(cases, cortex_m7.require(cortex_m7.ZIG))
    for number, case in enumerate(cases):
        machine.reset()
        assert np.array_equal(machine.run(number), reference.run_layer(case.layer, case.inputs))
        layer = case.layer
        estimate = int(kernel.cycles(layer, make_tile(layer, *layer.output.shape)))
        if machine.cycles:
            assert machine.cycles / 1.1 < estimate < 1.1 * machine.cycles


def test_norms_with_the_largest_products_and_all_roots() -> None:
    """A row of one value has the least root, one of the ends of a byte the largest."""
    cases = []
    for centred, most in ((False, (2**31 - 1) // 128), (True, (2**31 - 1) // 255)):
        weights = Array(np.random.default_rng(1).integers(-most, most, 12, endpoint=True))
        step = requant(1, 0, 1 << 16, -128, 127)
        layer = alone(ops.Norm, weights=weights, centred=centred, requants=(step,))
        case = whole_case(NormKernel(), typed(layer, (12, 2, 3, -128, 127)))
        rng = np.random.default_rng(7)
        for reach in (0, 1, 5, 127):
            values = rng.choice([-reach - 1, reach], (12, 2, 3))
            cases.append(replace(case, inputs=(values,)))
        cases.append(replace(case, inputs=(np.zeros((12, 2, 3), np.int64),)))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_every_layer_of_a_kind_has_one_kernel() -> None:
    names = [k.name for k in builtin_kernels()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("dory_stm32h7_") for name in names)


def test_tiles_of_one_row_and_one_channel() -> None:
    layer = _conv(5, 7, (6, 6), SAME)
    HostLibrary([replace(whole_case(ConvKernel(), layer), tile=(1, 1, 6, 5))]).check()


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
