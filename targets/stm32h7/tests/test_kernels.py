"""Kernels of the STM32H7 against the reference, tile by tile, element by element."""

from __future__ import annotations

from dataclasses import replace

import cortex_m7
import numpy as np
import pytest
from cortex_m7 import CortexM7
from dory_stm32h7.backend import builtin_kernels
from dory_stm32h7.backend.bytes import LutKernel, SoftmaxKernel
from dory_stm32h7.backend.conv import ConvKernel
from dory_stm32h7.backend.depthwise import DepthwiseKernel
from dory_stm32h7.backend.linear import LinearKernel
from dory_stm32h7.backend.pairs import AddKernel
from dory_stm32h7.backend.pool import AvgPoolKernel, RealPoolKernel
from dory_stm32h7.backend.rows import NormKernel
from stm32h7_layers import (
    POINT,
    SAME,
    cases_of,
    channel_step,
    conv_layer,
    linear_layer,
    real_mean,
    turned_cases,
)

from dory_core.api import Kernel, Layer, ops
from dory_core.importing import Array, requant
from dory_core.testing import KernelConformance, make_tile, reference
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


def test_means_in_binary32() -> None:
    """As onnxruntime: every operation rounded, with and without padding, tiles."""
    random = np.random.default_rng(5)
    cases = []
    for _ in range(20):
        h, w = random.integers(1, 5, 2).tolist()
        pads = tuple(int(random.integers(0, size)) for size in (h, w, h, w))
        layer = real_mean(random, ops.Window(kernel=(h, w), pads=pads))
        cases.append(make_case(RealPoolKernel(), layer, random))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


@pytest.mark.sample(3)
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


@pytest.mark.sample(2)
@pytest.mark.parametrize("compiler", [cortex_m7.ZIG, cortex_m7.GCC], ids=["ziglang", "gcc"])
def test_code_of_the_chip_equals_the_reference(compiler: tuple[str, ...]) -> None:
    """The instructions that the portable form stands for, in every template."""
    cortex_m7.require(compiler)
    cases = [c for kind in KINDS for c in cases_of(kind, 40, 3)]
    cases += [c for kind in KINDS for c in turned_cases(kind, 40, 2)]
    CortexM7(cases, compiler).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(41, 46))
def test_more_code_of_the_chip_equals_the_reference(seed: int) -> None:
    cortex_m7.require()
    cases = [c for kind in KINDS for c in cases_of(kind, seed, 8)]
    CortexM7(cases).check()


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
            layer = conv_layer(channels, 5, (12, 11), window, lo=lo)
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
        layer = conv_layer(8, 6, (6, 23), window, groups=groups, lo=lo)
        assert "_window_" in ConvKernel().symbol(layer)
        cases += [whole_case(ConvKernel(), layer, random), make_case(ConvKernel(), layer, random)]
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_rows_that_are_no_threes_of_pixels_have_a_column_for_each_pixel() -> None:
    assert "_window_" not in ConvKernel().symbol(conv_layer(64, 32, (8, 8), SAME))
    assert "_window_" in ConvKernel().symbol(conv_layer(64, 32, (12, 12), SAME))


def test_extreme_values_do_not_overflow() -> None:
    """-128 * 255 in every product of a column of 3 * 3 * 33."""
    layer = conv_layer(33, 4, (3, 3), SAME, weights=np.full((4, 33, 3, 3), -128), steps=())
    case = whole_case(ConvKernel(), layer, (np.full((33, 3, 3), 255, dtype=np.int64),))
    HostLibrary([case]).check()
    assert reference.run_layer(layer, case.inputs).min() == -128 * 255 * 9 * 33


def test_rows_of_bytes_with_all_remainders() -> None:
    """Four rows at a time in assembly; both signs of inputs; vectors of any length."""
    random = np.random.default_rng(15)
    cases = []
    for inputs in (1, 3, 4, 6, 16, 17, 31, 640):
        for lo, hi in ((-128, 127), (0, 255)):
            layer = linear_layer(
                inputs, 9, (channel_step(9, inputs << 14),) if inputs % 2 else (), lo, hi
            )
            cases.append(whole_case(LinearKernel(), layer, random))
    HostLibrary(cases).check()
    CortexM7(cases, cortex_m7.require()).check()


def test_halves_of_words_reach_their_ends() -> None:
    """-32768 and 32767 times -128 and 127, an odd number of each."""
    layer = linear_layer(37, 5, lo=-32768, hi=32767)
    values = np.where(np.arange(37) % 3 == 0, -32768, 32767).reshape(37, 1, 1)
    HostLibrary([whole_case(LinearKernel(), layer, (values.astype(np.int64),))]).check()


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


def test_rejections_say_why() -> None:
    def reason(kernel: Kernel, layer: Layer) -> str:
        rejection = kernel.accepts(layer)
        assert rejection is not None
        return rejection.reason

    padded = ops.Window(kernel=(1, 1), pads=(1, 1, 1, 1))
    shared = conv_layer(3, 6, (5, 5), SAME, groups=3)
    assert "without padding" in reason(ConvKernel(), conv_layer(4, 4, (5, 5), padded))
    assert "one input channel" in reason(ConvKernel(), shared)
    assert "one filter per channel, not 2" in reason(DepthwiseKernel(), shared)
    wide = conv_layer(4, 4, (5, 5), POINT, weights=np.full((4, 4, 1, 1), 40_000), steps=())
    assert "not in 16 bits" in reason(ConvKernel(), wide)
    assert "fully connected" in reason(LinearKernel(), shared)
    halves = linear_layer(8, 4, lo=0, hi=65535)
    assert "reaches 65535" in reason(LinearKernel(), halves)


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
    layer = conv_layer(5, 7, (6, 6), SAME)
    HostLibrary([replace(whole_case(ConvKernel(), layer), tile=(1, 1, 6, 5))]).check()
