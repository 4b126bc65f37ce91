"""GAP8 kernels against the reference, tile by tile, element by element."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dory_gap8.backend import (
    AddKernel,
    ConvKernel,
    DepthwiseKernel,
    LinearKernel,
    PointwiseKernel,
)
from gap8_layers import cases_of, fewer_first, make_case, turned_cases

from dory_core.api import Requant, ops, simulate
from dory_core.importing import Array, requant
from dory_core.testing import ZIGLANG, KernelConformance
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case
from dory_core.testing.random_layers import KINDS


@pytest.mark.sample(2)  # of two seeds the first
class TestKernels(KernelConformance):
    cases = staticmethod(fewer_first(cases_of))


@pytest.mark.sample(88)  # of every fourth kind seed 0
class TestTwoAddends(KernelConformance):
    """Rounding that is symmetric around some value.

    Fast tests run such layers under sanitizers in the networks of the conformance kit.
    """

    cases = staticmethod(turned_cases)

    @pytest.mark.slow
    def test_sanitizers_find_nothing_in_a_sample(self, sanitizer: str, count: int) -> None:
        """Every kind of layer."""
        super().test_sanitizers_find_nothing_in_a_sample(sanitizer, count)

    @pytest.mark.slow
    def test_other_compilers_compute_the_same(self, count: int) -> None:
        """Each installed compiler."""
        super().test_other_compilers_compute_the_same(count)


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 3, 6])
def test_every_number_of_cores_computes_the_whole_tile(cores: int) -> None:
    HostLibrary([c for kind in KINDS for c in cases_of(kind, 100 + cores, 3, cores)]).check()


def _conv(
    c_in: int,
    c_out: int,
    image: tuple[int, int],
    window: ops.Window,
    *,
    steps: tuple[Requant, ...] = (),
    groups: int = 1,
    lo: int = 0,
    hi: int = 255,
    weights: np.ndarray | None = None,
):
    random = np.random.default_rng(c_in * 100 + c_out)
    shape = (c_out, c_in // groups, *window.kernel)
    layer = alone(
        ops.Conv,
        weights=Array(random.integers(-128, 128, shape) if weights is None else weights),
        window=window,
        groups=groups,
        requants=steps,
    )
    return typed(layer, (c_in, *image, lo, hi))


WINDOW = ops.Window(kernel=(3, 3), pads=(1, 1, 1, 1))
STEP = requant([3, -2, 5, 1], [100, 0, -7, 9], 1 << 12, 0, 255)


def test_extreme_values_do_not_overflow() -> None:
    """-128 * 255 in every product of a column of 3 * 3 * 33."""
    weights = np.full((4, 33, 3, 3), -128)
    layer = _conv(33, 4, (3, 3), WINDOW, weights=weights)
    inputs = (np.full((33, 3, 3), 255, dtype=np.int64),)
    library = HostLibrary([whole_case(ConvKernel(), layer, inputs)])
    library.check()
    assert library.run(0).min() == -128 * 255 * 9 * 33


def test_strides_and_dilations_differ_by_axis() -> None:
    window = ops.Window(kernel=(3, 2), strides=(1, 2), dilations=(2, 3), pads=(0, 3, 4, 1))
    dense = _conv(5, 4, (7, 9), window, steps=(STEP,))
    depthwise = _conv(4, 4, (7, 9), window, steps=(STEP,), groups=4)
    HostLibrary([whole_case(ConvKernel(), dense), whole_case(DepthwiseKernel(), depthwise)]).check()


def test_depthwise_filters_may_share_an_input_channel() -> None:
    layer = _conv(3, 6, (5, 5), WINDOW, groups=3)
    HostLibrary([replace(whole_case(DepthwiseKernel(), layer), tile=(4, 2, 5, 2))]).check()


def test_partial_sums_over_three_tiles_of_input_channels() -> None:
    layer = _conv(20, 6, (4, 5), WINDOW, steps=(requant(7, 3, 1 << 14, 0, 255),))
    cases = [replace(whole_case(ConvKernel(8, True), layer), tile=(4, 3, 5, 7))]
    one = _conv(20, 6, (4, 5), ops.Window(kernel=(1, 1)), steps=(requant(7, 3, 1 << 9, -128, 127),))
    cases.append(replace(whole_case(PointwiseKernel(8, True), one), tile=(6, 4, 5, 7)))
    HostLibrary(cases).check()


@pytest.mark.sample(5)
@pytest.mark.parametrize("div", [(1 << 16) - 1, ((1 << 20) - 1) // 15, 77777, 1 << 16])
@pytest.mark.parametrize("mul", [1, -37, 1 << 21])
def test_division_floors_over_the_whole_range(div: int, mul: int) -> None:
    """Sums of both signs, numerators up to 2^53, signed outputs: floor, never truncation."""
    random = np.random.default_rng(div)
    layer = alone(
        ops.Linear,
        weights=Array(random.integers(-128, 128, (400, 500))),
        requants=(Requant((mul,), (-12345,), div, -(1 << 15), (1 << 15) - 1),),
    )
    x = typed(layer, (500, 1, 1, 0, 65535))
    HostLibrary([make_case(LinearKernel(), x, random)]).check()


@pytest.mark.parametrize("div", [7, 3, 15])
def test_short_division_is_exact_for_every_numerator(div: int) -> None:
    """All numbers of 16 bits, among them those that two folds leave below zero."""
    layer = alone(ops.Add, operand_requants=(requant(1, 0, div), None))
    x = typed(layer, (1, 256, 256, -(1 << 15), (1 << 15) - 1), (1, 256, 256, -128, 127))
    values = np.arange(-(1 << 15), 1 << 15, dtype=np.int64).reshape(1, 256, 256)
    assert "_scaled_ones_noclip_as_is" in AddKernel().symbol(x)
    HostLibrary([whole_case(AddKernel(), x, (values, np.zeros_like(values)))]).check()


def test_weight_rows_follow_taps_then_channels_and_end_on_words() -> None:
    layer = _conv(3, 4, (4, 4), ops.Window(kernel=(1, 2)), steps=(STEP,))
    block = ConvKernel().weight_block(layer, (1, 3), (0, 3))
    assert dict(block.parts) == {"mul": 0, "weights": 16}
    assert len(block.data) == 16 + 2 * 8
    weights = layer.op.weights.values
    row = [int(weights[2, c, 0, kx]) for kx in (0, 1) for c in range(3)]
    assert np.frombuffer(block.data, np.int8)[24:32].tolist() == [*row, 0, 0]


@pytest.mark.slow
def test_clang_compiles_instances_without_warnings() -> None:
    """Everything else here is compiled by the system's compiler, with -Werror as well."""
    compiler = next((c for c in [("clang",), ZIGLANG] if simulate.Compiler.identify(*c)), None)
    if compiler is None:
        pytest.skip("neither clang nor ziglang is installed")
    HostLibrary([c for kind in KINDS for c in cases_of(kind, 55, 3)], compiler=compiler).check()
