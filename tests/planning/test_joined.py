"""Parts of a layer that find in L1 what the part before has left or loads for them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.errors import DoryError, VerificationFailed
from dory_core.hardware.links import Link
from dory_core.ir import Graph
from dory_core.plan import Plan
from dory_core.plan.network import lower, lower_network
from dory_core.simulate.build import MARKS_FOLDER
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import plan_graph, win
from tests.planning.symbolic import check_plan
from tests.toy.chip import NAME, three_levels

pytestmark = pytest.mark.usefixtures("tiles_of_the_objective")

# Fetches that are quick to set up, so that constants come in small chunks.
_CHIP = three_levels()
_BELOW = Link(2, 3, setup_cycles=60, bytes_per_cycle=0.8, issue_cycles=40)
CHIP = replace(_CHIP, links=(_CHIP.links[0], _BELOW))
#: So slow that tiles have their constants in two buffers.
SLOW = replace(
    CHIP,
    links=(replace(CHIP.links[0], bytes_per_cycle=0.05), replace(_BELOW, bytes_per_cycle=3.0)),
)


def chain() -> Graph:
    """Return layers with more constants than fit beside them."""
    b = GraphBuilder((64, 6, 6), seed=5, name="parts")
    b.conv(128, win(1))
    b.conv(112, win(1))
    b.conv(160, win(1))
    return b.graph()


def built(directory: Path) -> Plan:
    """Return the plan of layers in parts of one tile; the second one has four."""
    return build_app(
        chain(),
        NAME,
        directory,
        plugins=CHIP.plugins(),
        budgets={1: 24_000, 2: 40_000},
        settings={"moves": "-finer-chunks"},
    )


def looped() -> Plan:
    """Return the plan of layers in parts of several tiles, with an odd number of blocks each."""
    return plan_graph(chain(), SLOW.plugins(), 60_000, 5_000, "-finer-chunks")


def test_parts_find_inputs_and_constants(tmp_path: Path) -> None:
    plan = built(tmp_path / "app")
    check_plan(plan)
    step = plan.steps[1]
    assert [part.finds_inputs for part in step.parts] == [False, True, True, True]
    assert [part.w_copy for part in step.parts] == [0, 1, 0, 1]
    assert [part.ahead for part in step.parts] == [0, 0, 0, None]
    names = [event.name for event in step.timelines[1].events]
    assert names == ["load w of layer 1", "compute", "store y"]
    block = step.block("w")
    assert block is not None and len(block.offsets) == 2
    assert max(step.l1_bytes for step in plan.steps) <= plan.levels[0].budget
    assert_exact(tmp_path / "app", plugins=CHIP.plugins())


def test_parts_of_several_tiles_go_on_in_the_other_copy() -> None:
    plan = looped()
    check_plan(plan)
    parts = [part for step in plan.steps for part in step.parts]
    assert any(part.w_copy for part in parts)
    assert any(part.ahead is not None and part.schedule.count > 1 for part in parts)


def test_a_link_that_blocks_joins_nothing() -> None:
    blocking = replace(CHIP, links=(replace(CHIP.links[0], blocking=True), _BELOW))
    plan = plan_graph(chain(), blocking.plugins(), 40_000, 24_000)
    assert not any(step.hands_on for step in plan.steps)
    assert any(part.finds_inputs for step in plan.steps for part in step.parts)
    check_plan(plan)


def test_constants_that_come_late_are_not_loaded_ahead() -> None:
    """With a link below that takes longer than the parts, nothing is there one part earlier."""
    links = (CHIP.links[0], replace(_BELOW, bytes_per_cycle=0.002))
    plan = plan_graph(chain(), replace(CHIP, links=links).plugins(), 40_000, 24_000)
    late = {t.wait for t in plan.transfers if t.incoming and t.start == t.wait}
    for step in plan.steps:
        positions = [part.position for part in step.parts]
        joined = {positions[k - 1] for k in range(1, len(positions)) if step.finds_constants(k)}
        assert not joined & late
    assert len([s for s in plan.steps if s.hands_on]) < len(plan.steps)
    check_plan(plan)


# -- wrong plans are found ---------------------------------------------------------------------


def verify(plan: Plan, number: int, parts: dict[int, dict[str, Any]], **changes: Any) -> None:
    """Check the contents of a plan with other parts of a layer."""
    plan = replace(plan, **changes)
    steps = list(plan.steps)
    found = list(steps[number].parts)
    for part, fields in parts.items():
        found[part] = replace(found[part], **fields)
    steps[number] = replace(steps[number], parts=tuple(found))
    operations = lower_network(steps, plan.transfers, plan.inputs, plan.outputs)
    verify_contents(lower(steps, operations, plan.any_core), steps)


def test_the_check_of_contents_finds_wrong_parts(tmp_path: Path) -> None:
    plan = built(tmp_path / "app")
    verify(plan, 1, {})
    with pytest.raises(DoryError, match="never loads layer_00"):
        verify(plan, 1, {0: {"finds_inputs": True}})
    with pytest.raises(DoryError, match="does not load its input"):
        verify(plan, 1, {0: {"finds_inputs": True}, 2: {"finds_inputs": False}})
    moved = (plan.steps[1].parts[2].inputs[0] + 8,)
    with pytest.raises(DoryError, match=r"does not load its input|where it does not lie"):
        verify(plan, 1, {2: {"inputs": moved}})
    with pytest.raises(DoryError, match="over what it has in L1"):
        verify(plan, 1, {1: {"w_copy": 0}, 2: {"w_copy": 1}, 3: {"w_copy": 0}})
    with pytest.raises(DoryError, match=r"reads .* where it does not lie"):
        later = [replace(t, wait=t.wait + 1) if t.incoming else t for t in plan.transfers]
        verify(plan, 1, {}, transfers=tuple(later))


def test_the_check_of_contents_finds_a_load_into_a_copy_in_use() -> None:
    """The copy is free when the last block is in use, not before."""
    plan = looped()
    number, part = next(
        (n, k)
        for n, step in enumerate(plan.steps)
        for k, part in enumerate(step.parts)
        if part.ahead
    )
    tile = plan.steps[number].parts[part].ahead
    assert tile is not None
    verify(plan, number, {})
    with pytest.raises(DoryError, match="over what it has in L1"):
        verify(plan, number, {part: {"ahead": tile - 1}})


# -- wrong code is found -----------------------------------------------------------------------

LOAD = r"( +)\*ahead = (DORY_AHEAD\(.*(?:\n.*)?\));\n"
WRONG = {
    "input never loaded": (
        r"if \(part->x_is_there == 0\)",
        "if (0)",
        "nothing wrote",
        ("early", "late", "random"),
    ),
    "input not kept": (r"DORY_FINDS\(.*\? ", r"\g<0>0 * ", "nothing wrote", ("early", "late")),
    "no wait": (
        r"dory_dma_wait\(w_ticket\);",
        "if (number != 2) dory_dma_wait(w_ticket);",
        "waited for",
        ("late",),
    ),
    "into the copy in use": (r"part->next_w_copy", "part->w_copy", "not yet waited", ("early",)),
    "no mark": (r"DORY_AHEAD", "", "never waited for", ("early", "late")),
    "other bytes": (r"part->next_w,", "part->next_w + 8,", "layer 1", ("early", "late")),
    "a tensor": (r"part->next_w,", "5120,", "brings no constants", ("early", "late", "random")),
    "the end of a tensor": (
        r"part->next_w,",
        "part->next_w - 8,",
        "brings no constants",
        ("late",),
    ),
}


def changed(app: Path, pattern: str, new: str) -> None:
    """Change what a layer does, or what it tells the simulation."""
    made = 0
    for folder in ("src", MARKS_FOLDER):
        source = app / folder / "dory_layer_01.c"
        text, here = re.subn(pattern, new, source.read_text())
        source.write_text(text)
        made += here
    assert made, pattern


@pytest.mark.sample(3)
@pytest.mark.parametrize("what", WRONG)
def test_seeded_faults_of_the_generated_code_are_found(what: str, tmp_path: Path) -> None:
    built(tmp_path / "app")
    pattern, new, message, modes = WRONG[what]
    changed(tmp_path / "app", pattern, new)
    for mode in modes:
        with pytest.raises((AssertionError, VerificationFailed), match=message):
            assert_exact(tmp_path / "app", plugins=CHIP.plugins(), dma=(mode,))


def test_a_load_before_the_barrier_of_its_part_is_found(tmp_path: Path) -> None:
    """Other cores may still compute the part before with what lies there."""
    built(tmp_path / "app")
    source = tmp_path / "app" / "src" / "dory_layer_01.c"
    text = source.read_text()
    [load] = re.finditer(LOAD, text)
    text = text.replace(load.group(), "*ahead = early;\n")
    begin = "  dory_barrier(); /* core 0 has completed"
    assert text.count(begin) == 1
    start = f"  if (core == 0 && part->ahead_at == 0) early = {load[2]};\n"
    text = text.replace(begin, start + begin)
    declared = "\n\nstatic dory_ticket_t early;\n\nvoid "
    source.write_text(text.replace("\n\nvoid ", declared))
    for mode in ("early", "late", "random"):
        with pytest.raises((AssertionError, VerificationFailed), match="before the barrier"):
            assert_exact(tmp_path / "app", plugins=CHIP.plugins(), dma=(mode,))
