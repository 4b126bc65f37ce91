"""Faults seeded into the transfers of L3: each is stopped by the simulation or differs in a layer.

The faults are planted into the Plan, as a wrong planner would make it, or into network.c, as a
wrong generator would print it.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.driver.application import run_application
from dory_core.driver.compiler import write_network
from dory_core.errors import DoryError, VerificationFailed
from dory_core.ir.reference import random_inputs, run
from dory_core.plan import ExtTransfer, Plan
from dory_core.plan.block_ids import BlockId, BlockKind
from dory_core.plan.blocks import Request
from dory_core.plan.network_operations import ExtWait
from dory_core.planning.packing import one_memory
from dory_core.plugins.manager import Plugins
from dory_core.simulate.run import DMA_MODES
from dory_core.testing.apps import build_app
from tests.planning.computed import Wrong
from tests.planning.networks import CASES, changed_plan, plan_graph
from tests.planning.symbolic import check_plan
from tests.toy.chip import NAME, three_levels

CASE = next(case for case in CASES if case.name == "residual")
L2 = 18_000
#: Tensors that stay in L1 leave less to be cut, and to go wrong.
OFF = "-l1-residency"


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return three_levels().plugins()


@pytest.fixture(scope="module")
def plan(plugins: Plugins) -> Plan:
    return plan_graph(CASE.build(), plugins, L2, moves=OFF)


@pytest.fixture(scope="module")
def app(plugins: Plugins, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("faults") / "app"
    build_app(
        CASE.build(), NAME, directory, budgets={2: L2}, settings={"moves": OFF}, plugins=plugins
    )
    for mode in DMA_MODES:
        assert run_application(directory, plugins=plugins, dma=mode).exact
    return directory


def outcome(directory: Path, plugins: Plugins, dma: str) -> str:
    """Return what running a faulty application says."""
    try:
        result = run_application(directory, plugins=plugins, dma=dma)
    except VerificationFailed as error:
        return error.message
    wrong = result.first_difference
    return "nothing was found" if wrong is None else f"layer {wrong[1].index} differs"


# -- faults of the plan ---------------------------------------------------------------------------

Predicate = Callable[[ExtTransfer], bool]


@dataclass(frozen=True)
class Fault:
    """One transfer to change: the first, or the last, that is of the sort, and how."""

    sort: Predicate
    change: Callable[[ExtTransfer], ExtTransfer]
    last: bool = False


def weights(t: ExtTransfer) -> bool:
    return t.block.kind is BlockKind.CHUNK


def stripe(t: ExtTransfer) -> bool:
    return t.block.kind is BlockKind.WINDOW


def store(t: ExtTransfer) -> bool:
    return not t.incoming


def back(t: ExtTransfer) -> bool:
    return t.block.kind is BlockKind.BACK


def l3(by: int) -> Callable[[ExtTransfer], ExtTransfer]:
    return lambda t: replace(t, l3_offset=t.l3_offset + by)


def l2(by: int) -> Callable[[ExtTransfer], ExtTransfer]:
    return lambda t: replace(t, l2_offset=t.l2_offset + by)


def shorter(by: int) -> Callable[[ExtTransfer], ExtTransfer]:
    return lambda t: replace(t, size=t.size - by)


def earlier(by: int) -> Callable[[ExtTransfer], ExtTransfer]:
    return lambda t: replace(t, start=t.start - by)


def later(by: int) -> Callable[[ExtTransfer], ExtTransfer]:
    return lambda t: replace(t, wait=t.wait + by)


FAULTS: dict[str, Fault] = {
    "constants_from_beside_their_place": Fault(weights, l3(8)),
    "constants_too_short": Fault(weights, shorter(8)),
    "constants_to_beside_their_place": Fault(weights, l2(8), last=True),
    "constants_waited_for_late": Fault(weights, later(1)),
    "stripe_from_the_next_row": Fault(stripe, l3(1)),
    "stripe_without_its_end": Fault(stripe, shorter(1)),
    "stripe_to_beside_its_place": Fault(stripe, l2(1)),
    "stripe_waited_for_late": Fault(stripe, later(1)),
    "stripe_fetched_before_it_is_stored": Fault(
        lambda t: stripe(t) and t.start > 1, lambda t: replace(t, start=0)
    ),
    "output_to_beside_its_place": Fault(store, l3(1)),
    "output_without_its_end": Fault(store, shorter(1), last=True),
    "output_stored_before_it_is_computed": Fault(store, earlier(1)),
    "residual_back_before_it_left": Fault(back, lambda t: replace(t, start=0)),
    "residual_back_from_beside_its_place": Fault(back, l3(1)),
}


def with_fault(plan: Plan, fault: Fault) -> Plan:
    found = [n for n, t in enumerate(plan.transfers) if fault.sort(t)]
    n = found[-1] if fault.last else found[0]
    transfers = list(plan.transfers)
    transfers[n] = replace(fault.change(transfers[n]), slot=40)  # a ticket of its own
    assert transfers[n] != plan.transfers[n]
    return changed_plan(plan, transfers=tuple(sorted(transfers, key=lambda t: t.start)))


@pytest.mark.sample(18)
@pytest.mark.parametrize("name", FAULTS)
def test_wrong_plan_is_found_by_the_simulation_and_by_the_symbolic_check(
    name: str, plan: Plan, plugins: Plugins, tmp_path: Path
) -> None:
    wrong = with_fault(plan, FAULTS[name])
    with pytest.raises(Wrong):
        check_plan(wrong)
    graph = CASE.build()
    ctx = plugins.context(NAME, {})
    write_network(tmp_path / "app", graph, wrong, [run(graph, random_inputs(graph))], plugins, ctx)
    found = [outcome(tmp_path / "app", plugins, dma) for dma in DMA_MODES]
    assert all(message != "nothing was found" for message in found), found


def early_into_live_block(plan: Plan) -> Plan:
    """Start the first fetch that can be one position too early: its place is still in use."""
    blocks = {block.id: block for block in plan.levels[1].blocks}
    for n, transfer in enumerate(plan.transfers):
        if not transfer.incoming or transfer.start < 1:
            continue
        before = transfer.start - 1
        for block in blocks.values():
            meets = (
                block.offset < transfer.l2_offset + transfer.size and transfer.l2_offset < block.end
            )
            if meets and block.id != transfer.block and block.last == before:
                transfers = list(plan.transfers)
                transfers[n] = replace(transfer, start=before, slot=40)
                return changed_plan(plan, transfers=tuple(sorted(transfers, key=lambda t: t.start)))
    raise AssertionError("every fetch could start earlier: the plan wastes time")


def test_fetch_into_a_block_that_still_lives_is_found(
    plan: Plan, plugins: Plugins, tmp_path: Path
) -> None:
    wrong = early_into_live_block(plan)
    with pytest.raises(Wrong):
        check_plan(wrong)
    graph = CASE.build()
    ctx = plugins.context(NAME, {})
    write_network(tmp_path / "app", graph, wrong, [run(graph, random_inputs(graph))], plugins, ctx)
    for dma in DMA_MODES:
        assert outcome(tmp_path / "app", plugins, dma) != "nothing was found", dma


def with_inputs_beside_a_group(plan: Plan, layer: int) -> Plan:
    """Let the second group of a layer read its inputs from one channel further on."""
    step = plan.steps[layer]
    number = next(k for k, part in enumerate(step.parts) if part.chunk == 1)
    part = step.parts[number]
    moved = replace(part, inputs=tuple(at + 1 for at in part.inputs))
    parts = (*step.parts[:number], moved, *step.parts[number + 1 :])
    steps = list(plan.steps)
    steps[layer] = replace(step, parts=parts)
    return changed_plan(plan, steps=tuple(steps))


# The input of the layer lies in L2 as a whole, or it comes in stripes.
@pytest.mark.sample(2)
@pytest.mark.parametrize(("l2", "level"), [(24_000, 2), (14_000, 3)])
def test_a_group_that_reads_other_channels_than_its_own_is_found(
    l2: int, level: int, plugins: Plugins, tmp_path: Path
) -> None:
    graph = next(case for case in CASES if case.name == "many_filters").build()
    plan = plan_graph(graph, plugins, l2, moves=OFF)
    verify_contents(plan.program, plan.steps)
    layer = next(
        n
        for n, step in enumerate(plan.steps)
        if step.weights is not None
        and len(step.weights.chunks) > 1
        and step.inputs[0].place.level == level
    )
    wrong = with_inputs_beside_a_group(plan, layer)
    with pytest.raises(DoryError, match="other channels"):
        verify_contents(wrong.program, wrong.steps)
    with pytest.raises(Wrong):
        check_plan(wrong)
    ctx = plugins.context(NAME, {})
    write_network(tmp_path / "app", graph, wrong, [run(graph, random_inputs(graph))], plugins, ctx)
    for dma in DMA_MODES:
        assert outcome(tmp_path / "app", plugins, dma) != "nothing was found", dma


# -- faults of the generator ----------------------------------------------------------------------


@pytest.mark.sample(7)
@pytest.mark.parametrize("sort", ["weights", "stripe", "back", "store"])
def test_missing_wait_is_found(
    sort: str, app: Path, plan: Plan, plugins: Plugins, tmp_path: Path
) -> None:
    text = (app / "src" / "network.c").read_text()
    sorts: dict[str, Predicate] = {
        "weights": weights,
        "stripe": stripe,
        "back": back,
        "store": store,
    }
    waits = [op.transfer for op in plan.program.operations if isinstance(op, ExtWait)]
    rows = list(re.finditer(r"DORY_EXT_WAIT\(\d+\), ?", text))
    assert len(rows) == len(waits)
    row = next(row for one, row in zip(waits, rows, strict=True) if sorts[sort](one))
    faulty = tmp_path / "app"
    shutil.copytree(app, faulty, ignore=shutil.ignore_patterns("build"))
    (faulty / "src" / "network.c").write_text(text[: row.start()] + text[row.end() :])
    for dma in DMA_MODES:
        assert outcome(faulty, plugins, dma) != "nothing was found", dma


# -- packings that are repaired -----------------------------------------------------------------


def with_two_blocks_in_one_place(
    requests: Sequence[Request], offsets: Mapping[BlockId, int]
) -> dict[BlockId, int]:
    """Return a packing in which a stripe lies where another block is live."""
    pairs = itertools.permutations(requests, 2)
    moved, other = next(
        (one, two)
        for one, two in pairs
        if one.id.kind is BlockKind.STRIPE
        and one.overlaps(two)
        and one.size_bytes <= two.size_bytes
        and two.id.kind is not BlockKind.CHUNK
    )
    return {**offsets, moved.id: offsets[other.id]}


@pytest.fixture
def no_known_packings() -> Iterator[None]:
    """Let every packing be found anew, and forget it."""
    one_memory._plan.cache_clear()
    yield
    one_memory._plan.cache_clear()


@pytest.mark.usefixtures("no_known_packings")
@pytest.mark.sample(2)
@pytest.mark.parametrize("faulty", [True, False])
def test_a_repaired_packing_with_two_live_blocks_in_one_place_is_found(
    faulty: bool, plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(case for case in CASES if case.name == "two_outputs")
    mine, repairs = one_memory.repaired, list[dict[BlockId, int]]()

    def repaired(requests: Sequence[Request], *rest: Any) -> dict[BlockId, int] | None:
        found = mine(requests, *rest)
        if found is not None:
            repairs.append(with_two_blocks_in_one_place(requests, found) if faulty else found)
        return found and repairs[-1]

    def as_they_are(order: Sequence[Request], alignment: int) -> dict[BlockId, int]:
        return repairs[-1]

    monkeypatch.setattr(one_memory, "repaired", repaired)
    monkeypatch.setattr(one_memory, "lowest_place", as_they_are)
    if not faulty:
        check_plan(plan_graph(case.build(), plugins, 6_000, moves=OFF))
        assert repairs
        return
    with pytest.raises(DoryError, match="are both live"):
        plan_graph(case.build(), plugins, 6_000, moves=OFF)
    monkeypatch.setattr("dory_core.planning.fitting.verify_planned", lambda *_: None)
    with pytest.raises(DoryError, match="memory plan is wrong"):
        plan_graph(case.build(), plugins, 6_000, moves=OFF)
    monkeypatch.setattr("dory_core.planning.planner.verify_contents", lambda *_: None)
    with pytest.raises(Wrong):
        check_plan(plan_graph(case.build(), plugins, 6_000, moves=OFF))
