"""Products of matrices equal the reference, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from dory_stm32h7.backend.conv import ConvKernel
from dory_stm32h7.backend.epilogue import epilogue
from dory_stm32h7.backend.matrices import MatricesKernel
from stm32h7_layers import SPACE, TURNED

from dory_core.api import Layer, geometry, ops
from dory_core.importing import Array, requant
from dory_core.testing.kernel_cases import KernelCase, make_case
from dory_core.testing.kernels import HostLibrary, alone, typed, whole_case
from dory_core.testing.random_layers import RandomLayers

I8, U8 = (-128, 127), (0, 255)


def product(
    rows: int,
    inner: int,
    columns: int,
    heads: tuple[int, int] = (2, 2),
    zeros: tuple[int, int] = (0, 0),
    x: tuple[int, int] = I8,
    factors: tuple[int, int] = I8,
) -> Layer:
    """Return a product of matrices (rows x inner) with those of (inner x columns)."""
    shift = 9 + inner.bit_length() // 2
    random = np.random.default_rng(rows * inner * columns)
    mul = [int(m) for m in random.integers(3, 9, columns)]
    step = requant(mul, 1 << shift - 1, 1 << shift, -128, 127)
    fields = {"inputs": ("input", "input_1"), "zero_points": zeros, "requants": (step,)}
    layer = alone(ops.MatMul, **fields)
    return typed(layer, (columns, heads[0], inner, *x), (inner, heads[1], rows, *factors))


def random_cases(seed: int, count: int) -> list[KernelCase]:
    """Random sizes, types, zero points and requantisations, tiles included."""
    cases: list[KernelCase] = []
    draws = [RandomLayers(space, seed) for space in (SPACE, TURNED)]
    while len(cases) < count:
        draw = draws[len(cases) % 2]
        layer = draw.layer("matmul")
        if MatricesKernel().accepts(layer) is None:
            cases.append(make_case(MatricesKernel(), layer, draw.numbers))
    return cases


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(3))
def test_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 12)).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
def test_many_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 25)).check()


def test_zero_points_types_and_matrices_that_all_share() -> None:
    layers = [
        product(5, inner, columns, heads, zeros, x, factors)
        for inner, columns, heads, zeros, x, factors in (
            (30, 14, (2, 2), (0, 0), I8, I8),
            (4, 5, (1, 3), (7, -128), I8, I8),
            (7, 1, (3, 1), (-128, 127), I8, U8),
            (1, 6, (1, 1), (0, 255), U8, U8),
            (17, 4, (2, 2), (255, 3), U8, I8),
        )
    ]
    HostLibrary([whole_case(MatricesKernel(), layer) for layer in layers]).check()


@pytest.mark.parametrize("inner", [127, 128, 129, 255, 256, 257, 600])
def test_sums_of_long_rows_have_columns_of_their_own(inner: int) -> None:
    layers = [product(3, inner, 3, (1, 1), (zero, 127), I8, I8) for zero in (-128, 101)]
    HostLibrary([whole_case(MatricesKernel(), layer) for layer in layers]).check()


def test_sums_have_no_more_cycles_than_a_convolution_of_their_size_and_a_tenth() -> None:
    size = 128
    layer = product(size, 64, size, (1, 1), (0, -3))
    assert epilogue(layer).in_assembly
    weights = Array(np.random.default_rng(1).integers(-128, 128, (size, 64, 1, 1)))
    window = ops.Window(kernel=(1, 1))
    conv = typed(
        alone(ops.Conv, weights=weights, window=window, requants=layer.op.requants),
        (64, 1, size, *I8),
    )
    cycles = [
        int(kernel.cycles(one, geometry.make_tile(one, size, 1, size)))
        for kernel, one in ((MatricesKernel(), layer), (ConvKernel(), conv))
    ]
    assert cycles[0] < 1.1 * cycles[1]
