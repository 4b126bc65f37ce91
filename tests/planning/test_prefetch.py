"""Fetching ahead, gaps of residuals, and what the fitting says when nothing helps."""

from __future__ import annotations

import random

import pytest

from dory_core.errors import DoesNotFit
from dory_core.ir import Graph
from dory_core.ir.reference import random_inputs, run
from dory_core.passes.order import order_branches
from dory_core.plan.block_ids import chunk_id
from dory_core.plan.blocks import WEIGHTS, Request, fullest_step, requests
from dory_core.planning.packing.one_memory import plan_memory
from dory_core.planning.sequence.part_sequence import Fetch, PartSequence, widest_gap
from dory_core.planning.sequence.prefetch import IN_FLIGHT, prefetch
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import plan_graph, win
from tests.planning.samples import wanted
from tests.toy.chip import NAME, three_levels


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return three_levels().plugins()


def stream(sizes: list[int], others: tuple[Request, ...] = ()) -> PartSequence:
    """Return a program of one chunk per position, each fetched one position ahead."""
    program = PartSequence()
    for request in others:
        program.requests[request.id] = request
    for k, size in enumerate(sizes):
        block = chunk_id(k, 0)
        program.requests[block] = Request(block, size, k - 1, k, WEIGHTS)
        program.fetches.append(Fetch(block, "weights", 0, size, k - 1, k, layer=k, chunk=0))
    return program


def fetched(program: PartSequence, arena: int) -> tuple[list[int], PartSequence, dict[str, int]]:
    memory = plan_memory(tuple(program.requests.values()), 8)
    assert memory.chosen.peak_bytes <= arena
    moved, offsets = prefetch(program, memory.chosen.blocks, arena, 8)
    starts = {f.block: f.start for f in moved.fetches}
    return [starts[f.block] for f in program.fetches], moved, offsets


def test_everything_is_fetched_first_where_all_of_it_fits() -> None:
    assert fetched(stream([64] * 5), 320)[0] == [-1] * 5


def test_in_a_ring_of_two_each_chunk_follows_its_predecessor() -> None:
    assert fetched(stream([64] * 5), 128)[0] == [-1, -1, 1, 2, 3]


def test_small_chunks_go_further_ahead_than_large_ones() -> None:
    starts, _, _ = fetched(stream([8, 8, 8, 8, 100]), 240)
    assert starts == [-1] * 5


def test_a_tensor_in_the_way_delays_the_fetch() -> None:
    tensor = wanted("layer_00", 200, 0, 2)
    starts, _, _ = fetched(stream([64, 64, 64, 64, 64], (tensor,)), 328)
    assert starts == [-1, -1, 1, 2, 3]
    starts, _, _ = fetched(stream([64, 64, 64, 64, 64], (tensor,)), 392)
    assert starts == [-1, -1, -1, 1, 2]


def test_no_more_than_the_tickets_are_in_flight() -> None:
    starts, moved, _ = fetched(stream([8] * 60), 8 * 60)
    for position in range(-1, 60):
        assert sum(f.start <= position < f.use for f in moved.fetches) <= IN_FLIGHT
    assert starts[:IN_FLIGHT] == [-1] * IN_FLIGHT


@pytest.mark.parametrize("seed", range(40))
def test_random_streams_keep_their_order_and_never_overlap(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(3, 25)
    others = []
    for k in range(rng.randint(0, 8)):
        first = rng.randint(-1, count - 1)
        others.append(wanted(f"t{k}", rng.randint(1, 300), first, rng.randint(first, count)))
    program = stream([rng.randint(1, 300) for _ in range(count)], tuple(others))
    peak = plan_memory(tuple(program.requests.values()), 8).chosen.peak_bytes
    arena = peak + rng.choice([0, 0, 64, 400])
    starts, moved, offsets = fetched(program, arena)
    assert starts == sorted(starts)
    assert all(start < k for k, start in enumerate(starts))
    blocks = list(moved.requests.values())
    assert {b.id for b in blocks} == set(program.requests)
    for i, one in enumerate(blocks):
        assert offsets[one.id] % 8 == 0 and offsets[one.id] + one.size_bytes <= arena
        assert program.requests[one.id].last == one.last
        for other in blocks[:i]:
            if one.overlaps(other):
                a, b = offsets[one.id], offsets[other.id]
                assert a + one.size_bytes <= b or b + other.size_bytes <= a


def test_widest_gap_is_the_longest_time_without_a_reader() -> None:
    assert widest_gap(0, []) is None
    assert widest_gap(0, [(1, 1, 1), (2, 3, 3)]) is None  # too short to leave and return
    assert widest_gap(0, [(1, 1, 1), (9, 9, 9)]) == (1, 9)
    assert widest_gap(0, [(5, 5, 6), (20, 20, 22), (27, 27, 27)]) == (6, 20)
    assert widest_gap(-1, [(4, 4, 4)]) == (-1, 4)
    # a reader of many parts, longer than the ones behind it
    assert widest_gap(0, [(1, 1, 30), (2, 31, 31), (3, 36, 36)]) == (31, 3)


# -- what does not fit ----------------------------------------------------------------------------


def test_layer_that_fits_in_no_parts_is_named_with_what_it_needs(plugins: Plugins) -> None:
    b = GraphBuilder((64, 40, 40), seed=5, name="wide")
    b.conv(64, win(3, 1, 1))
    b.conv(32, win(1))
    graph = b.graph()
    with pytest.raises(DoesNotFit) as caught:
        plan_graph(graph, plugins, 9_000)
    message, needed = caught.value.message, caught.value.needed_bytes
    assert needed is not None and needed > 9_000
    for words in ("layer 0 Conv 'Conv_0'", f"{needed} B of L2", "9000 B are available"):
        assert words in message
    assert "input>00.0." in message  # stripes of the input are the largest of what is live
    assert str(needed) in caught.value.hint
    assert plan_graph(graph, plugins, 2 * needed).levels[1].used <= 2 * needed


@pytest.mark.slow
@pytest.mark.parametrize("l2", [1_000, 9_000])
def test_a_refusal_names_the_bytes_that_suffice(l2: int, plugins: Plugins) -> None:
    """However small the budget is: about as many do, and fewer do not."""
    b = GraphBuilder((64, 40, 40), seed=5, name="wide")
    b.conv(64, win(3, 1, 1))
    b.conv(32, win(1))
    graph = b.graph()

    def needed(budget: int) -> int:
        with pytest.raises(DoesNotFit) as caught:
            plan_graph(graph, plugins, budget)
        assert caught.value.needed_bytes is not None
        return caught.value.needed_bytes

    named = needed(l2)
    plan_graph(graph, plugins, named + named // 64)
    assert needed(named - named // 64) >= named


@pytest.mark.slow
def test_budgets_step_by_step_never_need_more_to_move_less(plugins: Plugins) -> None:
    """More L2 never means that a network that fitted does not fit."""
    b = GraphBuilder((6, 30, 22), seed=6, name="steps")
    x = b.conv(12, win(3, 1, 1))
    y = b.conv(12, win(3, 1, 1), source=x)
    b.add(y, x)
    graph = b.graph()
    fitted = []
    for l2 in range(2_000, 30_000, 2_000):
        try:
            plan_graph(graph, plugins, l2)
            fitted.append(True)
        except DoesNotFit:
            fitted.append(False)
    assert fitted == sorted(fitted) and fitted[-1] and not fitted[0]


# -- order of branches ----------------------------------------------------------------------------


def two_branches(long_first: bool) -> Graph:
    """A long branch whose end is small, and a short one whose end is large."""
    b = GraphBuilder((8, 16, 16), seed=7, name="two_branches")
    stem = b.conv(8, win(1))

    def long() -> str:
        x = stem
        for _ in range(3):
            x = b.conv(24, win(1), source=x)
        x = b.conv(8, win(1), source=x)
        return b.max_pool(win(4, 4), source=x)

    def short() -> str:
        x = b.conv(40, win(1), source=stem)
        return b.conv(8, win(4, 4), source=x)

    ends = [long(), short()] if long_first else [short(), long()]
    b.add(*ends)
    return b.graph()


def peak(graph: Graph) -> int:
    return fullest_step(requests(graph, range(len(graph.ops))))[1]


def diamond(wide_first: bool) -> Graph:
    """A branch whose layers are wide and whose end is small, and one whose end is large."""
    b = GraphBuilder((4, 16, 16), seed=8, name="diamond")
    stem = b.conv(4, win(1))

    def wide() -> str:
        x = b.conv(60, win(1), source=stem)
        x = b.conv(60, win(1), source=x)
        return b.conv(4, win(4, 4), source=x)

    def late() -> str:
        return b.conv(50, win(1), source=stem)

    if wide_first:
        a, c = wide(), late()
    else:
        c, a = late(), wide()
    d = b.conv(4, win(4, 4), source=c)
    b.add(a, d)
    return b.graph()


def test_longest_branch_first_where_that_needs_less() -> None:
    bad = diamond(wide_first=False)
    good = order_branches(bad)
    assert peak(good) < peak(bad)
    assert [layer.index for layer in good.ops] != list(range(len(good.ops)))
    assert sorted(layer.index for layer in good.ops) == list(range(len(good.ops)))


def test_order_that_is_best_already_is_kept() -> None:
    for graph in (diamond(wide_first=True), two_branches(True)):
        ordered = order_branches(graph)
        assert peak(ordered) <= peak(graph)
        assert order_branches(ordered) is ordered


def test_order_respects_what_each_layer_reads() -> None:
    for graph in (diamond(False), two_branches(False), two_branches(True)):
        known = set(graph.inputs)
        for layer in order_branches(graph).ops:
            assert known.issuperset(layer.inputs)
            known.add(layer.output)


def test_reordered_network_computes_the_same(plugins: Plugins) -> None:
    graph = diamond(wide_first=False)
    inputs = random_inputs(graph, 3)
    before, after = run(graph, inputs), run(order_branches(graph), inputs)
    assert set(before) == set(after)
    assert all((before[name] == after[name]).all() for name in before)


@pytest.mark.parametrize("l2", [40_000, 14_000])
def test_reordered_network_is_exact(l2: int, plugins: Plugins, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    directory = tmp_path_factory.mktemp("ordered") / "app"
    plan = build_app(diamond(False), NAME, directory, budgets={2: l2}, plugins=plugins)
    assert [step.index for step in plan.steps] != list(range(len(plan.steps)))
    assert_exact(directory, plugins=plugins)
