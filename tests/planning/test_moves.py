"""Moves of the planner: one table, one driver, and a switch for each."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dory_core.driver.pipeline import IMPORTED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import UsageError
from dory_core.hardware.links import Link
from dory_core.ir import Graph
from dory_core.plan import Plan
from dory_core.planning.moves import MOVES, check_moves, tried
from dory_core.planning.search import Trial, is_better
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import win
from tests.planning.symbolic import check_plan
from tests.toy.chip import NAME, three_levels

NAMES = [move.name for move in MOVES]
ROOT = Path(__file__).resolve().parents[2]


def chain() -> Graph:
    """Return layers with more constants and larger tensors than fit beside each other."""
    b = GraphBuilder((16, 24, 24), seed=5, name="parts")
    for channels in (32, 32, 64):
        b.conv(channels, win(3, pads=1))
    b.conv(128, win(1, 2))
    b.conv(64, win(1))
    return b.graph()


def planned(l2: int, moves: str = "") -> tuple[Plan, list[Trial]]:
    """Return a plan, and what the moves proposed."""
    trials: list[Trial] = []

    def watch(name: str, value: Any) -> None:
        if name == "moves":
            trials.extend(value)

    setup = setup_for(
        three_levels().plugins(), NAME, {"moves": moves}, {1: 12_000, 2: l2}, watch=watch
    )
    return run(chain(), setup, after=IMPORTED), trials


def test_names_are_in_kebab_case_and_summaries_are_sentences() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for move in MOVES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", move.name)
        assert move.summary[0].isupper() and move.summary.endswith(".")


def test_each_move_is_a_file_and_a_row_of_the_documentation() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for move in MOVES:
        assert move.propose.__module__.rsplit(".", 1)[1] == move.name.replace("-", "_")
        assert f"| `{move.name}` | {move.summary} |" in page


def test_early_fetch_is_tried_again_when_tensors_have_left_l2_for_l1() -> None:
    order = [move.name for move in tried()]
    assert list(dict.fromkeys(order)) == NAMES
    assert order.index("l1-residency") + 1 == order.index("early-fetch", 2)
    assert "early-fetch" not in {move.name for move in tried({"early-fetch"})}
    assert [move.name for move in tried(NAMES)] == []


@pytest.mark.slow
@pytest.mark.parametrize("l2", [20_000, 200_000])
@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_planned_without_each_move(name: str, l2: int) -> None:
    plan, trials = planned(l2, f"-{name}")
    check_plan(plan)
    assert name not in {trial.move for trial in trials}
    assert plan.levels[1].used <= l2


def test_all_moves_are_switched_off_at_once() -> None:
    plan, trials = planned(20_000, ",".join(f"-{name}" for name in NAMES))
    check_plan(plan)
    assert trials == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("l2", [32_000, 80_000])
def test_only_what_is_better_is_kept(l2: int) -> None:
    plan, trials = planned(l2)
    kept = [trial for trial in trials if trial.kept]
    assert kept
    for trial in kept:
        assert trial.after is not None and trial.after < trial.before
    for one, following in itertools.pairwise(kept):
        assert following.before == one.after
    assert kept[-1].after is not None and kept[-1].after[0] == plan.cycles


def late_weights() -> Graph:
    """Return layers that compute long, then layers with many constants that compute shortly."""
    b = GraphBuilder((16, 12, 12), seed=5, name="late")
    for _ in range(3):
        b.conv(16, win(3, pads=1))
    b.max_pool(win(12))
    for _ in range(4):
        b.conv(96, win(1))
    return b.graph()


def test_constants_are_fetched_into_all_of_l2_that_saves_cycles() -> None:
    """More L2 holds more constants while the first layers compute; without a gain it is free."""
    chip = three_levels()
    slow = Link(2, 3, setup_cycles=10_000, bytes_per_cycle=0.02, issue_cycles=40)
    plugins = replace(chip, links=(chip.links[0], slow)).plugins()

    def within(l2: int) -> Plan:
        return run(late_weights(), setup_for(plugins, NAME, {}, {1: 12_000, 2: l2}), after=IMPORTED)

    small, useless, large = map(within, (28_000, 32_000, 44_000))
    assert useless.cycles == small.cycles and useless.levels[1].used == small.levels[1].used
    assert sum(large.timeline.stalls) < 0.75 * sum(small.timeline.stalls)
    check_plan(large)


def test_coarse_parts_without_places_are_tried_with_less_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[int]()

    def peak_of(_: object, alignment: int, room: int) -> int:
        asked.append(room)
        return room + alignment * (len(asked) == 1)

    monkeypatch.setattr("dory_core.planning.moves.coarsen.peak_within", peak_of)
    _, trials = planned(20_000)
    assert len(asked) == 3  # twice in the first start, once in that of less L2
    assert any(trial.move == "coarsen" for trial in trials)


TABLE = [
    # what straddles two memories, cycles and peak of one plan and of the other, and whether the
    # first is better where L2 must not grow, and where it may to 100 bytes for a thousandth
    ("", 9, 80, "", 10, 80, True, True),
    ("", 10, 70, "", 10, 80, True, True),
    ("", 10, 80, "", 10, 80, False, False),
    ("", 9, 100, "", 10, 80, False, True),
    ("", 9, 101, "", 10, 80, False, False),
    ("", 9_991, 100, "", 10_000, 80, False, False),
    ("", 9_989, 100, "", 10_000, 80, False, True),
    ("", 9_999, 80, "", 10_000, 80, True, True),
    ("", 11, 120, "x", 10, 80, True, True),
    ("x", 9, 70, "", 10, 80, False, False),
    ("x", 9, 70, "x", 10, 80, True, True),
]


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_better_is_what_straddles_nothing_then_what_is_faster_then_what_is_smaller(
    row: tuple[Any, ...],
) -> None:
    one, other = (
        SimpleNamespace(straddles=straddles, cycles=cycles, peak=peak, home_bytes=peak)
        for straddles, cycles, peak in (row[:3], row[3:6])
    )
    problem = SimpleNamespace(room=100)
    found = tuple(is_better(problem, one, other, grows) for grows in (None, 0.001))
    assert found == row[6:]


@pytest.mark.parametrize("setting", ["coarsen", "-coarse", "-coarsen,fused", "+coarsen"])
def test_an_unknown_name_is_refused_with_the_names(setting: str) -> None:
    with pytest.raises(UsageError) as caught:
        planned(20_000, setting)
    assert all(f"-{name}" in caught.value.hint for name in NAMES)


def test_spaces_and_nothing_are_allowed() -> None:
    check_moves("")
    check_moves(" ")
    check_moves("-coarsen, -fused-chains")
