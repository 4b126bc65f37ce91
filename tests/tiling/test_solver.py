"""The solver against exhaustive search, and what it says when nothing fits."""

from __future__ import annotations

import random

import pytest

from dory_core.errors import DoesNotFit
from dory_core.tiling.problem import TilingProblem, formulate
from dory_core.tiling.schedule import Buffering
from dory_core.tiling.search import search
from dory_core.tiling.solve import solve
from tests.tiling.sample_layers import (
    SampleKernel,
    full_bytes,
    paper_terms,
    random_layer,
)


def random_problem(seed: int) -> TilingProblem:
    rng = random.Random(10_000 + seed)
    layer = random_layer(seed)
    kernel = SampleKernel(accumulates=rng.random() < 0.3, rows=rng.choice((0, 0, 0, 2, 3)))
    formulation = formulate(layer, kernel, paper_terms(layer, kernel))
    buffering = Buffering(rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 2)))
    everything = full_bytes(TilingProblem(formulation, 0, buffering))
    budget = int(everything * rng.choice((0.02, 0.1, 0.2, 0.4, 0.7, 0.95, 1.1)))
    return TilingProblem(formulation, budget, buffering)


@pytest.mark.parametrize("block", range(15))
def test_solver_finds_the_tile_of_exhaustive_search(block):
    for seed in range(block * 24, block * 24 + 24):
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
