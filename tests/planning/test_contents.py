"""What lies where in streamed plans that keep tensors in L1: sound plans pass, faults are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from dory_core.errors import DoryError
from dory_core.ir import Window
from dory_core.memory.contents import verify_contents
from dory_core.plan import RESIDENT, Plan
from dory_core.plugins import Plugins, load_plugins
from dory_core.testing.graphs import GraphBuilder
from tests.planning.networks import CASES, changed_plan, plan_graph

Change = Callable[[Plan], Plan]


def verify(plan: Plan) -> None:
    verify_contents(plan.program, plan.steps)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="module")
def plans(plugins: Plugins) -> list[Plan]:
    """Every case of the cascade that is streamed in its last budget."""
    made = [plan_graph(case.build(), plugins, case.budgets[-1]) for case in CASES]
    streamed = [plan for plan in made if plan.transfers]
    assert len(streamed) > 5
    return streamed


def test_sound_streamed_plans_pass(plans: list[Plan]) -> None:
    for plan in plans:
        verify(plan)


def test_some_streamed_plans_keep_tensors_in_l1(plans: list[Plan]) -> None:
    found = [t for plan in plans for step in plan.steps for t in step.inputs if t.form == RESIDENT]
    assert found
    assert all(t.place.level == 1 for t in found)


@pytest.mark.parametrize("axis", ["c_out", "h", "w"])
@pytest.mark.parametrize("change", [-1, 1])
def test_tiles_that_are_not_the_output_are_found(axis: str, change: int, plugins: Plugins) -> None:
    """One row too many may lie where nothing else does, and one too few too."""
    builder = GraphBuilder((4, 6, 6))
    builder.conv(8, Window(kernel=(3, 3), pads=(1, 1, 1, 1)))
    plan = plan_graph(builder.graph(), plugins, 65536)
    (step,) = plan.steps
    (part,) = step.parts
    spans = getattr(part.schedule, axis)
    last = replace(spans[-1], size=spans[-1].size + change)
    schedule = replace(part.schedule, **{axis: (*spans[:-1], last)})
    wrong = replace(step, parts=(replace(part, schedule=schedule),))
    verify_contents(plan.program, plan.steps)
    with pytest.raises(DoryError, match=r"tiles of layer 0 .* end at"):
        verify_contents(plan.program, (wrong,))


def _changed(plan: Plan, kind: str, change: Callable[..., object]) -> list[Plan]:
    """Return plans with one load of constants, or one store, changed each."""
    changed = []
    ways = Counter((t.l2_offset, t.l3_offset) for t in plan.transfers)
    for n, transfer in enumerate(plan.transfers):
        # What comes to the same place twice may still lie there.
        once = ways[transfer.l2_offset, transfer.l3_offset] == 1
        if once and (
            transfer.name.startswith("weights") if kind == "load" else not transfer.incoming
        ):
            other = change(transfer)
            transfers = (*plan.transfers[:n], other, *plan.transfers[n + 1 :])
            changed.append(changed_plan(plan, transfers=transfers))
    return changed


@pytest.mark.parametrize(
    "fault",
    ["a load from elsewhere", "a load to elsewhere", "a load that comes late", "no load"],
)
def test_faults_of_loads_are_found(fault: str, plans: list[Plan]) -> None:
    changes = {
        "a load from elsewhere": lambda t: replace(t, l3_offset=t.l3_offset + 8),
        "a load to elsewhere": lambda t: replace(t, l2_offset=t.l2_offset + 8),
        "a load that comes late": lambda t: replace(t, start=t.start + 400, wait=t.wait + 400),
        "no load": lambda t: replace(t, start=10**6, wait=10**6),
    }
    tried = 0
    for plan in plans:
        for other in _changed(plan, "load", changes[fault])[:20]:
            tried += 1
            with pytest.raises(DoryError, match="memory plan is wrong"):
                verify(other)
    assert tried > 20


def test_stores_that_are_forgotten_are_found(plans: list[Plan]) -> None:
    """All but those of the few rows that a stride leaves unread."""
    changed = [
        other
        for plan in plans
        for other in _changed(plan, "store", lambda t: replace(t, start=10**6, wait=10**6))
    ]
    found = 0
    for plan in changed:
        try:
            verify(plan)
        except DoryError:
            found += 1
    assert changed
    assert found > 0.8 * len(changed)


def test_a_tensor_of_l1_that_a_layer_overwrites_is_found(plans: list[Plan]) -> None:
    tried = 0
    for plan in plans:
        for n, step in enumerate(plan.steps):
            for operand in (t for t in step.inputs if t.form == RESIDENT):
                makers = [m for m, s in enumerate(plan.steps) if s.kept and m < n]
                before = plan.steps[makers[-1]]
                assert operand.place in before.kept
                steps = list(plan.steps)
                steps[makers[-1]] = replace(before, kept=())
                tried += 1
                with pytest.raises(DoryError, match="memory plan is wrong"):
                    verify(changed_plan(plan, steps=tuple(steps)))
    assert tried
