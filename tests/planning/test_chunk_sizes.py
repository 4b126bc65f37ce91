"""Chunks of constants are half as large where the cores wait much for the level below."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dory_core.hardware.links import Link
from dory_core.plan import Plan
from dory_core.plan.block_ids import BlockKind
from dory_core.planning.cutting import ChunkBytes
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import plan_graph, win
from tests.planning.symbolic import check_plan
from tests.toy.chip import three_levels

pytestmark = pytest.mark.usefixtures("tiles_of_the_objective")


def planned(bytes_per_cycle: float, moves: str = "") -> Plan:
    """Return the plan of a chip whose transfers from below take as long to set up as 64 bytes."""
    chip, setup = three_levels(), int(64 / bytes_per_cycle)
    below = Link(2, 3, setup_cycles=setup, bytes_per_cycle=bytes_per_cycle, issue_cycles=40)
    b = GraphBuilder((64, 6, 6), seed=5, name="parts")
    for channels in (128, 112, 160, 96):
        b.conv(channels, win(1))
    plugins = replace(chip, links=(chip.links[0], below)).plugins()
    return plan_graph(b.graph(), plugins, 30_000, 24_000, moves)


def largest(plan: Plan) -> int:
    return max(
        transfer.size for transfer in plan.transfers if transfer.block.kind is BlockKind.CHUNK
    )


def test_half_the_size_is_never_less_than_what_is_dear_to_set_up() -> None:
    bounds = ChunkBytes(small=1024, large=4096)
    assert bounds.finer == ChunkBytes(1024, 2048)
    assert bounds.finer.finer.finer == ChunkBytes(1024, 1024)


# In the first case the link is what takes the time, whatever the chunks.
@pytest.mark.parametrize(("rate", "smaller"), [(0.003, False), (0.015, True), (0.03, True)])
def test_smaller_chunks_are_taken_where_they_are_faster(rate: float, smaller: bool) -> None:
    plan = planned(rate)
    check_plan(plan)
    large = planned(rate, moves="-finer-chunks")
    assert largest(large) > 4096
    assert (largest(plan) <= 4096) == smaller
    assert (plan.cycles < large.cycles) == smaller
    assert plan.levels[1].used <= large.levels[1].used
