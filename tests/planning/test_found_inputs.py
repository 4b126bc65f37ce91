"""Parts of a layer that find in L1 the inputs that the part before has loaded."""

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


def test_parts_find_inputs(tmp_path: Path) -> None:
    plan = built(tmp_path / "app")
    check_plan(plan)
    step = plan.steps[1]
    assert [part.finds_inputs for part in step.parts] == [False, True, True, True]
    names = [event.name for event in step.timelines[1].events]
    assert names == ["load w", "compute", "store y"]
    assert max(step.l1_bytes for step in plan.steps) <= plan.levels[0].budget
    assert_exact(tmp_path / "app", plugins=CHIP.plugins())


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
    with pytest.raises(DoryError, match=r"reads .* where it does not lie"):
        later = [replace(t, wait=t.wait + 1) if t.incoming else t for t in plan.transfers]
        verify(plan, 1, {}, transfers=tuple(later))


# -- wrong code is found -----------------------------------------------------------------------

WRONG = {
    "input never loaded": (
        r"if \(part->x_is_there == 0\)",
        "if (0)",
        "nothing wrote",
        ("early", "late", "random"),
    ),
    "input not kept": (r"DORY_FINDS\(.*\? ", r"\g<0>0 * ", "nothing wrote", ("early", "late")),
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


@pytest.mark.parametrize("what", WRONG)
def test_seeded_faults_of_the_generated_code_are_found(what: str, tmp_path: Path) -> None:
    built(tmp_path / "app")
    pattern, new, message, modes = WRONG[what]
    changed(tmp_path / "app", pattern, new)
    for mode in modes:
        with pytest.raises((AssertionError, VerificationFailed), match=message):
            assert_exact(tmp_path / "app", plugins=CHIP.plugins(), dma=(mode,))
