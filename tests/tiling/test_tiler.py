"""Choice of kernel, buffering and order; memo, determinism and the latency objective."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

import dory_core.tiling.tiler as tiler_module
from dory_core.errors import DoesNotFit, NotSupported
from dory_core.hardware.links import Link
from dory_core.hardware.memories import Level, Memory, MemoryHierarchy
from dory_core.ir import Array, requant
from dory_core.kernels.binding import bind_kernel, bind_layer
from dory_core.kernels.kernel import Term
from dory_core.schedule.costs import LayerCosts
from dory_core.schedule.loops import Buffering, LoopOrder, make_schedule
from dory_core.schedule.timeline import estimate
from dory_core.tiling.latency import tile_space
from dory_core.tiling.problem import TilingProblem
from dory_core.tiling.solve import solve
from dory_core.tiling.tiler import LIKELY, Tiler, signature
from dory_core.tiling.variants import bufferings, cheapest, fits
from tests.tiling.exhaustive import search, search_values
from tests.tiling.sample_layers import (
    SampleKernel,
    add,
    conv,
    formulated,
    full_bytes,
    paper_terms,
    random_layer,
)

CHIP = MemoryHierarchy(
    (Level(1, (Memory("near", 65536),)), Level(2, (Memory("far", 1 << 20),))),
    (Link(1, 2, setup_cycles=26, bytes_per_cycle=8.0, row_cycles=1.0, issue_cycles=8),),
    cores=8,
)


def tile_layer(layer, kernels, budget, objective="heuristic"):
    return Tiler(CHIP, hook, objective).tile(bind_layer(layer, kernels), budget)


def hook(layer, kernel, tile):
    return paper_terms(layer, kernel)(tile)


def budget_of(layer, kernel, share):
    return int(full_bytes(TilingProblem(formulated(layer, kernel), 0)) * share)


def test_every_buffering_gets_its_own_optimum():
    for seed in range(30):
        layer, kernel = random_layer(seed), SampleKernel()
        formulation = formulated(layer, kernel, paper_terms(layer, kernel))
        budget = budget_of(layer, kernel, 0.5)
        found = solve(formulation, budget, bufferings(formulation))
        for buffering in bufferings(formulation):
            expected = search_values(TilingProblem(formulation, budget, buffering))
            assert found.get(buffering) == expected, (seed, buffering)


@pytest.mark.parametrize("seeds", [16, pytest.param(40, marks=pytest.mark.slow)])
def test_likely_fast_tiles_are_tried_beside_those_of_the_objective(seeds):
    """An objective that likes bad tiles costs little: the fastest tile is hardly faster."""

    def narrow(layer, kernel, tile):
        return [Term("narrow", 1, -tile.w), Term("flat", 1, -tile.h)]

    ratios, replaced = [], 0
    for seed in range(seeds):
        layer, kernel = random_layer(seed), SampleKernel()
        candidates, budget = bind_layer(layer, [kernel]), budget_of(layer, kernel, 0.4)
        formulation = formulated(layer, kernel, lambda tile: narrow(None, None, tile))
        costs = LayerCosts.of(layer, bind_kernel(kernel, layer), CHIP)
        solved = solve(formulation, budget, bufferings(formulation))
        by_terms = cheapest(formulation, solved.items(), costs)
        if by_terms is None:
            continue
        tiled = Tiler(CHIP, narrow).tile(candidates, budget)
        assert tiled.tiling.used_bytes <= budget
        assert estimate(costs, tiled.schedule) == tiled.estimate
        likely = tiled.tiling.proof == LIKELY
        assert likely or tiled.estimate.cycles == by_terms.estimate.cycles
        assert not likely or tiled.estimate.cycles < by_terms.estimate.cycles
        replaced += likely
        fastest = Tiler(CHIP, narrow, "latency").tile(candidates, budget)
        ratios.append(tiled.estimate.cycles / fastest.estimate.cycles)
    assert replaced > len(ratios) / 2
    assert 1 <= min(ratios) <= max(ratios) < 1.15
    assert sum(ratios) / len(ratios) < 1.01


def test_the_buffering_and_order_with_the_fewest_cycles_is_kept():
    for seed in range(20):
        layer, kernel = random_layer(seed), SampleKernel()
        budget = budget_of(layer, kernel, 0.4)
        formulation = formulated(layer, kernel, paper_terms(layer, kernel))
        costs = LayerCosts.of(layer, bind_kernel(kernel, layer), CHIP)
        everything = []
        for buffering in bufferings(formulation):
            tiling = search(TilingProblem(formulation, budget, buffering))
            if tiling is None:
                continue
            for order in LoopOrder:
                schedule = make_schedule(
                    layer, tiling.tile, buffering, order, formulation.has_weights
                )
                everything.append(estimate(costs, schedule).cycles)
        if not everything:
            with pytest.raises(DoesNotFit):
                tile_layer(layer, [kernel], budget)
            continue
        tiled = tile_layer(layer, [kernel], budget)
        if tiled.tiling.proof == LIKELY:
            assert tiled.estimate.cycles < min(everything)
        else:
            assert tiled.estimate.cycles == min(everything)
        assert estimate(costs, tiled.schedule) == tiled.estimate
        assert tiled.tiling.used_bytes <= budget
        assert tiled.schedule.buffering == tiled.tiling.buffering


class PaddedKernel(SampleKernel):
    """Pads the output channels of every block of constants to a multiple of 16."""

    def weight_bytes(self, layer, tile):
        return -(-tile.c_out // 16) * 16 * tile.c_in


def test_constants_that_are_padded_have_to_save_cycles():
    """Blocks of 24 channels take the room of 32, and two buffers less time than one of 48."""
    layer = conv(32, 48, (8, 8), (1, 1), pads=(0, 0, 0, 0))
    formulation = formulated(layer, PaddedKernel())
    slow = replace(CHIP, links=(Link(1, 2, setup_cycles=26, bytes_per_cycle=0.5),))
    costs = LayerCosts.of(layer, bind_kernel(PaddedKernel(), layer), slow)
    sizes = {v.name: v.bounds[1] for v in formulation.variables}
    halves = (Buffering(1, 2, 2), {**sizes, "c_out": 24})
    whole = (Buffering(), sizes)
    chosen = [
        cheapest(formulation, [whole, halves], costs, byte_cycles=cycles)
        for cycles in (0.0, 1000.0)
    ]
    faster, smaller = (variant.schedule for variant in chosen)
    assert (len(faster.c_out), len(smaller.c_out)) == (2, 1)
    assert costs.constants_bytes(faster) == 64 * 32 > costs.constants_bytes(smaller) == 48 * 32
    assert estimate(costs, faster).cycles < estimate(costs, smaller).cycles


def test_latency_is_the_minimum_over_all_tiles():
    for seed in range(12):
        layer, kernel = random_layer(seed, largest=6, channels=8), SampleKernel()
        budget = budget_of(layer, kernel, 0.7)
        formulation = formulated(layer, kernel, paper_terms(layer, kernel))
        costs = LayerCosts.of(layer, bind_kernel(kernel, layer), CHIP)
        cycles = []
        for env in [tile_space(formulation.variables)] if formulation.variables else []:
            for k in range(len(next(iter(env.values())))):
                values = {name: int(array[k]) for name, array in env.items()}
                for copies in product((1, 2), repeat=3):
                    buffering = Buffering(*copies)
                    if not fits(TilingProblem(formulation, budget, buffering), values):
                        continue
                    for order in LoopOrder:
                        schedule = make_schedule(
                            layer,
                            formulation.concrete(values),
                            buffering,
                            order,
                            formulation.has_weights,
                        )
                        cycles.append(estimate(costs, schedule).cycles)
        if not cycles:
            continue
        tiled = tile_layer(layer, [kernel], budget, "latency")
        assert tiled.estimate.cycles == min(cycles), seed
        assert "no tile" in tiled.tiling.proof


def test_latency_is_never_worse_than_the_heuristic():
    for layer in (conv(32, 64, (32, 32)), conv(64, 64, (16, 16), groups=64), add(32, (20, 20))):
        heuristic = tile_layer(layer, [SampleKernel()], 20000)
        latency = tile_layer(layer, [SampleKernel()], 20000, "latency")
        assert latency.estimate.cycles <= heuristic.estimate.cycles


def test_a_huge_tile_space_is_searched_at_its_common_sizes(monkeypatch):
    layer, kernel = conv(32, 48, (20, 20)), SampleKernel()
    everything = tile_layer(layer, [kernel], 20000, "latency")
    monkeypatch.setattr("dory_core.tiling.latency.LARGEST_SPACE", 1000)
    common = tile_layer(layer, [kernel], 20000, "latency")
    heuristic = tile_layer(layer, [kernel], 20000)
    assert common.tiling.proof == "fastest of the evenly splitting tiles tried"
    assert everything.estimate.cycles <= common.estimate.cycles <= heuristic.estimate.cycles


def test_a_search_that_stops_early_says_what_is_proven(monkeypatch):
    monkeypatch.setattr("dory_core.tiling.latency.WALKED_STEPS", 0)
    tiled = tile_layer(conv(64, 64, (16, 16)), [SampleKernel()], 20000, "latency")
    assert "stopped early: no tile is estimated below" in tiled.tiling.proof


def test_the_first_kernel_that_accepts_and_fits_is_taken():
    class Greedy(SampleKernel):
        def scratch_bytes(self, layer, tile):
            return 100_000

    kernels = [SampleKernel("picky", rejection="odd layers only"), Greedy("greedy"), SampleKernel()]
    tiled = tile_layer(conv(), kernels, 20000)
    assert tiled.kernel.name == "sample"
    assert [r.kernel for r in tiled.rejections] == ["picky", "greedy"]
    assert tiled.rejections[0].reason == "odd layers only"
    assert "kernel's scratch memory" in tiled.rejections[1].reason


def test_latency_takes_the_cheapest_kernel_and_tells_the_others_cost():
    class Slow(SampleKernel):
        def cycles(self, layer, tile):
            return 10 * super().cycles(layer, tile)

    tiled = tile_layer(conv(), [Slow("slow"), SampleKernel("fast")], 20000, "latency")
    assert tiled.kernel.name == "fast"
    assert "estimated cycles, fast needs less" in tiled.rejections[0].reason
    assert tile_layer(conv(), [Slow("slow")], 20000).kernel.name == "slow"


def test_no_accepting_kernel_is_not_supported_with_all_reasons():
    kernels = [SampleKernel("a", rejection="reason one"), SampleKernel("b", rejection="reason two")]
    with pytest.raises(NotSupported, match=r"Conv 'c7'.*a: reason one; b: reason two"):
        tile_layer(conv(name="c7"), kernels, 20000)


def test_equal_layers_are_solved_once_and_errors_name_their_own_layer(monkeypatch):
    calls = []
    original = tiler_module.solve
    monkeypatch.setattr(tiler_module, "solve", lambda *a: calls.append(1) or original(*a))
    tiler = Tiler(CHIP, hook)
    kernel = SampleKernel()
    first = tiler.tile(bind_layer(conv(name="one"), [kernel]), 9000)
    second = tiler.tile(bind_layer(conv(name="two"), [kernel]), 9000)
    assert len(calls) == 1
    assert (first.tiling, first.schedule) == (second.tiling, second.schedule)
    assert second.layer.op.name == "two"
    tiler.tile(bind_layer(conv(c_out=17), [kernel]), 9000)
    tiler.tile(bind_layer(conv(), [kernel]), 8000)
    assert len(calls) == 3
    for name in ("three", "four"):
        with pytest.raises(DoesNotFit, match=name):
            tiler.tile(bind_layer(conv(name=name), [kernel]), 100)


def test_signature_forgets_values_and_keeps_what_kernels_can_see():
    layer = conv()
    other = replace(layer.op, name="x", weights=Array(layer.op.weights.values + 1))
    assert signature(replace(layer, op=other)) == signature(layer)
    shifted = replace(layer.op, requants=(requant(3, 5, 16, 0, 255),))
    similar = replace(layer.op, requants=(requant(2, 7, 16, 0, 255),))
    wide = replace(layer.op, requants=(requant(3000, 7, 16, 0, 255),))
    a, b, c = (signature(replace(layer, op=k)) for k in (shifted, similar, wide))
    assert a == b != c != signature(layer)
    assert signature(conv(bits=(8, 4, 8))) != signature(layer)


def test_the_same_input_gives_the_same_tiling():
    layers = [random_layer(seed) for seed in range(25)]
    results = []
    for _ in range(2):
        tiler = Tiler(CHIP, hook)
        results.append([])
        for layer in layers:
            budget = budget_of(layer, SampleKernel(), 0.6)
            try:
                tiled = tiler.tile(bind_layer(layer, [SampleKernel()]), budget)
            except DoesNotFit as error:
                results[-1].append(error.message)
            else:
                results[-1].append((tiled.tiling, tiled.schedule, tiled.estimate))
    assert results[0] == results[1]
