"""The timeline of a network that moves data to and from L3, against cycles counted by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dory_core.hardware.links import Link
from dory_core.plan import ExtTransfer
from dory_core.plan.block_ids import BlockId
from dory_core.plan.network import lower_network
from dory_core.plan.network_timeline import network_timeline
from dory_core.plan.timeline import NetworkTimeline
from dory_core.schedule.timeline import Event

# One byte a cycle; 100 cycles from start to end without data, 10 of them the core's.
LINK = Link(upper=2, lower=3, setup_cycles=100, bytes_per_cycle=1.0, issue_cycles=10)


def step(position: int, *cycles: int) -> Any:
    """Return a layer as the timeline sees it: a part for each number of cycles."""
    tensor = SimpleNamespace(name=f"layer at {position}")
    return SimpleNamespace(
        conversions=(),
        output=SimpleNamespace(place=SimpleNamespace(tensor=tensor)),
        is_view=False,
        stride=1,
        parts=[
            SimpleNamespace(position=position + k, report=None, moves=None, takes=(), early=())
            for k in range(len(cycles))
        ],
        timelines=[
            SimpleNamespace(
                estimate=SimpleNamespace(cycles=count),
                traffic=SimpleNamespace(calls=1),
                events=(Event("cores", "compute", 0, 0.0, count),),
            )
            for count in cycles
        ],
    )


def timeline(
    steps: list[Any], transfers: tuple[ExtTransfer, ...], link: Link | None
) -> NetworkTimeline:
    return network_timeline(lower_network(steps, transfers), steps, link)


def program_cycles(steps: list[Any], transfers: tuple[ExtTransfer, ...], link: Link | None) -> int:
    return timeline(steps, transfers, link).cycles


def fetch(size: int, start: int, wait: int) -> ExtTransfer:
    return ExtTransfer(BlockId("w"), 0, 0, size, True, start, wait)


def test_without_transfers_it_is_the_sum_of_the_layers() -> None:
    assert program_cycles([step(0, 500), step(1, 350, 350)], (), None) == 1200


def test_first_fetch_is_waited_for_in_full() -> None:
    assert program_cycles([step(0, 500)], (fetch(300, -1, 0),), LINK) == 400 + 500


def test_fetch_behind_a_longer_layer_costs_its_issue_alone() -> None:
    transfers = (fetch(300, 0, 1),)
    assert program_cycles([step(0, 1000), step(1, 50)], transfers, LINK) == 10 + 1000 + 50


def test_fetch_behind_a_shorter_layer_is_waited_for() -> None:
    transfers = (fetch(3000, 0, 1),)
    assert program_cycles([step(0, 1000), step(1, 50)], transfers, LINK) == 3100 + 50


def test_one_engine_serves_the_transfers_one_after_the_other() -> None:
    transfers = (fetch(1000, 0, 1), fetch(2000, 0, 2))
    steps = [step(0, 100), step(1, 100), step(2, 100)]
    # 10 to issue the first; it ends at 1100; the second starts then and ends 2090 later
    assert program_cycles(steps, transfers, LINK) == 1100 + 2090 + 100


def test_blocking_transfer_stops_the_core() -> None:
    assert program_cycles([step(0, 100)], (fetch(400, 0, 0),), LINK) == 500 + 100


def test_a_fetch_hides_behind_the_parts_before_the_one_that_needs_it() -> None:
    transfers = (fetch(900, 0, 2),)
    # issued for 10; it ends at 1000, 40 after the parts of 300 and 650 cycles
    steps = [step(0, 300, 650, 70)]
    program = timeline(steps, transfers, LINK)
    assert program.cycles == 1000 + 70
    assert program.stalls == (10 + 40, 0)


def test_events_of_parts_stand_one_after_the_other_with_their_tiles_counted_on() -> None:
    program = timeline([step(0, 500), step(1, 350, 250)], (fetch(300, 0, 1),), LINK)
    cores = [(e.step, e.tile, e.start, e.end) for e in program.events if e.lane == "cores"]
    assert cores == [(0, 0, 10, 510), (1, 0, 510, 860), (1, 1, 860, 1110)]
    [load] = [e for e in program.events if e.lane == "L3-L2"]
    assert (load.name, load.step, load.start, load.end) == ("load L3", 1, 10, 400)
