"""The rolling buffers of a chain in one block: where each has bytes that others need."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.driver.application import run_application
from dory_core.driver.pipeline import IMPORTED, TILED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import DoryError, VerificationFailed
from dory_core.ir import Graph
from dory_core.plan import Plan
from dory_core.plan.block_ids import BlockId, BlockKind
from dory_core.plan.blocks import Block
from dory_core.plan.network import _sharing
from dory_core.planning.chains.block import RollingRows
from dory_core.planning.chains.paths import Chains
from dory_core.planning.chains.rolling import MovedBytes
from dory_core.planning.fitting import problems_of
from dory_core.planning.front.plans import whole
from dory_core.planning.sequence.build import _Builder
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.computed import Wrong
from tests.planning.networks import plan_graph, win
from tests.planning.symbolic import check_plan
from tests.planning.test_chains import bottlenecks, residuals, temporal, wide_values
from tests.toy.chip import NAME, ToyChip

GRAPHS: dict[str, Callable[[], Graph]] = {
    "bottlenecks": bottlenecks,
    "residuals": residuals,
    "temporal": temporal,
    "wide_values": wide_values,
}


def widening() -> Graph:
    """Return layers with wide tensors, whose rows are live one after the other in one chain."""
    b = GraphBuilder((2, 24, 16), seed=61, name="widening")
    for _ in range(3):
        b.conv(24, win(1))
        b.conv(24, win(3, 1, 1), groups=24)
    b.conv(2, win(3, 2, 1))
    return b.graph()


WIDENING_L2 = 10_600


def blocks_of(plan: Plan, kind: BlockKind) -> list[Block]:
    """Return the blocks of a kind in L2."""
    blocks = next(level.blocks for level in plan.levels if level.name == "L2")
    return [block for block in blocks if block.id.kind is kind]


def search_of(graph: Graph, input_rows: str) -> Chains:
    """Return the search for chains of a network; input_rows: on or off."""
    options = {"input_rows": input_rows}
    setup = setup_for(ToyChip().plugins(), NAME, options, budgets={2: 1 << 20})
    tiling = setup.tilings(run(graph, setup, after=IMPORTED, until=TILED))
    problem = problems_of(tiling, setup.ctx, setup.budgets)[0]
    return Chains(problem, whole(problem))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "input_rows"),
    [*((name, "on") for name in GRAPHS), ("bottlenecks", "off"), ("residuals", "off")],
)
def test_live_rows_of_no_two_buffers_meet_in_any_turn(name: str, input_rows: str) -> None:
    search = search_of(GRAPHS[name](), input_rows)
    network, smaller, early = search.problem.network, 0, frozenset[str]()
    for edge in search.fused():
        assert edge.rows is not None
        alone, beside = sum(size for _, size in edge.rolling), edge.bytes - edge.rows.bytes
        placed = search.placed(edge).bytes
        assert edge.bytes <= placed <= beside + alone
        # The search has found it among longer chains, here it is alone.
        block = network.chain_rows(search.decision([edge]), edge.first)
        assert placed == beside + (alone if block is None else block.size_bytes)
        if block is None:
            continue
        smaller += 1
        rows = network.rolling_rows(edge.first, edge.splits)
        live = rows.live | {one: rows.early[one] for one in block.early}
        early |= block.early
        for one, other in combinations(block.places, 2):
            a, b = live[one], live[other]
            both = (a.starts < a.ends) & (b.starts < b.ends)
            before = block.places[one] + a.ends <= block.places[other] + b.starts
            behind = block.places[other] + b.ends <= block.places[one] + a.starts
            assert (before | behind | ~both).all()
            assert (block.places[one] + a.ends <= block.size_bytes).all()
    assert smaller
    assert early or name != "bottlenecks"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """Return a plan whose rolling buffers lie in each other, and its application."""
    directory = tmp_path_factory.mktemp("chain_rows") / "app"
    plugins = ToyChip().plugins()
    plan = build_app(widening(), NAME, directory, plugins=plugins, budgets={2: WIDENING_L2})
    return plan, directory


def test_buffers_in_one_block_take_fewer_bytes_and_are_exact(app: tuple[Plan, Path]) -> None:
    plan, directory = app
    (chain,) = blocks_of(plan, BlockKind.CHAIN)
    rolling = blocks_of(plan, BlockKind.ROLLING)
    assert all(chain.offset <= one.offset and one.end <= chain.end for one in rolling)
    assert chain.size < sum(one.size for one in rolling)
    check_plan(plan)
    assert_exact(directory, plugins=ToyChip().plugins())


def early_moves(plan: Plan) -> int:
    """Return how often rows move right after they were read."""
    return sum(len(part.early) for step in plan.steps for part in step.parts)


def test_rows_of_every_second_buffer_move_early(app: tuple[Plan, Path]) -> None:
    plan, _ = app
    moved = {
        place.tensor.name for step in plan.steps for part in step.parts for place, *_ in part.early
    }
    assert 0 < len(moved) < len(blocks_of(plan, BlockKind.ROLLING))
    assert early_moves(plan) > len(moved)


def too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows that move early move before the last part that reads them where they are."""
    mine = _Builder._moves

    def moves(
        self: _Builder, n: int, block: BlockId, rows: MovedBytes | None, position: int
    ) -> MovedBytes | None:
        before = {at: len(early) for at, early in self.early.items()}
        left = mine(self, n, block, rows, position)
        for at, early in list(self.early.items()):
            if len(early) > before.get(at, 0):
                self.early.setdefault(at - 1, []).append(early.pop())
        return left

    monkeypatch.setattr(_Builder, "_moves", moves)


def test_rows_that_move_before_they_were_read_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    too_soon(monkeypatch)
    monkeypatch.setattr("dory_core.planning.planner.verify_contents", lambda *_: None)
    plugins, directory = ToyChip().plugins(), tmp_path / "app"
    plan = build_app(widening(), NAME, directory, plugins=plugins, budgets={2: WIDENING_L2})
    assert early_moves(plan)
    with pytest.raises(DoryError, match="memory plan is wrong"):
        verify_contents(plan.program, plan.steps)
    with pytest.raises(Wrong):
        check_plan(plan)
    with pytest.raises(VerificationFailed, match="that nothing wrote"):
        run_application(directory, plugins=plugins, dma="early", runner="host")


def too_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each buffer lie one pixel nearer to the one before it than what is live allows."""
    mine = RollingRows._find_apart
    monkeypatch.setattr(
        RollingRows, "_find_apart", lambda self, one, other: mine(self, one, other) - 4
    )


def test_a_buffer_over_rows_that_are_live_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the planner, by symbolic execution and by the simulation."""
    too_near(monkeypatch)
    plugins, directory = ToyChip().plugins(), tmp_path / "app"
    with pytest.raises(DoryError, match="memory plan is wrong"):
        plan_graph(widening(), plugins, WIDENING_L2)
    monkeypatch.setattr("dory_core.planning.planner.verify_contents", lambda *_: None)
    plan = build_app(widening(), NAME, directory, plugins=plugins, budgets={2: WIDENING_L2})
    with pytest.raises(Wrong):
        check_plan(plan)
    with pytest.raises(VerificationFailed, match="that nothing wrote"):
        run_application(directory, plugins=plugins, dma="early", runner="host")


def test_a_buffer_is_written_over_one_of_its_chain_that_has_ended() -> None:
    places = {"before": (0, 8, 0, 3), "after": (4, 8, 5, 9), "apart": (16, 8, 5, 9)}
    rolling = [Block(BlockId(name, BlockKind.ROLLING), *at) for name, at in places.items()]
    chain = Block(BlockId("before", BlockKind.CHAIN), 0, 24, 0, 9)
    assert _sharing([*rolling, chain]) == {"after": rolling[1]}
    assert _sharing(rolling) == {}  # buffers of their own: what has ended holds nothing
