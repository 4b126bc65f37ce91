"""Constants from L3 that are loaded into L1 while the layer before computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dory_core.checks.contents import verify_contents
from dory_core.errors import DoryError, VerificationFailed
from dory_core.hardware.links import Link
from dory_core.ir import Graph
from dory_core.plan import ExtTransfer, Plan
from dory_core.plan.network import lower, lower_network
from dory_core.testing.apps import assert_exact, build_app
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import win
from tests.planning.symbolic import check_plan
from tests.planning.test_ahead import assert_fault_is_found
from tests.toy.chip import NAME, three_levels

_CHIP = three_levels()
#: Loads into L1 take long, fetches to L2 do not.
CHIP = replace(
    _CHIP,
    links=(
        replace(_CHIP.links[0], bytes_per_cycle=0.05),
        Link(2, 3, setup_cycles=600, bytes_per_cycle=0.5, issue_cycles=40),
    ),
)


def bottlenecks() -> Graph:
    """Return layers with more constants than fit beside them."""
    b = GraphBuilder((16, 12, 12), seed=5, name="fetched")
    b.conv(16, win(3, pads=1))
    for channels in (64, 32, 64, 32, 10):
        b.conv(channels, win(1))
    return b.graph()


def built(directory: Path, moves: str = "") -> Plan:
    """Return the plan; layer 1 loads the first constants of layer 2."""
    return build_app(
        bottlenecks(),
        NAME,
        directory,
        plugins=CHIP.plugins(),
        budgets={1: 10_000, 2: 24_000},
        settings={"moves": moves},
    )


def test_fetched_constants_come_while_the_layer_before_computes(tmp_path: Path) -> None:
    plan = built(tmp_path / "app")
    [step] = [step for step in plan.steps if step.ahead is not None]
    assert step.ahead is not None and step.ahead.fetched
    later = plan.steps[step.ahead.step]
    assert later.loaded_ahead and later.weights is not None and not later.weights.linked
    part = later.parts[0]
    there = [t for t in plan.transfers if t.l2_offset == part.weights and t.wait <= part.position]
    fetch = max(there, key=lambda transfer: transfer.wait)
    assert fetch.start < fetch.wait == step.parts[0].position
    check_plan(plan)
    assert_exact(tmp_path / "app", plugins=CHIP.plugins())
    assert built(tmp_path / "alone", "-weight-prefetch").cycles > plan.cycles


# -- wrong plans are found ---------------------------------------------------------------------


def verify(plan: Plan, transfers: tuple[ExtTransfer, ...], weights: int) -> None:
    """Check the contents of the plan with other transfers, and constants of layer 2 elsewhere."""
    steps = list(plan.steps)
    part = replace(steps[2].parts[0], weights=weights)
    steps[2] = replace(steps[2], parts=(part,))
    operations = lower_network(steps, transfers, plan.inputs, plan.outputs)
    verify_contents(lower(steps, operations, plan.any_core), steps)


def test_the_check_of_contents_finds_wrong_loads(tmp_path: Path) -> None:
    plan = built(tmp_path / "app")
    place = plan.steps[2].parts[0].weights
    assert place is not None
    verify(plan, plan.transfers, place)
    with pytest.raises(DoryError, match=r"layer 2 .* where it does not lie"):
        verify(plan, plan.transfers, place + 8)
    one_later = tuple(
        replace(t, wait=t.wait + 1) if t.l2_offset == place else t for t in plan.transfers
    )
    with pytest.raises(DoryError, match="loads constants ahead that are not in L2 yet"):
        verify(plan, one_later, place)
    other = next(t for t in plan.transfers if t.incoming and t.wait == 1)
    with pytest.raises(DoryError, match="constants"):
        verify(plan, tuple(t for t in plan.transfers if t is not other), place)


# -- wrong code is found -----------------------------------------------------------------------

WRONG = {
    "other constants": (1, r"(\*ahead = .*l2 \+ \d+)", r"\1 + 8", "layer 2|layer_02|nothing wrote"),
    "a tensor": (1, r"(\*ahead = .*l2 \+) \d+", r"\1 17152", "brings no constants"),
    "no wait": (2, r"DORY_WAIT\(w_ticket\);", "(void)w_ticket;", "waited for"),
    "no mark": (1, r"DORY_AHEAD", "", "never waited for"),
}


@pytest.mark.parametrize("what", WRONG)
def test_seeded_faults_of_the_generated_code_are_found(what: str, tmp_path: Path) -> None:
    built(tmp_path / "app")
    assert_fault_is_found(tmp_path / "app", WRONG[what], CHIP.plugins())


def test_a_fetch_that_is_waited_for_one_layer_later_is_found(tmp_path: Path) -> None:
    """Layer 1 loads constants from L2 that may not be there yet."""
    built(tmp_path / "app")
    source = tmp_path / "app" / "src" / "network.c"
    text = source.read_text()
    wait, begins = "DORY_EXT_WAIT(2), ", "/* 2.0 */ "
    assert text.count(wait) == text.count(begins) == 1
    source.write_text(text.replace(wait, "").replace(begins, begins + wait))
    with pytest.raises((AssertionError, VerificationFailed), match=r"not yet waited|nothing wrote"):
        assert_exact(tmp_path / "app", plugins=CHIP.plugins(), dma=("late",))
