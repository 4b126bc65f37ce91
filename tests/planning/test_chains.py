"""Fused chains: tensors between their layers lie in rolling buffers of L2 and never leave it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.driver.application import run_application
from dory_core.driver.pipeline import IMPORTED, TILED, run
from dory_core.driver.setup import setup_for
from dory_core.errors import DoryError, VerificationFailed
from dory_core.hardware.links import Link
from dory_core.ir import Add, Graph, requant
from dory_core.plan import LayerStep, Plan
from dory_core.plan.accesses import LayerAccesses
from dory_core.plan.block_ids import BlockKind
from dory_core.plan.blocks import Block, align_up
from dory_core.plan.network import lower, lower_network
from dory_core.planning import problem
from dory_core.planning.cascade import streamed
from dory_core.planning.chains import shared_rows
from dory_core.planning.chains.paths import Chains
from dory_core.planning.fitting import problems_of
from dory_core.planning.sequence.build import build_sequence
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.computed import Wrong
from tests.planning.networks import plan_graph, win
from tests.planning.properties import PROPERTIES
from tests.planning.symbolic import check_plan
from tests.toy.chip import NAME, ToyChip, three_levels

_CHIP = three_levels()
#: Moving a tensor to L3 and back takes longer than computing it.
CHIP = replace(_CHIP, links=(_CHIP.links[0], Link(2, 3, setup_cycles=60, bytes_per_cycle=0.002)))


def bottlenecks() -> Graph:
    """Return blocks as those of MobileNetV2, whose wide tensors are larger than L2."""
    b = GraphBuilder((3, 37, 29), seed=41, name="bottlenecks")
    x = b.conv(8, win(3, 2, 1))
    for stride in (1, 2):
        y = b.conv(48, win(1), source=x)
        y = b.conv(48, win(3, stride, 1), groups=48, source=y)
        y = b.conv(8, win(1), source=y)
        x = b.add(y, x, requants=(requant(1, 0, 256, 0, 255),)) if stride == 1 else y
    b.linear(5)
    return b.graph()


def rows_nobody_reads() -> Graph:
    """Return layers of which some rows and columns are read by nobody, and an odd window."""
    b = GraphBuilder((6, 31, 17), seed=42, name="rows_nobody_reads")
    b.conv(40, win(3, 1, 1))
    b.conv(40, win(1, 2))
    b.conv(36, win((5, 3), 1, (3, 1, 2, 0), (2, 1)))
    b.max_pool(win(2, 2))
    b.conv(4, win(1))
    return b.graph()


def temporal() -> Graph:
    """Return layers of one row, which are cut along their columns."""
    b = GraphBuilder((6, 1, 931), seed=43, name="temporal")
    b.conv(40, win((1, 3), 1, (0, 2, 0, 0)))
    b.conv(40, win((1, 5), 1, (0, 4, 0, 4), (1, 2)), groups=40)
    b.conv(6, win(1))
    return b.graph()


def wide_values() -> Graph:
    """Return layers whose elements have two bytes."""
    b = GraphBuilder((6, 24, 20), seed=44, name="wide_values", values=(0, 1020))
    b.conv(24, win(3, 1, 1), output=(0, 3000))
    b.conv(24, win(3, 1, 1), output=(0, 3000))
    b.conv(4, win(1))
    return b.graph()


CASES: dict[str, tuple[Callable[[], Graph], int]] = {
    "wide_values": (wide_values, 21_000),
    "bottlenecks": (bottlenecks, 9_000),
    "rows_nobody_reads": (rows_nobody_reads, 24_000),
    "temporal": (temporal, 14_000),
}


def chains(plan: Plan) -> list[list[LayerStep]]:
    """Return the layers of each chain."""
    ends = sorted({step.chain_end for step in plan.steps if step.chain > 1})
    return [list(plan.steps[end - plan.steps[end - 1].chain : end]) for end in ends]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CASES)
def test_chains_are_exact(name: str, tmp_path: Path) -> None:
    build, l2 = CASES[name]
    plugins = CHIP.plugins()
    plan = build_app(build(), NAME, tmp_path / "app", plugins=plugins, budgets={2: l2})
    found = chains(plan)
    assert found and plan.levels[1].used <= l2
    for check in PROPERTIES.values():
        check(plan)
    rolling = {s.output.place.tensor.name for s in plan.steps if s.output.place.passing}
    assert rolling and rolling <= {s.output.place.tensor.name for chain in found for s in chain}
    assert not any(t.block.tensor in rolling for t in plan.transfers)
    for chain in found:
        positions = sorted(part.position for step in chain for part in step.parts)
        assert positions == [*range(positions[0], positions[-1] + 1)]
        for step in chain:
            # No row is computed twice.
            rows = [part.stripe for part in step.parts]
            assert all(b[0] == a[0] + a[1] for a, b in pairwise(rows))
    document = [(layer["turns"], layer["l3_tiles"]) for layer in plan.to_json()["layers"]]
    assert document == [(step.chain, len(step.parts)) for step in plan.steps]
    assert_exact(tmp_path / "app", plugins=plugins)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CASES)
def test_chains_are_faster(name: str) -> None:
    build, l2 = CASES[name]
    with_chains = plan_graph(build(), CHIP.plugins(), l2)
    without = plan_graph(build(), CHIP.plugins(), l2, moves="-fused-chains")
    assert not chains(without)
    assert with_chains.cycles < without.cycles


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["wide_values", "bottlenecks"])
def test_chains_gain_nothing_where_the_link_is_as_fast_as_the_cores(name: str) -> None:
    build, l2 = CASES[name]
    quick = replace(CHIP, links=(CHIP.links[0], replace(CHIP.links[1], bytes_per_cycle=8.0)))
    plans = [
        plan_graph(build(), quick.plugins(), l2, moves=moves) for moves in ("", "-fused-chains")
    ]
    assert 0.999 < plans[0].cycles / plans[1].cycles < 1.001


def test_a_chain_takes_the_link_as_long_as_its_transfers_do() -> None:
    """Rows of a tensor in L3 that two stripes read pass the link twice."""
    build, l2 = CASES["rows_nobody_reads"]
    setup = setup_for(CHIP.plugins(), NAME, budgets={2: l2})
    tiling = setup.tilings(run(build(), setup, after=IMPORTED, until=TILED))
    network = problems_of(tiling, setup.ctx, setup.budgets)[0]
    search, per_cycle = Chains(network, streamed(network)[0]), CHIP.links[1].bytes_per_cycle
    twice = 0
    for chain in search.fused():
        singles = [one for one in search.singles() if not chain.first <= one.first <= chain.last]
        decision = search.decision([*singles, chain])
        program = build_sequence(network.network, decision, lambda _: ())
        layers = range(chain.first, chain.last + 1)
        blocks = {block for block, n in program.stripes.items() if n in layers}
        chunks = sum(align_up(network.constants[n], network.alignment) for n in layers)
        sizes = [one.size for one in (*program.fetches, *program.stores) if one.block in blocks]
        assert chain.link_cycles == pytest.approx((sum(sizes) + chunks) / per_cycle)
        names = {one.source for one in program.fetches if one.block in blocks}
        twice += sum(sizes) > sum(network.network.sizes[name] for name in names)
    assert twice


# -- wrong plans are found ---------------------------------------------------------------------


def rebuilt(plan: Plan, steps: list[LayerStep]) -> Plan:
    """Return the plan with other steps."""
    blocks = (block for level in plan.levels if level.name == "L2" for block in level.blocks)
    operations = lower_network(
        steps, plan.transfers, plan.inputs, plan.outputs, plan.final_conversions, blocks
    )
    return replace(plan, steps=tuple(steps), program=lower(steps, operations, plan.any_core))


def with_part(plan: Plan, number: int, part: int, **changes: object) -> Plan:
    """Return the plan with another part of a step."""
    steps = list(plan.steps)
    parts = list(steps[number].parts)
    parts[part] = replace(parts[part], **changes)
    steps[number] = replace(steps[number], parts=tuple(parts))
    return rebuilt(plan, steps)


def pitch(step: LayerStep) -> int:
    """Return the bytes of a row of a layer's output."""
    return step.layer.output.size_bytes // step.layer.output.height


def row_too_far(plan: Plan, number: int) -> Plan:
    """Move rows from one row further than where they lie."""
    step = plan.steps[number]
    part = next(k for k, one in enumerate(step.parts) if one.moves is not None and one.moves[1])
    source, size = step.parts[part].moves or (0, 0)
    return with_part(plan, number, part, moves=(source + pitch(step), size))


def row_too_few(plan: Plan, number: int) -> Plan:
    """Move one row less than is read again."""
    step = plan.steps[number]
    part = next(k for k, one in enumerate(step.parts) if one.moves is not None and one.moves[1])
    source, size = step.parts[part].moves or (0, 0)
    return with_part(plan, number, part, moves=(source, size - pitch(step)))


def not_moved(plan: Plan, number: int) -> Plan:
    """Leave rows that are read again where new rows are written."""
    step = plan.steps[number]
    part = next(k for k, one in enumerate(step.parts) if one.moves is not None and one.moves[1])
    return with_part(plan, number, part, moves=None)


def wrapped_wrong(plan: Plan, number: int) -> Plan:
    """Write new rows one row too early, over a row that is read again."""
    step = plan.steps[number]
    part = next(k for k, one in enumerate(step.parts) if one.moves is not None and one.moves[1])
    at = step.parts[part].output - pitch(step)
    report = (at, step.parts[part].report[1])  # type: ignore[index]
    return with_part(plan, number, part, output=at, report=report)


def skip_off_by_one(plan: Plan, number: int) -> Plan:
    """Let the reader of a tensor find the row after the one that it wants."""
    name = plan.steps[number].output.place.tensor.name
    reader, operand = next(
        (n, k)
        for n, step in enumerate(plan.steps)
        for k, one in enumerate(step.inputs)
        if one.place.tensor.name == name and isinstance(step.layer.op, Add)
    )
    part = plan.steps[reader].parts[2]
    inputs = list(part.inputs)
    inputs[operand] += pitch(plan.steps[number])
    return with_part(plan, reader, 2, inputs=tuple(inputs))


def rolling_steps(plan: Plan, skip: bool) -> int:
    """Return the number of a step with a rolling buffer whose rows move; skip: read by a sum."""
    sums = {
        one.place.tensor.name
        for step in plan.steps
        if isinstance(step.layer.op, Add)
        for one in step.inputs
    }
    return next(
        n
        for n, step in enumerate(plan.steps)
        if step.output.place.passing
        and any(part.moves is not None and part.moves[1] for part in step.parts)
        and (step.output.place.tensor.name in sums or not skip)
    )


def residuals() -> Graph:
    """Return residual blocks that all fit one chain."""
    b = GraphBuilder((4, 40, 11), seed=45, name="residuals")
    x = b.conv(16, win(3, 1, 1))
    for _ in range(2):
        y = b.conv(16, win(3, 1, 1), source=x)
        x = b.add(y, x, requants=(requant(1, 0, 256, 0, 255),))
    b.conv(4, win(3, 2, 1))
    return b.graph()


RESIDUALS_L2 = 13_000

FAULTS = (row_too_far, row_too_few, not_moved, wrapped_wrong, skip_off_by_one)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """Return the plan of chains with residuals on a chip without L3, and its application."""
    directory = tmp_path_factory.mktemp("rolling") / "app"
    plugins = ToyChip().plugins()
    plan = build_app(residuals(), NAME, directory, plugins=plugins, budgets={2: RESIDUALS_L2})
    assert plan.levels[1].used <= RESIDUALS_L2  # constants, and less than one tensor
    verify_contents(plan.program, plan.steps)
    check_plan(plan)
    assert_exact(directory, plugins=plugins)
    return plan, directory


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_wrong_rolling_buffers_are_found(
    fault: Callable[[Plan, int], Plan], app: tuple[Plan, Path]
) -> None:
    plan, _ = app
    wrong = fault(plan, rolling_steps(plan, fault is skip_off_by_one))
    with pytest.raises(DoryError, match="memory plan is wrong"):
        verify_contents(wrong.program, wrong.steps)
    with pytest.raises(Wrong):
        check_plan(wrong)


def rolling_blocks(plan: Plan) -> dict[str, Block]:
    """Return the rolling buffers by the names of their tensors."""
    blocks = next(level.blocks for level in plan.levels if level.name == "L2")
    return {one.id.tensor: one for one in blocks if one.id.kind is BlockKind.ROLLING}


def test_sums_are_written_over_an_operand(app: tuple[Plan, Path]) -> None:
    plan, _ = app
    blocks = rolling_blocks(plan)
    for step in plan.steps:
        if isinstance(step.layer.op, Add):
            own = blocks[step.output.place.tensor.name]
            over = [blocks[one.place.tensor.name] for one in step.inputs]
            assert [(own.offset, own.size) == (one.offset, one.size) for one in over].count(True)


@pytest.mark.sample(2)
@pytest.mark.parametrize("faulty", [False, True])
def test_a_sum_over_rows_that_another_layer_still_reads_is_found(
    faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums are written over the skip tensor, a row behind what convolutions read again, or not."""
    mine = problem._writes_over
    monkeypatch.setattr(problem, "_writes_over", lambda one, k, unit: k == 1 and mine(one, k, unit))
    plugins = ToyChip().plugins()
    if not faulty:
        plan = plan_graph(residuals(), plugins, RESIDUALS_L2)
        blocks = rolling_blocks(plan)
        sums = [step for step in plan.steps if isinstance(step.layer.op, Add)]
        for step in sums:
            over = blocks[step.inputs[1].place.tensor.name]
            assert blocks[step.output.place.tensor.name].offset == over.offset
        check_plan(plan)
        return
    monkeypatch.setattr(shared_rows, "_distance", lambda *_: 0)
    with pytest.raises(DoryError, match="reads layer_00 at"):
        plan_graph(residuals(), plugins, RESIDUALS_L2)
    monkeypatch.setattr("dory_core.planning.planner.verify_contents", lambda *_: None)
    with pytest.raises(Wrong):
        check_plan(plan_graph(residuals(), plugins, RESIDUALS_L2))


@pytest.mark.slow
def test_a_tile_over_rows_that_a_later_tile_loads_is_found() -> None:
    """The output of a part lies a pixel ahead of its input: its first tile is in the way."""
    plan = plan_graph(residuals(), ToyChip().plugins(), RESIDUALS_L2, l1=400)
    number, part = next(
        (n, k)
        for n, step in enumerate(plan.steps)
        if isinstance(step.layer.op, Add)
        for k, part in enumerate(step.parts)
        if part.schedule.count > 1
    )
    step, at = plan.steps[number], plan.steps[number].parts[part].output
    assert LayerAccesses(plan.program.layers[number]).writes_behind(part, "x")
    ahead = (at + 16, (step.parts[part].report or (0, 0))[1])
    wrong = with_part(plan, number, part, output=ahead[0], report=ahead)
    with pytest.raises(DoryError, match=f"writes {step.output.place.tensor.name} over"):
        verify_contents(wrong.program, wrong.steps)


#: By how many rows source and size of the first move are wrong.
MOVES = {"row_too_far": (1, 0), "row_too_near": (-1, 0), "row_too_few": (0, -1)}


@pytest.mark.parametrize("name", MOVES)
def test_wrong_moves_are_found_by_the_simulation(
    name: str, app: tuple[Plan, Path], tmp_path: Path
) -> None:
    plan, directory = app
    faulty = tmp_path / "app"
    shutil.copytree(directory, faulty)
    source = faulty / "src/network.c"
    match = re.search(r"DORY_MOVE_ROWS\((\d+), (\d+), (\d+), (\d+)\)", source.read_text())
    assert match is not None
    memory, start, at, size = map(int, match.groups())
    step = next(s for s in plan.steps if s.output.place.passing and s.output.place.offset == start)
    far, more = (rows * pitch(step) for rows in MOVES[name])
    wrong = f"DORY_MOVE_ROWS({memory}, {start}, {at + far}, {size + more})"
    source.write_text(source.read_text().replace(match.group(), wrong))
    try:
        result = run_application(faulty, plugins=ToyChip().plugins(), dma="early", runner="host")
    except VerificationFailed as error:
        assert "nothing wrote" in error.message or "live tensor" in error.message
    else:
        assert result.first_difference is not None
