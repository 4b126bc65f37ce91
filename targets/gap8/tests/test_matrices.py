"""Products of matrices on the 4x4 block equal the reference, element by element."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dory_gap8.backend import MatricesKernel
from dory_gap8.backend.block_finish import RAW, finish_of
from dory_gap8.backend.requant import epilogue
from gap8_layers import BYTES, TURNED, make_case

from dory_core.api import DoesNotFit, Graph, Layer, ops
from dory_core.importing import requant
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.testing.kernels import HostLibrary, KernelCase, alone, typed, whole_case
from dory_core.testing.random_layers import RandomLayers


def product(
    rows: int,
    inner: int,
    columns: int,
    heads: tuple[int, int] = (2, 2),
    zeros: tuple[int, int] = (0, 0),
    x: tuple[int, int] = (-128, 127),
    factors: tuple[int, int] = (-128, 127),
) -> Layer:
    """Return a product of matrices (rows x inner) with those of (inner x columns)."""
    shift = 9 + inner.bit_length() // 2
    random = np.random.default_rng(rows * inner * columns)
    mul = [int(m) for m in random.integers(3, 9, columns)]
    step = requant(mul, 1 << shift - 1, 1 << shift, -128, 127)
    layer = alone(ops.MatMul, inputs=("input", "input_1"), zero_points=zeros, requants=(step,))
    return typed(layer, (columns, heads[0], inner, *x), (inner, heads[1], rows, *factors))


def random_cases(seed: int, count: int, cores: int = 8) -> list[KernelCase]:
    """Random sizes, types, zero points and requantisations, tiles included."""
    cases: list[KernelCase] = []
    draws = [RandomLayers(space, seed) for space in (BYTES, TURNED)]
    while len(cases) < count:
        draw = draws[len(cases) % 2]
        layer = draw.layer("matmul")
        if MatricesKernel(cores).accepts(layer) is None:
            cases.append(make_case(MatricesKernel(cores), layer, draw.numbers))
    return cases


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(3))
def test_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 12)).check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 40))
def test_many_random_tiles_equal_the_reference(seed: int) -> None:
    HostLibrary(random_cases(seed, 25)).check()


@pytest.mark.sample(3)
@pytest.mark.parametrize("cores", [1, 3, 8])
def test_every_number_of_cores_computes_the_whole_tile(cores: int) -> None:
    layers = [product(n, 9, n + 2, zeros=(5, -3)) for n in (1, 4, 7, 33)]
    HostLibrary([whole_case(MatricesKernel(cores), layer) for layer in layers]).check()


@pytest.mark.parametrize("rows", [5, 6, 7, 11])
def test_terms_of_rows_go_with_the_last_block(rows: int) -> None:
    """It begins in the block before where rows make no four."""
    layer = product(rows, 9, 8, zeros=(5, -3))
    HostLibrary([whole_case(MatricesKernel(1), layer)]).check()


@pytest.mark.sample(5)
@pytest.mark.parametrize("zeros", [(0, 0), (7, 0), (0, -128), (-100, 127)])
@pytest.mark.parametrize("heads", [(1, 1), (3, 3), (1, 3), (3, 1)])
def test_zero_points_and_matrices_that_all_share(zeros, heads) -> None:
    layer = product(21, 30, 14, heads, zeros)
    assert finish_of(epilogue(layer), 8, 14).form != RAW
    HostLibrary([whole_case(MatricesKernel(), layer)]).check()


@pytest.mark.sample(3)
@pytest.mark.parametrize("x", [(0, 255), (-128, 127)])
@pytest.mark.parametrize("factors", [(0, 255), (-128, 127)])
@pytest.mark.parametrize("inner", [1, 3, 4, 8, 17])
def test_types_and_rows_of_any_length(x, factors, inner) -> None:
    layer = product(6, inner, 5, (2, 2), (30, 20), x, factors)
    HostLibrary([whole_case(MatricesKernel(), layer)]).check()


def _attention(heads: int, rows: int, depth: int) -> Graph:
    b = GraphBuilder((depth, heads, rows), values=(-128, 127), seed=3)
    keys = b.layer(ops.Transpose, "input", perm=(2, 1, 0))
    scores = requant(1, 300, 1 << 9, -128, 127)
    b.layer(ops.MatMul, keys, "input", zero_points=(1, -2), requants=(scores,))
    mixed = requant(range(1, 1 + depth), 300, 1 << 14, -128, 127)
    b.layer(ops.MatMul, "input", b.last, zero_points=(0, -128), requants=(mixed,))
    return b.graph()


@pytest.mark.slow
def test_attention_runs_in_parts_where_l2_does_not_hold_the_scores(tmp_path: Path) -> None:
    budgets = {1: 20_000, 2: 50_000}
    plan = build_app(_attention(8, 100, 32), "gap8", tmp_path / "app", budgets=budgets)
    assert_exact(tmp_path / "app")
    assert any(len(step.parts) > 1 for step in plan.steps)


def test_parts_of_columns_have_the_parameters_of_all(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match="in its smallest parts"):
        budgets = {1: 20_000, 2: 40_000}
        build_app(_attention(1, 180, 40), "gap8", tmp_path / "app", budgets=budgets)


def test_sums_have_no_more_cycles_than_a_convolution_of_their_size_and_a_tenth() -> None:
    from dory_gap8.backend import WindowKernel

    from dory_core.api import geometry
    from dory_core.importing import Array

    size = 192
    layer = product(size, 64, size, (1, 1))
    weights = Array(np.random.default_rng(1).integers(-128, 128, (size, 64, 1, 1)))
    conv = typed(
        alone(
            ops.Conv,
            weights=weights,
            window=ops.Window(kernel=(1, 1)),
            requants=layer.op.requants,
        ),
        (64, 1, size, -128, 127),
    )
    cycles = [
        int(kernel.cycles(one, geometry.make_tile(one, size, 1, size)))
        for kernel, one in ((MatricesKernel(), layer), (WindowKernel(), conv))
    ]
    assert cycles[0] < 1.1 * cycles[1]
