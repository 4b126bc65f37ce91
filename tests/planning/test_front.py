"""The front of bytes of L2 and cycles: plans in fused chains, and what would make one fit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dory_core.driver.front import RamFront, front_of
from dory_core.driver.pipeline import IMPORTED, TILED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import DoesNotFit, UsageError
from dory_core.ir import Graph, requant
from dory_core.planning.chains.paths import Chains
from dory_core.planning.fitting import problems_of
from dory_core.planning.front.least_bytes import least_room
from dory_core.planning.front.plans import thinned, whole
from dory_core.planning.front.relief import _window
from dory_core.planning.front.streamed import MOST_PLANS, beside_code, shrunk
from dory_core.plugins.manager import Plugins
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from dory_core.tiling.latency import fastest
from tests.planning.networks import plan_graph, win
from tests.planning.test_memories import forked
from tests.toy.chip import NAME, ToyChip, three_levels

CHIP = ToyChip()


def window_of(readings: dict[tuple[int, int], list[tuple[int, int]]], first: int, last: int) -> int:
    """Return the bytes of an input that a chain of layers 1 to 2 still reads.

    readings: ranges (first byte, length) by reader and operand; each reader's turns are alternate.
    first, last: the first and the last reader of the input.
    """
    network = SimpleNamespace(
        readers={"x": (first, last)},
        fixed=(),
        is_read_by_rows=lambda name: True,
        rolling=lambda first, splits: SimpleNamespace(positions=[(0, 2), (1, 3)]),
        readings=lambda name, first, splits: readings,
    )
    return _window(network, SimpleNamespace(first=1, last=2, splits=(2, 2)), "x")


def test_a_window_holds_what_is_read_later_in_the_order_of_turns() -> None:
    """Turns read bytes 0 to 10, 0 to 5, 10 to 20 and 5 to 15: in the third, 5 to 20 are there."""
    readings = {(0, 0): [(0, 10), (10, 10)], (1, 0): [(0, 5), (5, 10)]}
    assert window_of(readings, 1, 2) == 15
    assert window_of({(0, 0): [(0, 10), (10, 10)]}, 1, 1) == 10


@pytest.mark.parametrize("readers", [(0, 2), (1, 3)])
def test_an_input_that_is_read_outside_a_chain_is_whole(readers: tuple[int, int]) -> None:
    assert window_of({(0, 0): [(0, 10), (10, 10)]}, *readers) == 0


def residual() -> Graph:
    """Return a wide block around a sum, whose input and output are narrow."""
    b = GraphBuilder((3, 24, 20), seed=51, name="residual")
    x = b.conv(8, win(3, 1, 1))
    y = b.conv(32, win(1), source=x)
    y = b.conv(32, win(3, 1, 1), groups=32, source=y)
    y = b.conv(8, win(1), source=y)
    b.add(y, x, requants=(requant(1, 0, 256, 0, 255),))
    b.max_pool(win(2, 2))
    b.linear(5)
    return b.graph()


def windows() -> Graph:
    """Return layers with strides and borders."""
    b = GraphBuilder((4, 33, 17), seed=52, name="windows")
    b.conv(24, win(3, 1, 1))
    b.conv(24, win(3, 2, 1))
    b.conv(8, win(1))
    b.linear(3)
    return b.graph()


def temporal() -> Graph:
    """Return layers of one row, which are cut along their columns."""
    b = GraphBuilder((4, 1, 230), seed=53, name="temporal")
    b.conv(24, win((1, 3), 1, (0, 2, 0, 0)))
    b.conv(24, win((1, 5), 1, (0, 4, 0, 4), (1, 2)), groups=24)
    b.conv(6, win(1))
    return b.graph()


CASES: dict[str, Callable[[], Graph]] = {
    "residual": residual,
    "windows": windows,
    "temporal": temporal,
}


def front(graph: Graph, chip: ToyChip = CHIP, l2: int | None = None) -> RamFront:
    """Return the front of a network for a chip, within a budget of L2."""
    setup = setup_for(chip.plugins(), NAME, budgets={} if l2 is None else {2: l2})
    return front_of(run(graph, setup, after=IMPORTED, until=TILED), setup)


@cache
def front_of_case(name: str) -> RamFront:
    """Return the front of a case without a budget, which is found once."""
    return front(CASES[name]())


def planned(graph: Graph, plugins: Plugins, l2: int, objective: str = "cycles") -> tuple[int, int]:
    """Return bytes of L2 and cycles of a plan."""
    setup = setup_for(plugins, NAME, budgets={2: l2}, objective=objective)
    plan = run(graph, setup, after=IMPORTED)
    return plan.levels[1].used, plan.cycles


def test_latency_is_searched_for_parts_that_are_planned_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The tiles of the fewest cycles take long to find: chains are compared without them."""
    calls = list[object]()

    def counted(*arguments: Any) -> Any:
        calls.append(arguments[0])
        return fastest(*arguments)

    monkeypatch.setattr("dory_core.tiling.tiler.fastest", counted)
    b = GraphBuilder((3, 12, 9), seed=54, name="wide")
    for channels, window in ((4, win(1)), (16, win(1)), (16, win(3, 1, 1)), (2, win(1))):
        b.conv(channels, window, groups=16 if window.kernel == (3, 3) else 1)
    setup = setup_for(CHIP.plugins(), NAME, budgets={2: 4_000}, objective="latency")
    tiled = run(b.graph(), setup, after=IMPORTED, until=TILED)
    calls.clear()
    plan = run(tiled, setup, after=TILED)
    chained = sum(step.chain > 1 for step in plan.steps)
    assert chained >= 2 and 0 < len(calls) <= 2 * chained


def test_chains_get_tiles_only_where_they_may_be_the_fastest() -> None:
    setup = setup_for(CHIP.plugins(), NAME, budgets={2: 1 << 20})
    tiling = setup.tilings(run(residual(), setup, after=IMPORTED, until=TILED))
    problem = problems_of(tiling, setup.ctx, setup.budgets)[0]
    chains = Chains(problem, whole(problem))
    edges = chains.all
    every = [chains._costed(one) for one in edges]
    most = max(one.bytes for one in every)
    for room in (most, most // 2, most // 3):
        path, best = chains.cheapest(edges, room), chains.cheapest(every, room)
        assert (path is None) == (best is None)
        if path is not None and best is not None:
            assert sum(one.cycles for one in path) == sum(one.cycles for one in best)
            assert all(one.is_costed and one.bytes <= room for one in path)
    assert not all(one.is_costed for one in edges)


@pytest.mark.parametrize("name", CASES)
def test_no_plan_of_a_front_is_better_than_another_one(name: str) -> None:
    points = front_of_case(name).points
    assert 2 <= len(points) <= 10
    for fast, small in pairwise(points):
        assert fast.cycles < small.cycles and fast.l2_bytes > small.l2_bytes
    for point in points:
        assert point.block_bytes <= point.live_bytes <= point.l2_bytes
        assert (point.first == point.last) == (point.rows == 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_more_bytes_are_never_slower(name: str) -> None:
    graph, plugins = CASES[name](), CHIP.plugins()
    points = front_of_case(name).points
    plans = [planned(graph, plugins, point.l2_bytes) for point in points]
    for point, (used, cycles) in zip(points, plans, strict=True):
        assert used <= point.l2_bytes and cycles <= point.cycles
    for (_, fast), (_, slow) in pairwise(plans):
        assert fast <= slow


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_the_least_plan_is_exact(name: str, tmp_path: Path) -> None:
    graph, plugins = CASES[name](), CHIP.plugins()
    least = front_of_case(name).points[-1]
    plan = build_app(graph, NAME, tmp_path / "app", plugins=plugins, objective="ram")
    assert plan.levels[1].used == least.l2_bytes
    assert any(step.chain > 1 for step in plan.steps)
    assert_exact(tmp_path / "app", plugins=plugins)


def test_the_least_plan_needs_less_than_layer_by_layer() -> None:
    graph = residual()
    by_layers = plan_graph(graph, CHIP.plugins(), 1 << 17)
    used, cycles = planned(graph, CHIP.plugins(), 1 << 17, "ram")
    assert used < 0.8 * by_layers.levels[1].used
    assert planned(graph, CHIP.plugins(), 1 << 17) == (by_layers.levels[1].used, by_layers.cycles)
    assert cycles >= by_layers.cycles


def test_what_fits_no_plan_is_told_with_the_way_out() -> None:
    graph = residual()
    least = front_of_case("residual").points[-1].l2_bytes
    planned(graph, CHIP.plugins(), least)
    with pytest.raises(DoesNotFit, match=f"needs {least} B of L2, {least - 4} B") as caught:
        planned(graph, CHIP.plugins(), least - 4)
    assert caught.value.needed_bytes == least
    assert "dory check --least" in caught.value.hint


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(UsageError, match="no objective 'fast'") as caught:
        setup_for(CHIP.plugins(), NAME, objective="fast")
    assert "ram" in caught.value.hint


def test_changes_are_those_that_suffice() -> None:
    graph = windows()
    found = front_of_case("windows")
    assert found.fits and not found.changes
    least = found.points[-1].l2_bytes
    tight = front(graph, l2=least - 400)
    assert not tight.fits and tight.points[-1].l2_bytes == least
    assert 1 <= len(tight.changes) <= 3
    for change in tight.changes:
        assert change.bytes <= least - 400
        assert 0 <= change.macs < 1
    assert [change.macs for change in tight.changes] == sorted(c.macs for c in tight.changes)
    assert "rows" in {change.kind for change in tight.changes}


@pytest.mark.slow
def test_streamed_networks_have_a_front_of_smaller_budgets() -> None:
    graph, chip = residual(), three_levels()
    points = front(graph, chip).points
    assert len(points) >= 2
    for fast, small in pairwise(points):
        assert fast.cycles < small.cycles and fast.l2_bytes > small.l2_bytes
    used, _ = planned(graph, chip.plugins(), 1 << 17, "ram")
    assert used == points[-1].l2_bytes
    with pytest.raises(DoesNotFit):
        planned(graph, chip.plugins(), used * 9 // 10)


def test_a_document_names_all_plans() -> None:
    document = front(windows(), l2=1000).to_json()
    assert document["fits"] is False and document["l2_budget"] == 1000
    assert document["points"][0]["layer"].startswith("Conv")


# -- fronts of numbers -------------------------------------------------------------------------


def test_thinned_points_keep_their_ends() -> None:
    kept = thinned([1000, 990, 980, 500, 250, 100], 4, int)
    assert kept == [1000, 500, 250, 100]
    assert thinned([3, 2, 1], 4, int) == [3, 2, 1]


def test_least_room_is_found_with_the_bytes_that_are_missing() -> None:
    asked = list[int]()

    def needed(room: int) -> int:
        asked.append(room)
        return 321 if room < 321 else 0

    assert 321 <= least_room(needed, 4096) <= 326
    assert len(asked) < 8
    assert 321 <= least_room(lambda room: 0 if room >= 321 else room + 1, 4096) <= 326


def test_least_room_tries_what_a_smaller_number_of_bytes_needs() -> None:
    """A search in steps that never looks back may need more beside more bytes."""

    def needed(room: int) -> int:
        if 9344 <= room < 9700 or room >= 11000:
            return 0
        return 12848 if room > 9700 else 9344 if room > 8000 else 8384

    assert 9344 <= least_room(needed, 99448) <= 9344 * 129 // 128


def test_budgets_shrink_to_the_least_one_in_equal_shares() -> None:
    def place(room: int) -> int:
        if room < 321:
            raise DoesNotFit("too large")
        return room - room % 8

    found = shrunk(place, lambda used: used, 4096, 321)
    assert found[0] == 4096 and found == sorted(found, reverse=True)
    assert len(found) == MOST_PLANS and found[-1] == 320
    shares = [later / one for one, later in pairwise(found)]
    assert max(shares) - min(shares) < 0.05
    assert shrunk(place, lambda used: used, 4096, 321, most=2) == [4096, 320]
    assert 320 <= shrunk(place, lambda used: used, 4096, 100, most=2)[-1] <= 2300


@pytest.mark.parametrize(("code", "least"), [(0, 40), (4_000, 63), (40_000, 200)])
def test_budgets_shrink_while_data_save_more_than_code_takes(code: int, least: int) -> None:
    """The bytes of code are inverse to those of data: the sum is least at the root."""

    def place(room: int) -> int:
        if room < 40:
            raise DoesNotFit("too large")
        return room

    found = beside_code(place, int, lambda data: data + code // data, 1000)
    assert found == sorted(found, reverse=True) and found[0] == 1000
    best = min(found, key=lambda data: data + code // data)
    assert least / 1.25 <= best <= least * 1.25
    assert len(found) <= MOST_PLANS + 3


def test_constants_that_fit_no_memory_are_refused_before_chains_are_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def searched(*_: Any) -> Any:
        pytest.fail("executions were searched")

    monkeypatch.setattr("dory_core.driver.front.executions", searched)
    with pytest.raises(DoesNotFit, match="B of constants, 1024 B of L3 are available"):
        front(residual(), forked(64 * 1024, rom=1024))
