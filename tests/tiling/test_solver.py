"""The solver against exhaustive search, and what it says when nothing fits."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dory_core.errors import DoesNotFit, PluginError
from dory_core.expr import Var
from dory_core.ir.geometry import make_tile, with_border
from dory_core.kernels.binding import bind_kernel
from dory_core.kernels.kernel import Constraint, Term
from dory_core.schedule.loops import Buffering, l1_buffers
from dory_core.tiling import enumeration
from dory_core.tiling.enumeration import Sum, best_values
from dory_core.tiling.problem import TilingProblem
from dory_core.tiling.solve import proof, smallest_tile
from tests.tiling.exhaustive import search, solve
from tests.tiling.sample_layers import (
    SampleKernel,
    conv,
    formulated,
    full_bytes,
    linear,
    paper_terms,
    random_layer,
)


def random_problem(seed: int) -> TilingProblem:
    rng = random.Random(10_000 + seed)
    layer = random_layer(seed)
    kernel = SampleKernel(accumulates=rng.random() < 0.3, rows=rng.choice((0, 0, 0, 2, 3)))
    formulation = formulated(layer, kernel, paper_terms(layer, kernel))
    buffering = Buffering(rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 2)))
    everything = full_bytes(TilingProblem(formulation, 0, buffering))
    budget = int(everything * rng.choice((0.02, 0.1, 0.2, 0.4, 0.7, 0.95, 1.1)))
    return TilingProblem(formulation, budget, buffering)


@pytest.mark.sample(7)
@pytest.mark.parametrize("block", range(15))
@pytest.mark.parametrize("combinations", [1 << 16, 7])
def test_solver_finds_the_tile_of_exhaustive_search(block, combinations, monkeypatch):
    """combinations: that are looked at together."""
    monkeypatch.setattr(enumeration, "_SLICE", combinations)
    count = 24
    for seed in range(block * 24, block * 24 + count):
        problem = random_problem(seed)
        expected = search(problem)
        if expected is None:
            with pytest.raises(DoesNotFit):
                solve(problem)
            continue
        found = solve(problem)
        assert found.objective == expected.objective, seed
        assert found.tile == expected.tile, seed
        assert found.buffers == expected.buffers, seed


def test_first_layer_of_a_large_image_is_enumerated():
    def terms(tile):
        size = tile.h * tile.w
        return [Term("PAIRS", 10, (size - 1) % 2), Term("SIZE", 1, size * tile.c_out)]

    layer = conv(1, 32, (200, 200), (5, 5), (2, 2), (2, 2, 2, 2))
    problem = TilingProblem(formulated(layer, SampleKernel(), terms), 50_000, Buffering(2, 2, 2))
    assert solve(problem).tile == search(problem).tile


def test_random_problems_cover_fitting_and_not_fitting_layers():
    outcomes = [search(random_problem(seed)) is None for seed in range(100)]
    assert 5 < sum(outcomes) < 50


def test_without_objective_the_largest_tile_wins():
    layer, kernel = conv(8, 16, (12, 12)), SampleKernel()
    formulation = formulated(layer, kernel)
    tile = solve(TilingProblem(formulation, 1 << 20)).tile
    assert (tile.c_out, tile.h, tile.w) == (16, 12, 12)


def test_huge_weights_are_solved_in_two_stages_with_the_same_tie_break():
    layer, kernel = conv(8, 64, (60, 60)), SampleKernel()

    def terms(tile):
        return [Term("ROWS", 1e12, (tile.h - 1) % 8), Term("COLUMNS", 1e12, (tile.w - 1) % 2)]

    problem = TilingProblem(formulated(layer, kernel, terms), 20000)
    assert solve(problem).tile == search(problem).tile


def test_weights_that_are_no_multiple_of_one_half_are_refused():
    with pytest.raises(PluginError, match=r"term 'FILL' .* weight 0\.3, .* multiple of 1/2"):
        formulated(conv(), SampleKernel(), lambda tile: [Term("FILL", 0.3, tile.h)])


def test_tiling_explains_its_objective():
    layer, kernel = conv(16, 32, (16, 16)), SampleKernel()
    tiling = solve(TilingProblem(formulated(layer, kernel, paper_terms(layer, kernel)), 8000))
    by_name = {t.name: t for t in tiling.terms}
    assert by_name["PAR_BALANCE"].text == "(h - 1) % 8"
    assert by_name["PAR_BALANCE"].value == (tiling.tile.h - 1) % 8
    assert tiling.objective == sum(t.weight * t.value for t in tiling.terms)
    # Computed again with integers, apart from all expressions.
    plain = with_border(layer, make_tile(layer, tiling.tile.c_out, tiling.tile.h, tiling.tile.w))
    assert plain == tiling.tile
    assert tiling.buffers == l1_buffers(
        layer, bind_kernel(kernel, layer), plain, Buffering(1, 1, 1)
    )
    assert tiling.used_bytes <= 8000


def test_does_not_fit_names_layer_level_bytes_and_buffer():
    layer = conv(64, 16, (8, 8), name="features.3")
    problem = TilingProblem(formulated(layer, SampleKernel(im2col=False)), 700)
    with pytest.raises(DoesNotFit) as error:
        solve(problem)
    # One output pixel of one channel: x 2*2*64 (a corner), 3x3 in the middle; w 576 + 8; y 1 -> 8.
    assert "Conv 'features.3' does not fit L1" in error.value.message
    assert f"needs {576 + 584 + 8} bytes, 700 are available" in error.value.message
    assert "weights of the tile (w, 584 bytes)" in error.value.message
    assert "1168" in error.value.hint
    assert error.value.needed_bytes == 1168


def test_smallest_tile_is_the_least_memory_of_all_tiles():
    for seed in range(40):
        problem = random_problem(seed)
        smallest = smallest_tile(problem)
        if smallest is None:
            continue
        fitting = TilingProblem(problem.formulation, smallest.bytes, problem.buffering)
        below = TilingProblem(problem.formulation, smallest.bytes - 1, problem.buffering)
        assert search(fitting) is not None
        assert search(below) is None


def test_constraints_without_any_tile_are_an_error_with_their_reason():
    class Impossible(SampleKernel):
        def constraints(self, layer, tile):
            return (Constraint(tile.h > 99, "tiles have more than 99 rows"),)

    with pytest.raises(DoesNotFit, match="tiles have more than 99 rows"):
        solve(TilingProblem(formulated(conv(), Impossible()), 1 << 20))


def test_sub_byte_linear_is_split_between_pixels_only():
    layer = linear(3, (4, 6), 8, bits=(4, 8))  # 3 channels of 4 bits: 2 bytes a pixel
    problem = TilingProblem(formulated(layer, SampleKernel(accumulates=True)), 1 << 16)
    (c_in,) = (v for v in problem.formulation.variables if v.name == "c_in")
    assert c_in.domain.tolist() == [12, 24, 36, 72]  # pixels of 3, words of 4, even parts
    x = next(b for b in solve(problem).buffers if b.name == "x")
    assert x.bytes == 48


def test_objective_beyond_integers_of_64_bits_is_an_error() -> None:
    layer, kernel = conv(8, 64, (60, 60)), SampleKernel()
    formulation = formulated(layer, kernel, lambda tile: [Term("SIZE", 1e18, tile.h * tile.w)])
    with pytest.raises(OverflowError, match="integers of 64 bits"):
        solve(TilingProblem(formulation, 20000))


def test_of_more_tiles_than_can_be_looked_at_the_even_ones_are(monkeypatch) -> None:
    sizes = Var("h", 1, 128), Var("w", 1, 96), Var("c_out", 4, 100, range(4, 101, 4))
    h, w, c = sizes
    objective = Sum([((h * 7 + w * 5 + c * 3) % 1013, 1 << 24), (h, 1 << 16), (w, 1 << 8), (c, 1)])
    limits = [(Sum([(h * w * c, 1)]), None, 1 << 17)]

    def expected(domains):
        grids = np.meshgrid(*domains, indexing="ij")
        values = ((grids[0] * 7 + grids[1] * 5 + grids[2] * 3) % 1013 << 24) + (
            (grids[0] << 16) + (grids[1] << 8) + grids[2]
        )
        allowed = grids[0] * grids[1] * grids[2] <= 1 << 17
        where = np.argmax(np.where(allowed, values, -1))
        return values.ravel()[where], [int(g.ravel()[where]) for g in grids]

    def found():
        [(best, at)] = best_values(sizes, objective, limits)
        return best, [at[v.name] for v in sizes]

    assert found() == expected([v.domain for v in sizes])
    monkeypatch.setattr(enumeration, "LARGEST_SPACE", 1000)
    even = [enumeration.even_sizes(v).domain for v in sizes]
    assert {100, 52, 36, 28, 20, 12, 4} <= {*even[2]} < {*c.domain}
    assert all({v.domain[0], v.domain[-1]} <= {*part} for v, part in zip(sizes, even, strict=True))
    assert found() == expected(even)


def test_the_proof_says_that_only_even_tiles_were_looked_at(monkeypatch) -> None:
    formulation = formulated(conv(8, 64, (60, 60)), SampleKernel())
    assert proof(formulation).startswith("proven optimal")
    monkeypatch.setattr(enumeration, "LARGEST_SPACE", 1000)
    assert proof(formulation).startswith("best of the evenly splitting tiles")
